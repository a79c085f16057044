"""Run sides once, and keep the record of all runs (standard library only, Python 3.6 or newer).

Runs print into ``rounds/<round>-<side>/``, where the script of what was run lies too; with swapped halves into
``...-swapped/``. ``rounds.json`` is their record: ``why`` there were no more, ``"complete": true`` if the job came to
its end, ``"judged": true`` if its first phase did, and ``ended`` with the name of the signal if it did not.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from containercheck.job import contract, halves, this_node
from containercheck.job.halves import Half
from containercheck.job.launch import Launch
from containercheck.job.outputs.facts import Facts
from containercheck.job.single_run import describe, run_once

#: Longest run, as a multiple of its baseline's time; and seconds that every run may take.
SLOWEST, LEAST_LIMIT = 20.0, 60.0


class Runner:
    """Runs the sides of a job.

    :param arguments: of the command line (rounds.py).
    :param facts: of the job.
    :param began: start of the job, of the monotonic clock.
    :ivar record: of all runs.
    :ivar coin: random order.
    :ivar took: seconds of the last run of each side that ended well.
    :raises HalvesError: the node has no two halves that are large enough.
    """

    def __init__(self, arguments: argparse.Namespace, facts: Facts, began: float) -> None:
        """Write a record without runs."""
        self._arguments, self._facts, self._began = arguments, facts, began
        self._baselines = {side.name: side.compared_with or "" for side in facts.sides}
        self.took: Dict[str, float] = {}
        # The processors of both halves; empty where sides run one after the other.
        self._halves = halves.halves(facts.duet["cores"], os.sched_getaffinity(0)) if facts.duet else ()
        self._has_directories = False
        seed = int.from_bytes(os.urandom(4), "big")
        self.coin = random.Random(seed)
        self.record: Dict[str, Any] = {
            "host": os.uname().nodename,
            "machine": this_node.facts(),
            "seed": seed,
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
    def at_once(self) -> bool:
        """Whether both sides run at the same time, each on half of the node."""
        return bool(self._halves)

    @property
    def seconds(self) -> float:
        """Seconds since the start of the job."""
        return time.monotonic() - self._began

    def write(self) -> None:
        """Write the record atomically, so that no reader sees half of it."""
        self.record["took"] = round(self.seconds, 3)
        temporary = Path(contract.RECORD + ".tmp")
        temporary.write_text(json.dumps(self.record, indent=1))
        temporary.replace(contract.RECORD)

    def run(self, number: int, side: str, limit: float) -> Dict[str, Any]:
        """Run a side once, and return its part of the record.

        :param number: of the round.
        :param limit: seconds that it may take.
        """
        arguments, output = self._arguments, Path(contract.RUNS, f"{number:02d}-{side}")
        run = run_once(Launch(side).run, output, limit, arguments.collect, arguments.local_ranks)
        return self._added(run, number, side)

    def turns(
        self, number: int, sides: Sequence[str], limit: Optional[Callable[[str], float]] = None
    ) -> Iterator[List[Dict[str, Any]]]:
        """Run the sides of a round, and yield their parts of the record: each by itself, or both that ran at once.

        Two sides at once run on halves of the node, and once more with the halves swapped, unless one has failed.

        :param limit: returns the seconds that a side may take; by default :meth:`limit`.
        """
        if not self._halves:
            for side in sides:
                yield [self.run(number, side, (limit or self.limit)(side))]
            return
        for turn in (sides, sides[::-1]):
            runs = self._run_both(number, turn, turn is not sides)
            yield runs
            if any(map(halves.has_failed, runs)):
                # The round cannot have a pair any more.
                return

    def _run_both(self, number: int, sides: Sequence[str], swapped: bool) -> List[Dict[str, Any]]:
        stagedir = self._facts.duet["stagedir"] if self._facts.duet else ""
        if not self._has_directories:
            halves.make_directories(list(self._baselines))
            self._has_directories = True
        both = [
            Half(
                side,
                halves.script_of(side, stagedir),
                half,
                Path(contract.RUNS, f"{number:02d}-{side}" + "-swapped" * swapped),
                self.limit(side),
            )
            for side, half in zip(sides, self._halves)
        ]
        runs = halves.run_both(both, self._arguments.collect, self._arguments.local_ranks)
        return [self._added(run, number, side) for run, side in zip(runs, sides)]

    def limit(self, side: str) -> float:
        """Return the seconds that a run of a side may take."""
        baseline = self.took.get(self._baselines[side])
        limit: float = self._arguments.limit
        return limit if baseline is None else min(limit, max(LEAST_LIMIT, SLOWEST * baseline))

    def _added(self, run: Dict[str, Any], number: int, side: str) -> Dict[str, Any]:
        run.update({"round": number, "side": side})
        # A failed run may have ended at once, and its time is no measure for other runs.
        if run["status"] == 0:
            self.took[side] = run["seconds"]
        self.record["runs"].append(run)
        self.write()
        where = " on processors {}".format(run["processors"]) if self._halves else ""
        print(f"round {number} {side}{where}: {describe(run)}", flush=True)
        return run
