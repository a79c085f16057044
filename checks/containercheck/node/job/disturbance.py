"""Find out who else uses this node while a run is measured (Linux; standard library only, Python 3.6 or newer).

A run is disturbed when processes that do not belong to it took more than 3 % of the node's capacity, or a hypervisor
more than 5 % (steal). The rule was fixed beforehand and looks at no figure. Kernel threads and the processes of the
run, a runtime's helpers and daemons among them, do not count, nor does anything that the container itself may cause,
such as context switches or pressure: to replace rounds because of that would hide what it costs. That such a rule
leaves the verdict's error rates as they are, ci/benchmarks/detection.py simulates.

Results are published, and what others run is private: results name only the owner of a process, and only the job's own
log has the names of processes.
"""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Dict, FrozenSet, NamedTuple, Optional, Set

from containercheck.node import texts
from containercheck.node.job import belonging, daemon_containers, processes

#: Shares of the capacity (cores times seconds) that others may take.
FOREIGN, STEAL = 0.03, 0.05
#: Ticks below which a share is not reliable: the kernel charges a whole tick to the process that runs when it ends.
FEWEST = 3
#: Share of the capacity below which a process is not named.
WORTH_NAMING = 0.01
HYPERVISOR = "the hypervisor"
#: Owners of processes, in results.
ANOTHER_USER, SYSTEM = "another user", "root or the system"
#: Lowest number of a person; lower ones are the system's (login.defs, UID_MIN).
FIRST_PERSON = 1000
#: Flag of a kernel thread in /proc/<pid>/stat.
_PF_KTHREAD = 0x00200000
_TICKS = float(os.sysconf("SC_CLK_TCK"))


class Usage(NamedTuple):
    """Processor time of a process, in ticks: its own, and that of children that it has waited for.

    ``user`` is its owner: empty for our own user, :data:`ANOTHER_USER` or :data:`SYSTEM`.
    """

    name: str
    began: str
    own: int
    children: int
    user: str = ""


class Look(NamedTuple):
    """The processor time that processes, and a hypervisor (steal), had taken at a moment, and the run's processes."""

    when: float
    usage: Dict[int, Usage]
    steal: int
    of_run: FrozenSet[int] = frozenset()


def look() -> Look:
    """Return the processor time, in ticks, of all processes but the run's and kernel threads, and the steal."""
    of_run = frozenset(belonging.processes_of_run())
    own = {os.getpid(), *processes.HELPERS, *of_run}
    usage: Dict[int, Usage] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        with contextlib.suppress(OSError, ValueError):
            name, fields = processes.status_of(int(entry))
            if not int(fields[6]) & _PF_KTHREAD and name not in daemon_containers.daemons():
                user, system, child_user, child_system = (int(field) for field in fields[11:15])
                owner = _whose(os.stat("/proc/" + entry).st_uid)
                usage[int(entry)] = Usage(name, fields[19], user + system, child_user + child_system, owner)
    return Look(time.monotonic(), usage, _steal(), of_run)


def _whose(uid: int) -> str:
    return "" if uid == os.getuid() else ANOTHER_USER if uid >= FIRST_PERSON else SYSTEM


def _steal() -> int:
    """Return the ticks that a hypervisor took from the processors that we may use."""
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        fields = line.split()
        if fields and fields[0] in usable and len(fields) > 8:
            total += int(fields[8])
    return total


def ancestors() -> Set[int]:
    """Return this process's ancestors: the children that they waited for belong to the job."""
    pids: Set[int] = set()
    pid = os.getppid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        try:
            pid = int(processes.fields_of(pid)[1])
        except OSError:
            break
    return pids


def capacity(before: Look, after: Look) -> float:
    """Return the ticks of the processors that we may use between two looks."""
    return max(0.0, after.when - before.when) * len(os.sched_getaffinity(0)) * _TICKS


def taken_between(before: Look, after: Look, ours: Set[int]) -> Dict[str, float]:
    """Return the ticks that others and the hypervisor took between two looks.

    Processes of our own user are named one by one, those of others are summed up by owner.

    :param ours: processes whose children belong to the job, as those of Slurm's daemons do: see :func:`ancestors`.
    """
    taken = {HYPERVISOR: float(after.steal - before.steal)}
    for pid, ticks in _ticks_between(before, after, ours).items():
        who = after.usage[pid].user or "your own " + _title(pid, after)
        taken[who] = taken.get(who, 0.0) + ticks
    return taken


def named_between(before: Look, after: Look, ours: Set[int]) -> Dict[str, float]:
    """Return the ticks of each process by its name, whoever owns it: for the job's own log only."""
    return {_title(pid, after): ticks for pid, ticks in _ticks_between(before, after, ours).items()}


def _title(pid: int, after: Look) -> str:
    """Return name and number of a process, without the characters that separate several of them in a text."""
    return "{} (pid {})".format(re.sub("[:;]", "_", texts.printable(after.usage[pid].name)), pid)


def _ticks_between(before: Look, after: Look, ours: Set[int]) -> Dict[int, float]:
    most = capacity(before, after)
    taken: Dict[int, float] = {}
    for pid, now in after.usage.items():
        then = before.usage.get(pid)
        if then is None or then.began != now.began:
            then = Usage(now.name, now.began, 0, 0)
        children = now.children - then.children
        # More than there was time for is the whole life of a child that was waited for only now. Process 1 waits for
        # all orphans, those of our job too.
        if pid in ours or pid == 1 or now.name.startswith("slurm") or children > most:
            children = 0
        if now.own - then.own + children > 0:
            taken[pid] = float(now.own - then.own + children)
    return taken


def verdict(taken: Dict[str, float], most: float, where: str = "") -> Optional[str]:
    """Return who disturbed a run, with their shares of the capacity; None if it was not disturbed.

    :param taken: ticks by name, see :func:`taken_between`.
    :param most: the capacity, in ticks.
    :param where: text after each name: the node, if it is another one.
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
    causes = [f"{who}{where}: {100 * shares[who]:.0f} %" for who in worst]
    if steal > STEAL:
        causes.append(f"{HYPERVISOR}{where}: {100 * steal:.0f} %")
    return "; ".join(causes) or f"many small processes{where}"


def between(before: Look, after: Look, log: bool = False) -> Optional[str]:
    """Return who disturbed this node between two looks of the runner's; None if it was not disturbed.

    :param log: whether to print the names of processes.
    """
    ours = ancestors() | belonging.DAEMONS
    causes = verdict(taken_between(before, after, ours), capacity(before, after))
    if causes and log:
        named = verdict(named_between(before, after, ours), capacity(before, after))
        print(f"disturbed by {named or causes}", flush=True)
    return causes


def settle(quiet: float, patience: float) -> None:
    """Wait until this node is undisturbed for ``quiet`` seconds, but no longer than ``patience`` seconds.

    After a job, ReFrame reads its output for a second or two, in which the next job would begin.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = look()
        time.sleep(quiet)
        if between(before, look()) is None:
            return
