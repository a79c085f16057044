"""Follow many series from night to night: propose changes, and confirm them.

A proposal is cheap, as it only costs a rerun; the false discovery rate over all series keeps them few. A confirmation,
with fresh rounds, is then tested by itself. A confirmed change begins a new level for the comparison of later nights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from containercheck.history import corrections, evidence
from containercheck.history.pooled import Array, Mask
from containercheck.history.scatter import Table

#: Accepted share of false proposals among all; where no change is real, the share of nights with a proposal.
#: By ci/benchmark trends: with 0.05 there are 0.15 false alarms per 100 series and night where nights have two modes.
PROPOSED = 0.02
#: The same for changes since a night whose provenance has something new, such as the runtime: a change is then likely,
#: and such nights are few. Three nights and one rarely reach 2 %, even where a start-up time doubled.
EXPECTED = 0.2
#: Nights that are looked at: twice as many as the levels before and after may have.
HORIZON = 90
#: Probability that a night's confirmations, by themselves, confirm any false change. With 0.01 changes are found one or
#: two nights later, and false alarms are no fewer: a night that is off as a whole confirms itself; PROPOSED keeps such
#: false alarms few.
CONFIRMED = 0.05


@dataclass(frozen=True)
class Proposals:
    """The proposals of a night.

    :ivar at: the first night of the new level of each series; -1 where nothing is proposed.
    :ivar since: the first night of the level before.
    :ivar sign: 1 where values are higher since then, -1 where they are lower.
    :ivar p: p-values, corrected over all series.
    """

    at: NDArray[np.int_]
    since: NDArray[np.int_]
    sign: Array
    p: Array


@dataclass(frozen=True)
class Measured:
    """Series as arrays.

    :ivar values: (..., series, nights), the last night last; NaN where there is none. A confirmation replaces the
        earlier value of its night.
    :ivar errors: standard errors, of the same shape; NaN where they are not known.
    :ivar confirmations: which nights are confirmations, of the same shape.
    :ivar unconfirmed: values of these nights before the confirmation, of the same shape; NaN where there is none.
    :ivar least: the smallest change to report of each series, (series,), in the unit of its values.
    :ivar renewed: which nights had something new in their provenance (``provenance.renewed``), (series, nights).
    :ivar groups: number of each series' group, (series,): the scatter of each group is pooled by itself.
    """

    values: Array
    errors: Array
    confirmations: Mask
    unconfirmed: Array
    least: Array
    renewed: Mask
    groups: NDArray[np.int_]


class Watch:
    """Series, and the changes that are confirmed so far.

    :ivar levels: the number of each night's level: each confirmed change begins a new one.
    """

    def __init__(self, measured: Measured) -> None:
        """Begin without any change."""
        self._measured = measured
        self.levels = np.zeros(measured.values.shape, dtype=int)

    def propose(self, night: int) -> Proposals:
        """Return the proposals of a night, from the values before its confirmations."""
        table, first = self._table(night)
        values, before = table.values.copy(), self._measured.unconfirmed[..., night]
        values[..., -1] = np.where(np.isfinite(before), before, values[..., -1])
        table = replace(table, values=values)
        p = np.ones(values.shape[:-1])
        for group in self._groups():
            p[..., group] = evidence.changed(_only(table, group))
        p = corrections.false_discoveries(p)
        # Series without a value tonight were tested when they had their last one.
        proposed = (p <= EXPECTED) & table.present[..., -1]
        at, sign = np.full(p.shape, -1), np.ones(p.shape)
        for group in self._groups():
            if proposed[..., group].any():
                at[..., group], sign[..., group] = evidence.began(_only(table, group))
        proposed &= (at >= 0) & (p <= np.where(self._is_renewed(at + first), EXPECTED, PROPOSED))
        return Proposals(np.where(proposed, at + first, -1), np.argmax(table.current, axis=-1) + first, sign, p)

    def confirm(self, night: int, proposed: Proposals) -> Array:
        """Begin a new level for each change that the night's confirmations bear out, and return their p-values.

        If one change was confirmed in several nights, all of these confirmations count.

        :returns: p-values, corrected over the night's confirmations; NaN for series without one.
        """
        table, first = self._table(night)
        confirmations = self._measured.confirmations[..., first : night + 1]
        asked = (proposed.at >= 0) & confirmations[..., -1]
        p: Array = np.full(proposed.at.shape, np.nan)
        for start in np.unique(proposed.at[asked]):
            for group in self._groups():
                series, tested = _only(table, group), confirmations[..., group, :]
                p_group = evidence.one_sided(series, start - first, proposed.sign[..., group], tested)
                p[..., group] = np.where(asked[..., group] & (proposed.at[..., group] == start), p_group, p[..., group])
        p = np.where(asked, corrections.any_false(p), np.nan)
        # Any: numpy's types do not know the number of axes.
        levels: Any = self.levels
        nights = levels.shape[-1]
        begins = np.where(p <= CONFIRMED, proposed.at, nights)[..., None]
        self.levels = levels + (np.arange(nights) >= begins)
        return p

    def settle(self, night: int) -> None:
        """Take back changes that no longer stand: where the nights since then are nearer to the level before."""
        table, _ = self._table(night)
        last = self.levels[..., night][..., None]
        before, after = (table.present & (table.levels == number) for number in (last - 1, last))
        new, old = _median(table.values, after), _median(table.values, before)
        first = np.argmax(after, axis=-1)
        began = np.take_along_axis(np.nan_to_num(table.values), first[..., None], -1)[..., 0]
        gone = (last[..., 0] > 0) & (abs(new - old) < abs(new - began)) & before.any(-1) & after.any(-1)
        self.levels = self.levels - (gone[..., None] & (self.levels == last))

    def _is_renewed(self, nights: NDArray[np.int_]) -> Mask:
        """Return whether a night of each series had something new."""
        renewed = np.broadcast_to(self._measured.renewed, self._measured.values.shape)
        return np.take_along_axis(renewed, np.maximum(nights, 0)[..., None], -1)[..., 0]

    def _table(self, night: int) -> tuple[Table, int]:
        """Return the table of the nights to look at, and the number of the first."""
        measured, first = self._measured, max(0, night + 1 - HORIZON)
        table = Table(measured.values, measured.errors, measured.least, self.levels)
        return table.between(first, night + 1), first

    def _groups(self) -> list[NDArray[np.int_]]:
        groups = self._measured.groups
        return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def _only(table: Table, numbers: NDArray[np.int_]) -> Table:
    """Return the table of some of the series."""
    index = (..., numbers, slice(None))
    return Table(table.values[index], table.errors[index], table.least[..., numbers], table.levels[index])


def _median(values: Array, mask: Mask) -> Array:
    """Return the median over the nights in the mask; 0 where there are none."""
    filled = np.sort(np.where(mask, values, np.inf), axis=-1)
    count = np.maximum(mask.sum(-1), 1)
    ends = [np.take_along_axis(filled, middle[..., None], -1)[..., 0] for middle in ((count - 1) // 2, count // 2)]
    return np.where(mask.any(-1), (ends[0] + ends[1]) / 2, 0.0)
