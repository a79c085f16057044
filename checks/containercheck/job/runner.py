"""Run sides once, or two at the same time, and keep the record of all runs (standard library only, Python 3.6).

Runs print into ``rounds/<round>-<side>/``, which also has their script; with swapped halves into ``...-swapped/``.
``rounds.json`` is their record. It has ``why`` there were no more runs, ``"complete": true`` if the job came to its
end, and ``"judged": true`` if its first phase did. ``ended`` has the name of the signal if the job did not come to its
end.

If two sides run at the same time, each has half of the node's cores. Each has its own process below the runner, which
is bound to its half with all its children. Each has its own working directory, because two runs that write the same
file would spoil it. Small files of the stage directory are copied there, large ones (an input) are hard links, and
links stay unchanged. The side's script has the paths of this directory in it. The rest of the library only reads
``halves`` in the record, and ``processors`` of a run.
"""

import argparse
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from containercheck.job import contract, disturbance, processes, texts, this_node
from containercheck.job.launch import Launch
from containercheck.job.outputs.facts import Facts
from containercheck.job.single_run import describe, run_once

#: Longest run, as a multiple of its baseline's time; and seconds that every run may take.
SLOWEST, LEAST_LIMIT = 20.0, 60.0
#: Largest file that is copied for each side, in bytes: programs change small inputs only.
COPIED = 64 << 20
#: Seconds for two simultaneous runs to end after SIGTERM.
PATIENCE = 20.0
#: Starts processes that go on with the runner's state.
_FORK = multiprocessing.get_context("fork")
#: Files of a stage directory that only the job itself writes; the runs do not read them.
_NOT_READ = re.compile(
    r"rfm_\w+\.(sh|out|err)|\.rfm_.*|build\.status|variables\.key|(facts|rounds|commands)\.json|.*\.surroundings|"
    + "|".join([contract.RUNS, contract.WATCH, contract.TRIALS, contract.DUET, re.escape(contract.REPRODUCER)])
)
#: File in a run's directory with its part of the record. JSON.
RUN = "run.json"


class HalvesError(Exception):
    """Report that the node has no two halves of that size, or that a run could not be started."""


class Half(NamedTuple):
    """Hold a run on half of the node: ``side``, its ``script``, its processors, and at most ``limit`` seconds."""

    side: str
    script: str
    processors: Set[int]
    output: Path
    limit: float


def halves(wanted: int, usable: Set[int], root: Path = Path("/")) -> Tuple[Set[int], Set[int]]:
    """Return the processors of two halves: the same number of whole, neighbouring cores; an odd core is left out.

    :param wanted: cores that each must have.
    :param usable: processors that may be used.
    :param root: root of the file system with Linux's lists of cores' threads.
    :raises HalvesError: there are too few cores.
    """
    ordered = this_node.cores(usable, root)
    size = len(ordered) // 2
    if size < wanted:
        raise HalvesError(
            f"{os.uname().nodename} lets this job use {len(ordered)} core(s); each side needs {wanted} to itself: "
            "run them one after the other (-S duet=no)"
        )
    first, second = ordered[:size], ordered[-size:]
    return {cpu for core in first for cpu in core}, {cpu for core in second for cpu in core}


