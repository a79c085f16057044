"""Which processes of this node belong to a run (Linux; standard library only, Python 3.6 or newer).

Most descend from the runner. What a daemon starts in its place (Slurm's, PALS's and Flux's launchers, LSF's, Docker)
does not: it is known by what it was given. That is a variable of our own, which a launcher hands on with the
environment; the scheduler's number of the job; or the job's cgroup. Nothing of another user's is taken for ours,
whatever it says of itself, and nothing is killed but what descends from the runner or has our own variable.
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

#: What all that this runner starts has in its environment, and nothing else on the machine.
MARK = f"{contract.RUN}={uuid.uuid4().hex}"
#: Variables with which schedulers tell a job its number.
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", *(["JOB_ID"] if "SGE_ROOT" in os.environ else []))
#: Seconds after which a process has the environment that it keeps: before it calls exec, its parent's is seen.
_SETTLED = 10.0
_TICKS = float(os.sysconf("SC_CLK_TCK"))
#: Whether this process runs one of two runs that go on at the same time: see :func:`begin_anew`.
_IS_ONE_OF_TWO = False
#: When the processes that are not ours began, so that none is read again; and those that are: one that has ended, and
#: that nobody has waited for yet, has no environment any more.
_STRANGERS: Dict[int, int] = {}
_KNOWN: Dict[int, int] = {}
#: Daemons that started something for us: what they wait for is our own work.
DAEMONS: Set[int] = set()


def environment() -> Dict[str, str]:
    """Return the environment of what is to be known as ours."""
    name, _, value = MARK.partition("=")
    return {**os.environ, name: value}


def begin_anew() -> None:
    """Take for ours from now on what this process starts, and nothing of the one that it was forked from.

    For two runs that go on at the same time, each below a process of its own. Only what descends from that is looked
    at: the scheduler's number of the job would be the other run's too.
    """
    global MARK, _IS_ONE_OF_TWO
    MARK, _IS_ONE_OF_TWO = f"{contract.RUN}={uuid.uuid4().hex}", True
    for known in (_STRANGERS, _KNOWN, DAEMONS):
        known.clear()


def processes_of_run() -> Set[int]:
    """Return the processes on this node that belong to the run in progress, ended ones that still show among them."""
    own = processes.descendants(os.getpid(), ended=True)
    if _IS_ONE_OF_TWO:
        return own
    others = _of_others(own)
    return own | others | processes.descendants(*others, ended=True) - {os.getpid()}


def marked() -> Set[int]:
    """Return the living processes that have our own variable, and their descendants, but for those of this process."""
    found = {pid for pid in _of_others(processes.descendants(os.getpid())) if _is_marked(pid)}
    return found | processes.descendants(*found)


def kill_all() -> List[str]:
    """Kill every descendant of this process, and all with our variable; return what they were called, sorted."""
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
    """Kill all that is ours where the block is left by an exception: a job may have to end while it starts a run."""
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
    """Return our own variable and those of the scheduler, as they stand in an environment."""
    return {MARK.encode(), *(f"{name}={os.environ[name]}".encode() for name in _JOBS if os.environ.get(name))}


def _of_others(own: Set[int]) -> Set[int]:
    """Return the processes that daemons started for us, and the daemons of Slurm's that look after this job.

    :param own: processes that need not be looked at.
    """
    marks, group, found = _marks_of_job(), cgroup_of_job(_cgroup(os.getpid())), set()
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
                found.add(pid)
                if _KNOWN.get(pid) != began and _is_marked(pid) and parent not in own:
                    DAEMONS.add(parent)
                _KNOWN[pid] = began
            elif now - began / _TICKS > _SETTLED:
                _STRANGERS[pid] = began
    return found


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
        return Path("/proc", str(pid), "cgroup").read_text()
    return ""


def cgroup_of_job(text: str) -> str:
    """Return the cgroup that a scheduler made for this job, as ``controllers:path``; empty where there is none.

    :param text: of /proc/<pid>/cgroup.
    """
    for number in (re.escape(os.environ[name]) for name in _JOBS if os.environ.get(name)):
        # Slurm says job_42, LSF job.42.1700000000.1, PBS jobid/42.server.
        pattern = rf"^\d+:([^:]*:.*/(?:job[._-]?|jobid/){number}(?:\.[^/\n]*)?)(?:/|$)"
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return found[1]
    return ""


def is_in(group: str, text: str) -> bool:
    """Tell whether a process is in a cgroup, or below it.

    :param group: see :func:`cgroup_of_job`.
    :param text: of its /proc/<pid>/cgroup.
    """
    return re.search(rf"^\d+:{re.escape(group)}(?:/|$)", text, re.MULTILINE) is not None
