"""Find and end the processes of a run, and see what they have mapped (Linux, standard library only)."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from containercheck.node import mpi, texts

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: Seconds between two looks whether the work is done, and whether the job's script and ReFrame still run.
_WATCH = 0.2
#: Processes of the runner that belong to no run, and that their starter waits for: see awake.py.
HELPERS: Set[int] = set()


class Terminated(SystemExit):
    """The job is to end: it was cancelled, or met its limit. The code is 128 plus the signal's number."""


def supervise(clean_up: Callable[[], object]) -> None:
    """Continue in a child process in a session of its own; the caller's process waits for it, and ends with it.

    ReFrame cancels a local job by killing the process group of its script, so that a runner in the group could not end
    the run in progress; a container's helpers have groups of their own, and would stay. The child ends the run in
    progress when it gets SIGTERM, when the process that waits for it dies, or when ReFrame does.

    :param clean_up: function that ends leftover processes when the child has ended, for whatever reason.
    """
    adopt_orphans()
    waiting = os.getpid()
    worker = os.fork()
    if worker == 0:
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
        time.sleep(_WATCH)
    clean_up()
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _terminate(number: int, _frame: object) -> None:
    """Turn the signal that ends the job into an orderly exit, once."""
    signal.signal(number, signal.SIG_IGN)
    raise Terminated(128 + number)


def _job_and_session() -> List[int]:
    """Return the job's script and, for a local job of ReFrame's, ReFrame itself."""
    script = os.getppid()
    with contextlib.suppress(OSError):
        if b"/rfm_" in b"/" + Path("/proc", str(script), "cmdline").read_bytes().replace(b"\0", b"/"):
            return [script, int(fields_of(script)[1])]
    return [script]


def status_of(pid: int) -> Tuple[str, List[str]]:
    """Return the name of a process, and its fields in /proc from its state on.

    :raises OSError: it is gone.
    """
    # All processes of a node are read once a second: a path of pathlib's and a stream cost more than the reading.
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    try:
        status = os.read(file, 4096).decode(errors="replace")
    finally:
        os.close(file)
    # The name may hold anything, brackets too: the fields follow the last one.
    name, _, fields = status.partition("(")[2].rpartition(")")
    return name, fields.split()


def fields_of(pid: int) -> List[str]:
    """Return the fields of a process without its name.

    :raises OSError: it is gone.
    """
    return status_of(pid)[1]


def output_of(command: List[str], patience: float = 60.0, **options: Any) -> str:
    """Return what a command prints on standard output; empty if there is no such command, or it hangs.

    Bytes that are no UTF-8 are replaced.

    :param patience: seconds after which it counts as hanging.
    :param options: for :func:`subprocess.run`.
    """
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=patience,
            **options,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def die_with_parent(parent: int, number: signal.Signals) -> None:
    """Have this process get a signal when its parent ends.

    :raises SystemExit: the parent has ended already.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        sys.exit("error: the job ended before its first run")


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent dies, so that all are found."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


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

    :param ended: whether to add zombie processes, whose processor time still shows.
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
    """Return the lines of a process's maps that name what is mapped, in words: device, inode and path are 3, 4 and 5.

    :param place: directory of the process in /proc.
    :raises OSError: the process is gone, or is another user's.
    """
    lines = (line.split(None, 5) for line in (place / "maps").read_text(errors="replace").splitlines())
    return [words for words in lines if len(words) == 6]


def open_files(place: Path) -> Iterator[str]:
    """Yield what the first 4096 descriptors of a process lead to: paths, and words such as ``socket:[7]``.

    :param place: directory of the process in /proc.
    :raises OSError: the process is gone, or is another user's.
    """
    for entry in os.listdir(str(place / "fd"))[:4096]:
        # It may have been closed meanwhile.
        with contextlib.suppress(OSError):
            yield os.readlink(str(place / "fd" / entry))


def mapped_mpi(pids: Set[int]) -> Dict[str, Dict[str, Any]]:
    """Return the MPI libraries that these processes have mapped, from ``/proc/<pid>/maps``.

    Keys are the paths as the processes see them; values hold ``device`` and ``inode`` (which identify a file of the
    host's, whatever its path in the container) and ``pids``, sorted.
    """
    libraries: Dict[str, Dict[str, Any]] = {}
    for pid in sorted(pids):
        try:
            mapped = mapped_files(Path("/proc", str(pid)))
        except OSError:
            continue
        paths = set()
        for fields in mapped:
            if mpi.SONAME.match(Path(fields[5]).name) and fields[5] not in paths:
                paths.add(fields[5])
                entry = libraries.setdefault(fields[5], {"device": fields[3], "inode": int(fields[4]), "pids": []})
                entry["pids"].append(pid)
    return libraries


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


def end(leader: int, grace: float, before: Callable[[], Any] = lambda: None) -> None:
    """End process group ``leader`` and all our descendants: SIGTERM first, SIGKILL after ``grace`` seconds.

    :param before: called before SIGKILL.
    """
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and descendants(os.getpid()):
        time.sleep(0.05)
    before()
    _signal_group(leader, signal.SIGKILL)
    kill_descendants()


def wait_for_descendants(patience: float) -> None:
    """Wait until every descendant of this process has ended, but no longer than ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while descendants(os.getpid()) and time.monotonic() < deadline:
        reap()
        time.sleep(0.02)


def kill_descendants() -> List[str]:
    """Kill every descendant of this process and return their names, sorted."""
    killed: Dict[int, str] = {}
    # Again and again, because a process can fork while the others are being killed.
    for _ in range(100):
        living = descendants(os.getpid())
        if not living:
            break
        for pid in living:
            with contextlib.suppress(OSError):
                killed[pid] = texts.printable(status_of(pid)[0])
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return sorted(killed.values())


def kill_slurm_steps(patience: float = 60.0) -> None:
    """Kill the job steps that a killed srun leaves on the nodes, and wait until Slurm has freed their cores.

    The next srun of the job would wait for the cores, as if it were hanging.
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

    Not for :data:`HELPERS`: their starter does, and until then no other process gets their numbers.
    """
    for pid, parent in _parents(ended=True).items():
        if parent == os.getpid() and pid not in HELPERS:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
