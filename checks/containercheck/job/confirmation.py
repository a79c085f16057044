"""Confirm failures, and try their likely causes, in the job that found them (standard library only, Python 3.6).

If a metric failed, fresh rounds run the compared sides in random order. The same rounds run the container with each of
the likeliest differences taken away (a *remedy*). The fresh rounds alone decide whether the failure stands. It stands
if they fail too, or if they are too few to contradict it. It does not stand if they pass, or if at least :data:`FEWEST`
lie within the accepted range. A difference is the proven cause if the container is slow without its remedy, and as fast
as bare with it, in the same rounds.

If only runs of the container ended or hung, the container runs once more together with each remedy, the likeliest
first. This ends when a remedy ends well :data:`ENDING_WELL` times. If its ranks do not even start (start_ranks.py),
these runs are starts of the ranks.

This takes as long as the rounds took, or up to four times as long within their allowed time.

If no rule's remedy takes the failure away, the differences themselves are halved (explain/halving.py). Groups of them
are taken back, in two rounds a step, or in one run if runs end badly. The remaining difference is proven like any
cause. That takes at most twice as long as the rounds.
"""

import argparse
import collections
import contextlib
import itertools
import math
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from containercheck.job import contract, observation, processes, start_ranks, texts
from containercheck.job.build import file_trees
from containercheck.job.explain import halving
from containercheck.job.explain.causes import ENDED_BEFORE, ENDING_WELL, PREFIX, Cause, Change
from containercheck.job.explain.explanation import Endings, Explaining, Tried
from containercheck.job.launch import Launch
from containercheck.job.outputs.evaluation import Evaluation, Place
from containercheck.job.outputs.experiments import PART, Remedy, disagreement
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import DIFFER, HANG, RANKS, STATUS, WRONG, Problem, read_run
from containercheck.job.runner import Runner
from containercheck.job.start_ranks import NotStarted
from containercheck.job.stats.pairs import FAIL, PASS, Pairs
from containercheck.job.verdict.comparison import CONFIRMED, REFUTED, UNCONFIRMED, Confirmed

#: Least seconds of a confirmation; and its longest duration as a multiple of the rounds', within their allowed time.
LEAST, LONGER = 20.0, 4.0
#: Fewest fresh rounds that can speak against a failure without passing.
FEWEST = 3
#: Part by which a run may take longer than the one before; without time for that, no run begins.
SPARE = 0.2
#: Least seconds that a run of a remedy may take, if that much time is left; and its longest run, as a multiple of the
#: container's.
LEAST_LIMIT, SLOWEST = 5.0, 3.0
#: Most seconds for unpacking an image, and for starts of ranks in a job without rounds.
PATIENCE = 300.0
#: Most remedies of ranks that do not start: their starts take seconds.
MOST_OF_START = 9
#: Words before a program that print its start time, and name of a container that has them.
TIMED = "timed"
BEGINNING = """sh -c 'read -r now _ </proc/uptime; echo "containercheck: begins at $now" >&2; exec "$@"' sh"""
#: Kinds of problems of runs that ended badly.
BADLY = (HANG, RANKS, STATUS, WRONG, DIFFER)
#: Halving: its least seconds, and its longest duration as a multiple of the rounds'. Then rounds of a step. Last, the
#: ratio of overhead to spread that these rounds need to show that half of the overhead is gone.
LEAST_HALVING, LONGER_HALVING, ROUNDS_OF_STEP, LARGE = 120.0, 2.0, 2, 4.0


class HalvingEnded(Exception):
    """Report that there is no time for another step."""


