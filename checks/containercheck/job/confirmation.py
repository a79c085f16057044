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

If no rule's remedy takes the failure away, the likeliest one without a decision gets more rounds. If it does not help,
the differences themselves are halved (explain/halving.py), and the remaining one is proven like any cause. That takes
twice as long as the rounds, or three minutes.
"""

import argparse
import collections
import contextlib
import math
import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from containercheck.job import contract, start_ranks, texts
from containercheck.job.build import file_trees
from containercheck.job.explain import explanation, halving
from containercheck.job.explain.causes import ENDED_BEFORE, ENDING_WELL, PREFIX, Cause, Change
from containercheck.job.explain.explanation import Endings, Explaining
from containercheck.job.explain.time_spent import STAGES, Stages
from containercheck.job.launch import Launch
from containercheck.job.outputs.evaluation import Evaluation, Place
from containercheck.job.outputs.experiments import Experiments, Remedy, disagreement
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import DIFFER, HANG, RANKS, STATUS, TIMES, UNREADABLE, WRONG, Problem, read_run
from containercheck.job.remedies import PATIENCE, SPARE, Remedies
from containercheck.job.runner import Runner
from containercheck.job.start_ranks import NotStarted
from containercheck.job.stats.pairs import FAIL, PASS
from containercheck.job.verdict.comparison import BUSY, CONFIRMED, REFUTED, UNCONFIRMED, Confirmed

#: Least seconds of a confirmation; and its longest duration as a multiple of the rounds', within their allowed time.
LEAST, LONGER = 20.0, 4.0
#: Fewest fresh rounds that can speak against a failure without passing.
FEWEST = 3
#: Most remedies of ranks that do not start: their starts take seconds.
MOST_OF_START = 9
#: Beginning of the name of a side with runs that print the times of their stages.
TIMED = "timed_"
#: Kinds of problems of runs that ended badly.
BADLY = (HANG, RANKS, STATUS, UNREADABLE, WRONG, DIFFER)
#: Runs a side, or starts its ranks, and returns whether that ended well.
EndsWell = Callable[[str], bool]


class Confirmation:
    """Run the second phase of a job.

    :param arguments: of the command line (rounds.py).
    :param facts: of the job.
    :param runner: runs the sides, and keeps the record.
    :param rounds: the first phase.
    :param not_started: by side, the reason why its ranks do not start.
    :ivar confirmed: by side and failed metric.
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
        self._remedies = Remedies(facts, runner)
        self._remedies.seconds_of_start.update({name: error.seconds for name, error in not_started.items()})
        # For starts of sides, and for remedies of bad ends: the reason of each failure; empty for a good end.
        self._ends: Dict[str, List[str]] = {name: [str(error)] for name, error in not_started.items()}
        self._explaining = Explaining(facts, runner.record["runs"])
        self._fresh: Optional[Evaluation] = None
        # Each of them proves one remedy.
        self._proving: List[Evaluation] = []
        # Lines about differences that were halved without a result.
        self._halved: List[str] = []
        # Stages of a run of a slow container, and of the side that it is compared with.
        self._stages: Dict[str, Stages] = {}
        self._first: Dict[Place, Tuple[int, int]] = {}
        self._why = "the job was ended"

    @property
    def _evaluation(self) -> Evaluation:
        evaluation: Evaluation = self._rounds.evaluation
        return evaluation

    @property
    def _experiments(self) -> List[Experiments]:
        """The trials of remedies, in the rounds that confirm and in those that prove."""
        return [each.experiments for each in (self._fresh, *self._proving) if each]

    @property
    def _failed(self) -> List[Place]:
        return [place for place, pairs in self._evaluation.pairs.items() if pairs.verdict == FAIL]

    def run(self, number: int) -> None:
        """Confirm failures and try remedies, if anything failed that allows it.

        :param number: of the last round.
        """
        took, allowed = self._rounds.seconds, self._arguments.seconds or math.inf
        self._remedies.begin(number, max(LEAST, took, min(allowed, LONGER * took)) if number else PATIENCE)
        failed, ended = self._failed, self._ended_in_container()
        # Problems of a lost side do not affect the others.
        problems = [problem for problem in self._evaluation.problems if problem.side not in self._evaluation.lost]
        try:
            for name in self._not_started:
                # If they come up, the start fails by chance.
                if self._facts.remedies and not self._starts_well(name):
                    causes = [*start_ranks.causes(name, self._not_started[name].library)]
                    self._explain_end(name, causes, MOST_OF_START, self._starts_well)
            if ended:
                self._explain_end(ended, [], self._facts.remedies, self._ends_well)
            if failed and not problems and not self._evaluation.emulated:
                self._first = {place: self._counts(place) for place in failed}
                self._confirm(failed)
                self._time_stages()
                self._halve_slowness()
        finally:
            self._remedies.end()

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
        chance = [name for name in self._not_started if "" in self._ends[name]]
        labels = [side.label for side in self._facts.sides if side.name in chance]
        return [
            *(f"while this was confirmed, {problem}" for problem in problems),
            *(
                f"{label}: started again in the same way, its ranks came up: the start fails at times"
                for label in labels
            ),
        ]

    @property
    def seconds(self) -> float:
        """Seconds that it took, or has taken so far."""
        return self._remedies.seconds

    @property
    def confirmed(self) -> Dict[Place, Confirmed]:
        """The result of the fresh rounds, by side and failed metric; without fresh rounds, failures stand.

        A job that was ended before has no fresh rounds; a metric that first failed in fresh rounds has no others.
        """
        return {} if self._evaluation.emulated else {place: self._said_of(place) for place in self._failed}

    def explain(self) -> Tuple[List[Dict[str, Any]], str]:
        """Return the possible causes of failures, and the line about the time of the worst metric."""
        badly = collections.Counter(side for side, _ in self._bad_runs())
        runs = collections.Counter(run["side"] for run in self._runner.record["runs"])
        endings = {side: Endings(count, runs[side]) for side, count in badly.items()}
        for name in self._not_started:
            ends = self._ends[name]
            endings[name] = Endings(len(ends) - ends.count(""), len(ends))
        ended = [
            each._replace(result=self._result_of(each.remedy.name))
            for each in self._remedies.tried
            if each.remedy.name in self._ends
        ]
        causes = self._explaining.explain_end(endings, ended)
        slow, line = self._explain_slowness()
        return [*causes, *slow], line

    def lines(self, causes: Sequence[Mapping[str, Any]]) -> List[str]:
        """Return the lines of a failure's message about its causes; a failure of a container alone has at least one."""
        ended = self._ended_in_container() or any("" not in self._ends[name] for name in self._not_started)
        has_failed = ended or any(said.result in (CONFIRMED, UNCONFIRMED) for said in self.confirmed.values())
        return [*explanation.lines(causes), *self._halved] or ([explanation.UNSEEN] if has_failed else [])

    def _result_of(self, name: str) -> Dict[str, Any]:
        """Return the outcome of a remedy for a bad end, in the form of the record."""
        ends = self._ends[name]
        failed = next(filter(None, ends), "")
        return {"name": name, "failed": failed, "ended_well": ends.count(""), "metrics": {}}

    def _explain_slowness(self) -> Tuple[List[Dict[str, Any]], str]:
        standing = {place for place, confirmed in self.confirmed.items() if confirmed.result not in (BUSY, REFUTED)}
        known = {result["name"]: result for each in self._experiments for result in each.results()}
        # Leave out trials for a failure that was refuted.
        kept = [
            each._replace(result=known[each.remedy.name])
            for each in self._remedies.tried
            if each.remedy.name in known and {(each.remedy.of, metric) for metric in each.remedy.metrics} & standing
        ]
        return self._explaining.explain_slowness(self._evaluation, standing, kept, self._stages)

    def _counts(self, place: Place) -> Tuple[int, int]:
        pairs = self._evaluation.pairs[place]
        return pairs.rounds, pairs.above_tolerance

    def _said_of(self, place: Place) -> Confirmed:
        taken, first = self._part_taken(), self._first.get(place) or self._counts(place)
        if self._is_longer_by_others(place, taken):
            return Confirmed(BUSY, 0, *first, f"others used {100 * taken:.0f} % of the node")
        pairs = self._fresh.pairs.get(place) if self._fresh else None
        if pairs is None:
            return Confirmed(UNCONFIRMED, 0, *first, self._why)
        within = pairs.rounds >= FEWEST and pairs.lowest <= (pairs.estimate or 0.0) <= pairs.highest
        said = CONFIRMED if pairs.verdict == FAIL else REFUTED if pairs.verdict == PASS or within else UNCONFIRMED
        return Confirmed(said, pairs.rounds, *first, self._why)

    def _part_taken(self) -> float:
        """Return the part of the node that others used while the sides ran, from 0 to 1."""
        runs = self._runner.record["runs"]
        taken = sum(run.get("taken", 0.0) * run["seconds"] for run in runs)
        return float(taken / (sum(run["seconds"] for run in runs) or 1.0))

    def _is_longer_by_others(self, place: Place, taken: float) -> bool:
        """Return whether a difference of times would be accepted if others had left the node to this job.

        Processes on shared processors take longer, at most in proportion to the part that others use. In a ratio that
        cancels: both sides wait. In a difference it does not: the start of a container waits, and bare has none.
        """
        (metric,) = (metric for metric in self._facts.metrics if metric.name == place.metric)
        pairs = self._evaluation.pairs[place]
        is_time = metric.compare == "difference" and metric.unit in TIMES
        return is_time and pairs.lowest <= (pairs.estimate or 0.0) * (1 - taken) <= pairs.highest

    # Slow containers.

    def _confirm(self, failed: Sequence[Place]) -> None:
        """Run fresh rounds of all failed comparisons, and of remedies."""
        sides = self._compared({name for name, _ in failed})
        # Remedies must leave time for as many rounds as failed first. Those of an earlier job took none of this job's.
        first = min(first for first, _ in self._first.values())
        rounds = (1 + SPARE) * max(FEWEST, min(self._remedies.number, first))
        remedies: List[Remedy] = []
        for cause, of, metrics in self._explaining.slow(self._evaluation, failed):
            if len(remedies) < self._facts.remedies:
                runs = [*sides, *(each.of for each in remedies), of]
                remedy = self._remedies.add(cause, of, metrics, rounds * self._remedies.took(runs))
                remedies += [remedy] if remedy else []
        self._fresh = Evaluation(self._facts.of_sides(sides), Path(), remedies, failed)
        print("confirming: {}".format(", ".join(f"{metric} of {name}" for name, metric in failed)), flush=True)
        self._why = self._run_rounds(self._fresh, sides, [each.of for each in remedies])
        print(f"no more fresh rounds after {self.seconds:.0f} s", flush=True)

    def _run_rounds(self, fresh: Evaluation, sides: Sequence[str], repeated: Sequence[str], trying: int = 0) -> str:
        """Run rounds of the sides and of the remedies; return the reason why there are no more.

        :param repeated: the side that each remedy repeats.
        :param trying: number of first rounds that leave out a useless remedy.
        """
        longest = self._remedies.took([*sides, *repeated])
        while not fresh.repeated():
            if not (fresh.more_would_tell() or fresh.experiments.more_would_tell(len(fresh.rounds))):
                return "more rounds would not decide"
            # A round that cannot end in time does not begin.
            if longest > self._remedies.left:
                return "the time was used up"
            began, counted = time.monotonic(), len(fresh.rounds)
            self._remedies.round(fresh, sides)
            longest = max(longest, time.monotonic() - began)
            if len(fresh.rounds) > counted:
                self._evaluation.count(fresh.rounds[-1])
                if len(fresh.rounds) <= trying:
                    fresh.experiments.drop_useless(len(fresh.rounds))
        return "runs failed"

    def _compared(self, names: Any) -> List[str]:
        """Return some sides and the sides that they are compared with, in their order."""
        wanted = {side.compared_with for side in self._facts.sides if side.name in names} | set(names)
        return [side.name for side in self._facts.sides if side.name in wanted]

    def _time_stages(self) -> None:
        """Run a slow container and the side that it is compared with once more, with words that print their stages."""
        name = next((place.side for place, said in self.confirmed.items() if said.result == CONFIRMED), "")
        if not name or not self._facts.remedies:
            return
        self._remedies.number += 1
        for side in filter(self._remedies.has_time, self._compared([name])):
            timed = self._remedies.make(side, Change(PREFIX, STAGES), f"{TIMED}{side}").name
            began = time.monotonic()
            run = self._remedies.run(timed)
            # The clock of the runs is /proc/uptime, without the time in which a machine was suspended.
            printed = texts.tail(Path(run["output"], contract.ERR))
            self._stages[side] = Stages.read(printed, began, began + run["seconds"])

    def _halve_slowness(self) -> None:
        """Prove the likeliest difference of the first slow container without a helpful remedy, or halve them all.

        A rule may name the difference that halving finds in many steps, and its remedy had no time before.
        """
        name, metrics = next(iter(self._unexplained().items()), ("", {}))
        if not name or not self._facts.remedies:
            return
        self._allow_halving()
        likely = self._explaining.slow(self._evaluation, [Place(name, metric) for metric in metrics])
        in_vain = self._in_vain()
        named = next((cause for cause, _, _ in likely if cause.change and cause.change not in in_vain), None)
        if not (named and self._proves(named, name, metrics)):
            found = self._halving(name, False).in_rounds(metrics)
            if found:
                self._proves(found, name, metrics)

    def _proves(self, cause: Cause, name: str, metrics: Dict[str, float]) -> bool:
        """Run fresh rounds of a container and one remedy, which the first ones may leave out; return whether it helps.

        :param metrics: the overhead of each slow metric.
        """
        sides = self._compared([name])
        rounds = halving.ROUNDS_OF_STEP * self._remedies.took([*sides, name])
        remedy = self._remedies.add(cause, name, metrics, (1 + SPARE) * rounds, again=True)
        if not remedy:
            return False
        proving = Evaluation(self._facts.of_sides(sides), Path(), [remedy], ())
        self._proving.append(proving)
        self._run_rounds(proving, sides, [name], halving.ROUNDS_OF_STEP)
        return FAIL in proving.experiments.helps(remedy.name)

    def _unexplained(self) -> Dict[str, Dict[str, float]]:
        """Return the overheads of confirmed failures by side, if no remedy helps and two rounds can decide."""
        found: Dict[str, Dict[str, float]] = {}
        for place, said in self.confirmed.items():
            pairs = self._evaluation.pairs[place]
            overhead, spread = pairs.estimate or 0.0, pairs.assumed_spread or pairs.spread or 0.0
            if said.result == CONFIRMED and overhead > halving.LARGE * spread:
                found.setdefault(place.side, {})[place.metric] = overhead
        for tried in self._remedies.tried:
            if self._fresh and FAIL in self._fresh.experiments.helps(tried.remedy.name):
                found.pop(tried.remedy.of, None)
        return found

    def _allow_halving(self) -> None:
        self._remedies.allow(max(halving.LEAST, halving.LONGER * self._rounds.seconds))

    def _halving(self, name: str, ends: bool) -> halving.Halving:
        """Return the search among the differences of a container.

        :param ends: whether its runs end badly.
        """
        seen, start = self._explaining.seen(name), Launch(name).container
        kinds = halving.kinds_of(*seen, os.environ, start, ends, self._in_vain())
        return halving.Halving(self._facts, self._remedies, name, kinds, self._halved)

    def _in_vain(self) -> List[Optional[Change]]:
        """Return the remedies that did not help: a run ended badly, or less than half of an overhead disappeared."""
        return [
            each.cause.change
            for each in self._remedies.tried
            if any(self._ends.get(each.remedy.name, ()))
            or any(each.remedy.name in of.failed or PASS in of.helps(each.remedy.name) for of in self._experiments)
        ]

    # Containers that end, hang, or do not start.

    def _explain_end(self, name: str, causes: Sequence[Cause], most: int, ends_well: EndsWell) -> None:
        """Try remedies of a container that ends or hangs; if none ends well once, halve its differences.

        :param causes: that are tried before those of the rules.
        :param most: remedies that may be tried in this job.
        """
        self._try_remedies(name, [*causes, *self._explaining.ending(name)], most, ends_well)
        has_helped = any(self._ends.get(each.remedy.name, ["?"])[0] == "" for each in self._remedies.tried)
        # Without a remedy it may also end by chance.
        if has_helped or "" in self._ends.get(name, ()) or not self._facts.remedies:
            return
        if self._rounds.seconds:
            self._allow_halving()
        found = self._halving(name, True).at_once(ends_well)
        if found:
            self._try_remedies(name, [found], len(self._remedies.tried) + 1, ends_well)

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

    def _try_remedies(self, name: str, causes: Iterable[Cause], most: int, ends_well: EndsWell) -> None:
        """Run a container that ends or hangs once more with each remedy, until one ends well often enough."""
        for cause in causes:
            if len(self._remedies.tried) >= most or not self._remedies.has_time(name):
                return
            remedy = self._remedies.add(cause, name, {})
            if not remedy:
                continue
            self._remedies.number += 1
            names = [remedy.name, name]
            self._runner.coin.shuffle(names)
            well = {each: ends_well(each) for each in names}
            ends = self._ends[remedy.name]
            while not any(ends) and len(ends) < ENDING_WELL and self._remedies.has_time(remedy.name):
                self._remedies.number += 1
                ends_well(remedy.name)
            # If the container also ends well without the remedy, it fails by chance, and nothing can be proven.
            if well[name] or ends.count("") == ENDING_WELL:
                return

    def _ends_well(self, name: str) -> bool:
        """Run a side, or a remedy, once; return whether it ended well, with right answers."""
        run, of = self._remedies.run(name), self._remedies.repeated(name)
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
                text = f"answers differ: {why}"
                self._evaluation.problems.append(Problem(DIFFER, name, self._remedies.number, text))
        return self._noted(name, why)

    def _answers_of(self, name: Optional[str]) -> Dict[str, Any]:
        """Return the answers of the last run of a side that ended well."""
        runs = [run for run in self._runner.record["runs"] if run["side"] == name and run["status"] == 0]
        values = read_run(runs[-1], self._facts, Path(), runs[-1]["side"]).values if runs else None
        return dict(values.answers) if values else {}

    def _starts_well(self, name: str) -> bool:
        """Start the ranks of a side, or of a remedy, once; return whether they came up as one job."""
        began = time.monotonic()
        came_up = start_ranks.RankStart(name).comes_up()
        self._remedies.seconds_of_start[name] = time.monotonic() - began
        return self._noted(name, "" if came_up else "its ranks did not start")

    def _noted(self, name: str, why: str) -> bool:
        """Record why a run or a start failed, empty if it ended well; return whether it did."""
        self._ends.setdefault(name, []).append(why)
        return not why
