"""The changes of a night in words: by cause, each with its first night and the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.causes import ChangeCause
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, Series
from containercheck.report.page import rerun
from containercheck.report.page.trends import Group, group, label, levels, since, where
from containercheck.results.cases import Case

#: Most changes of a cause that are shown at once; the others are folded below them.
AT_ONCE = 4


@dataclass(frozen=True)
class ToldFigure:
    """A change of a figure.

    :ivar by: the levels before and after.
    :ivar trend: anchor of its trend; empty where the trend is not drawn.
    """

    name: str
    by: str
    trend: str


@dataclass(frozen=True)
class ToldChange:
    """The figures that changed in the same place and night.

    :ivar where: application, variant, nodes and partition.
    :ivar certainty: whether fresh rounds confirmed the change.
    :ivar command: repeats the cases behind it; empty where the last night has none of them.
    """

    where: str
    since: str
    certainty: str
    worse: bool
    figures: tuple[ToldFigure, ...]
    command: str


@dataclass(frozen=True)
class ToldCause:
    """A cause with its changes.

    :ivar alarms: whether one of the changes is confirmed and for the worse.
    :ivar changes: those that are shown at once; ``more`` are folded.
    """

    what: str
    alarms: bool
    worse: bool
    differences: tuple[str, ...]
    changes: tuple[ToldChange, ...]
    more: tuple[ToldChange, ...]


def cause_lines(causes: Sequence[ChangeCause], cases: Sequence[Case], trends: Mapping[Group, str]) -> list[ToldCause]:
    """Return the causes: confirmed regressions first, then proposed ones, then improvements.

    :param cases: the cases of the last night.
    :param trends: anchors of the trends.
    """
    lines = [_cause_line(cause, cases, trends) for cause in causes]
    return sorted(lines, key=lambda line: (not line.alarms, not line.worse))


def _cause_line(cause: ChangeCause, cases: Sequence[Case], trends: Mapping[Group, str]) -> ToldCause:
    ordered = sorted(cause.changes, key=lambda change: (not change.worse, not change.confirmed, -abs(change.size)))
    places: dict[tuple[Any, ...], list[Change]] = {}
    for change in ordered:
        key = (name(change.series), since(change), change.worse, change.confirmed)
        places.setdefault(key, []).append(change)
    changes = tuple(_change(changes_there, cases, trends) for changes_there in places.values())
    return ToldCause(
        cause.sentence,
        any(change.worse and change.confirmed for change in cause.changes),
        any(change.worse for change in cause.changes),
        tuple(cause.differences),
        changes[:AT_ONCE],
        changes[AT_ONCE:],
    )


def _change(changes: Sequence[Change], cases: Sequence[Case], trends: Mapping[Group, str]) -> ToldChange:
    first = changes[0]
    keys = {key for change in changes for key in change.series.cases}
    pairs = [(change, change.series) for change in changes]
    figures = (
        ToldFigure(series.figure, f"{label(series)} {levels(change)}", trends.get(group(series), ""))
        for change, series in pairs
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
    """Return where a series was measured."""
    return f"{series.label} {series.variant or BARE}, {where(series)}"
