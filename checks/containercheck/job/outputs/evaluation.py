"""Turn runs into rounds, problems and verdicts, in the job after every run.

How a verdict comes about: ``reading`` reads a run, this module adds the values of a round to pairs, ``stats/pairs``
judges these by two tests (``stats/boundaries``), and ``verdict/comparison`` compares the sides, with a line and a row
for each metric.

Standard library only, Python 3.6 or newer.
"""

import collections
import json
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from containercheck.job import contract, texts
from containercheck.job.outputs import reading, reasons
from containercheck.job.outputs.experiments import Experiments, Remedy
from containercheck.job.outputs.facts import Facts, JobSide
from containercheck.job.outputs.reading import DIFFER, Problem, Values
from containercheck.job.stats import pairs as paired
from containercheck.job.stats.boundaries import side_value
from containercheck.job.stats.pairs import Pairs

#: Number of problems of one kind that ends a check: node-hours are not spent on proving it a third time.
ENOUGH = 2
#: Spreads by which a disturbed round must lie off the others to be replaced, and how many rounds there must be for each
#: that is. Simulated (ci/benchmark detection): false verdicts are as rare as promised, whatever part of the rounds is
#: disturbed.
FAR_OFF, REPLACED_OF = 3.0, 4
#: Rounds where processors are emulated: nothing is judged there, and in two each side mostly runs first once.
WHERE_EMULATED = 2


class Place(NamedTuple):
    """The names of a side and of a metric: one comparison of the job."""

    side: str
    metric: str


