"""The verdict on paired rounds, asked after every round: signed ranks against group-sequential boundaries.

Of each round, d is by how much the subject is worse than the baseline: the logarithm of the ratio, or the difference.
A *bound* is judged by the means of two rounds (Walsh averages, each round with itself too). How many of the
n (n + 1) / 2 lie above it is Wilcoxon's signed-rank statistic (Wilcoxon, Biometrics Bulletin 1, 1945; that it counts
Walsh averages: Tukey 1949). If rounds are independent and d is symmetric about the bound, the signs are fair coins
whatever their sizes, and one table of integers, ``boundaries.json``, serves every noise. It spends the error
probability alpha as alpha sqrt(n / 40) over the rounds (Lan and DeMets, Biometrika 70, 1983): a look after each of them
is paid for. ci/benchmarks/boundaries.py makes the table; ci/benchmarks/detection.py shows what is promised, and where
the promise ends (rounds that are correlated, a spread that grows).

Promised, for independent and symmetric rounds whose spread has no trend, F figures in a check:

* whose overhead is the highest accepted: the check fails in at most 5 %, a figure passes in at most 5 %;
* without overhead at all, or in the middle of an expected range: the check fails in at most 1 %;
* ending early (time, hopelessness) can only leave verdicts open.

Standard library only, Python 3.6 or newer: the job asks after each round, ReFrame's side once more from the record.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import Iterable, List, Optional, Tuple

from containercheck.verdict import openness, prospects, robust
from containercheck.verdict.boundaries import HORIZON, boundary, reaches
from containercheck.verdict.prior import Prior

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

#: Rounds from which on a correlation is told.
ENOUGH_TO_CORRELATE = 6
#: What figures differ by when they are equal but for rounding, relative to their size. A sum of two d that close to
#: twice the bound is a tie: another libm must not come to another verdict.
ROUNDING = 1e-9


class _Bound:
    """A bound on d, with the counts of Walsh averages above and below it; either may be infinite."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.above = 0
        self.below = 0

    def add(self, changes: List[float], slacks: List[float]) -> None:
        """Count the Walsh averages of the last change with all."""
        new, slack = changes[-1] - 2 * self.value, slacks[-1]
        for old, own in zip(changes, slacks):
            twice = old + new
            if twice > slack + own:
                self.above += 1
            elif twice < -slack - own:
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
    :param figures: how many figures are judged together in the check.
    :param expected: the overhead that the range is about, where that is not its middle.
    :param prior: how far rounds are known to scatter; None where that is not known.
    :raises ValueError: one of them is none of these, or the range accepts nothing.
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
    ) -> None:
        """Begin without rounds."""
        if better not in ("higher", "lower"):
            raise ValueError(f"better is {better!r}, not 'higher' or 'lower'")
        if compare not in ("ratio", "difference"):
            raise ValueError(f"compare is {compare!r}, not 'ratio' or 'difference'")
        self.better, self.compare, self.lowest, self.highest, self.figures = better, compare, lowest, highest, figures
        low, high = self._change(lowest), self._change(highest)
        if not lowest < highest or low == math.inf or high == -math.inf:
            raise ValueError(f"no overhead lies between {lowest!r} and {highest!r}")
        self._two_ended = math.isfinite(low) and math.isfinite(high)
        if expected is None:
            expected = (lowest + highest) / 2 if self._two_ended else max(min(0.0, highest), lowest)
        if not lowest <= expected <= highest:
            raise ValueError(f"{expected!r} is expected, but {lowest!r} to {highest!r} accepted")
        self._low, self._high, self._target = _Bound(low), _Bound(high), _Bound(self._change(expected))
        self._row = 2 * figures if self._two_ended else figures
        boundary("fail", 1, self._row)  # refuses too many figures
        self._accepted = prospects.Accepted(low, high, self._target.value, self._row)
        self.prior = prior
        self.decided_after: Optional[int] = None
        self._verdict = INCONCLUSIVE
        self.changes: List[float] = []
        self._slacks: List[float] = []

    def _change(self, overhead: float) -> float:
        """Return d for an overhead in percent or in the unit."""
        if self.compare == "difference":
            return overhead
        if self.better == "higher":
            return -math.log1p(-overhead / 100) if overhead < 100 else math.inf
        return math.log1p(overhead / 100) if overhead > -100 else -math.inf

    def _overhead(self, change: float) -> float:
        """Return the overhead for a d."""
        if self.compare == "difference" or math.isinf(change):
            return change
        try:
            return 100 * math.expm1(change) if self.better == "lower" else -100 * math.expm1(-change)
        except OverflowError:
            return math.copysign(math.inf, change)

    def add(self, baseline: float, subject: float) -> None:
        """Append the figures of one round, in the figure's unit, and judge anew unless there is a verdict.

        :raises ValueError: one is not finite, or not positive in a ratio. Nothing is appended then.
        """
        baseline, subject = float(baseline), float(subject)
        if not (math.isfinite(baseline) and math.isfinite(subject)):
            raise ValueError(f"figures must be finite, not {baseline!r} and {subject!r}")
        if self.compare == "ratio":
            if baseline <= 0 or subject <= 0:
                raise ValueError(f"a ratio needs positive figures, not {baseline!r} and {subject!r}")
            # Not the logarithm of the quotient: this is exactly the negative when the sides are swapped.
            change, slack = math.log(subject) - math.log(baseline), ROUNDING
        else:
            change, slack = subject - baseline, ROUNDING * (abs(subject) + abs(baseline))
        self.changes.append(-change if self.better == "higher" else change)
        self._slacks.append(slack)
        for bound in (self._low, self._high, self._target):
            bound.add(self.changes, self._slacks)
        if self._verdict == INCONCLUSIVE and self.rounds <= HORIZON:
            self._verdict = self._judge()
            self.decided_after = None if self._verdict == INCONCLUSIVE else self.rounds

    def _judge(self) -> str:
        passing = boundary("pass", self.rounds)
        low_is_kept = self._low.value == -math.inf or reaches(self._low.above, passing)
        if low_is_kept and reaches(self._high.below, passing):
            return PASS
        failing, clear = (boundary(kind, self.rounds, self._row) for kind in ("fail", "zero"))
        if reaches(self._high.above, failing) and reaches(self._target.above, clear):
            return FAIL
        if reaches(self._low.below, failing) and reaches(self._target.below, clear):
            return FAIL
        return INCONCLUSIVE

    @property
    def rounds(self) -> int:
        """How many pairs there are."""
        return len(self.changes)

    @property
    def verdict(self) -> str:
        """``pass``, ``fail`` or ``inconclusive``."""
        return self._verdict

    @property
    def estimate(self) -> Optional[float]:
        """The overhead in percent or the unit: the median of the Walsh averages (Hodges and Lehmann 1963).

        None without rounds. Like every estimate after an early end it is a little bolder than the truth, most so for
        figures that fail early.
        """
        return self._overhead(robust.median(robust.walsh(self.changes))) if self.changes else None

    @property
    def interval(self) -> Tuple[float, float]:
        """The overheads that the rounds so far do not exclude: a low and a high end, in percent or the unit.

        Repeated confidence intervals (Jennison and Turnbull 1989): the Walsh averages at the counts of the verdict, so
        that in the round where a verdict falls the interval lies on its side of what is accepted. The high end of a
        tolerance is at the count to pass, its low end at that to fail, and not above the target while that is not
        excluded by the stricter count. Both ends of an expected range are at the count to pass. Infinite while no count
        is enough.
        """
        walsh, rounds = robust.walsh(self.changes), self.rounds
        count = boundary("pass", rounds)
        lower = count
        if self._low.value == -math.inf:
            lower = boundary("fail", rounds, self._row)
            clear = boundary("zero", rounds, self._row)
        low = -math.inf if lower is None else walsh[-lower]
        high = math.inf if count is None else walsh[count - 1]
        if self._low.value == -math.inf and not reaches(self._target.above, clear):
            low = min(low, self._target.value)
        return self._overhead(low), self._overhead(high)

    @property
    def open_kind(self) -> Optional[str]:
        """Why the verdict is open: ``slower``, ``faster``, ``close`` or ``noisy`` (see openness.py); else None."""
        if self._verdict != INCONCLUSIVE:
            return None
        scale = robust.scale(self.changes) if self.rounds > 1 else None
        return openness.kind(self.changes, self._accepted, scale)

    @property
    def bound(self) -> Optional[float]:
        """The largest overhead that the rounds do not exclude, in percent or the unit; None while there is none."""
        high = self.interval[1]
        return high if math.isfinite(high) else None

    @property
    def contradicted(self) -> bool:
        """Whether the rounds spread so much more than is known of them that only their ranks decide."""
        return False

    @property
    def above_tolerance(self) -> int:
        """In how many rounds the overhead was above the highest that is accepted."""
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
        """How much rounds scatter: 1.4826 times the median absolute deviation of d, a standard deviation if normal.

        In percent (100 times d's) or the unit; None for fewer than two rounds.
        """
        return None if self.rounds < 2 else robust.scale(self.changes) * (100 if self.compare == "ratio" else 1)

    @property
    def hopeless(self) -> bool:
        """Whether even rounds up to the horizon would leave it open, most probably. False once there is a verdict."""
        return self._verdict == INCONCLUSIVE and prospects.hopeless(self.changes, self._accepted)

    @property
    def rounds_needed(self) -> Optional[int]:
        """About how many rounds in all would decide it, if centre and spread stay as they are.

        ``decided_after`` where there is a verdict; None where more than the horizon would be needed, or with fewer than
        two rounds.
        """
        if self._verdict != INCONCLUSIVE:
            return self.decided_after
        return prospects.rounds_needed(self.changes, self._accepted)


def outcome(pairs_of_figures: Iterable[Pairs]) -> str:
    """Return the verdict on a check: ``fail`` if any figure failed, ``pass`` if all passed, else ``inconclusive``.

    A check without figures passes, as there is nothing to be compared.
    """
    verdicts = [pairs.verdict for pairs in pairs_of_figures]
    if FAIL in verdicts:
        return FAIL
    return INCONCLUSIVE if INCONCLUSIVE in verdicts else PASS


def more_would_tell(pairs_of_figures: Iterable[Pairs], rounds: int) -> bool:
    """Return whether a check needs another round, and has something to expect of it.

    Not if every figure has its verdict or one failed, or at the horizon. Nor, from round 10 on, if every open figure is
    :attr:`Pairs.hopeless`: what users see is a verdict per figure, so one that may still come is waited for.

    :param rounds: how many rounds are complete.
    """
    figures = list(pairs_of_figures)
    if outcome(figures) != INCONCLUSIVE or rounds >= HORIZON:
        return False
    return not all(pairs.hopeless for pairs in figures if pairs.verdict == INCONCLUSIVE)
