"""Find and end the parts of a run: processes, containers of a daemon, job steps (Linux; standard library only).

Most processes of a run descend from the runner. Processes that a daemon starts instead (launchers of Slurm, PALS and
Flux, LSF, Docker) do not. They are recognized by a variable of the runner, or by the scheduler's number of the job. A
launcher hands the variable on with the environment. A process of another user never counts, even if its environment
matches. Only descendants of the runner and processes with its variable are killed.

A container of Docker or Podman goes on when ``docker run`` is killed, and need not have its environment. So each has a
label that names its runner, and containers with the label are removed when their run is over. The engines of other
nodes are asked too: by Slurm's launcher, or by mpirun over ssh; under other schedulers, containers there end with their
commands or not at all. All engines understand the same commands.

    python3 checks/containercheck/job containers LABEL
    python3 checks/containercheck/job each-node load image.oci podman

The first removes the containers of one node, and prints a line for each that still ran. The second runs a program once
on every node of a job, and ends with the status of the one that failed.
"""

import contextlib
import ctypes
import functools
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import IO, Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple, cast

from containercheck.job import container_runtimes, contract, mpi, texts
from containercheck.job.build import file_trees
from containercheck.job.outputs import reasons

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Seconds between two checks that the work is done, and that the job's script and ReFrame still run.
_WATCH = 0.2
#: Most bytes of a command's output that are read.
MOST_READ = 16 << 20
#: Seconds that an engine may take to list or remove containers.
ENGINE_PATIENCE = 60.0
#: The directory of the programs for nodes, for Python to run.
PROGRAMS = str(Path(__file__).resolve().parent)
#: Processes of the runner that belong to no run; their starter waits for them: see this_node.py.
HELPERS: Set[int] = set()

#: Variable, with its value, in the environment of all processes that this runner starts, and no others.
MARK = f"{contract.RUN}={uuid.uuid4().hex}"
#: Variables with the number of the job, by scheduler.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", *(["JOB_ID"] if "SGE_ROOT" in os.environ else []))
#: Seconds after which a process has its final environment: before it calls exec, it shows its parent's.
_SETTLED = 10.0
_TICKS = float(os.sysconf("SC_CLK_TCK"))
#: Beginnings of the names of libraries that compute: most of a program's time may be theirs.
COMPUTING = (
    r"libopenblas|libblas|liblapack|libmkl_\w+|libblis|libsci\w*|libessl|libarmpl|libatlas"
    r"|libgomp|libiomp5|libomp|libfftw3\w*"
)
#: Beginnings of the paths of the operating system's libraries.
_OF_SYSTEM = ("/lib", "/usr/lib")
#: Digests of libraries: see :func:`_digest_of_library`.
_DIGESTS: Dict[Tuple[Any, ...], str] = {}
#: Whether this process runs one of two simultaneous runs: see :func:`begin_anew`.
_IS_ONE_OF_TWO = False
#: Start times of processes outside of the run, so that none is read again; and of the run's own: a zombie process has
#: no environment any more.
_STRANGERS: Dict[int, int] = {}
_KNOWN: Dict[int, int] = {}
#: Daemons that started processes of the run: the processor time of their waited-for children belongs to the run.
DAEMONS: Set[int] = set()


class Terminated(SystemExit):
    """Report that the job must end: it was cancelled, or met its limit. The code is 128 plus the signal's number."""


def supervise() -> None:
    """Continue in a child process in its own session; the caller's process waits for it, and ends with it.

    ReFrame cancels a local job by killing the process group of its script. A runner in the group could not end the run
    in progress, and a container's helpers, with their own groups, would stay. The child ends the run in progress when
    it gets SIGTERM, when the process that waits for it dies, or when ReFrame does.
    """
    adopt_orphans()
    waiting = os.getpid()
    # A blocked signal is kept until the wait for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.setsid()
        adopt_orphans()
        signal.signal(signal.SIGTERM, _terminate)
        die_with_parent(waiting, signal.SIGTERM)
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: os.kill(worker, signal.SIGTERM))
    ancestors = _job_and_session()
    while True:
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            break
        if _job_and_session() != ancestors:
            os.kill(worker, signal.SIGTERM)
        signal.sigtimedwait([signal.SIGCHLD], _WATCH)
    kill_all()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _terminate(number: int, _frame: object) -> None:
    """Turn the signal that ends the job into an orderly exit, once."""
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(128 + number)


