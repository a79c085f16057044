"""Hold series as arrays, and estimate how their nights scatter about their levels.

All arrays end with the axes series and nights; axes before them are families (simulations), each treated by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from containercheck.history import pooled
from containercheck.history.pooled import Array, Mask

#: Smallest standard deviation of nights, as a part of the smallest change to report. Some figures (memory) are the same
#: in all digits every night, but will not always be.
QUIET = 0.1
#: Where there are too few series: the variance of nights in squared standard errors, and the number of nights that this
#: counts for. 349 series of two virtual machines, four to twelve sessions each, had 1.7 to 4.5, worth 1.1 to 3.6.
ELSEWHERE, ELSEWHERE_DEGREES = 4.0, 2.0


@dataclass(frozen=True)
class Table:
    """Series as arrays.

    :ivar values: a value for each series and night, the last night last; NaN where there is none.
    :ivar errors: their standard errors, of the same shape; NaN where they are not known.
    :ivar least: the smallest change to report of each series, in the unit of its values.
    :ivar levels: number of each night's level, by the known changes: 0, 1, and so on.
    """

    values: Array
    errors: Array
    least: Array
    levels: NDArray[np.int_]

    def between(self, first: int, end: int) -> Table:
        """Return the nights from ``first`` on, up to but without ``end``."""
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
    """The unit in which the variances of series are compared: the squared standard error that their rounds give.

    :ivar error: typical standard error; the smallest change to report where none is known.
    :ivar measured: whether a standard error is known.
    :ivar floor: smallest standard deviation of a night.
    """

    error: Array
    measured: Mask
    floor: Array

    @classmethod
    def of(cls, table: Table) -> Unit:
        """Return the unit of each series."""
        quiet = np.maximum(QUIET * table.least, 1e-300)
        known = np.isfinite(table.errors) & table.present
        # The median, without numpy's warning about empty rows.
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
    :ivar degrees: degrees of freedom of that.
    :ivar tails: degrees of freedom of each family's tails (``pooled.tails``).
    :ivar likeness: correlation of neighboring nights, of each family (``pooled.likeness``).
    """

    deviation: Array
    degrees: Array
    tails: Array
    likeness: Array

    @classmethod
    def about(cls, values: Array, segments: NDArray[np.int_], unit: Unit) -> Scatter:
        """Return the scatter of these values.

        :param segments: number of each night's segment; negative for none.
        """
        residuals, counts = _residuals(values, segments)
        degrees = sum((np.maximum(count - 1, 0) for count in counts), np.zeros(values.shape[:-1]))
        deviation, worth = _moderated(residuals, degrees, unit)
        standard = residuals / deviation[..., None]
        tails = pooled.tails(*_left_out(standard, (worth + degrees)[..., None], pooled.lengths(segments)))
        likeness = pooled.likeness(standard, segments)
        # The mean of correlated nights follows them, and takes away more of their scatter than one night's worth.
        alike = likeness[..., None]
        left = sum((count - np.where(count > 0, pooled.inflation(count, alike), 0) for count in counts), 0 * degrees)
        more = np.maximum(degrees, 1) / np.maximum(left, np.maximum(degrees, 1) / 4)
        return cls(deviation * np.sqrt(np.maximum(more, 1)), worth + degrees, tails, likeness)


def _moderated(residuals: Array, degrees: Array, unit: Unit) -> tuple[Array, Array]:
    """Return the standard deviation of each series, and the number of nights that the pooled variance counts for."""
    at_least_one = np.maximum(degrees, 1)
    variance = (residuals**2).sum(-1) / at_least_one / unit.error**2
    # Figures that are the same every night have no information about the scatter of others.
    informative = (degrees > 0) & (variance > 1e-6 * (unit.floor / unit.error) ** 2)
    usual, worth = (part[..., None] for part in pooled.prior(np.where(informative, variance, np.nan), at_least_one))
    alone = (worth == 0) & unit.measured
    usual, worth = np.where(alone, ELSEWHERE, usual), np.where(alone, ELSEWHERE_DEGREES, worth)
    variance = (worth * usual + degrees * variance) / np.maximum(worth + degrees, 1e-9)
    return np.maximum(np.sqrt(variance) * unit.error, unit.floor), worth


def _left_out(standard: Array, degrees: Array, lengths: Array) -> tuple[Array, Mask]:
    """Return residuals as normal scores, each by the scatter of the others alone, and a mask of those that exist.

    A night that is far off widens the scatter of its own series, which would hide it. (R. D. Cook and S. Weisberg,
    "Residuals and Influence in Regression", 1982: externally studentized residuals have Student's t.)

    :param degrees: degrees of freedom of the scatter, with the night itself.
    :param lengths: number of nights in its segment.
    """
    exist = (lengths > 1) & (degrees > 2) & (standard != 0)
    studentized = np.where(exist, standard / np.sqrt(1 - 1 / np.maximum(lengths, 2)), 0)
    others = np.maximum(degrees - 1, 1)
    outside = studentized * np.sqrt(others / np.maximum(degrees - studentized**2, 1e-3 * others))
    return pooled.normal_scores(outside, others), exist


def _residuals(values: Array, segments: NDArray[np.int_]) -> tuple[Array, list[Array]]:
    """Return the distance of each night from the mean of its segment, and the number of nights in each segment."""
    residuals, counts = np.zeros(values.shape), []
    for number in range(segments.max(initial=-1) + 1):
        members = segments == number
        if members.any():
            residuals = np.where(members, values - mean(values, members)[..., None], residuals)
            counts.append(members.sum(-1))
    return residuals, counts


def mean(values: Array, mask: Mask) -> Array:
    """Return the mean over the nights in the mask; 0 where there are none."""
    return np.where(mask, values, 0).sum(-1) / np.maximum(mask.sum(-1), 1)
