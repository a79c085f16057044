"""Group changes that belong together, and name their likely causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history import provenance
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, OVERHEAD
from containercheck.results.formatting import number

#: Most series that are named in a sentence.
NAMED = 3


@dataclass(frozen=True)
class ChangeCause:
    """The likely cause of some changes.

    :ivar sentence: what changed, where and since when.
    :ivar differences: a line for each recorded fact that is different since then; or the line that there is none.
    :ivar changes: all that it explains.
    """

    sentence: str
    differences: tuple[str, ...]
    changes: tuple[Change, ...]


def causes(changes: Sequence[Change]) -> list[ChangeCause]:
    """Return the likely causes, those of the worst changes first.

    Changes belong together if they share partition, night, direction, and kind of series: bare values, overheads, or
    both of one figure.
    """
    moved = {kind: {_figure(change) for change in changes if change.series.kind == kind} for kind in (BARE, OVERHEAD)}
    both = moved[BARE] & moved[OVERHEAD]
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        kind = "both" if _figure(change) in both else change.series.kind
        # Both may well move in opposite directions: on a faster host a container's overhead may grow.
        key = (*_place(change), kind, None if kind == "both" else change.worse)
        groups.setdefault(key, []).append(change)
    ordered = sorted(groups.items(), key=lambda item: not any(change.worse for change in item[1]))
    return [ChangeCause(_what(key[-2], group), _differences(group), tuple(group)) for key, group in ordered]


def _place(change: Change) -> tuple[str, str, str]:
    return change.series.system, change.series.partition, change.first.night.name


def _figure(change: Change) -> tuple[Any, ...]:
    series = change.series
    axes = tuple(series.axes.items())
    return (*_place(change), series.environ, series.application, series.nodes, axes, series.figure)


def _what(kind: str, group: Sequence[Change]) -> str:
    system, partition, night = _place(group[0])
    where = f"on {system}:{partition} since {night}"
    if kind == "both":
        bare, overheads = ([change for change in group if change.series.kind == kind] for kind in (BARE, OVERHEAD))
        return (
            f"bare and overhead both moved {where}: {_moves(bare)}, and {_moves(overheads)}. "
            "What changed concerns the machine, and the container more or less than bare"
        )
    if kind == BARE:
        return f"the machine changed {where}: {_moves(group)}, and their overheads did not"
    return f"runtime, image or MPI changed {where}: {_moves(group)}, and their bare values did not"


def _moves(group: Sequence[Change]) -> str:
    """Return by how much the series of a group moved, the largest change first, and name a few of them."""
    ordered = sorted(group, key=_severity, reverse=True)
    names = "; ".join(_name(change) for change in ordered[:NAMED])
    more = f"; and {len(group) - NAMED} more" if len(group) > NAMED else ""
    kind = "bare" if group[0].series.kind == BARE else "the overhead"
    return f"{kind} moved ({names}{more})"


def _severity(change: Change) -> float:
    return abs(change.size) / change.series.least if change.series.least > 0 else abs(change.size)


def _name(change: Change) -> str:
    series = change.series
    nodes = f", {series.nodes} nodes" if series.nodes > 1 else ""
    unit = "%" if series.kind == BARE else series.unit
    variant = f" {series.variant}" if series.variant else ""
    return f"{series.label}{variant}{nodes} {series.figure} by {number(change.size, 2, '+')} {unit}"


def _differences(group: Sequence[Change]) -> tuple[str, ...]:
    """Return the differences in provenance between the nights of the level before and the nights since then."""
    lines: dict[str, None] = {}
    for change in group:
        points = change.series.points
        for line in provenance.differences(points[change.since : change.at], points[change.at :]):
            lines.setdefault(line)
    return tuple(lines) or ("nothing that is recorded changed with it",)
