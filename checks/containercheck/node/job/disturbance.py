"""Who else works on this node while a run is measured (Linux; standard library only, Python 3.6 or newer).

Decided beforehand, and without a look at any figure: a run is disturbed when processes that are not the run's took more
than 3 % of the node's capacity, or a hypervisor more than 5 % (steal). Kernel threads and the processes that belong to
the run, a runtime's helpers among them, do not count, nor does anything that the container itself may cause, such as
context switches or pressure: to replace rounds because of that would hide what it costs. How a rule like this leaves
the verdict's promises as they are: ci/benchmarks/detection.py.

Results are published, and what others run is their own affair: there they are told by whose they are, and only the
job's own log has their names.
"""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Set

from containercheck.node import texts
from containercheck.node.job import belonging, processes

#: Shares of the capacity (cores times seconds) that others may take.
FOREIGN, STEAL = 0.03, 0.05
#: Ticks below which a share says nothing: the kernel charges a whole one to whoever runs when it ends.
FEWEST = 3
#: A process that took less is not named.
WORTH_NAMING = 0.01
HYPERVISOR = "the hypervisor"
#: Whose other processes are, in results.
ANOTHER_USER, SYSTEM = "another user", "root or the system"
#: Users below this are the system's (login.defs, UID_MIN).
FIRST_PERSON = 1000
#: A flag in /proc/<pid>/stat: a kernel thread.
_PF_KTHREAD = 0x00200000
_TICKS = float(os.sysconf("SC_CLK_TCK"))


class Usage(NamedTuple):
    """Processor time of a process, in ticks: its own, and that of children that it has waited for.

    ``user`` is whose it is: empty for our own user, :data:`ANOTHER_USER` or :data:`SYSTEM`.
    """

    name: str
    began: str
    own: int
    children: int
    user: str = ""


class Look(NamedTuple):
    """What all processes had taken at a moment, and what a hypervisor had."""

    when: float
    usage: Dict[int, Usage]
    steal: int


def look() -> Look:
    """Return the processor time, in ticks, of every process that is not the run's and no kernel thread, and steal."""
    own = {os.getpid(), *processes.HELPERS, *belonging.processes_of_run()}
    usage: Dict[int, Usage] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        with contextlib.suppress(OSError, ValueError):
            name, fields = processes.status_of(int(entry))
            if not int(fields[6]) & _PF_KTHREAD:
                user, system, child_user, child_system = (int(field) for field in fields[11:15])
                whose = _whose(os.stat("/proc/" + entry).st_uid)
                usage[int(entry)] = Usage(name, fields[19], user + system, child_user + child_system, whose)
    return Look(time.monotonic(), usage, _steal())


def _whose(uid: int) -> str:
    return "" if uid == os.getuid() else ANOTHER_USER if uid >= FIRST_PERSON else SYSTEM


def _steal() -> int:
    """Ticks that a hypervisor kept from the processors that we may use."""
    wanted = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        fields = line.split()
        if fields and fields[0] in wanted and len(fields) > 8:
            total += int(fields[8])
    return total


def ancestors() -> Set[int]:
    """Return this process's ancestors: what they waited for was our own work."""
    found: Set[int] = set()
    pid = os.getppid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = int(processes.fields_of(pid)[1])
        except OSError:
            break
    return found


def capacity(before: Look, after: Look) -> float:
    """Return what the processors that we may use could have done between two looks, in ticks."""
    return max(0.0, after.when - before.when) * len(os.sched_getaffinity(0)) * _TICKS


def taken_between(before: Look, after: Look, ours: Set[int]) -> Dict[str, float]:
    """Return what others took between two looks, in ticks; and the hypervisor.

    Processes of our own user are told by their names, those of others together, by whose they are.

    :param ours: processes whose children are ours: see :func:`ancestors`. So are those of Slurm's daemons.
    """
    taken = {HYPERVISOR: float(after.steal - before.steal)}
    for pid, ticks in _ticks_between(before, after, ours).items():
        who = after.usage[pid].user or "your own " + _called(pid, after)
        taken[who] = taken.get(who, 0.0) + ticks
    return taken


def named_between(before: Look, after: Look, ours: Set[int]) -> Dict[str, float]:
    """Return the same by the name of each process, whosever it is: for the job's own log, and nothing else."""
    return {_called(pid, after): ticks for pid, ticks in _ticks_between(before, after, ours).items()}


def _called(pid: int, after: Look) -> str:
    """Return the name of a process, without what separates several of them in a text."""
    return "{} (pid {})".format(re.sub("[:;]", "_", texts.printable(after.usage[pid].name)), pid)


def _ticks_between(before: Look, after: Look, ours: Set[int]) -> Dict[int, float]:
    most = capacity(before, after)
    taken: Dict[int, float] = {}
    for pid, now in after.usage.items():
        then = before.usage.get(pid)
        if then is None or then.began != now.began:
            then = Usage(now.name, now.began, 0, 0)
        children = now.children - then.children
        # More than there was time for is the whole past of a child that was waited for only now. Process 1 waits for
        # everybody's orphans, those of our job too.
        if pid in ours or pid == 1 or now.name.startswith("slurm") or children > most:
            children = 0
        if now.own - then.own + children > 0:
            taken[pid] = float(now.own - then.own + children)
    return taken


def verdict(taken: Dict[str, float], most: float, where: str = "") -> Optional[str]:
    """Return who took so much that a run was disturbed, with their shares of the capacity; None if nobody did.

    :param taken: in ticks, see :func:`taken_between`.
    :param most: the capacity, in ticks.
    :param where: what is added to each name: the node, where it is another.
    """
    if most <= 0:
        return None
    shares = {who: ticks / most for who, ticks in taken.items()}
    steal = shares.pop(HYPERVISOR, 0.0)
    steal = steal if steal * most >= FEWEST else 0.0
    foreign = sum(shares.values())
    if (foreign <= FOREIGN or foreign * most < FEWEST) and steal <= STEAL:
        return None
    worst = [who for who in sorted(shares, key=lambda who: -shares[who])[:2] if shares[who] > WORTH_NAMING]
    said = [f"{who}{where}: {100 * shares[who]:.0f} %" for who in worst]
    if steal > STEAL:
        said.append(f"{HYPERVISOR}{where}: {100 * steal:.0f} %")
    return "; ".join(said) or f"many small processes{where}"


def between(before: Look, after: Look, log: bool = False) -> Optional[str]:
    """Return who disturbed this node between two looks of the runner's; None if nobody did.

    :param log: whether to print the names of processes.
    """
    ours = ancestors() | belonging.DAEMONS
    said = verdict(taken_between(before, after, ours), capacity(before, after))
    if said and log:
        print(
            f"disturbed by {verdict(named_between(before, after, ours), capacity(before, after)) or said}", flush=True
        )
    return said


def settle(quiet: float, patience: float) -> None:
    """Wait until nobody disturbs this node for ``quiet`` seconds, but no longer than ``patience`` seconds.

    When a job has ended, ReFrame reads what it left, for a second or two in which the next one would begin.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = look()
        time.sleep(quiet)
        if between(before, look()) is None:
            return
