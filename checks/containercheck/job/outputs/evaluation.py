"""Turn runs into rounds, problems and verdicts, in the job after every run.

``reading`` reads a run, and this module adds the values of a round to pairs. ``stats/pairs`` judges the pairs by two
tests (``stats/boundaries``). ``verdict/comparison`` compares the sides, with a line and a row for each metric.

Standard library only, Python 3.6 or newer.
"""

import collections
from pathlib import Path
from typing import Any, Collection, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from containercheck.job import contract, texts
from containercheck.job.outputs import reading, reasons
from containercheck.job.outputs.experiments import Experiments, Remedy, disagreement
from containercheck.job.outputs.facts import Facts, JobSide
from containercheck.job.outputs.reading import DIFFER, Problem, Values
from containercheck.job.stats import pairs as paired
from containercheck.job.stats.boundaries import side_value
from containercheck.job.stats.pairs import Pairs

#: Number of problems of one kind that ends a check, to save node-hours.
ENOUGH = 2
#: Spreads by which a disturbed round must lie off the others to be replaced; and rounds that are needed for each
#: replaced one. Simulated (ci/benchmark detection): false verdicts are as rare as promised for any part of disturbed
#: rounds.
FAR_OFF, REPLACED_OF = 3.0, 4
#: Rounds on emulated processors: nothing is judged, and in two rounds each side mostly runs first once.
WHERE_EMULATED = 2


class Place(NamedTuple):
    """Name a side and a metric: one comparison of the job."""

    side: str
    metric: str


