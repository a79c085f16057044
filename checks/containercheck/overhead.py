"""Overhead of the subject over the baseline, with its confidence interval, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"


@dataclass(frozen=True)
class Overhead:
    """By how much the subject is worse than the baseline; positive is worse.

    In percent of the baseline, or in the figure's own unit for a ``difference``. ``low`` and ``high`` are the ends of
    the confidence interval; they are infinite where there is a single pair.
    """

    estimate: float
    low: float
    high: float
    pairs: int

    @property
    def half_width(self) -> float:
        """Half the interval's width, which is not quite symmetrical for ratios."""
        return (self.high - self.low) / 2

    def verdict(self, lowest: float, highest: float) -> str:
        """Return ``pass`` (the interval lies within the accepted range), ``fail`` (outside) or ``inconclusive``.

        :param lowest: minus infinity, unless an overhead is expected.
        :param highest: the tolerance.
        """
        if lowest <= self.low and self.high <= highest:
            return PASS
        return FAIL if self.low > highest or self.high < lowest else INCONCLUSIVE

    def rounds_needed(self, lowest: float, highest: float) -> int | None:
        """Return about how many rounds would make an inconclusive verdict clear, if the spread stays as it is.

        None where no number of rounds would (the estimate is the bound), or where one pair says nothing of it.
        """
        distance = min(abs(highest - self.estimate), abs(self.estimate - lowest))
        if distance == 0 or not math.isfinite(self.half_width):
            return None
        return math.ceil(self.pairs * (self.half_width / distance) ** 2) + 1


def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution, to about six digits.

    :param probability: between 0.5 and 1.
    :param degrees: degrees of freedom, 1 or more.

    The distribution function is integrated from the density, after t = sqrt(degrees) tan(angle) has made it
    ``cos(angle) ** (degrees - 1)`` on a finite range (Abramowitz and Stegun, 26.7).
    """
    angles = np.linspace(0.0, math.pi / 2, 20001)
    density = np.cos(angles) ** (degrees - 1)
    area = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    angle = np.interp((probability - 0.5) * 2, area / area[-1], angles)
    return math.sqrt(degrees) * math.tan(angle)


def overhead(
    baseline: Sequence[float], subject: Sequence[float], better: str, compare: str = "ratio", level: float = 0.95
) -> Overhead:
    """Compute the overhead from paired figures: ``baseline[i]`` and ``subject[i]`` are of the same round.

    For ``ratio``, the paired log-ratios get Student's interval for a mean, which is then transformed back: a paired
    t interval for the ratio of geometric means (Fleming and Wallace, CACM 29(3), 1986, for why the mean of ratios is
    geometric; Jain, The Art of Computer Systems Performance Analysis, 1991, section 13.4.1, for paired observations).
    For ``difference``, the paired differences get the same interval.

    :param better: ``higher`` or ``lower``.
    :param level: confidence level of the interval.
    :raises ValueError: the sequences are empty or of different length, or a ratio has a figure that is not positive.
    """
    base = np.asarray(baseline, dtype=float)
    other = np.asarray(subject, dtype=float)
    if base.shape != other.shape or base.ndim != 1 or base.size == 0:
        raise ValueError(f"{base.size} figures of the baseline, {other.size} of the subject: they must be pairs")
    if compare == "ratio":
        if not (np.all(base > 0) and np.all(other > 0)):
            raise ValueError("a ratio needs positive figures")
        changes = np.log(other / base)
    else:
        changes = other - base
    mean = float(np.mean(changes))
    margin = math.inf
    if base.size > 1:
        error = float(np.std(changes, ddof=1)) / math.sqrt(base.size)
        margin = student_quantile((1 + level) / 2, base.size - 1) * error
    ends = [mean - margin, mean, mean + margin]
    if compare == "ratio":
        ends = [math.expm1(end) * 100 for end in ends]
    if better == "higher":
        ends = [-end for end in reversed(ends)]
    return Overhead(estimate=ends[1], low=ends[0], high=ends[2], pairs=int(base.size))
