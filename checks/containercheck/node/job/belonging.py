"""Find the processes of this node that belong to a run (Linux; standard library only, Python 3.6 or newer).

Most descend from the runner. Those that a daemon starts in its place (Slurm's, PALS's and Flux's launchers, LSF's,
Docker) do not. They are recognized by a variable of our own, which a launcher hands on with the environment, by the
scheduler's number of the job, or by the job's cgroup. A process of another user never counts, whatever its environment
says, and only descendants of the runner and processes with our own variable are killed.
"""

import contextlib
import os
import re
import signal
import time
import uuid
from pathlib import Path
from typing import Dict, Iterator, List, Set

from containercheck.node import contract, texts
from containercheck.node.job import processes

#: Variable, with its value, in the environment of all processes that this runner starts, and of no others.
MARK = f"{contract.RUN}={uuid.uuid4().hex}"
#: Variables with the number of the job, by scheduler.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", *(["JOB_ID"] if "SGE_ROOT" in os.environ else []))
#: Seconds after which a process has its final environment: before it calls exec, it shows its parent's.
_SETTLED = 10.0
_TICKS = float(os.sysconf("SC_CLK_TCK"))
#: Whether this process runs one of two simultaneous runs: see :func:`begin_anew`.
_IS_ONE_OF_TWO = False
#: Start times of the processes that are not ours, so that none is read again, and of those that are: a zombie process
#: has no environment any more.
_STRANGERS: Dict[int, int] = {}
_KNOWN: Dict[int, int] = {}
#: Daemons that started processes of the run: the processor time of children that they wait for is the run's.
DAEMONS: Set[int] = set()


def environment() -> Dict[str, str]:
    """Return the environment for processes of the run, with the variable that marks them."""
    name, _, value = MARK.partition("=")
    return {**os.environ, name: value}


def begin_anew() -> None:
    """Count only processes that this process starts from now on, and none of the one that it was forked from.

    For two simultaneous runs, each below a process of its own. Only descendants of that process count, because both
    runs have the same scheduler's number of the job.
    """
    global MARK, _IS_ONE_OF_TWO
    MARK, _IS_ONE_OF_TWO = f"{contract.RUN}={uuid.uuid4().hex}", True
    for remembered in (_STRANGERS, _KNOWN, DAEMONS):
        remembered.clear()


def processes_of_run() -> Set[int]:
    """Return the processes on this node that belong to the run in progress, zombie processes among them."""
    own = processes.descendants(os.getpid(), ended=True)
    if _IS_ONE_OF_TWO:
        return own
    others = _started_by_daemons(own)
    return own | others | processes.descendants(*others, ended=True) - {os.getpid()}


def marked() -> Set[int]:
    """Return the living processes with our own variable and their descendants, without those of this process."""
    pids = {pid for pid in _started_by_daemons(processes.descendants(os.getpid())) if _is_marked(pid)}
    return pids | processes.descendants(*pids)


def kill_all() -> List[str]:
    """Kill every descendant of this process, and all with our variable; return their names, sorted."""
    names = processes.kill_descendants()
    killed: Dict[int, str] = {}
    # Again and again, because a process can fork while the others are being killed.
    for _ in range(100):
        living = marked()
        if not living:
            break
        for pid in living:
            with contextlib.suppress(OSError):
                killed[pid] = texts.printable(processes.status_of(pid)[0])
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return sorted([*names, *killed.values()])


@contextlib.contextmanager
def none_left_behind() -> Iterator[None]:
    """Kill all processes of the run if an exception leaves the block: a job may have to end while it starts a run."""
    try:
        yield
    except BaseException:
        kill_all()
        raise


def wait_for_all(patience: float) -> None:
    """Wait until all that :func:`kill_all` would kill has ended, but no longer than ``patience`` seconds."""
    deadline = time.monotonic() + patience
    processes.wait_for_descendants(patience)
    while marked() and time.monotonic() < deadline:
        time.sleep(0.02)


def _marks_of_job() -> Set[bytes]:
    """Return our own variable and those of the scheduler, as in /proc/<pid>/environ."""
    return {MARK.encode(), *(f"{name}={os.environ[name]}".encode() for name in _JOBS if os.environ.get(name))}


def _started_by_daemons(own: Set[int]) -> Set[int]:
    """Return the processes that daemons started for the run, and Slurm's daemons for this job.

    :param own: processes to leave out.
    """
    marks, group, pids = _marks_of_job(), cgroup_of_job(_cgroup(os.getpid())), set()
    now = float(Path("/proc/uptime").read_text().split()[0])
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own or int(entry) == os.getpid():
            continue
        pid = int(entry)
        with contextlib.suppress(OSError):
            fields = processes.fields_of(pid)
            parent, began = int(fields[1]), int(fields[19])
            if _STRANGERS.get(pid) == began:
                continue
            if _KNOWN.get(pid) == began or _is_ours(pid, marks, group):
                pids.add(pid)
                if _KNOWN.get(pid) != began and _is_marked(pid) and parent not in own:
                    DAEMONS.add(parent)
                _KNOWN[pid] = began
            elif now - began / _TICKS > _SETTLED:
                _STRANGERS[pid] = began
    return pids


def _is_ours(pid: int, marks: Set[bytes], group: str) -> bool:
    owner, us = os.stat(f"/proc/{pid}").st_uid, os.geteuid()
    if owner == us and (_has(pid, marks) or (group and is_in(group, _cgroup(pid)))):
        return True
    # A container runtime hides its environment, but not its parent.
    daemon = f"slurmstepd: [{os.environ.get('SLURM_JOB_ID')}.".encode()
    return owner in (0, us) and Path("/proc", str(pid), "cmdline").read_bytes().startswith(daemon)


def _has(pid: int, marks: Set[bytes]) -> bool:
    return not marks.isdisjoint(Path("/proc", str(pid), "environ").read_bytes().split(b"\0"))


def _is_marked(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return processes.fields_of(pid)[0] != "Z" and _has(pid, {MARK.encode()})
    return False


def _cgroup(pid: int) -> str:
    with contextlib.suppress(OSError):
        return texts.read(Path("/proc", str(pid), "cgroup"))
    return ""


def cgroup_of_job(text: str) -> str:
    """Return the cgroup that a scheduler made for this job, as ``controllers:path``; empty where there is none.

    :param text: content of /proc/<pid>/cgroup.
    """
    for number in (re.escape(os.environ[name]) for name in _JOBS if os.environ.get(name)):
        # Slurm has job_42, LSF job.42.1700000000.1, PBS jobid/42.server.
        pattern = rf"^\d+:([^:]*:.*/(?:job[._-]?|jobid/){number}(?:\.[^/\n]*)?)(?:/|$)"
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            return match[1]
    return ""


def is_in(group: str, text: str) -> bool:
    """Tell whether a process is in a cgroup, or below it.

    :param group: see :func:`cgroup_of_job`.
    :param text: content of its /proc/<pid>/cgroup.
    """
    return re.search(rf"^\d+:{re.escape(group)}(?:/|$)", text, re.MULTILINE) is not None
