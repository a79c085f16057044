"""Series as arrays, and how their nights scatter about their levels.

All arrays end with the axes series and nights; before them may be families (simulations), each of which is by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from containercheck.history import pooled
from containercheck.history.pooled import Array, Mask

#: No standard deviation of nights is smaller than this part of the least change worth telling. Some figures (memory)
#: are the same in all digits every night, which does not promise that they always will be.
QUIET = 0.1
#: Where there are too few series to say it: the variance of nights in squared standard errors, and for how many nights
#: that counts. 349 series of two virtual machines, four to twelve sessions each, had 1.7 to 4.5, worth 1.1 to 3.6.
ELSEWHERE, ELSEWHERE_DEGREES = 4.0, 2.0


@dataclass(frozen=True)
class Table:
    """Series as arrays.

    :ivar values: a value for each series and night, the last night last; NaN where there is none.
    :ivar errors: their standard errors, of the same shape; NaN where they are not known.
    :ivar least: the smallest change worth telling of each series, in the unit of its values.
    :ivar levels: which level each night belongs to, by the changes that are known: 0, 1, and so on.
    """

    values: Array
    errors: Array
    least: Array
    levels: NDArray[np.int_]

    def between(self, first: int, end: int) -> Table:
        """Return some of the nights: from the first one on, without the end."""
        nights = (..., slice(first, end))
        return Table(self.values[nights], self.errors[nights], self.least, self.levels[nights])

    @property
    def present(self) -> Mask:
        """Which nights have a value."""
        return np.isfinite(self.values)

    @property
    def current(self) -> Mask:
        """Which nights belong to the level of the last night."""
        return self.present & (self.levels == self.levels[..., -1:])


@dataclass(frozen=True)
class Unit:
    """In what the variances of series can be compared: the squared standard error that their rounds give.

    :ivar error: typical standard error; the least change worth telling, where none is known.
    :ivar measured: whether one is known.
    :ivar floor: smallest standard deviation of a night.
    """

    error: Array
    measured: Mask
    floor: Array

    @classmethod
    def of(cls, table: Table) -> Unit:
        """Return that of each series."""
        quiet = np.maximum(QUIET * table.least, 1e-300)
        known = np.isfinite(table.errors) & table.present
        # The median, without numpy's warning of rows that have nothing.
        filled = np.sort(np.where(known, table.errors, np.inf), axis=-1)
        middle = np.maximum(known.sum(-1) - 1, 0) // 2
        error = np.maximum(np.take_along_axis(filled, middle[..., None], -1)[..., 0], quiet)
        measured: Mask = np.asarray(known.any(-1))
        return cls(
            np.where(measured, error, np.maximum(table.least, quiet)), measured, np.where(measured, error, quiet)
        )


@dataclass(frozen=True)
class Scatter:
    """How nights scatter about the means of their segments.

    :ivar deviation: standard deviation of a night of each series, moderated over all of them.
    :ivar degrees: with how many degrees of freedom that is known.
    :ivar tails: of each family, how wild its nights are (``pooled.tails``).
    :ivar likeness: of each family, how alike neighboring nights are (``pooled.likeness``).
    """

    deviation: Array
    degrees: Array
    tails: Array
    likeness: Array

    @classmethod
    def about(cls, values: Array, segments: NDArray[np.int_], unit: Unit) -> Scatter:
        """Estimate it.

        :param segments: to which segment each night belongs; negative for none.
        """
        residuals, counts = _residuals(values, segments)
        degrees = sum((np.maximum(count - 1, 0) for count in counts), np.zeros(values.shape[:-1]))
        deviation, worth = _moderated(residuals, degrees, unit)
        standard = residuals / deviation[..., None]
        tails = pooled.tails(*_left_out(standard, (worth + degrees)[..., None], pooled.lengths(segments)))
        likeness = pooled.likeness(standard, segments)
        # The means of alike nights follow them: they take more of their scatter away than a night each.
        alike = likeness[..., None]
        left = sum((count - np.where(count > 0, pooled.inflation(count, alike), 0) for count in counts), 0 * degrees)
        more = np.maximum(degrees, 1) / np.maximum(left, np.maximum(degrees, 1) / 4)
        return cls(deviation * np.sqrt(np.maximum(more, 1)), worth + degrees, tails, likeness)


def _moderated(residuals: Array, degrees: Array, unit: Unit) -> tuple[Array, Array]:
    """Return the standard deviation of each series, and for how many nights what the others say of it counts."""
    known = np.maximum(degrees, 1)
    variance = (residuals**2).sum(-1) / known / unit.error**2
    # Figures that are the same every night say nothing of the others' scatter.
    tells = (degrees > 0) & (variance > 1e-6 * (unit.floor / unit.error) ** 2)
    usual, worth = (one[..., None] for one in pooled.prior(np.where(tells, variance, np.nan), known))
    alone = (worth == 0) & unit.measured
    usual, worth = np.where(alone, ELSEWHERE, usual), np.where(alone, ELSEWHERE_DEGREES, worth)
    variance = (worth * usual + degrees * variance) / np.maximum(worth + degrees, 1e-9)
    return np.maximum(np.sqrt(variance) * unit.error, unit.floor), worth


def _left_out(standard: Array, degrees: Array, lengths: Array) -> tuple[Array, Mask]:
    """Return residuals as normal scores, each by the scatter of the others alone, and which of them there are.

    A night that is far off widens the scatter of its own series, and so hides itself. (R. D. Cook and S. Weisberg,
    "Residuals and Influence in Regression", 1982: externally studentized residuals have Student's t.)

    :param degrees: degrees of freedom of the scatter, with the night itself.
    :param lengths: how many nights its segment has.
    """
    told = (lengths > 1) & (degrees > 2) & (standard != 0)
    own = np.where(told, standard / np.sqrt(1 - 1 / np.maximum(lengths, 2)), 0)
    others = np.maximum(degrees - 1, 1)
    outside = own * np.sqrt(others / np.maximum(degrees - own**2, 1e-3 * others))
    return pooled.normal_scores(outside, others), told


def _residuals(values: Array, segments: NDArray[np.int_]) -> tuple[Array, list[Array]]:
    """Return how far each night is from the mean of its segment, and how many nights each segment has."""
    found, counts = np.zeros(values.shape), []
    for number in range(segments.max(initial=-1) + 1):
        own = segments == number
        if own.any():
            found = np.where(own, values - mean(values, own)[..., None], found)
            counts.append(own.sum(-1))
    return found, counts


def mean(values: Array, mask: Mask) -> Array:
    """Return the mean over nights, of those that the mask has; 0 where it has none."""
    return np.where(mask, values, 0).sum(-1) / np.maximum(mask.sum(-1), 1)
