"""Convert figures and overheads to d, the scale on which rounds are judged: a log ratio, or a difference.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import Sequence, Tuple

#: Relative difference of figures that are equal but for rounding. A sum of two d that close to
#: twice the bound is a tie: another libm must not come to another verdict.
ROUNDING = 1e-9


def middle(values: Sequence[float], compare: str) -> float:
    """Return the value of a side in a round that ran it several times.

    d of two such values is the mean of the d of their runs: of a ratio it is the geometric mean, else the mean.

    :param values: one for each run; one that is not positive has no ratio, whatever is returned for it.
    :param compare: ``ratio`` or ``difference``.
    """
    if len(values) == 1:
        return values[0]
    if compare == "ratio" and min(values) > 0:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


class Scale:
    """The conversion between overheads and d, which is positive where the subject is worse.

    :param better: ``higher`` or ``lower``.
    :param compare: ``ratio`` or ``difference``.
    :raises ValueError: one of them has another value.
    :ivar unit: d's unit in overheads: 100 percent, or 1 of the figure's unit.
    """

    def __init__(self, better: str, compare: str) -> None:
        """Check both parameters."""
        if better not in ("higher", "lower"):
            raise ValueError(f"better is {better!r}, not 'higher' or 'lower'")
        if compare not in ("ratio", "difference"):
            raise ValueError(f"compare is {compare!r}, not 'ratio' or 'difference'")
        self._higher, self._difference = better == "higher", compare == "difference"
        self.unit = 1.0 if self._difference else 100.0

    def change(self, overhead: float) -> float:
        """Return d for an overhead in percent or in the unit."""
        if self._difference:
            return overhead
        if self._higher:
            return -math.log1p(-overhead / 100) if overhead < 100 else math.inf
        return math.log1p(overhead / 100) if overhead > -100 else -math.inf

    def overhead(self, change: float) -> float:
        """Return the overhead for a d."""
        if self._difference or math.isinf(change):
            return change
        try:
            return -100 * math.expm1(-change) if self._higher else 100 * math.expm1(change)
        except OverflowError:
            return math.copysign(math.inf, change)

    def between(self, baseline: float, subject: float) -> Tuple[float, float]:
        """Return d of one round, and its error from rounding.

        :raises ValueError: one is not finite, or not positive in a ratio.
        """
        if not (math.isfinite(baseline) and math.isfinite(subject)):
            raise ValueError(f"figures must be finite, not {baseline!r} and {subject!r}")
        if self._difference:
            change, slack = subject - baseline, ROUNDING * (abs(subject) + abs(baseline))
        else:
            if baseline <= 0 or subject <= 0:
                raise ValueError(f"a ratio needs positive figures, not {baseline!r} and {subject!r}")
            # Not the logarithm of the quotient: this is exactly the negative when the sides are swapped.
            change, slack = math.log(subject) - math.log(baseline), ROUNDING
        return (-change if self._higher else change), slack