class Evaluation:
    """All rounds of a job so far: the problems of their runs, their metrics, and the verdict on each.

    :param facts: by which runs are read.
    :param stagedir: directory with the runs' outputs.
    :param remedies: sides that run in the same rounds, and change no verdict.
    :param only: the comparisons that are judged; None for all.
    :ivar rounds: of each complete round side, metric and value; earlier ones first, replaced ones left out.
    :ivar replaced: rounds that were replaced: who disturbed each, by its number.
    :ivar pairs: by side and metric, the pairs of all rounds with their verdict.
    :ivar emulated: whether nothing is judged, because the nodes' processors are emulated.
    :ivar duet: whether both sides run at the same time, on each half of the node once a round.
    :ivar left_out: why rounds of an earlier job do not count, in a line; empty where they do, or there are none.
    :ivar lost: sides that the others are run on without, and why, by their name.
    :ivar experiments: the remedies that run in the same rounds, and change no verdict.
    """

    def __init__(
        self,
        facts: Facts,
        stagedir: Path,
        remedies: Sequence[Remedy] = (),
        only: Optional[Collection[Place]] = None,
    ) -> None:
        """No runs yet."""
        self.experiments = Experiments(facts, remedies)
        self._only = only
        self._facts, self._stagedir = facts, stagedir
        self.emulated, self.duet = facts.emulated, facts.duet is not None
        # With remedies beside them, sides run one after the other.
        self._runs_a_round = 2 if self.duet and not remedies else 1
        self.problems: List[Problem] = []
        self.seconds = 0.0
        self.rounds: List[Dict[str, Dict[str, float]]] = []
        self._ended = 0
        self.replaced: Dict[str, str] = collections.OrderedDict()
        # Of each round in ``rounds``: its number, and who disturbed it; empty where nobody did.
        self._disturbed: List[Tuple[str, str]] = []
        self.pairs: Dict[Place, Pairs] = collections.OrderedDict()
        self._round: Dict[str, List[Values]] = {}
        self._runs: Dict[str, int] = collections.Counter()
        self._leftovers: Dict[str, List[str]] = {}
        self._unprepared = self._read_unprepared()
        self.lost = dict(self._unprepared)
        refused = facts.earlier_refused or other_runtime(facts.earlier_runtimes, stagedir)
        self.left_out = [f"earlier rounds do not count, and all begin anew: {refused}"] if refused else []
        for values in [] if refused else facts.earlier:
            # In one that lacks a side, that side had been lost.
            if all(side.name in values for side in self._left()):
                self.count(values)

    @property
    def compares_answers(self) -> bool:
        """Whether the sides have answers that must agree, or that each must have."""
        return any(answer.side is None for answer in self._facts.answers)

    @property
    def round_seconds(self) -> float:
        """The mean duration of a round, in seconds."""
        return self.seconds / max(1, self._ended)

    # Runs.

    def add(self, run: Dict[str, Any]) -> None:
        """Read one run of the record."""
        side = run["side"]
        if self.experiments.is_remedy(side):
            self.experiments.add(run, self._stagedir)
            return
        # Two runs at the same time take the time of one.
        self.seconds += run["seconds"] / self._runs_a_round
        if run.get("ended_with"):
            # It was ended because the other side's run failed.
            return
        if run["leftover_processes"]:
            self._leftovers.setdefault(side, []).extend(run["leftover_processes"])
        self._runs[side] += 1
        result = reading.read_run(run, self._facts, self._stagedir, side)
        self.problems += result.problems
        if result.values:
            self._round.setdefault(side, []).append(result.values)
        self._compare_answers(run["round"], side)
        self._lose()

    def _answers(self) -> Dict[str, Dict[str, Any]]:
        """Return the answers of the round so far, by side: those of its last run."""
        return {side: runs[-1].answers for side, runs in self._round.items()}

    def _compare_answers(self, number: int, latest: str) -> None:
        """Compare the latest side's answers with those of the sides that it belongs to, in the same round."""
        answers = self._answers()
        for side in self._facts.sides:
            baseline = side.compared_with
            if latest not in (side.name, baseline) or side.name not in answers or baseline not in answers:
                continue
            label = self._facts.side(baseline).label
            for answer in (answer for answer in self._facts.answers if answer.side is None):
                values = answers[baseline][answer.name], answers[side.name][answer.name]
                differ = reading.disagreement(answer, *values, label)
                if differ:
                    text = texts.sanitized(f"answers differ: {differ}")
                    self.problems.append(Problem(DIFFER, side.name, number, text))

    # Sides that the others are run on without.

    def _read_unprepared(self) -> Dict[str, str]:
        """Return the sides that could not be prepared, and why."""
        lost = {}
        for side in self._facts.sides:
            path = self._stagedir / contract.lost_file(side.name)
            if path.exists():
                lost[side.name] = f"it cannot be prepared: {texts.sanitized(reasons.why(texts.tail(path), ''))}"
        return lost

    def _left(self) -> List[JobSide]:
        """Return the sides that are not lost."""
        return [side for side in self._facts.sides if side.name not in self.lost]

    def _lose(self) -> None:
        """Go on without a side that has one problem too often, as long as there is another to judge."""
        repeated = self._repeated_problems()
        for side in self._left():
            others = [other for other in self._left() if other.compared_with is not None and other is not side]
            if side.may_fail and side.name in repeated and others:
                self.lost[side.name] = repeated[side.name]
                # More rounds tell nothing of it.
                for place in [place for place in self.pairs if place.side == side.name]:
                    del self.pairs[place]

    # Rounds.

    def end_round(self, disturbed_by: str = "") -> None:
        """Count the round whose runs were added last, unless one of its runs is not valid.

        :param disturbed_by: who disturbed it; empty where nobody did.
        """
        self._ended += 1
        values = None
        if all(len(self._round.get(side.name, ())) == self._runs_a_round for side in self._left()):
            values = {side.name: self._side_values(self._round[side.name]) for side in self._left()}
            self.count(values, disturbed_by)
        self.experiments.end_round(values, self._answers())
        self._round = {}

    def _replace_one(self) -> None:
        """Leave out the disturbed round that lies farthest off, if that is far, and few were replaced before."""
        places = [place for place, (_, who) in enumerate(self._disturbed) if who]
        if not places or REPLACED_OF * (len(self.replaced) + 1) > len(self.rounds) + len(self.replaced):
            return
        farthest = max(places, key=lambda place: self._distance(self.rounds[place]))
        if self._distance(self.rounds[farthest]) > FAR_OFF:
            number, who = self._disturbed.pop(farthest)
            self.replaced[number] = who
            values = self.rounds.pop(farthest)
            for pairs, pair in self._pairs_of(values):
                pairs.leave_out(*pair)

    def _distance(self, values: Dict[str, Dict[str, float]]) -> float:
        """Return by how many spreads a round lies off the others, in the open metric that is farthest off."""
        return max((pairs.distance(*pair) for pairs, pair in self._pairs_of(values)), default=0.0)

    def _pairs_of(self, values: Dict[str, Dict[str, float]]) -> Iterator[Tuple[Pairs, Tuple[float, float]]]:
        """Yield the pairs of each comparison with a round's values of both sides, where it has both."""
        for place, pairs in self.pairs.items():
            measure = self._facts.side(place.side).compared_with or ""
            baseline, subject = (values.get(side, {}).get(place.metric) for side in (measure, place.side))
            if baseline is not None and subject is not None:
                yield pairs, (baseline, subject)

    def _side_values(self, runs: List[Values]) -> Dict[str, float]:
        """Return a side's metrics of a round, of those that each of its runs has."""
        metrics = [metric for metric in self._facts.metrics if all(metric.name in run.metrics for run in runs)]
        return {
            metric.name: side_value([run.metrics[metric.name] for run in runs], metric.compare) for metric in metrics
        }

    def count(self, values: Dict[str, Dict[str, float]], disturbed_by: str = "") -> None:
        """Add the pairs of a round, and replace one that was disturbed and lies far off the others.

        The first round determines how many metrics are judged together.

        :param values: of each side that ran, by metric.
        :param disturbed_by: who disturbed it.
        """
        if not self.rounds:
            self._begin_pairs(values)
        self.rounds.append(values)
        self._disturbed.append((str(self._ended), disturbed_by))
        for pairs, pair in self._pairs_of(values):
            pairs.add(*pair)
        self._replace_one()

    def _begin_pairs(self, values: Mapping[str, Mapping[str, float]]) -> None:
        having = {side.name: self._facts.metrics_of(side.name) for side in self._left()}
        # One that does not apply to a run of one side is reported as missing, and compared in none.
        complete = [
            metric
            for metric in self._facts.metrics
            if all(metric.name in values[name] for name, metrics in having.items() if metric in metrics)
        ]
        judged = [
            (side, metric)
            for side in self._left()
            for metric in complete
            if side.compared_with is not None and metric in having[side.name] and metric in having[side.compared_with]
            if self._only is None or Place(side.name, metric.name) in self._only
        ]
        for side, metric in judged:
            self.pairs[Place(side.name, metric.name)] = self._facts.new_pairs(side, metric, len(judged))

    def more_would_tell(self) -> bool:
        """Tell whether another round may give a verdict: a metric is open, and its verdict within reach."""
        if not self.rounds:
            return True
        if self.emulated:
            return len(self.rounds) < WHERE_EMULATED
        return paired.more_would_tell(list(self.pairs.values()), len(self.rounds))

    def values(self) -> Dict[str, Dict[str, List[float]]]:
        """Return the values of the rounds in their order, by metric and side."""
        series: Dict[str, Dict[str, List[float]]] = collections.OrderedDict()
        for metric in self._facts.metrics:
            for sides in self.rounds:
                for side, values in sides.items():
                    if metric.name in values:
                        series.setdefault(metric.name, {}).setdefault(side, []).append(values[metric.name])
        return series

    # Problems.

    def repeated(self) -> Optional[str]:
        """Return the problem that one side has had so often that the check ends; None while there is none."""
        problems = (why for side, why in self._repeated_problems().items() if side not in self.lost)
        return next(problems, None)

    def _repeated_problems(self) -> Dict[str, str]:
        """Return the problem of each side that has had one too often."""
        runs = {(problem.kind, problem.side, problem.round) for problem in self.problems}
        counts = collections.Counter((kind, side) for kind, side, _ in sorted(runs))
        repeated: Dict[str, str] = collections.OrderedDict()
        for (kind, side), count in counts.items():
            if count >= ENOUGH:
                repeated.setdefault(side, f"{kind} of {side}, {count} times")
        return repeated

    def final_problems(self) -> List[str]:
        """Return the reasons why the runs are invalid, a line each, after the last run."""
        lines = [f"{self._facts.side(name).label}: {why}" for name, why in self._unprepared.items()]
        lines += reading.lines(self.problems, self._runs)
        for side in self._facts.sides:
            left = self._leftovers.get(side.name, [])
            if left and side.compared_with is not None and side.compared_with not in self._leftovers:
                lines.append(
                    "{} leaves processes behind when it ends, which {} does not: {}".format(
                        side.name, self._facts.side(side.compared_with).label, ", ".join(sorted(set(left)))
                    )
                )
        return lines or self._lost_metrics()

    def _lost_metrics(self) -> List[str]:
        """Return a line for each metric that only some of the runs have, even where it does not apply to the others.

        One that the first round lacks has no verdict.
        """
        lines = []
        names = {side.name: {metric.name for metric in self._facts.metrics_of(side.name)} for side in self._left()}
        for name, series in self.values().items():
            counts = {side: len(series.get(side, [])) for side, metrics in names.items() if name in metrics}
            # Rounds that confirm have only the sides that they are about.
            if any(count < sum(side in values for values in self.rounds) for side, count in counts.items()):
                lines.append(f"metric {name} is missing in some runs of {len(self.rounds)} rounds: {counts}")
        return lines

    @property
    def not_applicable(self) -> List[str]:
        """The line that names the metrics that no run has; none where there are no such metrics, or no rounds."""
        names = [metric.name for metric in self._facts.metrics if metric.name not in self.values()]
        if not names or not self.rounds:
            return []
        return [f"not judged, as the program says that it does not apply here: {', '.join(names)}"]


def other_runtime(earlier: Dict[str, Dict[str, str]], stagedir: Path) -> str:
    """Return which side's runtime on this node differs from that of the earlier job; empty where all are the same."""
    for side in sorted(earlier):
        path = stagedir / contract.runtime_file(side)
        now = json.loads(path.read_text()) if path.exists() else {}
        for name in ("command", "version"):
            if now.get(name) != earlier[side].get(name):
                return f"the runtime of {side} was {earlier[side].get(name)}, and is {now.get(name, 'not known')}"
    return ""
