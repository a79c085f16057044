"""Many series, followed from night to night: what is proposed, and what a confirmation says of it.

A proposal is cheap, as it only costs a rerun; the false discovery rate over all series sees to it that there are few. A
confirmation, with fresh rounds, is then tested by itself. What is confirmed begins a new level, and later nights are
compared with that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from containercheck.history import corrections, evidence
from containercheck.history.pooled import Array, Mask
from containercheck.history.scatter import Table

#: Share of false proposals among all that is accepted; with none that is true, the share of nights that have one.
#: By ci/benchmark trends: with 0.05 there are 0.15 false alarms per 100 series and night where nights have two modes.
PROPOSED = 0.02
#: The same since a night in which something that is recorded was new, such as the runtime: that something changes then
#: is no surprise, and such nights are few. Three nights and one are seldom sure to 2 %, even of a start that doubled.
EXPECTED = 0.2
#: So many nights are looked at: twice as many as the level before and the one after may have.
HORIZON = 90
#: Probability that a night's confirmations confirm anything false, as far as they alone say it. With 0.01 changes are
#: found later by a night or two, and false alarms are no fewer: a night that is off as a whole confirms itself, and it
#: is PROPOSED that keeps these few.
CONFIRMED = 0.05


@dataclass(frozen=True)
class Proposals:
    """What a look at a night proposes.

    :ivar at: the first night of the new level of each series; -1 where nothing is proposed.
    :ivar since: the first night of the level before.
    :ivar sign: 1 where values are higher since then, -1 where they are lower.
    :ivar p: corrected over all series.
    """

    at: NDArray[np.int_]
    since: NDArray[np.int_]
    sign: Array
    p: Array


@dataclass(frozen=True)
class Measured:
    """Series as arrays.

    :ivar values: (..., series, nights), the last night last; NaN where there is none. A confirmation takes the place of
        what the night had measured before.
    :ivar errors: standard errors, of the same shape; NaN where they are not known.
    :ivar confirmations: which nights are confirmations, of the same shape.
    :ivar unconfirmed: what these nights had measured before, of the same shape; NaN where there was nothing.
    :ivar least: the smallest change worth telling of each series, (series,), in the unit of its values.
    :ivar renewed: which nights had something new in what is recorded of them (``provenance.renewed``), of that shape
        without the axes of families.
    :ivar groups: which series belong together, (series,): the scatter of each group is pooled by itself.
    """

    values: Array
    errors: Array
    confirmations: Mask
    unconfirmed: Array
    least: Array
    renewed: Mask
    groups: NDArray[np.int_]


class Watch:
    """Series with what is known of their changes.

    :ivar levels: which level each night belongs to: those that are confirmed have numbers of their own.
    """

    def __init__(self, measured: Measured) -> None:
        """Nothing is known yet."""
        self._measured = measured
        self.levels = np.zeros(measured.values.shape, dtype=int)

    def propose(self, night: int) -> Proposals:
        """Look at the series as they stood in a night, before anything was confirmed in it."""
        table, first = self._table(night)
        values, before = table.values.copy(), self._measured.unconfirmed[..., night]
        values[..., -1] = np.where(np.isfinite(before), before, values[..., -1])
        table = replace(table, values=values)
        p = np.ones(values.shape[:-1])
        for own in self._groups():
            p[..., own] = evidence.changed(_only(table, own))
        p = corrections.false_discoveries(p)
        # What has no value tonight was looked at when it had its last one.
        proposed = (p <= EXPECTED) & table.present[..., -1]
        at, sign = np.full(p.shape, -1), np.ones(p.shape)
        for own in self._groups():
            if proposed[..., own].any():
                at[..., own], sign[..., own] = evidence.began(_only(table, own))
        proposed &= (at >= 0) & (p <= np.where(self._is_renewed(at + first), EXPECTED, PROPOSED))
        return Proposals(np.where(proposed, at + first, -1), np.argmax(table.current, axis=-1) + first, sign, p)

    def confirm(self, night: int, proposed: Proposals) -> Array:
        """Begin new levels where a night's confirmations say so, and return how probable these are without a change.

        Of several confirmations of one change, in as many nights, all count.

        :returns: p-values, corrected over the night's confirmations; NaN where there is none of a proposal.
        """
        table, first = self._table(night)
        which = self._measured.confirmations[..., first : night + 1]
        asked = (proposed.at >= 0) & which[..., -1]
        p: Array = np.full(proposed.at.shape, np.nan)
        for start in np.unique(proposed.at[asked]):
            for own in self._groups():
                told = evidence.one_sided(_only(table, own), start - first, proposed.sign[..., own], which[..., own, :])
                p[..., own] = np.where(asked[..., own] & (proposed.at[..., own] == start), told, p[..., own])
        p = np.where(asked, corrections.any_false(p), np.nan)
        # The number of nights; numpy's types do not know how many axes there are.
        levels: Any = self.levels
        nights = levels.shape[-1]
        begins = np.where(p <= CONFIRMED, proposed.at, nights)[..., None]
        self.levels = levels + (np.arange(nights) >= begins)
        return p

    def settle(self, night: int) -> None:
        """Take back what no longer stands: where the nights since then are nearer to the level before."""
        table, _ = self._table(night)
        last = self.levels[..., night][..., None]
        before, after = (table.present & (table.levels == number) for number in (last - 1, last))
        now, then = _median(table.values, after), _median(table.values, before)
        first = np.argmax(after, axis=-1)
        began = np.take_along_axis(np.nan_to_num(table.values), first[..., None], -1)[..., 0]
        gone = (last[..., 0] > 0) & (abs(now - then) < abs(now - began)) & before.any(-1) & after.any(-1)
        self.levels = self.levels - (gone[..., None] & (self.levels == last))

    def _is_renewed(self, nights: NDArray[np.int_]) -> Mask:
        """Tell of a night of each series whether it had something new."""
        renewed = np.broadcast_to(self._measured.renewed, self._measured.values.shape)
        return np.take_along_axis(renewed, np.maximum(nights, 0)[..., None], -1)[..., 0]

    def _table(self, night: int) -> tuple[Table, int]:
        """Return the nights that are looked at, and the first of them."""
        measured, first = self._measured, max(0, night + 1 - HORIZON)
        table = Table(measured.values, measured.errors, measured.least, self.levels)
        return table.between(first, night + 1), first

    def _groups(self) -> list[NDArray[np.int_]]:
        groups = self._measured.groups
        return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def _only(table: Table, which: NDArray[np.int_]) -> Table:
    """Return some of the series."""
    those = (..., which, slice(None))
    return Table(table.values[those], table.errors[those], table.least[..., which], table.levels[those])


def _median(values: Array, mask: Mask) -> Array:
    """Return the median over nights, of those that the mask has; 0 where it has none."""
    filled = np.sort(np.where(mask, values, np.inf), axis=-1)
    count = np.maximum(mask.sum(-1), 1)
    ends = [np.take_along_axis(filled, which[..., None], -1)[..., 0] for which in ((count - 1) // 2, count // 2)]
    return np.where(mask.any(-1), (ends[0] + ends[1]) / 2, 0.0)