class Runner:
    """Run the sides of a job.

    :param arguments: of the command line (rounds.py).
    :param facts: of the job.
    :param began: start of the job, by the monotonic clock.
    :ivar record: of all runs.
    :ivar coin: random order.
    :ivar took: seconds of each side's last run that ended well.
    :raises HalvesError: the node has no two halves that are large enough.
    """

    def __init__(self, arguments: argparse.Namespace, facts: Facts, began: float) -> None:
        """Write a record without runs."""
        self._arguments, self._facts, self._began = arguments, facts, began
        self._baselines = {side.name: side.compared_with or "" for side in facts.sides}
        self.took: Dict[str, float] = {}
        # The processors of both halves; empty if sides run one after the other.
        self._halves = halves(facts.duet["cores"], os.sched_getaffinity(0)) if facts.duet else ()
        self._has_directories = False
        self.coin = random.Random()
        self.record: Dict[str, Any] = {
            "host": os.uname().nodename,
            "machine": this_node.facts(),
            "complete": False,
            "judged": False,
            "ended": None,
            "kept_awake": False,
            "halves": [this_node.listed(half) for half in self._halves],
            "why": "",
            "took": 0.0,
            "replaced": {},
            "busy": "",
            "runs": [],
        }
        self.write()

    @property
    def seconds(self) -> float:
        """Seconds since the start of the job."""
        return time.monotonic() - self._began

    def write(self) -> None:
        """Write the record."""
        self.record["took"] = round(self.seconds, 3)
        texts.write(Path(contract.RECORD), json.dumps(self.record, indent=1))

    def run(self, number: int, side: str, limit: float) -> Dict[str, Any]:
        """Run a side once, and return its part of the record.

        :param number: of the round.
        :param limit: seconds that it may take.
        """
        arguments, output = self._arguments, Path(contract.RUNS, f"{number:02d}-{side}")
        run = run_once(Launch(side).run, output, limit, arguments.collect, arguments.local_ranks)
        return self._added(run, number, side)

    def turns(
        self,
        number: int,
        sides: Sequence[str],
        limit: Optional[Callable[[str], float]] = None,
        in_turn: bool = False,
    ) -> Iterator[List[Dict[str, Any]]]:
        """Run the sides of a round; yield their parts of the record, each by itself or both simultaneous ones.

        Simultaneous sides run on halves of the node, and once more with the halves swapped, unless one has failed.

        :param limit: returns the seconds that a side may take; by default :meth:`limit`.
        :param in_turn: whether sides of a duet run one after the other, because a remedy has no half.
        """
        if in_turn or not self._halves:
            for side in sides:
                yield [self.run(number, side, (limit or self.limit)(side))]
            return
        for turn in (sides, sides[::-1]):
            runs = self._run_both(number, turn, turn is not sides)
            yield runs
            if any(map(has_failed, runs)):
                # The round has lost its pair.
                return

    def _run_both(self, number: int, sides: Sequence[str], swapped: bool) -> List[Dict[str, Any]]:
        stagedir = self._facts.duet["stagedir"] if self._facts.duet else ""
        if not self._has_directories:
            make_directories(list(self._baselines))
            self._has_directories = True
        both = [
            Half(
                side,
                Launch(side).run.replace(stagedir, f"{stagedir}/{contract.DUET}/{side}"),
                half,
                Path(contract.RUNS, f"{number:02d}-{side}" + "-swapped" * swapped),
                self.limit(side),
            )
            for side, half in zip(sides, self._halves)
        ]
        runs = run_both(both, self._arguments.collect, self._arguments.local_ranks)
        return [self._added(run, number, side) for run, side in zip(runs, sides)]

    def limit(self, side: str) -> float:
        """Return the seconds that a run of a side may take."""
        baseline = self.took.get(self._baselines[side])
        limit: float = self._arguments.limit
        return limit if baseline is None else min(limit, max(LEAST_LIMIT, SLOWEST * baseline))

    def _added(self, run: Dict[str, Any], number: int, side: str) -> Dict[str, Any]:
        run.update({"round": number, "side": side})
        # A failed run may have ended at once: its time is not a measure for other runs.
        if run["status"] == 0:
            self.took[side] = run["seconds"]
        self.record["runs"].append(run)
        self.write()
        where = " on processors {}".format(run["processors"]) if "processors" in run else ""
        print(f"round {number} {side}{where}: {describe(run)}", flush=True)
        return run


# Two runs at the same time.


def make_directories(sides: Sequence[str]) -> None:
    """Make the working directory of each side in the stage directory, which is the current one."""
    shutil.rmtree(contract.DUET, ignore_errors=True)
    for side in sides:
        directory = f"{contract.DUET}/{side}"
        shutil.copytree(".", directory, symlinks=True, ignore=_not_read, copy_function=_copy)


def _not_read(place: str, names: List[str]) -> List[str]:
    return [name for name in names if place == "." and _NOT_READ.fullmatch(name)]


def _copy(source: str, target: str) -> None:
    if os.path.getsize(source) <= COPIED:
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def run_both(both: Sequence[Half], collect: List[str], local_ranks: int) -> List[Dict[str, Any]]:
    """Run two sides at the same time, and return their parts of the record, in this order.

    :param collect, local_ranks: as for :func:`run_once`.
    :raises HalvesError: a run could not be started.
    """
    others = disturbance.Watch()
    others.start()
    # Each run needs its own process, which is bound to a half, and adopts the orphans of this run only.
    runners = [_FORK.Process(target=_run_half, args=(half, collect, local_ranks, os.getpid())) for half in both]
    try:
        for process in runners:
            process.start()
        for process in runners:
            process.join()
    finally:
        # Also if the job is to end.
        _end([process for process in runners if process.is_alive()])
    others.finish()
    seen = others.seen()
    shared = {"disturbed_by": "; ".join(seen.disturbers), "taken": seen.taken}
    return [{**_run_of(half), **shared, "processors": this_node.listed(half.processors)} for half in both]


def _run_half(half: Half, collect: List[str], local_ranks: int, parent: int) -> None:
    """Run one side in this process, which is the runner's child, and write its part of the record."""
    output = Path.cwd() / half.output
    processes.die_with_parent(parent, signal.SIGTERM)
    processes.adopt_orphans()
    processes.begin_anew()
    os.sched_setaffinity(0, half.processors)
    os.chdir(contract.DUET + "/" + half.side)
    run = run_once(half.script, output, half.limit, collect, local_ranks, alone=False)
    (output / RUN).write_text(json.dumps({**run, "output": str(half.output)}))


def _run_of(half: Half) -> Dict[str, Any]:
    """Read and remove the record that a process wrote of its run.

    :raises HalvesError: there is none.
    """
    path = half.output / RUN
    if not path.exists():
        raise HalvesError(f"{half.side} could not be begun on processors {this_node.listed(half.processors)}")
    run: Dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return run


def has_failed(run: Dict[str, Any]) -> bool:
    """Return whether a run ended badly."""
    return run["status"] != 0 or run["timed_out"] or run["printed_too_much"]


def _end(living: Sequence[Any]) -> None:
    """End the processes that still run, with SIGTERM first, then SIGKILL."""
    for process in living:
        process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in living:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