def _job_and_session() -> List[int]:
    """Return the job's script and, for a local job of ReFrame, ReFrame itself."""
    script = os.getppid()
    with contextlib.suppress(OSError):
        if b"/rfm_" in b"/" + Path("/proc", str(script), "cmdline").read_bytes().replace(b"\0", b"/"):
            return [script, int(fields_of(script)[1])]
    return [script]


def status_of(pid: int) -> Tuple[str, List[str]]:
    """Return the name of a process, and its fields in /proc from its state on.

    :raises OSError: the process is gone.
    """
    # All processes of a node are read once a second; a path of pathlib and a stream would cost more than the reading.
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        status = os.read(file, 4096).decode(errors="replace")
    finally:
        os.close(file)
    # The name may hold any characters, also brackets: the fields follow the last bracket.
    name, _, fields = status.partition("(")[2].rpartition(")")
    return name, fields.split()


def fields_of(pid: int) -> List[str]:
    """Return the fields of a process without its name.

    :raises OSError: the process is gone.
    """
    return status_of(pid)[1]


def answer_of(
    command: Sequence[str], patience: float = 60.0, most: int = MOST_READ, **options: Any
) -> Tuple[Optional[int], str]:
    """Return exit status and standard output of a command; bytes that are not UTF-8 are replaced.

    The status is None if there is no such command, or if it did not end in its time. If it prints too much or runs too
    long, it is ended with the processes of its session.

    :param patience: seconds that it may take.
    :param most: bytes that are read.
    :param options: for :class:`subprocess.Popen`.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True, **options
        )
    except OSError:
        return None, ""
    status: Optional[int] = None
    printed, end = b"", time.monotonic() + patience
    try:
        with cast(IO[bytes], process.stdout) as pipe:
            # A process that a daemon started may hold the pipe open.
            while len(printed) < most and select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
                block = os.read(pipe.fileno(), 1 << 16)
                if not block:
                    break
                printed += block
        status = process.wait(max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        _signal_group(process.pid, signal.SIGTERM)
        time.sleep(1.0)
    finally:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
    return status, printed[:most].decode(errors="replace")


def output_of(command: Sequence[str], patience: float = 60.0, **options: Any) -> str:
    """Return the standard output of a command, as :func:`answer_of` does; empty if there is no such command."""
    return answer_of(command, patience, **options)[1]


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Let this process get a signal when its parent ends.

    :raises SystemExit: the parent has ended already.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        sys.exit("error: the job ended before its first run")


def adopt_orphans(wanted: bool = True) -> None:
    """Make this process the parent of its orphaned descendants, so that all are found; or stop that."""
    _prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def _parents(ended: bool) -> Dict[int, int]:
    """Return the parent of each process of the machine, with or without zombie processes."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = fields_of(int(entry))
                if ended or fields[0] != "Z":
                    parents[int(entry)] = int(fields[1])
    return parents


def descendants(*roots: int, ended: bool = False) -> Set[int]:
    """Return all living descendants of these processes, without themselves and :data:`HELPERS`.

    All processes are read only once.

    :param ended: whether to add zombie processes, as /proc still shows their processor time.
    """
    if not roots:
        return set()
    children: Dict[int, List[int]] = {}
    for pid, parent in _parents(ended).items():
        children.setdefault(parent, []).append(pid)
    pids: Set[int] = set()
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in pids and child not in HELPERS:
                pids.add(child)
                todo.append(child)
    return pids


def mapped_files(place: Path) -> List[List[str]]:
    """Return the lines of a process's maps with a file name, in words: device, inode and path are 3, 4 and 5.

    :param place: directory of the process in /proc.
    :raises OSError: the process is gone, or is another user's.
    """
    lines = (line.split(None, 5) for line in (place / "maps").read_text(errors="replace").splitlines())
    return [words for words in lines if len(words) == 6]


