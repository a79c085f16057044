"""Decide on paired rounds after every round, by two tests against group-sequential boundaries.

For each round, d measures how much worse the subject is: the logarithm of the ratio, or the difference. Two tests judge
each *bound*; either of them decides.

* **Signed ranks** assume no distribution. The count of means of two rounds (Walsh averages, each round with itself too)
  above the bound is Wilcoxon's signed-rank statistic (Wilcoxon, Biometrics Bulletin 1, 1945; Tukey 1949). If rounds are
  independent and d is symmetric about the bound, the signs are fair coins at any size. So one table of integers serves
  every noise. Ranks decide from round 6 on.
* **A moderated t** (boundaries.py) uses sizes and the known spread of this metric's rounds. On a quiet node it decides
  after two rounds. If the rounds contradict the known spread, three times as much is assumed.

Each test spends its part of the error probability alpha as alpha sqrt(n / 40) over the rounds (Lan and DeMets,
Biometrika 70, 1983). This pays for a look after each round. The metrics of a check share the error probability of a
failure evenly. ci/benchmarks/boundaries.py makes the table, ``boundaries.json``. ci/benchmarks/detection.py shows the
promise and its limits: correlated rounds, a growing spread, or twice the known spread.

The promise holds for independent, symmetric rounds with a spread without trend, at most the known one (any spread for
ranks alone). With F metrics in a check:

* with the highest accepted overhead: the check fails in at most 5 %, a metric passes in at most 5 %;
* without overhead, or in the middle of an expected range: the check fails in at most 1 %;
* ending early (no time, or hopeless) can only leave verdicts open.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import bisect
import math
from typing import Collection, List, NamedTuple, Optional, Tuple

from containercheck.job.stats import forecasts
from containercheck.job.stats.boundaries import (
    HORIZON,
    MOST_METRICS,
    PRIOR_DEGREES,
    PriorSpread,
    Scale,
    centre,
    distance,
    moderate,
    rank_boundary,
    spread,
    walsh_averages,
)
from containercheck.job.stats.forecasts import FASTER, NOISY, SLOWER, UNTIL, Accepted

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

#: A check that has failed goes on up to this round while further metrics look too slow; or for one more round if it
#: failed later. This saves node-hours: a check that passes takes as many rounds, or more. Example: of fourteen metrics,
#: three are four times slower and spread by 10 to 40 %. All three fail in 97 of 100 checks, in 2.9 rounds.
NAMED_UNTIL = 4
#: Number of metrics that each metric counts as after one of its rounds was replaced: its boundaries are stricter.
#: Simulated (ci/benchmark detection), a quarter of the rounds spreading five times as much: 4 % pass at the tolerance,
#: and 7.5 % without this rule.
TOGETHER = 3
#: Number of metrics in the row of the stricter boundary that a suspicious gain must reach: 1 % / 10. Without it, 1.5 %
#: of metrics without overhead became suspicious if all rounds differed by as much (simulated).
RARELY = 10


class Prior(NamedTuple):
    """Hold the known spread of a metric's rounds.

    :ivar spread: standard deviation of the overheads of rounds, in percent (100 times that of d) or the metric's unit.
    :ivar source: its source, as in the results: ``12 nights``, ``the check`` or ``default``.
    :ivar degrees: its degrees of freedom (boundaries.DEGREES).
    """

    spread: float
    source: str
    degrees: int = PRIOR_DEGREES


class Pairs:
    """Hold the paired values of a metric, and judge its overhead; the first verdict stays.

    The overhead is positive if the subject is worse: 100 (subject / baseline - 1) if lower is better, 100 (1 - subject
    / baseline) if higher is; for ``difference``, subject - baseline or baseline - subject.

    ``pass``: below the highest accepted by the table's count, and above the lowest if there is one. ``fail``: above the
    highest (or below the lowest) by the count for its number of metrics, **and** clear of the *target* by a stricter
    count. With an enormous spread any tolerance is useless: without the second condition, a good subject would fail
    almost as often as one at the tolerance. The target is the ideal overhead:

    * for a tolerance, no overhead; the highest itself if that is negative, as no overhead is then a failure;
    * for a range with two ends, ``expected``, or its middle (in percent or the unit, as references are given);
    * for a lowest alone, no overhead, or the lowest itself if that is positive.

    A range with two ends can fail on either, so it counts as two metrics.

    A metric that would pass stays open if its gain is suspicious: the subject may not do the same work.

    :param better: ``higher`` or ``lower``.
    :param compare: ``ratio`` or ``difference``.
    :param lowest: lowest accepted overhead, in percent (``ratio``) or the metric's unit; minus infinity for a
        tolerance.
    :param highest: highest accepted, in the same.
    :param metrics: number of metrics that are judged together in the check.
    :param expected: the overhead that is expected in the range; None for its middle.
    :param prior: the known spread of the rounds; None if unknown.
    :param may_gain: whether any gain is accepted, because the subject is to replace the baseline.
    :raises ValueError: the range accepts nothing, or there are more metrics than the table has.
    :ivar verdict: ``pass``, ``fail`` or ``inconclusive``.
    :ivar decided_after: the number of rounds after which the verdict fell, or a gain became suspicious; None before.
    :ivar gain_keeps_open: whether it is within the accepted range, but its gain is suspicious or may become so.
    :ivar changes: d of each round: in log scale, or in the metric's unit; positive is worse.
    """

    def __init__(
        self,
        better: str,
        compare: str,
        lowest: float,
        highest: float,
        metrics: int,
        expected: Optional[float] = None,
        prior: Optional[Prior] = None,
        may_gain: bool = False,
    ) -> None:
        """Begin without rounds."""
        self._scale = Scale(better, compare)
        if prior and not 0 < prior.spread < math.inf:
            raise ValueError(f"a known spread must be positive, not {prior.spread!r}")
        self.compare, self.lowest, self.highest, self.prior = compare, lowest, highest, prior
        low, high = self._scale.change(lowest), self._scale.change(highest)
        if not lowest < highest or low == math.inf or high == -math.inf:
            raise ValueError(f"no overhead lies between {lowest!r} and {highest!r}")
        is_range = math.isfinite(low) and math.isfinite(high)
        if expected is None:
            expected = (lowest + highest) / 2 if is_range else max(min(0.0, highest), lowest)
        if not lowest <= expected <= highest:
            raise ValueError(f"{expected!r} is expected, but {lowest!r} to {highest!r} accepted")
        self._accepted = Accepted(low, high, self._scale.change(expected), 2 * metrics if is_range else metrics)
        rank_boundary("fail", 1, self._accepted.metrics)  # refuses too many metrics
        self._known = PriorSpread(prior.spread / self._scale.unit, prior.degrees) if prior else None
        self._may_gain = may_gain
        self.verdict, self.gain_keeps_open = INCONCLUSIVE, False
        self.decided_after: Optional[int] = None
        self.changes: List[float] = []
        self._averages: List[float] = []
        self._rounding, self._together = 0.0, 1
        self._moderated = moderate([], self._known)

    def add(self, baseline: float, subject: float) -> None:
        """Append the metrics of one round, in the metric's unit, and judge again unless there is a verdict.

        :raises ValueError: a value is not finite, or not positive in a ratio; nothing is appended.
        """
        change, rounding = self._scale.between(float(baseline), float(subject))
        self._rounding = max(self._rounding, rounding)
        self.changes.append(change)
        self._look()

    def leave_out(self, baseline: float, subject: float) -> None:
        """Remove one of the rounds, and judge the others; an existing verdict stays.

        :param baseline, subject: the values as added.
        """
        if self.decided_after is None:
            self.changes.remove(self._scale.between(float(baseline), float(subject)).change)
            self._together = TOGETHER
            self._look()

    def distance(self, baseline: float, subject: float) -> float:
        """Return the distance of a round from the rounds' median, in spreads; 0 if there is a verdict."""
        if self.decided_after is not None:
            return 0.0
        change = self._scale.between(float(baseline), float(subject)).change
        return distance(change, self.changes, self._known and self._known.scale)

    def _look(self) -> None:
        """Judge again unless there is a verdict."""
        self._averages = walsh_averages(self.changes)
        self._moderated = moderate(self.changes, self._known)
        if self.decided_after is None and self.rounds <= HORIZON:
            self._judge()

    def _judge(self) -> None:
        """Set the verdict that the rounds allow."""
        low, high, target, _ = self._accepted
        if (low == -math.inf or self._is_above(low, "pass")) and self._is_below(high, "pass"):
            self._pass_or_ask()
        elif (self._is_above(high, "fail") and self._is_above(target, "zero")) or (
            self._is_below(low, "fail") and self._is_below(target, "zero")
        ):
            self.verdict, self.decided_after, self.gain_keeps_open = FAIL, self.rounds, False
        else:
            self.gain_keeps_open = False

    def _pass_or_ask(self) -> None:
        """Let a metric pass, unless its gain is suspicious or may become so."""
        question = self._accepted.highest_question(self._moderated.scale or spread(self.changes))
        is_tolerance = self._accepted.low == -math.inf
        gains = is_tolerance and not self._may_gain and centre(self.changes) < question
        is_certain = gains and self._ends()[1] < question and self._is_below(self._accepted.target, "zero", RARELY)
        self.gain_keeps_open = is_certain or (gains and self.rounds < UNTIL)
        if not self.gain_keeps_open:
            self.verdict = PASS
        if is_certain or not self.gain_keeps_open:
            self.decided_after = self.rounds

    def _is_above(self, bound: float, kind: str) -> bool:
        """Return whether d lies above a bound, by either test."""
        count = len(self._averages) - bisect.bisect_right(self._averages, bound + self._rounding)
        return self._is_clear(self._moderated.mean - bound, count, kind, self._accepted.metrics)

    def _is_below(self, bound: float, kind: str, metrics: Optional[int] = None) -> bool:
        """Return whether d lies below a bound, by either test.

        :param metrics: number of metrics of the row of boundaries; None for this metric's row.
        """
        count = bisect.bisect_left(self._averages, bound - self._rounding)
        return self._is_clear(bound - self._moderated.mean, count, kind, metrics or self._accepted.metrics)

    def _is_clear(self, distance: float, count: int, kind: str, metrics: int) -> bool:
        """Return whether a test decides, by the mean's distance from a bound or the Walsh averages beyond it."""
        row = self._row(kind, metrics)
        margin = self._moderated.margin(*row)
        is_far = margin < math.inf and distance >= margin
        return is_far or count >= rank_boundary(row[0], self.rounds, row[1])

    def _row(self, kind: str, metrics: int) -> Tuple[str, int]:
        """Return the row of boundaries; ``pass`` uses the row of one metric that fails, which is the same."""
        return ("fail", self._together) if kind == "pass" else (kind, min(self._together * metrics, MOST_METRICS))

    @property
    def rounds(self) -> int:
        """The number of pairs."""
        return len(self.changes)

    @property
    def estimate(self) -> Optional[float]:
        """The overhead in percent or the unit: the median of the Walsh averages (Hodges and Lehmann 1963).

        None without rounds. Like every estimate after an early end it exaggerates a little, most for metrics that fail
        early. If a few wild rounds pull the mean away, the estimate stays within the interval.
        """
        if not self.changes:
            return None
        low, high = self._ends()
        return self._scale.overhead(min(max(low, centre(self.changes)), high))

    @property
    def interval(self) -> Tuple[float, float]:
        """The overheads that the rounds do not exclude: a low and a high end, in percent or the unit.

        These are repeated confidence intervals (Jennison and Turnbull 1989): the values that neither test excludes at
        the boundaries of the verdict. So when a verdict falls, the interval lies on its side of the accepted range.

        - Tolerance: the high end is at the boundary to pass, the low end at the boundary to fail. The low end does not
          exceed the target until the stricter boundary excludes the target.
        - Expected range: both ends are at the boundary to pass.

        The ends are infinite while no boundary can be reached.
        """
        low, high = self._ends()
        return self._scale.overhead(low), self._scale.overhead(high)

    def _ends(self) -> Tuple[float, float]:
        """Return the interval as d."""
        mean, (_, _, target, metrics) = self._moderated.mean, self._accepted
        kind = "pass" if self._accepted.low > -math.inf else "fail"
        rows = [self._row(name, metrics) for name in (kind, "pass")]
        lower, upper = (rank_boundary(name, self.rounds, count) for name, count in rows)
        low, high = mean - self._moderated.margin(*rows[0]), mean + self._moderated.margin(*rows[1])
        if lower <= len(self._averages):
            low = max(low, self._averages[-int(lower)])
        if upper <= len(self._averages):
            high = min(high, self._averages[int(upper) - 1])
        if kind == "fail" and not self._is_above(target, "zero"):
            low = min(low, target)
        return min(low, high), max(low, high)

    @property
    def bound(self) -> Optional[float]:
        """The largest overhead that the rounds do not exclude, in percent or the unit; None if there is none yet."""
        high = self.interval[1]
        return high if math.isfinite(high) else None

    @property
    def open_kind(self) -> Optional[str]:
        """The kind of open verdict: ``slower``, ``faster``, ``close`` or ``noisy`` (see forecasts.py); else None."""
        if self.verdict != INCONCLUSIVE:
            return None
        if self.decided_after is not None:
            return FASTER
        kind = forecasts.open_kind(self.changes, self._accepted, self._moderated.known)
        return NOISY if kind == FASTER and self._may_gain else kind

    @property
    def may_fail(self) -> bool:
        """Whether an open metric is outside of the accepted range, not only by chance; the next round may decide."""
        kind = self.open_kind
        return kind == SLOWER or (kind == FASTER and self._accepted.low > -math.inf)

    @property
    def is_contradicted(self) -> bool:
        """Whether the rounds spread more than is known; :attr:`assumed_spread` then replaces the known spread."""
        known = self._moderated.known
        return known is not None and self._known is not None and known.scale > self._known.scale

    @property
    def assumed_spread(self) -> Optional[float]:
        """The spread that is assumed, in percent or the unit: not the known one if the rounds contradict it."""
        return None if self._moderated.known is None else self._moderated.known.scale * self._scale.unit

    @property
    def spread(self) -> Optional[float]:
        """The spread of the rounds: 1.4826 times the median absolute deviation of d, a standard deviation if normal.

        In percent (100 times d's) or the unit; None for fewer than two rounds.
        """
        return None if self.rounds < 2 else spread(self.changes) * self._scale.unit

    @property
    def above_tolerance(self) -> int:
        """The number of rounds with an overhead above the highest accepted."""
        return sum(change - self._accepted.high > self._rounding for change in self.changes)

    @property
    def is_hopeless(self) -> bool:
        """Whether the metric would probably stay open up to the horizon. False once there is a verdict."""
        if self.verdict != INCONCLUSIVE:
            return False
        return self.decided_after is not None or forecasts.is_hopeless(
            self.changes, self._accepted, self._moderated.known
        )

    @property
    def rounds_needed(self) -> Optional[int]:
        """The approximate number of rounds for a decision, if centre and spread stay as they are.

        ``decided_after`` if there is a verdict. None if more rounds than the horizon are needed, if more rounds do not
        help (a suspicious gain), or if the spread is unknown.
        """
        if self.decided_after is not None:
            return self.decided_after if self.verdict != INCONCLUSIVE else None
        if self.gain_keeps_open:
            return UNTIL
        return forecasts.rounds_needed(self.changes, self._accepted, self._moderated.known)

    @property
    def rounds_expected(self) -> int:
        """The approximate number of rounds to decide a metric on its target, by its known spread; else the horizon."""
        return forecasts.rounds_expected(self._accepted, self._known)


def more_would_tell(metrics: Collection[Pairs], rounds: int) -> bool:
    """Return whether another round may give a check a verdict that it needs.

    False if every metric has its verdict, or at the horizon. From round 10 on, also False if every open metric is
    :attr:`Pairs.is_hopeless`; otherwise the check waits, as users see a verdict for each metric. After a failure, only
    while another metric may fail soon (:attr:`Pairs.may_fail`), up to round :data:`NAMED_UNTIL` or one more.

    :param rounds: number of complete rounds.
    """
    if rounds >= HORIZON:
        return False
    failed = [pairs.decided_after or 0 for pairs in metrics if pairs.verdict == FAIL]
    if failed:
        return rounds < max(NAMED_UNTIL, min(failed) + 1) and any(pairs.may_fail for pairs in metrics)
    return not all(pairs.is_hopeless for pairs in metrics if pairs.verdict == INCONCLUSIVE)
