"""Watch the job's other nodes, each by a process (standard library only, Python 3.6 or newer).

    python3 checks/containercheck watch

writes a line a second into ``watch/<node>.lines`` until the job ends: the time, who took how much of the node since the
last line, and what the job's ranks use there: libraries, interfaces, shared memory. Slurm starts it on every node of a
job but the first, beside the job's own steps: the runner watches the first, and under other schedulers no other one.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set

from containercheck.node import contract
from containercheck.node.job import disturbance, each_node, run_observation

#: Seconds between two looks. One look takes milliseconds.
INTERVAL = 1.0


def start() -> None:
    """Start the watch on all other nodes of a Slurm job. A node where it does not start is not watched."""
    words = each_node.launcher(first=1)
    if not words:
        return
    shutil.rmtree(contract.WATCH, ignore_errors=True)
    Path(contract.WATCH).mkdir()
    with Path(contract.WATCH, "err").open("wb") as err:
        subprocess.Popen(
            [*words, sys.executable, each_node.PROGRAMS, "watch"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )


class Line(NamedTuple):
    """A second of a node: its end in seconds since 1970, capacity and what others took in ticks, what ranks use."""

    when: float
    capacity: float
    taken: Dict[str, float]
    used: Dict[str, List[str]]


class Seen(NamedTuple):
    """What happened on the other nodes during a run: who disturbed them, and what its ranks used on all together."""

    disturbers: List[str]
    used: Dict[str, Set[str]]


class Lines:
    """The lines that the watch on a node writes, one a second; each is read once.

    :param path: the file, which grows.
    """

    def __init__(self, path: Path) -> None:
        """Begin at the start of the file."""
        self._path, self._offset = path, 0
        self._waiting: List[Line] = []

    def between(self, first: float, last: float) -> List[Line]:
        """Return the lines between two moments; forget all up to the last one.

        Lines that cannot be read are left out: a truncated or damaged file of another node must not end a job.
        """
        self._waiting += self._new()
        lines = [line for line in self._waiting if first <= line.when <= last]
        self._waiting = [line for line in self._waiting if line.when > last]
        return lines

    def _new(self) -> List[Line]:
        try:
            with self._path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size < self._offset:
                    # The file was replaced.
                    self._offset, self._waiting = 0, []
                stream.seek(self._offset)
                # The line after the last line end is being written.
                whole = stream.read().rpartition(b"\n")[0]
        except OSError:
            return []
        if not whole:
            return []
        self._offset += len(whole) + 1
        return [line for line in map(_parsed, whole.split(b"\n")) if line]


#: Reader of each node's file.
_READ: Dict[Path, Lines] = {}


def _parsed(line: bytes) -> Optional[Line]:
    """Return a line; None for a damaged one."""
    try:
        entry = json.loads(line.decode())
        taken = {str(who): float(ticks) for who, ticks in entry["taken"].items()}
        used = {str(name): [str(each) for each in seen] for name, seen in entry.get("used", {}).items()}
        return Line(float(entry["when"]), float(entry["capacity"]), taken, used)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def seen(began: float, ended: float) -> Seen:
    """Return what happened on the other nodes between two moments; disturbers with the node's name.

    :param began, ended: in seconds since 1970: the nodes' clocks are assumed to agree to a second.
    """
    causes = []
    used: Dict[str, Set[str]] = {}
    for path in sorted(Path(contract.WATCH).glob("*.lines")):
        capacity = 0.0
        taken: Dict[str, float] = {}
        for line in _READ.setdefault(path.resolve(), Lines(path)).between(began + INTERVAL, ended):
            capacity += line.capacity
            for who, ticks in line.taken.items():
                taken[who] = taken.get(who, 0.0) + ticks
            for name, each in line.used.items():
                used.setdefault(name, set()).update(each)
        cause = disturbance.verdict(taken, capacity, f" on {path.stem}")
        causes += [cause] if cause else []
    return Seen(causes, used)


def main() -> None:
    """Sample this node, and write a line for each second, until the job ends."""
    path = Path(contract.WATCH, os.uname().nodename + ".lines")
    ranks = run_observation.Ranks()
    before = disturbance.look()
    with path.open("w") as stream:
        while True:
            time.sleep(INTERVAL)
            after = disturbance.look()
            taken = disturbance.taken_between(before, after, set())
            line = {"when": time.time(), "capacity": disturbance.capacity(before, after), "taken": taken}
            used = ranks.look(after.of_run)
            stream.write(json.dumps({**line, "used": used} if used else line) + "\n")
            stream.flush()
            before = after