def open_files(place: Path) -> Iterator[str]:
    """Yield the targets of the first 4096 descriptors of a process: paths, and words such as ``socket:[7]``.

    :param place: directory of the process in /proc.
    :raises OSError: the process is gone, or is another user's.
    """
    for entry in os.listdir(str(place / "fd"))[:4096]:
        # It may have been closed meanwhile.
        with contextlib.suppress(OSError):
            yield os.readlink(str(place / "fd" / entry))


def mapped_mpi(pids: Set[int]) -> Dict[str, Dict[str, Any]]:
    """Return the MPI libraries that these processes have mapped, from ``/proc/<pid>/maps``.

    Keys are the paths as seen by the processes. Values hold ``device`` and ``inode``, which identify a file of the host
    at any path in the container, and ``pids``, sorted.
    """
    libraries: Dict[str, Dict[str, Any]] = {}
    for pid in sorted(pids):
        with contextlib.suppress(OSError):
            for path, words in {words[5]: words for words in mapped_files(Path("/proc", str(pid)))}.items():
                if mpi.SONAME.match(Path(path).name):
                    entry = libraries.setdefault(path, {"device": words[3], "inode": int(words[4]), "pids": []})
                    entry["pids"].append(pid)
    return libraries


def digest_of_program(pid: int) -> str:
    """Return the SHA-256 of the program that a process runs, also in a container; empty if it cannot be read."""
    try:
        return file_trees.digest_of(Path("/proc", str(pid), "exe"))
    except OSError:
        return ""


def digests_of_libraries(pid: int) -> Dict[str, str]:
    """Return the SHA-256 of the shared libraries that a process has mapped, by name, without those of MPI.

    A library of the operating system has an empty one, if it does not compute. Those that cannot be read are left out.
    """
    found = {}
    with contextlib.suppress(OSError):
        for path in sorted({words[5] for words in mapped_files(Path("/proc", str(pid)))}):
            name = path.rpartition("/")[2]
            if file_trees.SHARED_LIBRARY.search(name) and not mpi.SONAME.match(name):
                with contextlib.suppress(OSError):
                    is_other = path.startswith(_OF_SYSTEM) and not re.match(COMPUTING, name)
                    found[name] = "" if is_other else _digest_of_library(pid, path)
    return found


def _digest_of_library(pid: int, path: str) -> str:
    """Return the SHA-256 of a library; one that has not changed is read once in a job, not in each of its runs."""
    file = Path(f"/proc/{pid}/root{path}")
    status = file.stat()
    # The device of an image changes with each mount.
    key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
    if key not in _DIGESTS:
        _DIGESTS[key] = file_trees.digest_of(file)
    return _DIGESTS[key]


