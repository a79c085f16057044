"""Compare the metrics of a job's sides; make the messages and the rows of the results.

Standard library only, Python 3.6 or newer.
"""

import math
import re
import statistics
from typing import Any, Collection, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from containercheck.job.outputs.evaluation import Evaluation, Place
from containercheck.job.stats.boundaries import PRIOR_DEGREES
from containercheck.job.stats.forecasts import CLOSE, FASTER, SLOWER, is_believable
from containercheck.job.stats.pairs import FAIL, HORIZON, INCONCLUSIVE, PASS, Pairs
from containercheck.job.texts import number
from containercheck.job.verdict import builds as builds_of
from containercheck.job.verdict.builds import Build

#: Verdict on emulated processors: nothing is judged.
EMULATED = "emulated"
#: Result of the fresh rounds of a failure (job/confirmation.py).
CONFIRMED, REFUTED, UNCONFIRMED, BUSY = "confirmed", "refuted", "unconfirmed", "busy"


#: Largest distance between an estimate and an end of its interval that is still useful. In percent, or in tolerances of
#: a metric that is compared by difference.
FARTHEST, FARTHEST_TOLERANCES = 100.0, 20.0


def says_something(distance: Optional[float], unit: str, tolerance: Optional[float]) -> bool:
    """Return whether an end of an interval is worth printing.

    :param distance: between the end and the estimate, in ``unit``; None without an end.
    :param tolerance: highest accepted overhead; None or 0 if any end of a difference is worth printing.
    """
    if distance is None or not math.isfinite(distance):
        return False
    farthest = FARTHEST if unit == "%" else FARTHEST_TOLERANCES * abs(tolerance or math.inf)
    return abs(distance) <= farthest


class Confirmed(NamedTuple):
    """The result of the fresh rounds of a metric that failed.

    :ivar result: :data:`CONFIRMED`, :data:`REFUTED`, or :data:`UNCONFIRMED` if there were too few; :data:`BUSY` if
        other processes on the node explain the failure.
    :ivar rounds: number of fresh rounds.
    :ivar first: number of rounds in which the metric failed; ``above`` of these exceeded the accepted overhead.
    :ivar why: reason for too few rounds, or the others' part of the node.
    """

    result: str
    rounds: int
    first: int
    above: int
    why: str = "the time was used up"

    def __str__(self) -> str:
        """The rounds of both phases, in words."""
        counts = f"above it in {self.above} of {self.first} rounds"
        if self.result == CONFIRMED:
            return f"{counts}, confirmed in {self.rounds} more"
        if self.result == BUSY:
            return f"{counts}, but {self.why}"
        if self.result == REFUTED:
            return f"{counts}, and not in {self.rounds} more"
        return f"{counts}, not confirmed: {self.why}" + (f" after {self.rounds} more" if self.rounds else "")


