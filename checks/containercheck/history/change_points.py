"""Find the changes of all series that still stand in the last night.

A proposal (shifts.py) requests a paired rerun in the same night. A change counts only if the rerun confirms it. It
begins a new level, and later nights are compared with this level.

Nights with reruns are replayed: their values before the rerun give their proposals. So confirmations depend only on the
database, and later nights do not change them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from containercheck.history.series import BARE, OVERHEAD, Point, Series
from containercheck.history.shifts import Level, Proposal, false_discoveries, proposals

#: Accepted share of false changes among those that the reruns of a night confirm.
CONFIRMED = 0.05


@dataclass(frozen=True)
class LevelChange:
    """A change of the level of a series that still stands.

    :ivar at: index in ``series.points`` of the first night of the new level.
    :ivar before: median of the level before, in the series' unit.
    :ivar after: median of the nights since then.
    :ivar size: after - before; in percent of before for bare, in the overhead's unit for an overhead.
    :ivar p: p-value of the confirmation among those of its night; without one, of the proposal among all series.
    :ivar worse: whether the new level is worse.
    :ivar confirmed: whether a separate test of the confirmation agrees; else it is a proposal without confirmation.
    :ivar since: index of the first night of the previous level.
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

    @classmethod
    def between(cls, series: Series, since: int, at: int, end: int, p: float, confirmed: bool) -> LevelChange:
        """Return the change from the points ``since`` to ``at`` to the points ``at`` to ``end``."""
        before, after = (
            statistics.median(point.value for point in points)
            for points in (series.points[since:at], series.points[at:end])
        )
        size = 100 * (after / before - 1) if series.kind == BARE else after - before
        worse = size < 0 if series.kind == BARE and series.better == "higher" else size > 0
        return cls(series, at, before, after, size, p, worse, confirmed, since)

    @property
    def first(self) -> Point:
        """The first night of the new level."""
        return self.series.points[self.at]

    @property
    def identity(self) -> tuple[Any, ...]:
        """The identity of a change, as a proposal and once it is confirmed: its series and its first night."""
        return self.series.kind, self.series.variant, *self.series.of_metric, self.first.night.name

    @property
    def where(self) -> str:
        """Nodes that show it, and nodes that do not, from its confirmation; empty if that is not known."""
        return next((point.where for point in self.series.points[self.at :] if point.where), "")

    def stands(self, now: float) -> bool:
        """Return whether a value is at least as near to the level after the change as to the one before."""
        return abs(now - self.after) <= abs(now - self.before)


def standing(all_series: Sequence[Series]) -> list[LevelChange]:
    """Return the changes that still stand in the last night, in the order of the series.

    These are confirmed changes, and proposals without a rerun. A series without a value in the last night keeps its
    confirmed changes and gets no proposal. Series of bare values that are not all above 0 are ignored.
    """
    followed = [_Followed(series) for series in all_series if _is_comparable(series)]
    points = [point for each in followed for point in each.series.points]
    last = max((point.night.number for point in points), default=0)
    for night in sorted({last, *(point.night.number for point in points if point.confirmation)}):
        for each in followed:
            each.go_on(night)
        _look([each for each in followed if each.until and each.tonight.night.number == night])
    return [change for each in followed for change in each.standing()]


def _is_comparable(series: Series) -> bool:
    values = (value for point in series.points for value in (point.value, point.unconfirmed) if value is not None)
    return bool(series.points) and (series.kind == OVERHEAD or min(values) > 0)


@dataclass
class _Followed:
    """A series that is followed from night to night.

    :ivar until: number of its points up to the present night.
    :ivar proposal: the proposal of this night; None without one.
    :ivar changes: the confirmed changes so far, with their levels at the time of the confirmation.
    """

    series: Series
    until: int = 0
    proposal: Proposal | None = None
    changes: list[LevelChange] = field(default_factory=list)

    @property
    def since(self) -> int:
        """Index of the first night of the present level."""
        return self.changes[-1].at if self.changes else 0

    @property
    def tonight(self) -> Point:
        """The last point."""
        return self.series.points[self.until - 1]

    @property
    def now(self) -> float:
        """The present level."""
        return statistics.median(point.value for point in self.series.points[self.since : self.until])

    def go_on(self, night: int) -> None:
        """Go on to a night, and remove the last changes that do not stand any more."""
        self.until = sum(point.night.number <= night for point in self.series.points)
        self.proposal = None
        while self.changes and not self.changes[-1].stands(self.now):
            self.changes.pop()

    def level(self, first_run: bool = False) -> Level:
        """Return the nights of the present level.

        :param first_run: whether the value of tonight before its rerun counts.
        """
        points, least = self.series.points[self.since : self.until], self.series.least
        values, errors = [point.value for point in points], [point.error for point in points]
        if first_run and self.tonight.unconfirmed is not None:
            values[-1] = self.tonight.unconfirmed
        if self.series.kind == BARE:
            # Changes of bare values are relative.
            errors = [None if error is None else 100 * error / value for error, value in zip(errors, values)]
            values, least = [100 * math.log(value) for value in values], 100 * math.log1p(least / 100)
        return Level(self.series.kind, values, errors, [point.confirmation for point in points], least)

    def standing(self) -> Iterator[LevelChange]:
        """Yield the confirmed changes that stand, each with the nights until the next one, and the open proposal."""
        ends = [*(change.at for change in self.changes[1:]), self.until]
        for change, end in zip(self.changes, ends):
            if change.stands(self.now):
                yield LevelChange.between(self.series, change.since, change.at, end, change.p, True)
        if self.proposal and not self.tonight.confirmation:
            yield self.change(self.proposal, self.proposal.p, False)

    def change(self, proposal: Proposal, p: float, confirmed: bool) -> LevelChange:
        """Return the proposed change."""
        return LevelChange.between(self.series, self.since, self.until - proposal.nights, self.until, p, confirmed)


def _look(tonight: Sequence[_Followed]) -> None:
    """Set the proposals of a night, and add the proposals that its reruns confirm to the changes.

    :param tonight: all series with a value in that night.
    """
    for each, proposal in zip(tonight, proposals([each.level(first_run=True) for each in tonight])):
        each.proposal = proposal
    asked = [(each, each.proposal) for each in tonight if each.proposal and each.tonight.confirmation]
    p_values = false_discoveries([proposal.p_of_reruns(each.level()) for each, proposal in asked])
    for (each, proposal), p in zip(asked, p_values):
        if p <= CONFIRMED:
            each.changes.append(each.change(proposal, p, True))
