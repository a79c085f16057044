"""The verdict on paired rounds, asked after every round: two tests against group-sequential boundaries.

Of each round, d is by how much the subject is worse than the baseline: the logarithm of the ratio, or the difference.
A *bound* is judged by two tests; either of them decides.

* **Signed ranks** trust no distribution: how many means of two rounds (Walsh averages, each round with itself too) lie
  above the bound is Wilcoxon's signed-rank statistic (Wilcoxon, Biometrics Bulletin 1, 1945; Tukey 1949). If rounds
  are independent and d is symmetric about the bound, the signs are fair coins whatever their sizes, and one table of
  integers serves every noise. They decide from round 6 on.
* **A moderated t** (moderated.py) uses sizes, and how far this figure's rounds are known to spread: on a quiet node it
  decides after two rounds. Where the rounds contradict what is known, three times as much is taken to be known.

Each spends its part of the error probability alpha as alpha sqrt(n / 40) over the rounds (Lan and DeMets, Biometrika
70, 1983): a look after each of them is paid for. ci/benchmarks/boundaries.py makes the table, ``boundaries.json``;
ci/benchmarks/detection.py shows what is promised, and where the promise ends (rounds that are correlated, a spread that
grows, or one that is twice what was known).

Promised, for independent and symmetric rounds whose spread has no trend and is at most what is known of it (by ranks
alone: any), F figures in a check:

* whose overhead is the highest accepted: the check fails in at most 5 %, a figure passes in at most 5 %;
* without overhead at all, or in the middle of an expected range: the check fails in at most 1 %;
* ending early (time, hopelessness) can only leave verdicts open.

Standard library only, Python 3.6 or newer: the job asks after each round, ReFrame's side once more from the record.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import List, Optional, Tuple

from containercheck.node.stats import openness, prospects, robust
from containercheck.node.stats.boundaries import HORIZON, boundary, critical, reaches
from containercheck.node.stats.moderated import Moderated
from containercheck.node.stats.prior import Prior
from containercheck.node.stats.scale import Scale

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

#: Fewest rounds for a correlation.
ENOUGH_TO_CORRELATE = 6


class Bound:
    """A bound on d, with the counts of Walsh averages above and below it; it may be infinite."""

    def __init__(self, value: float) -> None:
        """Begin without rounds."""
        self.value = value
        self.above = 0
        self.below = 0

    def add(self, changes: List[float], slacks: List[float]) -> None:
        """Count the Walsh averages of the last change with all."""
        last, last_slack = changes[-1] - 2 * self.value, slacks[-1]
        for change, slack in zip(changes, slacks):
            twice = change + last
            if twice > last_slack + slack:
                self.above += 1
            elif twice < -last_slack - slack:
                self.below += 1


class Pairs:
    """The figures of both sides, round by round, and the verdict on the overhead. It keeps its first verdict.

    The overhead is positive where the subject is worse: 100 (subject / baseline - 1) where lower is better,
    100 (1 - subject / baseline) where higher is; for ``difference``, subject - baseline or baseline - subject.

    ``pass``: below the highest accepted by the table's count, and above the lowest if there is one. ``fail``: above the
    highest (or below the lowest) by the count for so many figures, **and** clear of the *target*, the overhead that is
    as it should be, by a stricter count. With an enormous spread any tolerance is as good as none, and without that
    second condition a good subject would fail almost as often as one at the tolerance. The target is

    * for a tolerance, no overhead; the highest itself where that is negative, as then no overhead is a failure;
    * for a range with two ends, ``expected``, or its middle (in percent or the unit, as references are given);
    * for a lowest alone, no overhead, or the lowest itself where that is positive.

    A range with two ends can fail on either, so it counts as two figures.

    :param better: ``higher`` or ``lower``.
    :param compare: ``ratio`` or ``difference``.
    :param lowest: lowest accepted overhead, in percent (``ratio``) or the figure's unit; minus infinity where only a
        tolerance is given.
    :param highest: highest accepted, in the same.
    :param figures: number of figures that are judged together in the check.
    :param expected: the overhead that is expected in the range, where that is not its middle.
    :param prior: the known spread of the rounds; None where it is not known.
    :param may_gain: whether no gain is a question, however large: the subject is to take the baseline's place.
    :raises ValueError: a parameter has another value, or the range accepts nothing.
    :ivar decided_after: the number of rounds after which the verdict fell, or None.
    :ivar changes: d of each round: in log scale, or in the figure's unit; positive is worse.
    """

    def __init__(
        self,
        better: str,
        compare: str,
        lowest: float,
        highest: float,
        figures: int,
        expected: Optional[float] = None,
        prior: Optional[Prior] = None,
        may_gain: bool = False,
    ) -> None:
        """Begin without rounds."""
        self._scale = Scale(better, compare)
        if prior and not 0 < prior.spread < math.inf:
            raise ValueError(f"a known spread must be positive, not {prior.spread!r}")
        self.better, self.compare, self.lowest, self.highest, self.figures = better, compare, lowest, highest, figures
        low, high = self._scale.change(lowest), self._scale.change(highest)
        if not lowest < highest or low == math.inf or high == -math.inf:
            raise ValueError(f"no overhead lies between {lowest!r} and {highest!r}")
        self._two_ended = math.isfinite(low) and math.isfinite(high)
        if expected is None:
            expected = (lowest + highest) / 2 if self._two_ended else max(min(0.0, highest), lowest)
        if not lowest <= expected <= highest:
            raise ValueError(f"{expected!r} is expected, but {lowest!r} to {highest!r} accepted")
        target = self._scale.change(expected)
        self._low, self._high, self._target = Bound(low), Bound(high), Bound(target)
        self._row = self._row_among(figures)
        boundary("fail", 1, self._row)  # refuses too many figures
        self._accepted = prospects.Accepted(low, high, target, self._row)
        self.prior, self._may_gain = prior, may_gain
        self._t = Moderated(prior.spread / self._scale.unit if prior else None)
        self.decided_after: Optional[int] = None
        self._verdict, self._asks, self._gain_keeps_open = INCONCLUSIVE, False, False
        self.changes: List[float] = []
        self._slacks: List[float] = []

    def add(self, baseline: float, subject: float) -> None:
        """Append the figures of one round, in the figure's unit, and judge anew unless there is a verdict.

        :raises ValueError: one is not finite, or not positive in a ratio. Then nothing is appended.
        """
        change, slack = self._scale.between(float(baseline), float(subject))
        self.changes.append(change)
        self._slacks.append(slack)
        self._t.add(change)
        for bound in (self._low, self._high, self._target):
            bound.add(self.changes, self._slacks)
        self._decide()

    def judge_beside(self, failed: int) -> None:
        """Judge an open figure anew among fewer figures.

        :param failed: number of the other figures that have failed (see together.py).
        """
        if self._verdict == INCONCLUSIVE and not self._asks:
            self._row = self._row_among(max(1, self.figures - failed))
            self._accepted = self._accepted._replace(figures=self._row)
            self._decide()

    def _row_among(self, figures: int) -> int:
        """Return the number of figures of the row of boundaries: a range with two ends counts twice."""
        return 2 * figures if self._two_ended else figures

    def _decide(self) -> None:
        """Set the verdict that the rounds allow, unless there is one."""
        if self._verdict == INCONCLUSIVE and not self._asks and 0 < self.rounds <= HORIZON:
            self._verdict = self._judge()
            self.decided_after = self.rounds if self._verdict != INCONCLUSIVE or self._asks else None

    def _is_above(self, bound: Bound, kind: str) -> bool:
        """Whether d lies above a bound, by either test."""
        margin = self._t.margin(critical(kind, self.rounds, self._row))
        is_far = margin < math.inf and self._t.mean - bound.value >= margin
        return is_far or reaches(bound.above, boundary(kind, self.rounds, self._row))

    def _is_below(self, bound: Bound, kind: str, figures: int) -> bool:
        """Whether d lies below a bound, by either test."""
        margin = self._t.margin(critical(kind, self.rounds, figures))
        is_far = margin < math.inf and bound.value - self._t.mean >= margin
        return is_far or reaches(bound.below, boundary(kind, self.rounds, figures))

    def _judge(self) -> str:
        low_is_kept = self._low.value == -math.inf or self._is_above(self._low, "pass")
        self._gain_keeps_open = False
        if low_is_kept and self._is_below(self._high, "pass", self._row):
            self._gain_keeps_open = self._asks_or_waits()
            return INCONCLUSIVE if self._gain_keeps_open else PASS
        if self._is_above(self._high, "fail") and self._is_above(self._target, "zero"):
            return FAIL
        if self._is_below(self._low, "fail", self._row) and self._is_below(self._target, "zero", self._row):
            return FAIL
        return INCONCLUSIVE

    def _asks_or_waits(self) -> bool:
        """Whether a figure that would pass gains so much that it is a question, or may become one."""
        far = openness.far(self._accepted, self._t.scale or robust.scale(self.changes))
        if self._may_gain or self._low.value > -math.inf or robust.median(robust.walsh(self.changes)) >= far:
            return False
        self._asks = self._ends()[1] < far and self._is_below(self._target, "zero", openness.RARELY)
        return self._asks or self.rounds < openness.UNTIL

    @property
    def rounds(self) -> int:
        """The number of pairs."""
        return len(self.changes)

    @property
    def verdict(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``."""
        return self._verdict

    @property
    def estimate(self) -> Optional[float]:
        """The overhead in percent or the unit: the median of the Walsh averages (Hodges and Lehmann 1963).

        None without rounds. Like every estimate after an early end it is a little bolder than the truth, most so for
        figures that fail early. Where a few wild rounds pull the mean away from it, it stays within the interval.
        """
        if not self.changes:
            return None
        low, high = self._ends()
        return self._scale.overhead(min(max(low, robust.median(robust.walsh(self.changes))), high))

    @property
    def interval(self) -> Tuple[float, float]:
        """The overheads that the rounds so far do not exclude: a low and a high end, in percent or the unit.

        Repeated confidence intervals (Jennison and Turnbull 1989): what neither of the tests excludes, at the
        boundaries of the verdict, so that in the round where a verdict falls the interval lies on its side of what is
        accepted. The high end of a tolerance is at the boundary to pass, its low end at that to fail, and not above the
        target while that is not excluded by the stricter one. Both ends of an expected range are at the boundary to
        pass. Infinite while no boundary can be reached.
        """
        low, high = self._ends()
        return self._scale.overhead(low), self._scale.overhead(high)

    def _ends(self) -> Tuple[float, float]:
        """Return the interval as d."""
        walsh, rounds, middle = robust.walsh(self.changes), self.rounds, self._t.mean
        kind = "pass" if self._low.value > -math.inf else "fail"
        lower, upper = boundary(kind, rounds, self._row), boundary("pass", rounds)
        below, above = (self._t.margin(critical(name, rounds, self._row)) for name in (kind, "pass"))
        low = max(middle - below, -math.inf if lower is None else walsh[-lower])
        high = min(middle + above, math.inf if upper is None else walsh[upper - 1])
        if kind == "fail" and not self._is_above(self._target, "zero"):
            low = min(low, self._target.value)
        return min(low, high), max(low, high)

    @property
    def open_kind(self) -> Optional[str]:
        """Why the verdict is open: ``slower``, ``faster``, ``close`` or ``noisy`` (see openness.py); else None."""
        if self._verdict != INCONCLUSIVE:
            return None
        if self._asks:
            return openness.FASTER
        kind = openness.kind(self.changes, self._forecast, self._t.scale)
        return openness.NOISY if self._may_gain and kind == openness.FASTER else kind

    @property
    def gain_keeps_open(self) -> bool:
        """Whether it is within what is accepted, and open because its gain is a question, or may become one."""
        return self._gain_keeps_open

    @property
    def may_fail(self) -> bool:
        """Whether an open figure lies outside of what is accepted, and not only by chance: the next round may tell."""
        kind = self.open_kind
        return kind == openness.SLOWER or (kind == openness.FASTER and self._low.value > -math.inf)

    @property
    def bound(self) -> Optional[float]:
        """The largest overhead that the rounds do not exclude, in percent or the unit; None while there is none."""
        high = self.interval[1]
        return high if math.isfinite(high) else None

    @property
    def contradicted(self) -> bool:
        """Whether the rounds spread more than is known of them; then :attr:`assumed_spread` counts instead."""
        return self._t.contradicted

    @property
    def assumed_spread(self) -> Optional[float]:
        """The spread that counts as known, in percent or the unit: a multiple of it where rounds contradict it."""
        return None if self._t.assumed is None else self._t.assumed * self._scale.unit

    @property
    def _forecast(self) -> prospects.Accepted:
        """The range, boundaries and known spread for forecasts."""
        return self._accepted._replace(known=self._t.assumed)

    @property
    def above_tolerance(self) -> int:
        """The number of rounds whose overhead was above the highest accepted."""
        bound = 2 * self._high.value
        return sum(2 * change - bound > 2 * slack for change, slack in zip(self.changes, self._slacks))

    @property
    def correlation(self) -> Optional[float]:
        """Correlation of successive rounds, by ranks, between -1 and 1; None where it says nothing.

        For n independent rounds it scatters by about 1 / sqrt(n) around -1 / n. Correlation breaks the promises.
        """
        return None if self.rounds < ENOUGH_TO_CORRELATE else robust.correlation(self.changes)

    @property
    def spread(self) -> Optional[float]:
        """The spread of the rounds: 1.4826 times the median absolute deviation of d, a standard deviation if normal.

        In percent (100 times d's) or the unit; None for fewer than two rounds.
        """
        return None if self.rounds < 2 else robust.scale(self.changes) * self._scale.unit

    @property
    def hopeless(self) -> bool:
        """Whether even rounds up to the horizon would leave it open, most probably. False once there is a verdict."""
        if self._verdict != INCONCLUSIVE:
            return False
        return self._asks or prospects.hopeless(self.changes, self._forecast)

    @property
    def rounds_needed(self) -> Optional[int]:
        """About how many rounds in all would decide it, if centre and spread stay as they are.

        ``decided_after`` where there is a verdict; None where more than the horizon would be needed, where it is no
        question of rounds (a gain that is too good), or while nothing is known of the spread.
        """
        if self._verdict != INCONCLUSIVE:
            return self.decided_after
        if self._asks:
            return None
        return openness.UNTIL if self._gain_keeps_open else prospects.rounds_needed(self.changes, self._forecast)

    @property
    def rounds_expected(self) -> int:
        """After about how many rounds a figure on its target is decided, by its known spread; else the horizon."""
        return prospects.rounds_expected(self._forecast)