class Confirmation:
    """Run the second phase of a job.

    :param arguments: of the command line (rounds.py).
    :param facts: of the job.
    :param runner: runs the sides, and keeps the record.
    :param rounds: the first phase.
    :param not_started: by side, the reason why its ranks do not start.
    :ivar confirmed: by side and failed metric.
    :ivar tried: remedies that ran, with their causes.
    :ivar seconds: duration of the phase.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        facts: Facts,
        runner: Runner,
        rounds: Any,
        not_started: Mapping[str, NotStarted],
    ) -> None:
        """Begin without runs."""
        self._arguments, self._facts, self._runner, self._rounds = arguments, facts, runner, rounds
        self._not_started = not_started
        # Whether each start of a side's ranks ended well, and each run or start of a remedy for a bad end.
        self._ended_well: Dict[str, List[bool]] = {name: [False] for name in not_started}
        self._why_failed: Dict[str, str] = {}
        self._seconds_of_start = {name: error.seconds for name, error in not_started.items()}
        self._explaining = Explaining(facts, runner.record["runs"])
        self._fresh: Optional[Evaluation] = None
        self._proving: Optional[Evaluation] = None
        # Groups of differences to halve: remedies that the record does not have.
        self._groups: List[Remedy] = []
        self._numbers = itertools.count(1)
        self._remarks: List[str] = []
        # Seconds before the program begins in a run of a slow container.
        self._before: Dict[str, float] = {}
        self._first: Dict[Place, Tuple[int, int]] = {}
        self.tried: List[Tried] = []
        self._began = self._budget = self._longest = self._took = 0.0
        self._number, self._why = 0, "the job was ended"

    @property
    def _evaluation(self) -> Evaluation:
        evaluation: Evaluation = self._rounds.evaluation
        return evaluation

    def run(self, number: int) -> None:
        """Confirm failures and try remedies, if anything failed that allows it.

        :param number: of the last round.
        """
        self._number = number
        took, allowed = self._rounds.seconds, self._arguments.seconds or math.inf
        wanted = max(LEAST, took, min(allowed, LONGER * took)) if number else PATIENCE
        self._budget = min(wanted, self._facts.deadline - self._runner.seconds)
        self._began = time.monotonic()
        failed = [place for place, pairs in self._evaluation.pairs.items() if pairs.verdict == FAIL]
        ended = self._ended_in_container()
        # Problems of a lost side do not affect the others.
        problems = [problem for problem in self._evaluation.problems if problem.side not in self._evaluation.lost]
        try:
            for name in self._not_started:
                self._try_start(name)
            if ended:
                self._try_remedies(ended, self._explaining.ending(ended), self._facts.remedies, self._ends_well)
                self._halve_end(ended, self._ends_well)
            if failed and not problems and not self._evaluation.emulated:
                self._first = {place: self._counts(place) for place in failed}
                self._confirm(failed)
                self._time_beginning()
                self._halve_slowness()
        finally:
            self._took = self.seconds

    @staticmethod
    def clean_up() -> None:
        """Remove the images that were unpacked for remedies."""
        for path in Path().glob(f"{contract.UNPACKED}.remedy*"):
            # Images have directories without write permission.
            with contextlib.suppress(OSError):
                file_trees.remove(path)

    @property
    def notes(self) -> List[str]:
        """Lines about problems in fresh runs of the sides, and about starts of ranks that fail by chance."""
        problems = self._fresh.final_problems() if self._fresh and self._fresh.problems else []
        chance = [name for name in self._not_started if any(self._ended_well[name])]
        labels = [side.label for side in self._facts.sides if side.name in chance]
        return [
            *self._remarks,
            *(f"while this was confirmed, {problem}" for problem in problems),
            *(
                f"{label}: started again in the same way, its ranks came up: the start fails at times"
                for label in labels
            ),
        ]

    @property
    def seconds(self) -> float:
        """Seconds that it took, or has taken so far."""
        return self._took or (time.monotonic() - self._began if self._began else 0.0)

    @property
    def confirmed(self) -> Dict[Place, Confirmed]:
        """The result of the fresh rounds, by side and failed metric; without fresh rounds, failures stand.

        A job that was ended before has no fresh rounds; a metric that first failed in fresh rounds has no others.
        """
        if self._evaluation.emulated:
            return {}
        failed = [place for place, pairs in self._evaluation.pairs.items() if pairs.verdict == FAIL]
        return {place: self._said_of(place) for place in failed}

    def explain(self) -> Tuple[List[Dict[str, Any]], str]:
        """Return the possible causes of failures, and the line about the time of the worst metric."""
        badly = collections.Counter(side for side, _ in self._bad_runs())
        runs = collections.Counter(run["side"] for run in self._runner.record["runs"])
        endings = {side: Endings(count, runs[side]) for side, count in badly.items()}
        endings.update({name: Endings.of(self._ended_well[name]) for name in self._not_started})
        ended = [
            each._replace(result=self._result_of(each.remedy.name))
            for each in self.tried
            if each.remedy.name in self._ended_well
        ]
        causes = self._explaining.explain_end(endings, ended)
        slow, line = self._explain_slowness()
        return [*causes, *slow], line

    def _result_of(self, name: str) -> Dict[str, Any]:
        """Return the outcome of a remedy for a bad end, in the form of the record."""
        well, failed = self._ended_well[name], self._why_failed.get(name, "")
        return {"name": name, "failed": failed, "ended_well": sum(well), "metrics": {}}

    def _explain_slowness(self) -> Tuple[List[Dict[str, Any]], str]:
        standing = {place for place, confirmed in self.confirmed.items() if confirmed.result != REFUTED}
        evaluations = [each for each in (self._fresh, self._proving) if each]
        known = {result["name"]: result for each in evaluations for result in each.experiments.results()}
        # Leave out trials for a failure that was refuted.
        kept = [
            each._replace(result=known[each.remedy.name])
            for each in self.tried
            if each.remedy.name in known and {(each.remedy.of, metric) for metric in each.remedy.metrics} & standing
        ]
        return self._explaining.explain_slowness(self._evaluation, standing, kept, self._before)

    def _counts(self, place: Place) -> Tuple[int, int]:
        pairs = self._evaluation.pairs[place]
        return pairs.rounds, pairs.above_tolerance

    def _said_of(self, place: Place) -> Confirmed:
        pairs = self._fresh.pairs.get(place) if self._fresh else None
        if pairs is None:
            return Confirmed(UNCONFIRMED, 0, *(self._first.get(place) or self._counts(place)), self._why)
        within = pairs.rounds >= FEWEST and pairs.lowest <= (pairs.estimate or 0.0) <= pairs.highest
        said = CONFIRMED if pairs.verdict == FAIL else REFUTED if pairs.verdict == PASS or within else UNCONFIRMED
        return Confirmed(said, pairs.rounds, *self._first[place], self._why)

    def _confirm(self, failed: Sequence[Place]) -> None:
        """Run fresh rounds of all failed comparisons, and of remedies."""
        sides = self._compared({name for name, _ in failed})
        most = len(self.tried) + self._most_remedies(sides)
        # Remedies must leave time for the fewest rounds.
        kept = FEWEST * sum(self._runner.took.get(name, 0.0) for name in sides)
        for cause, of, metrics in self._explaining.slow(self._evaluation, failed):
            if len(self.tried) < most:
                self._add_remedy(cause, of, metrics, kept)
        remedies = [each.remedy for each in self.tried if each.remedy.metrics]
        # A round that cannot end in time does not begin.
        self._longest = sum(self._runner.took.get(name, 0.0) for name in (*sides, *(each.of for each in remedies)))
        self._fresh = Evaluation(self._facts.of_sides(sides), Path(), remedies, failed)
        print("confirming: {}".format(", ".join(f"{metric} of {name}" for name, metric in failed)), flush=True)
        self._why = "the time was used up"
        self._run_rounds(self._fresh, sides)
        print(f"no more fresh rounds after {self.seconds:.0f} s", flush=True)

    def _time_beginning(self) -> None:
        """Run a slow container once more, with words before its program that print the time."""
        name = next((place.side for place, said in self.confirmed.items() if said.result == CONFIRMED), "")
        if not name or not self._facts.remedies or not self._has_time(name):
            return
        self._number += 1
        timed = Remedy(TIMED, name, {})
        self._groups.append(timed)
        Launch(name).with_remedy(timed.name, Change(PREFIX, BEGINNING))
        began = time.monotonic()
        run = self._runner.run(self._number, timed.name, self._limit(timed.name))
        printed = re.search(
            r"^containercheck: begins at ([\d.]+)$", texts.tail(Path(run["output"], contract.ERR)), re.M
        )
        # The clock of the runs is /proc/uptime, without the time in which a machine was suspended.
        if printed:
            self._before[name] = float(printed[1]) - began

    # Halving.

    def _halve_slowness(self) -> None:
        """Halve the differences of the first slow container that no remedy helps."""
        name, metrics = next(iter(self._unexplained().items()), ("", {}))
        if not name or not self._facts.remedies:
            return
        sides = self._compared([name])
        found = self._halved(name, lambda groups: self._help_in_rounds(name, metrics, groups))
        remedy = self._add_remedy(found, name, metrics) if found else None
        if remedy:
            places = [Place(name, metric) for metric in metrics]
            self._proving, why = Evaluation(self._facts.of_sides(sides), Path(), [remedy], places), self._why
            self._run_rounds(self._proving, sides)
            # The reason of the confirming rounds stands.
            self._why = why

    def _unexplained(self) -> Dict[str, Dict[str, float]]:
        """Return the overheads of confirmed failures by side, if no remedy helps and two rounds can decide."""
        trials = self._fresh.experiments.trials if self._fresh else {}
        found: Dict[str, Dict[str, float]] = {}
        for place, said in self.confirmed.items():
            pairs = self._evaluation.pairs[place]
            overhead, spread = pairs.estimate or 0.0, pairs.assumed_spread or pairs.spread or 0.0
            if said.result == CONFIRMED and overhead > LARGE * spread:
                found.setdefault(place.side, {})[place.metric] = overhead
        for tried in self.tried:
            if any(trial.helps.verdict == FAIL for trial in trials.get(tried.remedy.name, {}).values()):
                found.pop(tried.remedy.of, None)
        return found

    def _halve_end(self, name: str, ends_well: Callable[[str], bool]) -> None:
        """Halve the differences of a container that ends or hangs, unless a remedy helped or it ends by chance.

        :param ends_well: function that runs a side, or starts its ranks, and returns whether that ended well.
        """
        has_helped = any(self._ended_well.get(each.remedy.name, [False])[0] for each in self.tried)
        if not self._facts.remedies or has_helped or any(self._ended_well.get(name, ())):
            return
        found = self._halved(name, lambda groups: self._help_at_once(name, ends_well, groups), ends=True)
        if found:
            self._try_remedies(name, [found], len(self.tried) + 1, ends_well)

    def _halved(self, name: str, helps: halving.Helps, ends: bool = False) -> Optional[Cause]:
        """Return the differences of a container that must be taken back together; None if there are none.

        :param ends: whether its runs end badly.
        """
        if self._rounds.seconds:
            most = max(LEAST_HALVING, LONGER_HALVING * self._rounds.seconds)
            self._budget = self.seconds + min(most, self._facts.deadline - self._runner.seconds)
        label = self._facts.side(name).label
        in_vain = [each.cause.change for each in self.tried if self._is_in_vain(each)]
        kinds = self._explaining.differences(name, os.environ, ends)
        kinds = [[cause for cause in kind if cause.change not in in_vain] for kind in kinds]
        kinds = [kind for kind in kinds if kind]
        count = sum(map(len, kinds))
        try:
            found = halving.culprits(kinds, helps)
        except HalvingEnded:
            self._remarks.append(f"{label}: the time was used up before one of {count} differences was found")
            return None
        if 0 < len(found) <= halving.TOGETHER:
            return halving.together(found)
        if kinds and not found:
            what = f"differences in variables, limits and start commands ({count})"
            self._remarks.append(f"{label}: {what} were taken back in vain")
        return None

    def _is_in_vain(self, tried: Tried) -> bool:
        """Return whether a remedy did not help: a run ended badly, or less than half of an overhead disappeared."""
        name = tried.remedy.name
        fresh = self._fresh.experiments if self._fresh else None
        helps = [trial.helps.verdict for trial in fresh.trials.get(name, {}).values()] if fresh else []
        failed = name in fresh.failed if fresh else False
        return failed or PASS in helps or not all(self._ended_well.get(name, ()))

    def _group(self, name: str, group: Sequence[Cause]) -> str:
        """Make a remedy that takes several differences back; return its name."""
        change = halving.together(group).change
        assert change
        remedy = Remedy(self._new_name(), name, {})
        Launch(name).with_remedy(remedy.name, change)
        self._groups.append(remedy)
        print(f"{remedy.name} is {name} with {len(group)} differences taken back", flush=True)
        return remedy.name

    def _help_in_rounds(self, name: str, metrics: Mapping[str, float], groups: Sequence[Sequence[Cause]]) -> List[bool]:
        """Return which groups of differences take away at least half of each overhead, in each of two rounds.

        The rounds run the container and the remedies that have helped so far, without bare.
        """
        # All run once; usually one of them helps, and runs in the other rounds.
        runs = len(groups) + 1 + 2 * (ROUNDS_OF_STEP - 1)
        if self.seconds + runs * self._runner.took.get(name, 0.0) * (1 + SPARE) > self._budget:
            raise HalvingEnded
        helping = [self._group(name, group) for group in groups]
        remedies = list(helping)
        for _ in range(ROUNDS_OF_STEP):
            self._number += 1
            names = [name, *helping]
            self._runner.coin.shuffle(names)
            values = {each: self._metrics_of_run(each) for each in names}
            helping = [each for each in helping if self._takes_half(metrics, values[each], values[name])]
        return [each in helping for each in remedies]

    def _metrics_of_run(self, name: str) -> Mapping[str, float]:
        """Run a side or a remedy; return its metrics, or none if it fails."""
        run = self._runner.run(self._number, name, self._limit(name))
        result = read_run(run, self._facts, Path(), self._repeats.get(name, name))
        return result.values.metrics if result.values and not result.problems else {}

    def _takes_half(
        self, metrics: Mapping[str, float], mended: Mapping[str, float], container: Mapping[str, float]
    ) -> bool:
        """Return whether a remedy takes away half of each overhead, from one run of it and one of the container."""
        for metric in (metric for metric in self._facts.metrics if metric.name in metrics):
            if metric.name not in mended or metric.name not in container:
                return False
            pairs = Pairs(metric.better, metric.compare, -math.inf, PART * metrics[metric.name], 1)
            pairs.add(mended[metric.name], container[metric.name])
            if not pairs.above_tolerance:
                return False
        return True

    def _help_at_once(
        self, name: str, ends_well: Callable[[str], bool], groups: Sequence[Sequence[Cause]]
    ) -> List[bool]:
        """Return for each group whether a run ends well without it; after the first success, none runs."""
        helped: List[bool] = []
        for group in groups:
            if not self._has_time(name):
                raise HalvingEnded
            self._number += 1
            helped.append(not any(helped) and ends_well(self._group(name, group)))
        return helped

    def _run_rounds(self, fresh: Evaluation, sides: Sequence[str]) -> None:
        """Run rounds of the sides and of the remedies, while they may help to decide."""
        while self._goes_on(fresh):
            self._number += 1
            self._round(fresh, sides)

    def _goes_on(self, fresh: Evaluation) -> bool:
        """Return whether another fresh round may help to decide, and has the time."""
        if fresh.repeated() or not (fresh.more_would_tell() or fresh.experiments.more_would_tell(len(fresh.rounds))):
            self._why = "runs failed" if fresh.repeated() else "more rounds would not decide"
            return False
        return self.seconds + self._longest <= self._budget

    def _round(self, fresh: Evaluation, sides: Sequence[str]) -> None:
        """Run the sides and the remedies that are still tried, in random order."""
        began, counted = time.monotonic(), len(fresh.rounds)
        failed = fresh.experiments.failed
        names = [*sides, *(name for name in fresh.experiments.names if name not in failed)]
        self._runner.coin.shuffle(names)
        in_turn = bool(fresh.experiments.names)
        for runs in self._runner.turns(self._number, names, self._limit, in_turn):
            for run in runs:
                fresh.add(run)
        self._longest = max(self._longest, time.monotonic() - began)
        fresh.end_round()
        if len(fresh.rounds) > counted:
            self._evaluation.count(fresh.rounds[-1])

    def _most_remedies(self, sides: Sequence[str]) -> int:
        """Return the number of remedies for which the time suffices, in as many rounds as the first phase had."""
        run = max((self._runner.took.get(name, 0.0) for name in sides), default=0.0)
        # Rounds of an earlier job took none of this job's time.
        rounds = max(FEWEST, min(self._number, min((first for first, _ in self._first.values()), default=FEWEST)))
        runs = self._budget / (rounds * run * (1 + SPARE)) if run else math.inf
        return max(0, min(self._facts.remedies, int(min(runs, 1e6)) - len(sides)))

    def _compared(self, names: Any) -> List[str]:
        """Return some sides and the sides that they are compared with, in their order."""
        wanted = {side.compared_with for side in self._facts.sides if side.name in names} | set(names)
        return [side.name for side in self._facts.sides if side.name in wanted]

    def _add_remedy(self, cause: Cause, of: str, metrics: Dict[str, float], kept: float = 0.0) -> Optional[Remedy]:
        """Make a remedy, if the side can carry it out and no other is the same; record its observation.

        :param kept: seconds that must be left after it.
        """
        launch, change = Launch(of), cause.change
        same = [each for each in self.tried if (each.cause.change, each.remedy.of) == (change, of)]
        left = self._budget - self.seconds - kept
        if not change or same or left <= 0 or not launch.fits(change):
            return None
        remedy = Remedy(self._new_name(), of, metrics)
        mended = launch.with_remedy(remedy.name, change)
        print(f"{remedy.name} is {of} with {change.label}", flush=True)
        try:
            if "image" in mended.words:
                _unpack(mended, max(1.0, min(PATIENCE, left)))
        except OSError as error:
            print(f"{remedy.name} is not tried: {error}", flush=True)
            return None
        self.tried.append(Tried(cause, remedy))
        observation.record(remedy.name, int(mended.container.get("observed", 0)), max(1.0, min(PATIENCE, left)))
        return remedy

    def _new_name(self) -> str:
        return f"remedy{next(self._numbers)}"

    def _limit(self, name: str) -> float:
        """Return the seconds that a run may take; for a remedy, which may hang, at most the remaining ones."""
        of = self._repeats.get(name)
        if of is None:
            return self._runner.limit(name)
        longest = max(LEAST_LIMIT, SLOWEST * self._runner.took.get(of, math.inf))
        return max(1.0, min(self._runner.limit(of), longest, self._budget - self.seconds))

    def _bad_runs(self) -> Set[Tuple[str, int]]:
        """Return side and round of the runs that ended, hung or had too few ranks."""
        problems = [problem for problem in self._evaluation.problems if problem.kind in BADLY]
        return {(problem.side, problem.round) for problem in problems}

    def _ended_in_container(self) -> str:
        """Return the only container with bad ends in all its runs and none on its baseline; else empty."""
        bad = self._bad_runs()
        failed = {side for side, _ in bad}
        for side in self._facts.sides:
            runs = [run for run in self._runner.record["runs"] if run["side"] == side.name]
            is_alone = failed == {side.name} and side.contained and side.compared_with is not None
            if is_alone and len(runs) >= ENDED_BEFORE and all((side.name, run["round"]) in bad for run in runs):
                return side.name
        return ""

    def _try_start(self, name: str) -> None:
        """Start the ranks of a container again; if they do not come up, also start them with each remedy."""
        if self._facts.remedies and not self._starts_well(name):
            causes = [*start_ranks.causes(name, self._not_started[name].library), *self._explaining.ending(name)]
            self._try_remedies(name, causes, MOST_OF_START, self._starts_well)
            self._halve_end(name, self._starts_well)

    def _try_remedies(self, name: str, causes: Iterable[Cause], most: int, ends_well: Callable[[str], bool]) -> None:
        """Run a container that ends or hangs once more with each remedy, until one ends well often enough.

        :param most: remedies that may be tried in this job.
        :param ends_well: function that runs a side, and returns whether that ended well.
        """
        for cause in causes:
            if len(self.tried) >= most or not self._has_time(name):
                return
            remedy = self._add_remedy(cause, name, {})
            if not remedy:
                continue
            self._number += 1
            names = [remedy.name, name]
            self._runner.coin.shuffle(names)
            well = {each: ends_well(each) for each in names}
            ended_well = self._ended_well[remedy.name]
            while all(ended_well) and len(ended_well) < ENDING_WELL and self._has_time(remedy.name):
                self._number += 1
                ends_well(remedy.name)
            # If the container also ends well without the remedy, it fails by chance, and nothing can be proven.
            if well[name] or sum(ended_well) == ENDING_WELL:
                return

    def _ends_well(self, name: str) -> bool:
        """Run a side, or a remedy, once; return whether it ended well, with right answers."""
        run = self._runner.run(self._number, name, self._limit(name))
        of = self._repeats.get(name, name)
        result = read_run(run, self._facts, Path(), of)
        why = result.problems[0].text if result.problems else ""
        if result.values and not why:
            why = disagreement(self._facts, result.values.answers, self._answers_of(self._facts.side(of).compared_with))
        if name == of:
            known = len(self._evaluation.problems)
            self._evaluation.add(run)
            self._evaluation.end_round()
            if why and len(self._evaluation.problems) == known:
                # There is no run of bare in the same round.
                self._evaluation.problems.append(Problem(DIFFER, name, self._number, f"answers differ: {why}"))
        return self._noted(name, not why, why)

    def _answers_of(self, name: Optional[str]) -> Dict[str, Any]:
        """Return the answers of the last run of a side that ended well."""
        runs = [run for run in self._runner.record["runs"] if run["side"] == name and run["status"] == 0]
        values = read_run(runs[-1], self._facts, Path(), runs[-1]["side"]).values if runs else None
        return dict(values.answers) if values else {}

    def _starts_well(self, name: str) -> bool:
        """Start the ranks of a side, or of a remedy, once; return whether they came up as one job."""
        began = time.monotonic()
        came_up = start_ranks.RankStart(name).comes_up()
        self._seconds_of_start[name] = time.monotonic() - began
        return self._noted(name, came_up, "" if came_up else "its ranks did not start")

    def _noted(self, name: str, is_well: bool, failed: str) -> bool:
        """Record whether a run or a start ended well, and return it."""
        self._ended_well.setdefault(name, []).append(is_well)
        if failed:
            self._why_failed[name] = failed
        return is_well

    @property
    def _repeats(self) -> Dict[str, str]:
        """The side that each remedy repeats with one change."""
        return {remedy.name: remedy.of for remedy in (*(each.remedy for each in self.tried), *self._groups)}

    def _has_time(self, name: str) -> bool:
        """Return whether there is time for another run, or start, of a side."""
        ran = [run["seconds"] for run in self._runner.record["runs"] if run["side"] == name]
        longest = max([*ran, self._seconds_of_start.get(name, 0.0)])
        return self.seconds + (1 + SPARE) * longest <= self._budget


def _unpack(launch: Launch, seconds: float) -> None:
    """Unpack the image of a remedy; if this fails, the remedy's own run fails and leaves it out."""
    Path(launch.words["image"]).mkdir(exist_ok=True)
    command = ["timeout", f"{seconds:g}", "bash", "-c", launch.script(contract.UNPACK)]
    subprocess.run(command, env=processes.environment(), stdin=subprocess.DEVNULL)