class Evaluation:
    """Hold all rounds of a job so far: the problems of their runs, their metrics, and the verdict on each.

    :param facts: by which runs are read.
    :param stagedir: directory with the runs' outputs.
    :param remedies: sides that run in the same rounds, and change no verdict.
    :param only: the comparisons that are judged; None for all.
    :ivar rounds: metrics of each complete round, by side and name; earlier rounds first, without replaced ones.
    :ivar replaced: the culprits of replaced rounds, by the round's number.
    :ivar pairs: by side and metric, the pairs of all rounds with their verdict.
    :ivar emulated: whether the nodes' processors are emulated; nothing is judged then.
    :ivar duet: whether both sides run at the same time, on each half of the node once a round.
    :ivar left_out: a line with the reason if rounds of an earlier job do not count; else empty.
    :ivar lost: sides that do not run any more, with the reason, by their name.
    :ivar experiments: the remedies that run in the same rounds, and change no verdict.
    """

    def __init__(
        self,
        facts: Facts,
        stagedir: Path,
        remedies: Sequence[Remedy] = (),
        only: Optional[Collection[Place]] = None,
    ) -> None:
        """Begin without runs."""
        self.experiments = Experiments(facts, remedies)
        self._only = only
        self._facts, self._stagedir = facts, stagedir
        self.emulated, self.duet = facts.emulated, facts.duet is not None
        # Together with remedies, sides run one after the other.
        self._runs_a_round = 2 if self.duet and not remedies else 1
        self.problems: List[Problem] = []
        self.seconds = 0.0
        self._absent: Dict[str, str] = {}
        self.rounds: List[Dict[str, Dict[str, float]]] = []
        self._ended = 0
        self.replaced: Dict[str, str] = collections.OrderedDict()
        # For each round in ``rounds``: its number, and the name of the process that disturbed it or an empty text.
        self._disturbed: List[Tuple[str, str]] = []
        self.pairs: Dict[Place, Pairs] = collections.OrderedDict()
        self._round: Dict[str, List[Values]] = {}
        self._runs: Dict[str, int] = collections.Counter()
        self._leftovers: Dict[str, List[str]] = {}
        self._unprepared = self._read_unprepared()
        self.lost = dict(self._unprepared)
        refused = facts.earlier_refused
        self.left_out = [f"earlier rounds do not count, and all begin anew: {refused}"] if refused else []
        for values in facts.earlier:
            # An earlier round without a side lost that side; it does not count.
            if all(side.name in values for side in self._left()):
                self.count(values)

    @property
    def compares_answers(self) -> bool:
        """Whether the sides have answers that must agree, or must each be correct."""
        return any(answer.side is None for answer in self._facts.answers)

    @property
    def round_seconds(self) -> float:
        """The mean duration of a round, in seconds."""
        return self.seconds / max(1, self._ended)

    # Runs.

    def add(self, run: Dict[str, Any]) -> None:
        """Read one run of the record."""
        side = run["side"]
        if side in self.experiments.names:
            self.experiments.add(run, self._stagedir)
            return
        # Two runs at the same time take the time of one.
        self.seconds += run["seconds"] / self._runs_a_round
        if run["leftover_processes"]:
            self._leftovers.setdefault(side, []).extend(run["leftover_processes"])
        self._runs[side] += 1
        result = reading.read_run(run, self._facts, self._stagedir, side)
        self.problems += result.problems
        if result.values:
            self._round.setdefault(side, []).append(result.values)
            self._absent.update(result.values.absent)
        self._compare_answers(run["round"], side)
        self._lose()

    def _answers(self) -> Dict[str, Dict[str, Any]]:
        """Return the answers of the round so far, by side; from the side's last run."""
        return {side: runs[-1].answers for side, runs in self._round.items()}

    def _compare_answers(self, number: int, latest: str) -> None:
        """Compare the latest side's answers in this round with those of its partners in comparisons."""
        answers = self._answers()
        for side in self._facts.sides:
            baseline = side.compared_with
            if latest not in (side.name, baseline) or side.name not in answers or baseline not in answers:
                continue
            label = self._facts.side(baseline).label
            differ = disagreement(self._facts, answers[side.name], answers[baseline], label)
            if differ:
                text = texts.sanitized(f"answers differ: {differ}")
                self.problems.append(Problem(DIFFER, side.name, number, text))

    # Lost sides: the others run on without them.

    def _read_unprepared(self) -> Dict[str, str]:
        """Return the sides that could not be prepared, with the reason."""
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
        """Drop a side after its second problem of one kind, if another side is left to judge."""
        repeated = self._repeated_problems()
        for side in self._left():
            others = [other for other in self._left() if other.compared_with is not None and other is not side]
            if side.may_fail and side.name in repeated and others:
                self.lost[side.name] = repeated[side.name]
                # More rounds would not decide its metrics.
                for place in [place for place in self.pairs if place.side == side.name]:
                    del self.pairs[place]

    # Rounds.

    def end_round(self, disturbed_by: str = "") -> None:
        """Count the round of the latest runs, unless one of its runs is invalid.

        :param disturbed_by: processes that disturbed it; empty for none.
        """
        self._ended += 1
        values = None
        if all(len(self._round.get(side.name, ())) == self._runs_a_round for side in self._left()):
            values = {side.name: self._side_values(self._round[side.name]) for side in self._left()}
            self.count(values, disturbed_by)
        self.experiments.end_round(values, self._answers())
        self._round = {}

    def _replace_one(self) -> None:
        """Leave out the disturbed round that lies farthest off, if it is far off and few were replaced before."""
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
        """Return the distance of a round from the others, in spreads, for the open metric that is farthest off."""
        return max((pairs.distance(*pair) for pairs, pair in self._pairs_of(values)), default=0.0)

    def _pairs_of(self, values: Dict[str, Dict[str, float]]) -> Iterator[Tuple[Pairs, Tuple[float, float]]]:
        """Yield the pairs of each comparison with the round's values of both sides, if both exist."""
        for place, pairs in self.pairs.items():
            measure = self._facts.side(place.side).compared_with or ""
            baseline, subject = (values.get(side, {}).get(place.metric) for side in (measure, place.side))
            if baseline is not None and subject is not None:
                yield pairs, (baseline, subject)

    def _side_values(self, runs: List[Values]) -> Dict[str, float]:
        """Return the metrics of a side in a round, if each of its runs has them."""
        metrics = [metric for metric in self._facts.metrics if all(metric.name in run.metrics for run in runs)]
        return {
            metric.name: side_value([run.metrics[metric.name] for run in runs], metric.compare) for metric in metrics
        }

    def count(self, values: Dict[str, Dict[str, float]], disturbed_by: str = "") -> None:
        """Add the pairs of a round, and replace a disturbed one that lies far off the others.

        The first round determines how many metrics are judged together.

        :param values: of each side that ran, by metric.
        :param disturbed_by: processes that disturbed it.
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
        # A metric that does not apply to one side's run is reported as missing, and never compared.
        complete = [
            metric
            for metric in self._facts.metrics
            if all(metric.name in values[name] for name, metrics in having.items() if metric in metrics)
        ]
        judged = [
            (side, metric)
            for side in self._left()
            for metric in complete
            if metric in having[side.name] and metric in having.get(side.compared_with or "", ())
            if self._only is None or Place(side.name, metric.name) in self._only
        ]
        for side, metric in judged:
            self.pairs[Place(side.name, metric.name)] = self._facts.new_pairs(side, metric, len(judged))

    def more_would_tell(self) -> bool:
        """Return whether another round may give a verdict: a metric is open, and its verdict within reach."""
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
        """Return the problem that one side has had often enough to end the check; None if there is none yet."""
        problems = (why for side, why in self._repeated_problems().items() if side not in self.lost)
        return next(problems, None)

    def _repeated_problems(self) -> Dict[str, str]:
        """Return the repeated problem of each side that has one."""
        runs = {(problem.kind, problem.side, problem.round) for problem in self.problems}
        counts = collections.Counter((kind, side) for kind, side, _ in sorted(runs))
        repeated: Dict[str, str] = collections.OrderedDict()
        for (kind, side), count in counts.items():
            if count >= ENOUGH:
                repeated.setdefault(side, f"{kind} of {side}, {count} times")
        return repeated

    def final_problems(self) -> List[str]:
        """Return a line for each reason that makes runs invalid, after the last run."""
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
        """Return a line for each metric that only some runs have, even if it does not apply to the others.

        A metric that is missing in the first round has no verdict.
        """
        lines = []
        names = {side.name: {metric.name for metric in self._facts.metrics_of(side.name)} for side in self._left()}
        for name, series in self.values().items():
            counts = {side: len(series.get(side, [])) for side, metrics in names.items() if name in metrics}
            # Confirming rounds have only the sides that failed.
            if any(count < sum(side in values for values in self.rounds) for side, count in counts.items()):
                lines.append(f"metric {name} is missing in some runs of {len(self.rounds)} rounds: {counts}")
        return lines

    @property
    def not_applicable(self) -> List[str]:
        """A line with the metrics that no run has, and the program's reasons; none without rounds."""
        names = [metric.name for metric in self._facts.metrics if metric.name not in self.values()]
        if not names or not self.rounds:
            return []
        told = [f"{name} ({self._absent[name]})" if self._absent.get(name) else name for name in names]
        return [f"not judged, as the program says that it does not apply here: {', '.join(told)}"]
