"""Which changes stand in the last night, of all series together.

What a night does is replayed, as it was: the nights that have confirmations are looked at again with what they had
measured before, which tells what was proposed, and the confirmations then say which of it counts. So the database alone
tells what is confirmed, and later nights do not change it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from containercheck.history import provenance
from containercheck.history.series import BARE, Point, Series
from containercheck.history.watch import CONFIRMED, Measured, Proposals, Watch


@dataclass(frozen=True)
class Change:
    """A level that is another one since some night, and still is.

    :ivar at: index in ``series.points`` of the first night of the new level.
    :ivar before: the median of the level before, in the series' unit.
    :ivar after: that of the nights since then.
    :ivar size: after - before; in percent of before for bare, in the overhead's unit for an overhead.
    :ivar p: how probable that is without a change: of a confirmed one what its confirmation says, else of the proposal,
        among all series.
    :ivar worse: whether the new level is the worse one.
    :ivar confirmed: whether a confirmation says the same by itself. Else it is a proposal, which asks for one.
    :ivar since: index of the first night of the level before.
    """

    series: Series
    at: int
    before: float
    after: float
    size: float
    p: float
    worse: bool
    confirmed: bool
    since: int = 0

    @property
    def first(self) -> Point:
        """The first night of the new level."""
        return self.series.points[self.at]


def standing(all_series: Sequence[Series]) -> list[Change]:
    """Return the changes to a level that still stands in the last night, in the order of the series.

    Those that are confirmed, and proposals, which ask for a paired rerun tonight; a proposal that its confirmation did
    not bear out is none of them. A series without a value in the last night keeps what was confirmed, and proposes
    nothing. Bare values that are not all above 0 have no changes in percent, and so are not looked at.
    """
    followed = [one for one in all_series if _values(one)]
    if not followed:
        return []
    columns = _columns(followed)
    watch = Watch(measured(followed))
    again = {columns[point.night.name] for one in followed for point in one.points if point.confirmation}
    confirmed, proposed = _replay(watch, again, len(columns) - 1)
    changes: list[Change] = []
    for number, one in enumerate(followed):
        where = [columns[point.night.name] for point in one.points]
        levels = watch.levels[number, where]
        begins = [at for at in range(1, len(where)) if levels[at] > levels[at - 1]]
        changes += _confirmed(one, begins, [confirmed[number, where[at]] for at in begins])
        if proposed.at[number] >= 0 and not one.points[-1].confirmation:
            since, at = (where.index(int(place[number])) for place in (proposed.since, proposed.at))
            changes.append(_change(one, at, since, len(one.points), float(proposed.p[number]), False))
    return changes


def _replay(watch: Watch, again: Set[int], last: int) -> tuple[dict[tuple[int, int], float], Proposals]:
    """Return what was confirmed (series and first night of the level, with its p-value), and the last proposals.

    :param again: the nights with confirmations.
    """
    confirmed = {}
    for night in sorted({*again, last}):
        watch.settle(night)
        proposed = watch.propose(night)
        if night in again:
            p = watch.confirm(night, proposed)
            for number in np.flatnonzero(p <= CONFIRMED):
                confirmed[int(number), int(proposed.at[number])] = float(p[number])
    return confirmed, proposed


def _columns(followed: Sequence[Series]) -> dict[str, int]:
    """Return the place of each night among all, by its name."""
    nights = {point.night.name: point.night for one in followed for point in one.points}
    ordered = sorted(nights.values(), key=lambda night: (night.number, night.began))
    return {night.name: place for place, night in enumerate(ordered)}


def _values(one: Series) -> list[float]:
    """Return what changes are looked for in: of a bare value 100 times its logarithm; nothing where it has none."""
    values = [point.value for point in one.points]
    if one.kind != BARE:
        return values
    before = [point.unconfirmed for point in one.points if point.unconfirmed is not None]
    return [100 * math.log(value) for value in values] if min([*values, *before], default=0) > 0 else []


def measured(followed: Sequence[Series]) -> Measured:
    """Return series as arrays, of all nights that any of them has; bare values as 100 times their logarithms.

    They must be such as :func:`standing` looks at.
    """
    columns = _columns(followed)
    shape = (len(followed), len(columns))
    values, errors, unconfirmed = (np.full(shape, np.nan) for _ in range(3))
    confirmations, renewed = (np.zeros(shape, dtype=bool) for _ in range(2))
    for number, one in enumerate(followed):
        ratio = one.kind == BARE
        for point, value, is_new in zip(one.points, _values(one), provenance.renewed(one.points)):
            place = number, columns[point.night.name]
            values[place], confirmations[place], renewed[place] = value, point.confirmation, is_new
            if point.error is not None:
                errors[place] = 100 * point.error / point.value if ratio else point.error
            if point.unconfirmed is not None:
                unconfirmed[place] = 100 * math.log(point.unconfirmed) if ratio else point.unconfirmed
    least = np.array([100 * math.log1p(one.least / 100) if one.kind == BARE else one.least for one in followed])
    # What has standard errors is measured in them, and what has none cannot be compared with it.
    groups = 2 * np.array([one.kind == BARE for one in followed]) + np.isfinite(errors).any(-1)
    return Measured(values, errors, confirmations, unconfirmed, least, renewed, groups)


def _confirmed(one: Series, begins: Sequence[int], p: Sequence[float]) -> Iterator[Change]:
    """Return the confirmed changes whose level still stands: the last one is nearer to it than to the one before.

    :param begins: where confirmed levels begin.
    :param p: how probable each of them is without a change.
    """
    starts, ends = [0, *begins], [*begins, len(one.points)]
    now = statistics.median(point.value for point in one.points[starts[-1] :])
    for since, at, until, own in zip(starts, begins, ends[1:], p):
        change = _change(one, at, since, until, own, True)
        if abs(now - change.after) <= abs(now - change.before):
            yield change


def _change(one: Series, at: int, since: int, until: int, p: float, confirmed: bool) -> Change:
    levels = one.points[since:at], one.points[at:until]
    before, after = (statistics.median(point.value for point in points) for points in levels)
    size = 100 * (after / before - 1) if one.kind == BARE else after - before
    worse = size < 0 if one.kind == BARE and one.better == "higher" else size > 0
    return Change(one, at, before, after, size, p, worse, confirmed, since)