def bound(libraries: Dict[str, Dict[str, Any]]) -> List[str]:
    """Return the processors that each process with an MPI library may use, as Linux lists them (``0-3,8``), sorted.

    :param libraries: see :func:`mapped_mpi`.
    """
    processors = []
    for pid in {pid for entry in libraries.values() for pid in entry["pids"]}:
        with contextlib.suppress(OSError):
            status = Path("/proc", str(pid), "status").read_text(errors="replace")
            processors += re.findall(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return sorted(processors)


def environment() -> Dict[str, str]:
    """Return the environment for processes of the run, with the variable that marks them."""
    name, _, value = MARK.partition("=")
    return {**os.environ, name: value}


def begin_anew() -> None:
    """Count only processes that this process starts from now on, not those of its parent.

    This is for two simultaneous runs, each below its own process. Only descendants of that process count, because both
    runs have the scheduler's number of the same job.
    """
    global MARK, _IS_ONE_OF_TWO
    MARK, _IS_ONE_OF_TWO = f"{contract.RUN}={uuid.uuid4().hex}", True
    for remembered in (_STRANGERS, _KNOWN, DAEMONS):
        remembered.clear()


def processes_of_run() -> Set[int]:
    """Return the processes on this node that belong to the run in progress, zombie processes among them."""
    own = descendants(os.getpid(), ended=True)
    if _IS_ONE_OF_TWO:
        return own
    others = _started_by_daemons(own)
    return own | others | descendants(*others, ended=True) - {os.getpid()}


def marked() -> Set[int]:
    """Return the living processes with this runner's variable and their descendants, without those of this process."""
    pids = {pid for pid in _started_by_daemons(descendants(os.getpid())) if _is_marked(pid)}
    return pids | descendants(*pids)


def kill_all() -> List[str]:
    """Kill every descendant of this process, and all with its variable; return their names, sorted."""
    killed: Dict[int, str] = {}
    # Again and again, because a process can fork while the others are killed.
    for _ in range(100):
        living = descendants(os.getpid()) | marked()
        if not living:
            break
        for pid in living:
            with contextlib.suppress(OSError):
                killed[pid] = texts.printable(status_of(pid)[0])
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return sorted(killed.values())


def end(leader: int, grace: float, before: Callable[[], Any] = lambda: None) -> None:
    """End process group ``leader`` and the victims of :func:`kill_all`: SIGTERM first, SIGKILL after ``grace`` seconds.

    :param before: called before SIGKILL.
    """
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and descendants(os.getpid()):
        time.sleep(0.05)
    before()
    _signal_group(leader, signal.SIGKILL)
    kill_all()


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


@contextlib.contextmanager
def none_left_behind() -> Iterator[None]:
    """Kill all processes of the run if an exception leaves the block, as a job may end while it starts a run."""
    try:
        yield
    except BaseException:
        kill_all()
        raise


def wait_for_all(patience: float) -> None:
    """Wait until all processes that :func:`kill_all` would kill have ended, at most ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while (descendants(os.getpid()) or marked()) and time.monotonic() < deadline:
        reap()
        time.sleep(0.02)


def _started_by_daemons(own: Set[int]) -> Set[int]:
    """Return the processes that daemons started for the run, and Slurm's daemons for this job.

    :param own: processes to leave out.
    """
    # The variable of this runner and those of the scheduler, as in /proc/<pid>/environ.
    marks = {MARK.encode(), *(f"{name}={os.environ[name]}".encode() for name in _JOBS if os.environ.get(name))}
    pids = set()
    now = float(Path("/proc/uptime").read_text().split()[0])
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own or int(entry) == os.getpid():
            continue
        pid = int(entry)
        with contextlib.suppress(OSError):
            fields = fields_of(pid)
            parent, began = int(fields[1]), int(fields[19])
            if _STRANGERS.get(pid) == began:
                continue
            if _KNOWN.get(pid) == began or _is_of_job(pid, marks):
                pids.add(pid)
                if _KNOWN.get(pid) != began and _is_marked(pid) and parent not in own:
                    DAEMONS.add(parent)
                _KNOWN[pid] = began
            elif now - began / _TICKS > _SETTLED:
                _STRANGERS[pid] = began
    return pids


def _is_of_job(pid: int, marks: Set[bytes]) -> bool:
    owner, us = os.stat(f"/proc/{pid}").st_uid, os.geteuid()
    if owner == us and _has(pid, marks):
        return True
    # A container runtime hides its environment, but not its parent.
    daemon = f"slurmstepd: [{os.environ.get('SLURM_JOB_ID')}.".encode()
    return owner in (0, us) and Path("/proc", str(pid), "cmdline").read_bytes().startswith(daemon)


def _has(pid: int, marks: Set[bytes]) -> bool:
    return not marks.isdisjoint(Path("/proc", str(pid), "environ").read_bytes().split(b"\0"))


def _is_marked(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return fields_of(pid)[0] != "Z" and _has(pid, {MARK.encode()})
    return False


def kill_slurm_steps(patience: float = 60.0) -> None:
    """Kill the job steps that a killed srun leaves on the nodes, and wait until Slurm has freed their cores.

    Otherwise the next srun of the job would wait for the cores, and seem to hang.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if not job or not shutil.which("scancel"):
        return
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        command = ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job}"]
        listing = output_of(command, stderr=subprocess.DEVNULL)
        # Steps that srun started have numbers; the script's own is called batch.
        steps = re.findall(rf"^\s*({re.escape(job)}\.\d+)\s*$", listing, re.MULTILINE)
        if not steps:
            return
        subprocess.run(["scancel", "--signal=KILL", *steps], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)


