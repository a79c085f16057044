"""Find the changes of all series that still stand in the last night.

Past nights are replayed: the values before a confirmation give the proposals of that night, and the confirmations then
decide which of them count. So what is confirmed follows from the database alone, and later nights do not change it.
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
    """A change of the level of a series that still stands.

    :ivar at: index in ``series.points`` of the first night of the new level.
    :ivar before: median of the level before, in the series' unit.
    :ivar after: median of the nights since then.
    :ivar size: after - before; in percent of before for bare, in the overhead's unit for an overhead.
    :ivar p: p-value of the confirmation; without one, that of the proposal among all series.
    :ivar worse: whether the new level is the worse one.
    :ivar confirmed: whether a confirmation, tested by itself, agrees. Else it is a proposal, which asks for one.
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
    """Return the changes whose level still stands in the last night, in the order of the series.

    Those are confirmed changes, and proposals, which ask for a paired rerun tonight, but not the proposals that their
    confirmation refuted. A series without a value in the last night keeps its confirmed changes, and gets no proposal.
    Bare values that are not all above 0 have no changes in percent, and are ignored.
    """
    followed = [series for series in all_series if _values(series)]
    if not followed:
        return []
    columns = _columns(followed)
    watch = Watch(measured(followed))
    again = {columns[point.night.name] for series in followed for point in series.points if point.confirmation}
    confirmed, proposed = _replay(watch, again, len(columns) - 1)
    changes: list[Change] = []
    for number, series in enumerate(followed):
        nights = [columns[point.night.name] for point in series.points]
        levels = watch.levels[number, nights]
        begins = [at for at in range(1, len(nights)) if levels[at] > levels[at - 1]]
        changes += _confirmed(series, begins, [confirmed[number, nights[at]] for at in begins])
        if proposed.at[number] >= 0 and not series.points[-1].confirmation:
            since, at = (nights.index(int(place[number])) for place in (proposed.since, proposed.at))
            changes.append(_change(series, at, since, len(series.points), float(proposed.p[number]), False))
    return changes


def _replay(watch: Watch, again: Set[int], last: int) -> tuple[dict[tuple[int, int], float], Proposals]:
    """Return the p-values of confirmed changes, by series and first night of the level, and the last proposals.

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
    """Return the column of each night in the arrays, by its name."""
    nights = {point.night.name: point.night for series in followed for point in series.points}
    ordered = sorted(nights.values(), key=lambda night: (night.number, night.began))
    return {night.name: place for place, night in enumerate(ordered)}


def _values(series: Series) -> list[float]:
    """Return the values to test: for bare, 100 times the logarithm, and empty where a value is not above 0."""
    values = [point.value for point in series.points]
    if series.kind != BARE:
        return values
    before = [point.unconfirmed for point in series.points if point.unconfirmed is not None]
    return [100 * math.log(value) for value in values] if min([*values, *before], default=0) > 0 else []


def measured(followed: Sequence[Series]) -> Measured:
    """Return series as arrays over all nights of any of them; bare values as 100 times their logarithms.

    :param followed: series for which :func:`standing` finds values to test.
    """
    columns = _columns(followed)
    shape = (len(followed), len(columns))
    values, errors, unconfirmed = (np.full(shape, np.nan) for _ in range(3))
    confirmations, renewed = (np.zeros(shape, dtype=bool) for _ in range(2))
    for number, series in enumerate(followed):
        ratio = series.kind == BARE
        for point, value, is_new in zip(series.points, _values(series), provenance.renewed(series.points)):
            place = number, columns[point.night.name]
            values[place], confirmations[place], renewed[place] = value, point.confirmation, is_new
            if point.error is not None:
                errors[place] = 100 * point.error / point.value if ratio else point.error
            if point.unconfirmed is not None:
                unconfirmed[place] = 100 * math.log(point.unconfirmed) if ratio else point.unconfirmed
    least = np.array(
        [100 * math.log1p(series.least / 100) if series.kind == BARE else series.least for series in followed]
    )
    # Series with standard errors are measured in these, so that others cannot be pooled with them.
    groups = 2 * np.array([series.kind == BARE for series in followed]) + np.isfinite(errors).any(-1)
    return Measured(values, errors, confirmations, unconfirmed, least, renewed, groups)


def _confirmed(series: Series, begins: Sequence[int], p: Sequence[float]) -> Iterator[Change]:
    """Yield the confirmed changes whose level still stands: the last level is nearer to it than to the one before.

    :param begins: where confirmed levels begin.
    :param p: p-value of each of them.
    """
    starts, ends = [0, *begins], [*begins, len(series.points)]
    now = statistics.median(point.value for point in series.points[starts[-1] :])
    for since, at, until, p_value in zip(starts, begins, ends[1:], p):
        change = _change(series, at, since, until, p_value, True)
        if abs(now - change.after) <= abs(now - change.before):
            yield change


def _change(series: Series, at: int, since: int, until: int, p: float, confirmed: bool) -> Change:
    levels = series.points[since:at], series.points[at:until]
    before, after = (statistics.median(point.value for point in points) for points in levels)
    size = 100 * (after / before - 1) if series.kind == BARE else after - before
    worse = size < 0 if series.kind == BARE and series.better == "higher" else size > 0
    return Change(series, at, before, after, size, p, worse, confirmed, since)
