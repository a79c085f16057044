"""Test whether the level of a series has changed, for all series of a family at once.

The method is that of Hunter, now Apache Otava (M. Fleming et al., "Hunter: Using Change Point Detection to Hunt for
Performance Regressions", ICPE 2023), which took the test of a split from E-divisive (D. S. Matteson and N. A. James,
JASA 109 (2014)) and put Student's t in place of permutations. It is changed for few nights and many series:

* The variance of a night is moderated over all series (pooled.py), so that three nights before a change can suffice. It
  is never below the squared standard error that the rounds of the nights give.
* A split may leave a single night at the end. It is chosen by its probability, and not by the energy statistic, which
  prefers the middle with its weight of m n / (m + n).
* Nights are tested as normal scores, by the tails that all series have together, and their means count for fewer nights
  where neighboring nights correlate (pooled.py).
* Every look is corrected for (Bonferroni). Splits with nearly the same nights after them give nearly the same result,
  so there are only a few looks: ten in a month. Where one of them finds a change, all splits are tried for its begin.

All arrays end with the axes series and nights; axes before them are families (simulations), each treated by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from containercheck.history import pooled
from containercheck.history.pooled import Array, Mask
from containercheck.history.scatter import Scatter, Table, Unit, mean

#: Fewest nights of a series before a change.
BEFORE = 3
#: Most nights before a change that give the old level: machines drift, so that older nights have another level.
RECENT = 14
#: Numbers of nights after a split that is tested, each about 1.4 times the one before. Older splits that were no change
#: so far are not worth a report.
LOOKS = (1, 2, 3, 4, 6, 8, 11, 15, 21, 30)


def changed(table: Table) -> Array:
    """Return the p-value of the best split of each series, corrected for the number of looks."""
    unit = Unit.of(table)
    p, looks = np.ones(table.values.shape[:-1]), np.zeros(table.values.shape[:-1])
    for split in _splits(table, unit, LOOKS):
        p_split, _ = split.two_sided(LOOKS)
        p, looks = np.minimum(p, p_split), looks + (split.possible & np.isin(split.nights_after, LOOKS))
    return np.minimum(p * np.maximum(looks, 1), 1.0)


def began(table: Table) -> tuple[NDArray[np.int_], Array]:
    """Return the first night after the best split of each series, and 1 where values are higher since then, else -1.

    All splits count, not only those of :data:`LOOKS`; the night is -1 where there is none.
    """
    unit, nights = Unit.of(table), range(1, LOOKS[-1] + 1)
    shape = table.values.shape[:-1]
    at, sign, best = np.full(shape, -1), np.ones(shape), np.ones(shape)
    for split in _splits(table, unit, nights):
        p_split, direction = split.two_sided(nights)
        better = p_split < best
        at, sign, best = np.where(better, split.start, at), np.where(better, direction, sign), np.minimum(p_split, best)
    return at, sign


def _splits(table: Table, unit: Unit, nights_after: Sequence[int]) -> Iterator[_Split]:
    """Yield the splits with one of these numbers of nights after them in any series."""
    after = np.cumsum(table.present[..., ::-1], axis=-1)[..., ::-1]
    for start in range(table.values.shape[-1] - 1, 0, -1):
        wanted = table.present[..., start] & np.isin(after[..., start], nights_after)
        if wanted.any():
            split = _Split.at(table, unit, start)
            if split.possible.any():
                yield split


def one_sided(table: Table, start: int, sign: Array, tested: Mask) -> Array:
    """Return one-sided p-values of nights after a split, in its direction.

    :param start: the first night after the split.
    :param sign: its direction, for each series.
    :param tested: the nights to test; other nights after the split only count for the scatter.
    """
    split = _Split.at(table, Unit.of(table), start)
    score, degrees = split.test(split.after & tested)
    p = stdtr(degrees, -sign * score)
    return np.where((split.after & tested).any(-1) & np.isfinite(p), p, 1.0)


@dataclass(frozen=True)
class _Split:
    """The nights of each series before and after a split.

    :ivar start: the first night after it.
    :ivar possible: which series can be split there.
    """

    table: Table
    unit: Unit
    start: int
    before: Mask
    after: Mask
    possible: Mask
    scatter: Scatter

    @classmethod
    def at(cls, table: Table, unit: Unit, start: int) -> _Split:
        """Split all series before this night."""
        night = np.arange(table.values.shape[-1])
        earlier, after = table.present & (night < start), table.current & (night >= start)
        recent = earlier[..., ::-1].cumsum(-1)[..., ::-1] <= RECENT
        before = earlier & table.current & recent
        possible = after[..., start] & before.any(-1) & (earlier.sum(-1) >= BEFORE)
        # Nights of one level are a segment; all segments count for the scatter.
        segments = 3 * table.levels + np.where(after, 2, before)
        segments = np.where(table.present & possible[..., None], segments, -1)
        return cls(table, unit, start, before, after, possible, Scatter.about(table.values, segments, unit))

    @property
    def nights_after(self) -> Array:
        """Number of nights after the split."""
        return self.after.sum(-1)

    @property
    def shift(self) -> Array:
        """Level after the split minus the level before it."""
        return mean(self.table.values, self.after) - mean(self.table.values, self.before)

    def two_sided(self, nights_after: Sequence[int]) -> tuple[Array, Array]:
        """Return the p-value of the shift, and its direction.

        The p-value is 1 where the series cannot be split there, where the split has another number of nights after it,
        and where the shift is too small to report.
        """
        score, degrees = self.test(self.after)
        counts = self.possible & np.isin(self.nights_after, nights_after) & (abs(self.shift) >= self.table.least)
        p = 2 * stdtr(degrees, -abs(score))
        return np.where(counts & np.isfinite(p), p, 1.0), np.sign(score)

    def test(self, tested: Mask) -> tuple[Array, Array]:
        """Return how many standard errors the nights are above the level before, and the degrees of freedom."""
        tails = self.scatter.tails[..., None, None]
        # Scale of Student's t, whose standard deviation is larger.
        scale = self.scatter.deviation[..., None] * np.sqrt((tails - 2) / tails)
        values = np.where(self.table.present, self.table.values, 0)
        level = mean(values, self.before)
        # Huber's estimate of location, with scores in place of his bounds: it converges as they grow with the values.
        for _ in range(3):
            scores = pooled.normal_scores((values - level[..., None]) / scale, tails)
            level = level + scale[..., 0] * mean(scores, self.before)
        score = mean(pooled.normal_scores((values - level[..., None]) / scale, tails), tested)
        return score / np.sqrt(self._variance(tested)), self.scatter.degrees

    def _variance(self, tested: Mask) -> Array:
        """Return the variance of the difference of the two levels, in units of a night's variance."""
        correlation = self.scatter.likeness[..., None]
        variance = sum(
            pooled.inflation(count, correlation) / np.maximum(count, 1)
            for count in (self.before.sum(-1), tested.sum(-1))
        )
        # A night with fewer rounds than the others has a larger error.
        extra = np.maximum(np.nan_to_num(self.table.errors) ** 2 - self.unit.error[..., None] ** 2, 0)
        extra = mean(extra, tested) / np.maximum(tested.sum(-1), 1)
        return variance + extra / self.scatter.deviation**2
