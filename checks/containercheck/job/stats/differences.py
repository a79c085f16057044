"""Express a round as d, the difference that is judged, and estimate centre and spread of many d.

d is a log ratio, or a difference in the metric's unit; it is positive where the subject is worse. The estimates of
centre and spread are such that a wild round does not matter.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
import statistics
from typing import List, NamedTuple, Sequence

#: Relative difference of metrics that are equal but for rounding. A mean of two d that close to a bound is a tie:
#: another libm must not come to another verdict.
ROUNDING = 1e-9


class Difference(NamedTuple):
    """d of one round.

    :ivar change: its value.
    :ivar rounding: its error from rounding.
    """

    change: float
    rounding: float


class Scale:
    """The conversion between metrics, overheads and d.

    :param better: ``higher`` or ``lower``.
    :param compare: ``ratio`` or ``difference``.
    :ivar unit: d's unit in overheads: 100 percent, or 1 of the metric's unit.
    """

    def __init__(self, better: str, compare: str) -> None:
        """Keep the direction and the kind of the comparison."""
        self._sign = -1.0 if better == "higher" else 1.0
        self._difference = compare == "difference"
        self.unit = 1.0 if self._difference else 100.0

    def change(self, overhead: float) -> float:
        """Return d for an overhead in percent or in the unit."""
        if self._difference:
            return overhead
        ratio = self._sign * overhead / 100
        return self._sign * (math.log1p(ratio) if ratio > -1 else -math.inf)

    def overhead(self, change: float) -> float:
        """Return the overhead in percent or in the unit for a d."""
        if self._difference or math.isinf(change):
            return change
        try:
            return self._sign * 100 * math.expm1(self._sign * change)
        except OverflowError:
            return math.copysign(math.inf, change)

    def between(self, baseline: float, subject: float) -> Difference:
        """Return d of one round.

        :raises ValueError: a metric is not finite, or not positive in a ratio.
        """
        if not (math.isfinite(baseline) and math.isfinite(subject)):
            raise ValueError(f"metrics must be finite, not {baseline!r} and {subject!r}")
        if self._difference:
            return Difference(self._sign * (subject - baseline), ROUNDING * (abs(subject) + abs(baseline)))
        if baseline <= 0 or subject <= 0:
            raise ValueError(f"a ratio needs positive metrics, not {baseline!r} and {subject!r}")
        # Not the logarithm of the quotient: this is exactly the negative when the sides are swapped.
        return Difference(self._sign * (math.log(subject) - math.log(baseline)), ROUNDING)


def side_value(values: Sequence[float], compare: str) -> float:
    """Return the value of a side in a round that ran it several times, in the metric's unit.

    d of two such values is the mean of the d of their runs: of a ratio it is the geometric mean, else the mean.

    :param values: of each run; where one is not positive, the result has no meaning for a ratio.
    :param compare: ``ratio`` or ``difference``.
    """
    if len(values) == 1:
        return values[0]
    if compare == "ratio" and min(values) > 0:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def walsh_averages(changes: Sequence[float]) -> List[float]:
    """Return the means of all pairs of numbers, each number with itself too, sorted."""
    return sorted((changes[i] + changes[j]) / 2 for i in range(len(changes)) for j in range(i + 1))


def centre(changes: Sequence[float]) -> float:
    """Return the median of the Walsh averages (Hodges and Lehmann 1963)."""
    return statistics.median(walsh_averages(changes))


def spread(changes: Sequence[float]) -> float:
    """Return 1.4826 times the median absolute deviation: the standard deviation, if they are normal."""
    middle = statistics.median(changes)
    return 1.4826 * statistics.median(abs(change - middle) for change in changes)