def reap() -> None:
    """Wait for the adopted processes that have ended.

    :data:`HELPERS` are left out: their starter waits for them, and until then no other process gets their numbers.
    """
    for pid, parent in _parents(ended=True).items():
        if parent == os.getpid() and pid not in HELPERS:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def launcher(first: int = 0) -> List[str]:
    """Return the words that start a command once on each node of a Slurm job; empty for none, or another scheduler.

    It shares the processors with the job's own steps, and does not use MPI.

    :param first: number of the first node; 1 leaves out the node of the job's script.
    """
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", 0)) - first
    if nodes < 1 or not shutil.which("srun"):
        return []
    words = ["srun", "--overlap", f"--relative={first}", f"--nodes={nodes}", f"--ntasks={nodes}"]
    return [*words, "--ntasks-per-node=1", "--mpi=none", "--mem=0"]


def _list_words() -> List[str]:
    """Return the words of mpirun that start a command once on each node of the site's list; empty for none."""
    return shlex.split(os.environ.get(contract.EACH_NODE, ""))


def _handed_on() -> Dict[str, str]:
    """Return the environment in which mpirun hands on all variables, as srun does."""
    return {**os.environ, contract.MPIRUN_HANDS_ON: ";".join(os.environ)}


def run_on_each_node() -> None:
    """Run the program of the command line on each node.

    :raises SystemExit: it failed on a node, or only this node can be reached.
    """
    words = launcher() or _list_words()
    if not words:
        sys.exit("error: only srun in a job of Slurm, or mpirun over ssh, can run a program on each node of a job")
    command = [*words, sys.executable, PROGRAMS, *sys.argv[1:]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_handed_on())
    printed = done.stderr.decode(errors="replace")
    sys.stderr.write(printed)
    if done.returncode:
        # Last, because a launcher ends its own explanation with a ruler.
        reason = re.sub("^error: ", "", texts.sanitized(reasons.why(printed, "")))
        print(f"error: {sys.argv[1]} failed on a node: {reason}", file=sys.stderr)
    sys.exit(done.returncode)


def remove_containers() -> List[str]:
    """Remove the run's containers before their processes are killed; return a description of each that still ran.

    Podman's processes descend from the runner, and Podman would wait in vain for killed ones.
    """
    engines = _engines()
    if not engines:
        return []
    removed = _removed(engines, MARK)
    # mpirun cannot leave out this node, on which nothing is left now.
    words = launcher(first=1) or _list_words()
    if words:
        removed += _lines_of([*words, sys.executable, PROGRAMS, "containers", MARK])
    return removed


def remove_containers_here() -> None:
    """Remove this node's containers with the label of the command line, and print those that still ran."""
    for line in _removed(_engines(), sys.argv[1]):
        print(f"{line} on {os.uname().nodename}")


def _removed(engines: Set[str], label: str) -> List[str]:
    """Remove this node's containers that have a label, and return a description of each that still ran."""
    removed = []
    for engine in sorted(engines):
        listing = [engine, "ps", f"--filter=label={label}"]
        for line in _lines_of([*listing, "--format={{.ID}} {{.Image}}"]):
            number, _, image = texts.printable(line).partition(" ")
            removed.append(f"container of {image} ({Path(engine).name} {number})")
            _lines_of([engine, "kill", number])
        for number in _lines_of([*listing, "--all", "--format={{.ID}}"]):
            _lines_of([engine, "rm", "--force", number])
    return removed


def _lines_of(command: List[str]) -> List[str]:
    return output_of(command, ENGINE_PATIENCE, stderr=subprocess.DEVNULL, env=_handed_on()).splitlines()


def _engines() -> Set[str]:
    """Return the engines' commands among the runtimes of the job's sides (see runtime_start.py)."""
    return {command for command, runtime in _runtimes() if runtime.is_engine}


@functools.lru_cache(maxsize=1)
def daemons() -> FrozenSet[str]:
    """Return the names of the daemons' processes that serve containers of the job's sides."""
    return frozenset(name for _, runtime in _runtimes() for name in runtime.daemons)


def _runtimes() -> Iterator[Tuple[str, container_runtimes.Runtime]]:
    """Yield the runtimes of the job's sides, each with its command."""
    for path in Path().glob(contract.runtime_file("*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            runtime = json.loads(path.read_text())
            yield runtime["command"], container_runtimes.recognized(runtime["command"], runtime.get("version", ""))
