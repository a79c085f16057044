"""Make remedies, which repeat a side with one change, and run them within the time of the job's second phase.

Standard library only, Python 3.6 or newer.
"""

import itertools
import math
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence

from containercheck.job import contract, observation, processes
from containercheck.job.explain.causes import Cause, Change
from containercheck.job.explain.explanation import Tried
from containercheck.job.launch import Launch
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.experiments import Remedy
from containercheck.job.outputs.facts import Facts
from containercheck.job.runner import Runner

#: Part by which a run may take longer than the one before; without time for that, no run begins.
SPARE = 0.2
#: Least seconds that a run of a remedy may take, if that much time is left; and its longest run, as a multiple of the
#: container's.
LEAST_LIMIT, SLOWEST = 5.0, 3.0
#: Most seconds for unpacking an image.
PATIENCE = 300.0


class Remedies:
    """Keep the remedies of a job, and the time for their runs.

    :param facts: of the job.
    :param runner: runs the sides, and keeps the record.
    :ivar tried: the remedies that the record has, with their causes.
    :ivar number: of the last round.
    :ivar seconds_of_start: duration of the last start of a side's ranks, by the side's name.
    """

    def __init__(self, facts: Facts, runner: Runner) -> None:
        """Begin without remedies."""
        self._facts, self._runner = facts, runner
        self._numbers = itertools.count(1)
        self._repeated: Dict[str, str] = {}
        self._began = self._budget = self._took = 0.0
        self.tried: List[Tried] = []
        self.number = 0
        self.seconds_of_start: Dict[str, float] = {}

    def begin(self, number: int, seconds: float) -> None:
        """Start the clock.

        :param number: of the last round.
        :param seconds: as for :meth:`allow`.
        """
        self.number, self._began = number, time.monotonic()
        self.allow(seconds)

    def allow(self, seconds: float) -> None:
        """Set the seconds that are left for runs; less if the job has less time."""
        self._budget = self.seconds + min(seconds, self._facts.deadline - self._runner.seconds)

    def end(self) -> None:
        """Stop the clock."""
        self._took = self.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the phase took, or has taken so far."""
        return self._took or (time.monotonic() - self._began if self._began else 0.0)

    @property
    def left(self) -> float:
        """Seconds that are left for runs."""
        return self._budget - self.seconds

    def took(self, names: Iterable[str]) -> float:
        """Return the seconds that runs of some sides take, one after the other."""
        return sum(self._runner.took.get(name, 0.0) for name in names)

    def has_time(self, name: str) -> bool:
        """Return whether there is time for another run, or start, of a side."""
        ran = [run["seconds"] for run in self._runner.record["runs"] if run["side"] == name]
        return (1 + SPARE) * max([*ran, self.seconds_of_start.get(name, 0.0)]) <= self.left

    def repeated(self, name: str) -> str:
        """Return the side that a remedy repeats; a side repeats itself."""
        return self._repeated.get(name, name)

    def make(self, of: str, change: Change, name: str = "") -> Launch:
        """Make a side that repeats another one with a change; the record does not mention it.

        :param name: of the new side; by default the next one for remedies.
        """
        mended = Launch(of).with_remedy(name or f"remedy{next(self._numbers)}", change)
        self._repeated[mended.name] = of
        return mended

    def add(
        self, cause: Cause, of: str, metrics: Dict[str, float], kept: float = 0.0, again: bool = False
    ) -> Optional[Remedy]:
        """Make a remedy for the record, if the side can carry it out and no other is the same; observe it.

        :param metrics: as in :class:`Remedy`.
        :param kept: seconds that must be left after it.
        :param again: whether it takes the place of the same one, which had too few rounds.
        """
        change, left = cause.change, self.left - kept
        same = [each for each in self.tried if (each.cause.change, each.remedy.of) == (change, of)]
        if again:
            self.tried = [each for each in self.tried if each not in same]
        elif same:
            return None
        if not change or left <= 0 or not Launch(of).fits(change):
            return None
        mended = self.make(of, change)
        print(f"{mended.name} is {of} with {change.label}", flush=True)
        patience = max(1.0, min(PATIENCE, left))
        try:
            if "image" in mended.words:
                _unpack(mended, patience)
        except OSError as error:
            print(f"{mended.name} is not tried: {error}", flush=True)
            return None
        remedy = Remedy(mended.name, of, metrics)
        self.tried.append(Tried(cause, remedy))
        observation.record(remedy.name, int(mended.container.get("observed", 0)), patience)
        return remedy

    def limit(self, name: str) -> float:
        """Return the seconds that a run may take; for a remedy, which may hang, at most those that are left."""
        of = self.repeated(name)
        if of == name:
            return self._runner.limit(name)
        longest = max(LEAST_LIMIT, SLOWEST * self._runner.took.get(of, math.inf))
        return max(1.0, min(self._runner.limit(of), longest, self.left))

    def run(self, name: str) -> Dict[str, Any]:
        """Run a side, or a remedy, once in the last round; return its part of the record."""
        return self._runner.run(self.number, name, self.limit(name))

    def round(self, evaluation: Evaluation, sides: Sequence[str]) -> None:
        """Run sides and an evaluation's remedies that are not decided, in random order."""
        self.number += 1
        experiments = evaluation.experiments
        names = [*sides, *experiments.left]
        self._runner.coin.shuffle(names)
        for runs in self._runner.turns(self.number, names, self.limit, bool(experiments.names)):
            for run in runs:
                evaluation.add(run)
        evaluation.end_round()


def _unpack(launch: Launch, seconds: float) -> None:
    """Unpack the image of a remedy; if this fails, the remedy's own run fails and leaves it out."""
    Path(launch.words["image"]).mkdir(exist_ok=True)
    command = ["timeout", f"{seconds:g}", "bash", "-c", launch.script(contract.UNPACK)]
    subprocess.run(command, env=processes.environment(), stdin=subprocess.DEVNULL)
