"""What changed, in words: causes with the changes that they explain, each with since when and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.causes import Cause
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, Series
from containercheck.report.page import rerun
from containercheck.report.page.trends import Group, group, label, levels, since, where
from containercheck.results.cases import Case

#: So many places of a cause are told at once; the others below them.
AT_ONCE = 4


@dataclass(frozen=True)
class ToldFigure:
    """A change of a figure.

    :ivar by: the levels before and after.
    :ivar trend: anchor of its trend; empty where that is not drawn.
    """

    name: str
    by: str
    trend: str


@dataclass(frozen=True)
class ToldChange:
    """What changed in one place, at once.

    :ivar where: application, variant, nodes and partition.
    :ivar certainty: whether fresh rounds say the same.
    :ivar command: runs the cases that it comes from; empty where the last night has none of them.
    """

    where: str
    since: str
    certainty: str
    worse: bool
    figures: tuple[ToldFigure, ...]
    command: str


@dataclass(frozen=True)
class ToldCause:
    """A cause, with the changes that are told at once and the others.

    :ivar alarms: whether one of them is worse and confirmed.
    """

    what: str
    alarms: bool
    worse: bool
    differences: tuple[str, ...]
    changes: tuple[ToldChange, ...]
    more: tuple[ToldChange, ...]


def cause_lines(causes: Sequence[Cause], cases: Sequence[Case], trends: Mapping[Group, str]) -> list[ToldCause]:
    """Return the causes: confirmed regressions first, then what is proposed, then improvements.

    :param cases: of the last night.
    :param trends: anchors of the trends.
    """
    found = [_told(cause, cases, trends) for cause in causes]
    return sorted(found, key=lambda one: (not one.alarms, not one.worse))


def _told(cause: Cause, cases: Sequence[Case], trends: Mapping[Group, str]) -> ToldCause:
    ordered = sorted(cause.changes, key=lambda change: (not change.worse, not change.confirmed, -abs(change.size)))
    places: dict[tuple[Any, ...], list[Change]] = {}
    for change in ordered:
        key = (name(change.series), since(change), change.worse, change.confirmed)
        places.setdefault(key, []).append(change)
    changes = tuple(_change(those, cases, trends) for those in places.values())
    return ToldCause(
        cause.what,
        any(change.worse and change.confirmed for change in cause.changes),
        any(change.worse for change in cause.changes),
        tuple(cause.differences),
        changes[:AT_ONCE],
        changes[AT_ONCE:],
    )


def _change(those: Sequence[Change], cases: Sequence[Case], trends: Mapping[Group, str]) -> ToldChange:
    first = those[0]
    keys = {key for change in those for key in change.series.cases}
    figures = (
        ToldFigure(one.series.figure, f"{label(one.series)} {levels(one)}", trends.get(group(one.series), ""))
        for one in those
    )
    return ToldChange(
        name(first.series),
        since(first),
        "confirmed by a paired rerun" if first.confirmed else "proposed, and not confirmed yet",
        first.worse,
        tuple(figures),
        rerun.command([case for case in cases if case.key in keys], cases),
    )


def name(series: Series) -> str:
    """Return where it was measured."""
    return f"{series.label} {series.variant or BARE}, {where(series)}"
