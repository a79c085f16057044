"""Find other users of the job's nodes while a run is measured (Linux; standard library only, Python 3.6 or newer).

A run is disturbed if foreign processes took more than 3 % of the node's capacity, or a hypervisor more than 5 %
(steal). The rule was fixed beforehand and looks at no metric. Kernel threads and the processes of the run, with a
runtime's helpers and daemons, do not count. Neither do effects that the container itself may cause, such as context
switches or pressure: replacing rounds because of these would hide the container's cost. ci/benchmarks/detection.py
simulates that the rule does not change the verdict's error rates.

Results are published, and processes of other users are private. Results name only the owner of a process; only the
job's own log has the names of processes.

    python3 checks/containercheck/job watch

writes a line a second into ``watch/<node>.lines`` until the job ends. A line has the time, the share of the node that
each user took since the last line, and the resources of the job's ranks there: libraries, interfaces, shared memory.
Slurm starts it on every node of a job except the first, at the same time as the job's own steps: the runner watches the
first. Other schedulers have no watch on other nodes.
"""

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set

from containercheck.job import contract, processes, run_observation, texts

#: Shares of the capacity (cores times seconds) that others may take.
FOREIGN, STEAL = 0.03, 0.05
#: Ticks below which a share is unreliable: the kernel charges a whole tick to the process that runs when the tick ends.
FEWEST = 3
#: Share of the capacity from which a process is named.
WORTH_NAMING = 0.01
HYPERVISOR = "the hypervisor"
#: Owners of processes, in results.
ANOTHER_USER, SYSTEM = "another user", "root or the system"
#: Lowest user number of a person; lower ones are the system's (login.defs, UID_MIN).
FIRST_PERSON = 1000
#: Flag of a kernel thread in /proc/<pid>/stat.
_PF_KTHREAD = 0x00200000
_TICKS = float(os.sysconf("SC_CLK_TCK"))


class Usage(NamedTuple):
    """Hold the processor time of a process, in ticks: its own, and that of children that it has waited for.

    ``user`` is its owner: empty for the user of this job, :data:`ANOTHER_USER` or :data:`SYSTEM`.
    """

    name: str
    began: str
    own: int
    children: int
    user: str = ""


class Look(NamedTuple):
    """Hold the processor time of processes, and of a hypervisor (steal), at a moment, and the run's processes."""

    when: float
    usage: Dict[int, Usage]
    steal: int
    of_run: FrozenSet[int] = frozenset()


def look() -> Look:
    """Return the processor time, in ticks, of all processes except the run's and kernel threads, and the steal."""
    of_run = frozenset(processes.processes_of_run())
    own = {os.getpid(), *processes.HELPERS, *of_run}
    usage: Dict[int, Usage] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in own:
            continue
        with contextlib.suppress(OSError, ValueError):
            name, fields = processes.status_of(int(entry))
            if not int(fields[6]) & _PF_KTHREAD and name not in processes.daemons():
                user, system, child_user, child_system = (int(field) for field in fields[11:15])
                owner = _whose(os.stat("/proc/" + entry).st_uid)
                usage[int(entry)] = Usage(name, fields[19], user + system, child_user + child_system, owner)
    return Look(time.monotonic(), usage, _steal(), of_run)


def _whose(uid: int) -> str:
    return "" if uid == os.getuid() else ANOTHER_USER if uid >= FIRST_PERSON else SYSTEM


def _steal() -> int:
    """Return the ticks that a hypervisor took from the processors that this process may use."""
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return sum(int(row[8]) for row in rows if row and row[0] in usable)


def ancestors() -> Set[int]:
    """Return this process's ancestors; children that they waited for belong to the job."""
    pids: Set[int] = set()
    pid = os.getppid()
    with contextlib.suppress(OSError):
        while pid > 0:
            pids.add(pid)
            pid = int(processes.fields_of(pid)[1])
    return pids


def capacity(before: Look, after: Look) -> float:
    """Return the ticks of the processors that this process may use, between two looks."""
    return max(0.0, after.when - before.when) * len(os.sched_getaffinity(0)) * _TICKS


def taken_between(before: Look, after: Look, ours: Set[int]) -> Dict[str, float]:
    """Return the ticks that others and the hypervisor took between two looks.

    Processes of the user of this job are named one by one; those of others are summed by owner.

    :param ours: processes with children that belong to the job, such as Slurm's daemons: see :func:`ancestors`.
    """
    taken = {HYPERVISOR: float(after.steal - before.steal)}
    for pid, ticks in _ticks_between(before, after, ours).items():
        who = after.usage[pid].user or f"another {_title(pid, after)} of your user"
        taken[who] = taken.get(who, 0.0) + ticks
    return taken


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
        # More than the elapsed time is the whole life of a child that was waited for only now. Process 1 waits for all
        # orphans, also those of this job.
        if pid in ours or pid == 1 or now.name.startswith("slurm") or children > most:
            children = 0
        if now.own - then.own + children > 0:
            taken[pid] = float(now.own - then.own + children)
    return taken


