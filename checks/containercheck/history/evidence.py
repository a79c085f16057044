"""How sure it is that the level of a series has changed, for all series of a family at once.

The method is that of Hunter, now Apache Otava (M. Fleming et al., "Hunter: Using Change Point Detection to Hunt for
Performance Regressions", ICPE 2023), which took the test of a split from E-divisive (D. S. Matteson and N. A. James,
JASA 109 (2014)) and put Student's t in place of permutations. Changed is what few nights and many series ask for:

* The variance of a night is moderated over all series (pooled.py), so that three nights before a change can do. It is
  never below the squared standard error that the rounds of the nights give.
* A split may leave one night at the end. It is chosen by its probability, and not by the energy statistic, which with
  its weight of m n / (m + n) prefers the middle.
* What is tested are normal scores of the nights, by the wildness that all series have together, and their means count
  for as many nights as they are worth where neighboring nights are alike (pooled.py).
* Every look is paid for (Bonferroni). Splits that leave nearly the same nights after them say nearly the same, so that
  there are but a few looks: ten in a month. Where one of them finds something, all splits are asked when that began.

All arrays end with the axes series and nights; before them may be families (simulations), each of which is by itself.
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
#: A change is from the level of so many nights before it, at most: machines drift, and a level of long ago is another.
RECENT = 14
#: How many nights after a split are looked at; each about 1.4 times as many as the one before. What is older than that,
#: and no change yet, is none worth telling.
LOOKS = (1, 2, 3, 4, 6, 8, 11, 15, 21, 30)


def changed(table: Table) -> Array:
    """Return how probable the best split of each series is where nothing has changed, all looks taken together."""
    unit = Unit.of(table)
    p, looks = np.ones(table.values.shape[:-1]), np.zeros(table.values.shape[:-1])
    for split in _splits(table, unit, LOOKS):
        own, _ = split.two_sided(LOOKS)
        p, looks = np.minimum(p, own), looks + (split.possible & np.isin(split.nights_after, LOOKS))
    return np.minimum(p * np.maximum(looks, 1), 1.0)


def began(table: Table) -> tuple[NDArray[np.int_], Array]:
    """Return the first night after the best split of each series, and 1 where values are higher since then, else -1.

    Of all splits, and not only those that are looked at; -1 for the night where there is none.
    """
    unit, nights = Unit.of(table), range(1, LOOKS[-1] + 1)
    shape = table.values.shape[:-1]
    at, sign, best = np.full(shape, -1), np.ones(shape), np.ones(shape)
    for split in _splits(table, unit, nights):
        own, own_sign = split.two_sided(nights)
        better = own < best
        at, sign, best = np.where(better, split.start, at), np.where(better, own_sign, sign), np.minimum(own, best)
    return at, sign


def _splits(table: Table, unit: Unit, nights_after: Sequence[int]) -> Iterator[_Split]:
    """Yield the splits that leave so many nights after them, in any of the series."""
    after = np.cumsum(table.present[..., ::-1], axis=-1)[..., ::-1]
    for start in range(table.values.shape[-1] - 1, 0, -1):
        wanted = table.present[..., start] & np.isin(after[..., start], nights_after)
        if wanted.any():
            split = _Split.at(table, unit, start)
            if split.possible.any():
                yield split


def one_sided(table: Table, start: int, sign: Array, which: Mask) -> Array:
    """Return how probable these nights after a split are, so far or farther in its direction, if nothing changed.

    :param start: the first night after the split.
    :param sign: its direction, of each series.
    :param which: the nights that count; others after the split say something of the scatter only.
    """
    split = _Split.at(table, Unit.of(table), start)
    score, degrees = split.test(split.after & which)
    p = stdtr(degrees, -sign * score)
    return np.where((split.after & which).any(-1) & np.isfinite(p), p, 1.0)


@dataclass(frozen=True)
class _Split:
    """The nights of each series before and after a split.

    :ivar start: the first night after it.
    :ivar possible: for which series there is such a split.
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
        # All that has a level of its own is a segment; for the scatter, all of them count.
        segments = 3 * table.levels + np.where(after, 2, before)
        segments = np.where(table.present & possible[..., None], segments, -1)
        return cls(table, unit, start, before, after, possible, Scatter.about(table.values, segments, unit))

    @property
    def nights_after(self) -> Array:
        """How many nights there are after it."""
        return self.after.sum(-1)

    @property
    def shift(self) -> Array:
        """By how much the level after it is higher than that before it."""
        return mean(self.table.values, self.after) - mean(self.table.values, self.before)

    def two_sided(self, nights_after: Sequence[int]) -> tuple[Array, Array]:
        """Return how probable such a shift is without a change, and its direction.

        The first is 1 where there is no such split, where it leaves another number of nights after it, and where the
        shift is too small to be worth telling.
        """
        score, degrees = self.test(self.after)
        told = self.possible & np.isin(self.nights_after, nights_after) & (abs(self.shift) >= self.table.least)
        p = 2 * stdtr(degrees, -abs(score))
        return np.where(told & np.isfinite(p), p, 1.0), np.sign(score)

    def test(self, which: Mask) -> tuple[Array, Array]:
        """Return by how many standard errors the nights are above the level before, and the degrees of freedom."""
        tails = self.scatter.tails[..., None, None]
        # Of Student's t: its standard deviation is larger.
        scale = self.scatter.deviation[..., None] * np.sqrt((tails - 2) / tails)
        values = np.where(self.table.present, self.table.values, 0)
        level = mean(values, self.before)
        # Huber's estimate of location, with scores in place of his bounds: it converges as they grow with the values.
        for _ in range(3):
            scores = pooled.normal_scores((values - level[..., None]) / scale, tails)
            level = level + scale[..., 0] * mean(scores, self.before)
        score = mean(pooled.normal_scores((values - level[..., None]) / scale, tails), which)
        return score / np.sqrt(self._variance(which)), self.scatter.degrees

    def _variance(self, which: Mask) -> Array:
        """Return the variance of the difference of the two levels, in that of a night."""
        alike = self.scatter.likeness[..., None]
        found = sum(
            pooled.inflation(count, alike) / np.maximum(count, 1) for count in (self.before.sum(-1), which.sum(-1))
        )
        # A night with fewer rounds than the others is less sure by itself.
        more = np.maximum(np.nan_to_num(self.table.errors) ** 2 - self.unit.error[..., None] ** 2, 0)
        more = mean(more, which) / np.maximum(which.sum(-1), 1)
        return found + more / self.scatter.deviation**2