class Comparison(NamedTuple):
    """Hold one metric of two sides, over all rounds.

    :ivar baseline_label, subject_label: readable names of the sides.
    :ivar baseline, subject: values of the metric, one a round, in order, in the metric's unit.
    :ivar pairs: both values of each round, with the verdict.
    :ivar expected: whether a reference gives the expected overhead.
    :ivar round_seconds: duration of a round, in s.
    :ivar emulated: whether the nodes' processors are emulated; nothing is judged then.
    :ivar difference: line about both builds if they differ or are proven to be the same; else empty.
    :ivar confirmed: result of the fresh rounds of a failure; None if nothing failed or ran again.
    """

    metric: Any
    baseline_label: str
    subject_label: str
    baseline: Sequence[float]
    subject: Sequence[float]
    pairs: Pairs
    expected: bool
    round_seconds: float
    emulated: bool
    difference: str = ""
    confirmed: Optional[Confirmed] = None

    # The verdict.

    @property
    def verdict(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``; ``emulated`` on emulated processors."""
        if self.emulated:
            return EMULATED
        return INCONCLUSIVE if self.is_refuted else self.pairs.verdict

    @property
    def is_refuted(self) -> bool:
        """Whether it failed, but fresh rounds contradict the failure, or other processes explain it."""
        return self.pairs.verdict == FAIL and self.confirmed is not None and self.confirmed.result in (REFUTED, BUSY)

    @property
    def may_fail(self) -> bool:
        """Whether it is open, and may fail after more rounds."""
        return self.verdict == INCONCLUSIVE and self.pairs.may_fail

    @property
    def open_kind(self) -> str:
        """The reason for an open verdict (job/stats/forecasts.py); empty if there is a verdict."""
        if self.is_refuted:
            return FASTER if self.vanished else SLOWER
        return self.pairs.open_kind or "" if self.verdict == INCONCLUSIVE else ""

    @property
    def vanished(self) -> bool:
        """Whether the overhead is below the range that a reference expects."""
        return self.estimate < self.pairs.lowest

    # Numbers, in words.

    @property
    def estimate(self) -> float:
        """The overhead, in its unit."""
        return self.pairs.estimate or 0.0

    @property
    def unit(self) -> str:
        """Unit of the overhead."""
        return "%" if self.metric.compare == "ratio" else str(self.metric.unit)

    @property
    def interval(self) -> Optional[float]:
        """Half the width of the interval, in the overhead's unit; None if there are too few rounds."""
        low, high = self.pairs.interval
        return (high - low) / 2 if math.isfinite(high - low) else None

    @property
    def size(self) -> str:
        """The overhead without its sign, with its unit."""
        return f"{number(abs(self.estimate), 3)} {self.unit}"

    @property
    def direction(self) -> str:
        """``worse`` or ``better``."""
        return "worse" if self.estimate > 0 else "better"

    @property
    def uncertainty(self) -> str:
        """The interval of the overhead, printed after its size; empty if it is too wide to be useful."""
        if not says_something(self.interval, self.unit, self.pairs.highest):
            return ""
        low, high = self.pairs.interval
        if self.direction == "better":
            low, high = -high, -low
        return f" ({number(low, 2)} to {number(high, 2)} {self.unit})"

    @property
    def _accepted(self) -> str:
        """The accepted overhead, or the range of it, in words."""
        low = "" if math.isinf(self.pairs.lowest) else f"{number(self.pairs.lowest, 3)} to "
        return f"{low}{number(self.pairs.highest, 3)} {self.unit}"

    @property
    def details(self) -> str:
        """The accepted overhead, the number of rounds above it, and both builds if they differ."""
        if self.expected:
            accepted = f"expected: {'at most ' if math.isinf(self.pairs.lowest) else ''}{self._accepted}"
        else:
            accepted = f"tolerance {self.pairs.highest:g} {self.unit}"
        above = f"above it in {self.pairs.above_tolerance} of {self.pairs.rounds} rounds"
        return f"{accepted}; {self.confirmed or above}" + (f"; {self.difference}" if self.difference else "")

    # Messages.

    def __str__(self) -> str:
        """Return one line: the metric, its overhead in this session with the interval, and the accepted overhead."""
        worse = f"{self.size}{self.uncertainty} {self.direction} than {self.baseline_label}"
        return f"{self.metric.name} is {worse} in this session ({self.details})"

    @property
    def failure(self) -> str:
        """The message about a failed comparison."""
        return f"{self}" + (": better than its reference, which needs a new value" if self.vanished else "")

    @property
    def doubt(self) -> str:
        """The message about an open comparison: the known facts, and the way to close it."""
        if self.pairs.open_kind == FASTER and not self.expected:
            return f"{self}: does it compute the same? If it does, add a reference that expects this gain"
        return f"{self}: {self.answer}; {self.remedy}"

    @property
    def answer(self) -> str:
        """The known facts about a metric with an open verdict."""
        kind, bound = self.pairs.open_kind, self.pairs.bound
        if self.is_refuted and self.confirmed:
            once = "fast" if self.vanished else "slow"
            return f"{once}, but {self.confirmed.why}" if self.confirmed.result == BUSY else f"{once} once, not again"
        if kind == SLOWER:
            return "too slow, not yet certain"
        if kind == FASTER and self.expected:
            return "better than its reference, not yet certain"
        if kind == FASTER or self.pairs.gain_keeps_open:
            gain = f"{self.size} better than {self.baseline_label}"
            return f"{gain}: does it compute the same?" if kind == FASTER else f"{gain}, not yet certain"
        parts = []
        if kind == CLOSE:
            parts.append(f"close to the {'range' if self.expected else 'tolerance'}")
        if bound is not None and says_something(bound - self.estimate, self.unit, self.pairs.highest):
            size = f"{number(abs(bound), 2)} {self.unit}"
            parts.append(f"at least {size} better" if bound < 0 else f"at most {size} worse")
        if kind == CLOSE:
            return ", ".join(parts)
        seconds = in_words(self.pairs.rounds * self.round_seconds)
        return "; ".join([*parts, f"{seconds} here is too short to show {self._accepted}"])

    @property
    def remedy(self) -> str:
        """The way to close an open verdict."""
        if self.is_refuted:
            return "run it again, on a quieter machine"
        rounds, needed, spread = self.pairs.rounds, self.pairs.rounds_needed, self.pairs.spread
        if self.pairs.prior and not is_believable(rounds, self.pairs.prior.source):
            return f"too few rounds to tell how many more it takes: {rounds}"
        if needed is not None:
            more = needed - rounds
            return f"about {more} more round{'s' if more != 1 else ''} would decide"
        if spread is None:
            return "one round does not show the spread"
        would = "did" if rounds >= HORIZON else "would"
        return (
            f"{HORIZON} rounds {would} not decide: its rounds spread by {number(spread, 2)} {self.unit}. "
            "It takes longer runs, or a quieter machine"
        )

    # The row.

    @property
    def centre(self) -> float:
        """The subject's metric: the baseline's median, changed by the estimated overhead.

        The median of the subject's own values ignores the pairs of values of a round, so it may contradict the
        overhead.
        """
        middle = statistics.median(self.baseline)
        change = self.estimate if self.metric.better == "lower" else -self.estimate
        return middle + change if self.metric.compare == "difference" else middle * (1 + change / 100)

    def row(self, answers_compared: bool = True) -> Dict[str, Any]:
        """Return the row of the results, in the form of ``results.row.Row``.

        :param answers_compared: whether the check has answers.
        """
        low, high = (end if math.isfinite(end) else None for end in self.pairs.interval)
        lowest = self.pairs.lowest if math.isfinite(self.pairs.lowest) else None
        is_open, prior = self.verdict == INCONCLUSIVE, self.pairs.prior
        return dict(
            baseline_row(self.metric, self.baseline_label, self.baseline),
            subject=self.centre,
            subject_label=self.subject_label,
            subject_error=mean_error(self.subject),
            subject_spread=spread_of(self.subject),
            overhead=self.pairs.estimate,
            overhead_unit=self.unit,
            low=low,
            high=high,
            interval=self.interval,
            accepted=[lowest, self.pairs.highest],
            expected=self.expected,
            verdict=self.verdict,
            rounds=self.pairs.rounds,
            above=self.pairs.above_tolerance,
            spread=self.pairs.spread,
            rounds_needed=self.pairs.rounds_needed if is_open and not self.is_refuted else None,
            round_seconds=round(self.round_seconds, 2),
            open_kind=self.open_kind,
            answer=self.answer if is_open else "",
            known_spread=prior.spread if prior else None,
            known_degrees=prior.degrees if prior else PRIOR_DEGREES,
            spread_source=prior.source if prior else "",
            contradicted=self.pairs.is_contradicted,
            difference=self.difference,
            emulated=self.emulated,
            answers_compared=answers_compared,
            confirmation=self.confirmed.result if self.confirmed else "",
        )


def baseline_row(metric: Any, label: str, values: Sequence[float]) -> Dict[str, Any]:
    """Return the baseline's part of a row; the whole row if nothing is compared.

    :param label: of the side that has the values.
    """
    return dict(
        metric=metric.name,
        unit=metric.unit,
        better=metric.better,
        baseline=statistics.median(values),
        baseline_label=label,
        baseline_error=mean_error(values),
        baseline_spread=spread_of(values),
        scaling=metric.scaling or "",
    )


def in_words(seconds: float) -> str:
    """Return a time in words, rounded.

    >>> [in_words(seconds) for seconds in (7.4, 55, 80, 100, 3600)]
    ['7 s', 'a minute', 'a minute', '2 minutes', '60 minutes']
    """
    if seconds < 50:
        return f"{max(1, round(seconds))} s"
    return "a minute" if seconds < 90 else f"{round(seconds / 60)} minutes"


def mean_error(values: Sequence[float]) -> Optional[float]:
    """Return the mean error sigma / sqrt(n) (D12.6 section 9.2.1), in the unit of the values; None for one value."""
    spread = spread_of(values)
    return None if spread is None else spread / math.sqrt(len(values))


def spread_of(values: Sequence[float]) -> Optional[float]:
    """Return the standard deviation of one side's values over the rounds, in their unit; None for one value.

    This is the dispersion of D12.6, figures 8.4 and 8.11, of bare and of the container separately. The verdict uses the
    spread of the overheads instead: in these, the noise that both sides share cancels.
    """
    return statistics.stdev(values) if len(values) > 1 else None


# All metrics of a job.

#: Message about emulated processors.
NOT_JUDGED = "emulated: overheads are reported, not judged"


class JobOutcome:
    """Compare a job's valid runs.

    :param metrics: declared metrics of the check.
    :param sides: sides of the job; a side may name the side that it is compared with.
    :param evaluation: all rounds, as read.
    :param expected: names of the metrics with an expected overhead (a reference).
    :param builds: the build of each side that prints it; if two sides differ, every line has both.
    :param confirmed: result of the fresh rounds, by side and failed metric.
    :ivar comparisons: one for each metric of each compared side, in the order of the declarations.
    """

    def __init__(
        self,
        metrics: Sequence[Any],
        sides: Sequence[Any],
        evaluation: Evaluation,
        expected: Collection[str],
        builds: Mapping[str, Build],
        confirmed: Mapping[Place, Confirmed],
    ) -> None:
        """Compare the sides."""
        self._sides = {side.name: side for side in sides}
        self._evaluation, self._values = evaluation, evaluation.values()
        self._metrics = {metric.name: metric for metric in metrics if metric.name in self._values}
        self.comparisons = []
        for place, pairs in evaluation.pairs.items():
            subject = self._sides[place.side]
            baseline = self._sides[subject.compared_with]
            values = self._values[place.metric]
            self.comparisons.append(
                Comparison(
                    self._metrics[place.metric],
                    baseline.label,
                    subject.label,
                    values[baseline.name],
                    values[subject.name],
                    pairs,
                    place.metric in expected,
                    evaluation.round_seconds,
                    evaluation.emulated,
                    builds_of.difference(builds.get(baseline.name, {}), builds.get(subject.name, {})),
                    confirmed.get(place),
                )
            )

    @property
    def failures(self) -> List[str]:
        """Lines that name the failed metrics, then the metrics that may fail; empty if none failed."""
        return failure_lines(self.comparisons)

    @property
    def doubts(self) -> List[str]:
        """A line for each open verdict with the way to close it.

        On emulated processors, one line says that nothing is judged.
        """
        lines = [NOT_JUDGED] if self.comparisons and self._evaluation.emulated else []
        lines += [comparison.doubt for comparison in self.comparisons if comparison.verdict == INCONCLUSIVE]
        # No other line names the different builds of metrics that passed.
        passed = [pair for pair in self.comparisons if pair.difference and pair.verdict in (PASS, EMULATED)]
        passed = [pair for pair in passed if not pair.difference.startswith(builds_of.SAME)]
        return lines + list(dict.fromkeys(f"{pair.subject_label}: {pair.difference}" for pair in passed))

    def rows(self) -> List[Dict[str, Any]]:
        """Return a row for each comparison, and for each metric that only one side has.

        A metric of several sides without comparison has no row.
        """
        rows = [comparison.row(self._evaluation.compares_answers) for comparison in self.comparisons]
        for name, metric in self._metrics.items():
            if len(self._values[name]) == 1:
                ((side, values),) = self._values[name].items()
                row = baseline_row(metric, self._sides[side].label, values)
                rows.append({**row, "emulated": self._evaluation.emulated})
        # A value of half a node does not belong to a scaling over nodes.
        return [{**row, "duet": True, "scaling": ""} if self._evaluation.duet else row for row in rows]

    def performance(self) -> Iterator[Tuple[str, float, str]]:
        """Yield name, value and unit of each value that ReFrame logs; a subject's value is named after the metric.

        If several sides are compared, the names end with the subject's label.
        """
        subjects = {comparison.subject_label for comparison in self.comparisons}
        for row in self.rows():
            name, unit = row["metric"], row["unit"]
            if "overhead" not in row:
                yield name, row["baseline"], unit
                continue
            if len(subjects) > 1:
                name += "_" + re.sub(r"\W+", "_", row["subject_label"])
            yield name, row["subject"], unit
            yield f"{name}_baseline", row["baseline"], unit
            yield f"{name}_overhead", row["overhead"], row["overhead_unit"]
            if row["interval"] is not None:
                yield f"{name}_interval", row["interval"], row["overhead_unit"]


def failure_lines(comparisons: Iterable[Comparison]) -> List[str]:
    """Return a line with all failed metrics, and a line for each that may fail; an empty list if none failed.

    A metric that is compared with another side, or better than its reference, has its own line.
    """
    comparisons = list(comparisons)
    groups: Dict[Tuple[str, str, str], List[Comparison]] = {}
    for comparison in comparisons:
        if comparison.verdict == FAIL:
            # Each reference that a metric beats needs its own new value.
            metric = comparison.metric.name if comparison.vanished else ""
            key = (comparison.baseline_label, comparison.subject_label, metric)
            groups.setdefault(key, []).append(comparison)
    messages = [_failed(group) for group in groups.values()]
    return messages + [comparison.doubt for comparison in comparisons if comparison.may_fail] if messages else []


def _failed(group: Sequence[Comparison]) -> str:
    if len(group) == 1:
        return group[0].failure
    sizes = [f"{comparison.metric.name} by {comparison.size}{comparison.uncertainty}" for comparison in group]
    if len({comparison.details for comparison in group}) == 1:
        names = f"{', '.join(sizes)} ({group[0].details})"
    else:
        names = ", ".join(f"{size} ({comparison.details})" for size, comparison in zip(sizes, group))
    return f"{len(group)} metrics are worse than {group[0].baseline_label} in this session: {names}"