def verdict(taken: Dict[str, float], most: float, where: str = "") -> Optional[str]:
    """Return the processes that disturbed a run, with their shares of the capacity; None if it was not disturbed.

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
    """Return the processes that disturbed this node between two looks; None if it was not disturbed.

    :param log: whether to print the names of processes.
    """
    ours, most = ancestors() | processes.DAEMONS, capacity(before, after)
    causes = verdict(taken_between(before, after, ours), most)
    if causes and log:
        by_name = {_title(pid, after): ticks for pid, ticks in _ticks_between(before, after, ours).items()}
        print(f"disturbed by {verdict(by_name, most) or causes}", flush=True)
    return causes


def settle(quiet: float, patience: float) -> None:
    """Wait until this node is undisturbed for ``quiet`` seconds, but no longer than ``patience`` seconds.

    After a job, ReFrame reads its output for a second or two; the next job may begin meanwhile.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = look()
        time.sleep(quiet)
        if between(before, look()) is None:
            return


#: Seconds between two looks at another node. One look takes milliseconds.
INTERVAL = 1.0


def watch_other_nodes() -> None:
    """Start the watch on all other nodes of a Slurm job. A node on which it does not start is not watched."""
    words = processes.launcher(first=1)
    if not words:
        return
    shutil.rmtree(contract.WATCH, ignore_errors=True)
    Path(contract.WATCH).mkdir()
    with Path(contract.WATCH, "err").open("wb") as err:
        words += [sys.executable, processes.PROGRAMS, "watch"]
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)


class Line(NamedTuple):
    """Hold one second of a node: its end (seconds since 1970), capacity and foreign ticks, resources of ranks."""

    when: float
    capacity: float
    taken: Dict[str, float]
    used: Dict[str, List[str]]


class Seen(NamedTuple):
    """Hold the disturbers of a run's nodes, and the resources of its ranks on all nodes except the first.

    :ivar taken: part of the first node's capacity that others and the hypervisor took, from 0 to 1.
    """

    disturbers: List[str]
    used: Dict[str, Set[str]]
    taken: float = 0.0


#: Reader of each node's file.
_READ: Dict[Path, texts.NewLines] = {}


def _parsed(line: bytes) -> Optional[Line]:
    """Return a line; None for a damaged one, as the file of another node must not end a job."""
    try:
        entry = json.loads(line.decode())
        taken = {str(who): float(ticks) for who, ticks in entry["taken"].items()}
        used = {str(name): [str(each) for each in seen] for name, seen in entry.get("used", {}).items()}
        return Line(float(entry["when"]), float(entry["capacity"]), taken, used)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def on_other_nodes(began: float, ended: float) -> Seen:
    """Return the disturbers, with the node's name, and the used resources of the other nodes between two moments.

    Lines outside of this time are forgotten.

    :param began, ended: in seconds since 1970; the nodes' clocks are assumed to agree to a second.
    """
    causes = []
    used: Dict[str, Set[str]] = {}
    for path in sorted(Path(contract.WATCH).glob("*.lines")):
        capacity = 0.0
        taken: Dict[str, float] = {}
        for line in map(_parsed, _READ.setdefault(path.resolve(), texts.NewLines(path)).read()):
            if line is None or not began + INTERVAL <= line.when <= ended:
                continue
            capacity += line.capacity
            for who, ticks in line.taken.items():
                taken[who] = taken.get(who, 0.0) + ticks
            for name, each in line.used.items():
                used.setdefault(name, set()).update(each)
        cause = verdict(taken, capacity, f" on {path.stem}")
        causes += [cause] if cause else []
    return Seen(causes, used)


class Watch:
    """Look at the job's nodes before and after a run."""

    def start(self) -> None:
        """Look before the run."""
        self._began, self._before = time.time(), look()

    def finish(self) -> None:
        """Look after the run."""
        self._after = look()

    def seen(self) -> Seen:
        """Return the disturbers and used resources of all nodes."""
        others, here = on_other_nodes(self._began, time.time()), between(self._before, self._after, log=True)
        taken = taken_between(self._before, self._after, ancestors() | processes.DAEMONS)
        part = min(1.0, sum(taken.values()) / (capacity(self._before, self._after) or math.inf))
        return Seen([*filter(None, [here]), *others.disturbers], others.used, part)


def main() -> None:
    """Sample this node, and write a line for each second, until the job ends."""
    ranks = run_observation.Ranks(run_observation.FEW)
    before = look()
    with Path(contract.WATCH, os.uname().nodename + ".lines").open("w") as stream:
        while True:
            time.sleep(INTERVAL)
            after = look()
            taken = taken_between(before, after, set())
            line = {"when": time.time(), "capacity": capacity(before, after), "taken": taken}
            used = ranks.look(run_observation.statuses_of(after.of_run))
            used_here = {name: sorted(values) for name, values in used.items() if values}
            stream.write(json.dumps({**line, "used": used_here} if used_here else line) + "\n")
            stream.flush()
            before = after
