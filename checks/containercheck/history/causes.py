"""What changes have in common, and what changed with them: the likely causes, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history import provenance
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, OVERHEAD
from containercheck.results.formatting import number

#: So many series are named in a sentence.
NAMED = 3


@dataclass(frozen=True)
class Cause:
    """What explains some changes.

    :ivar what: a sentence.
    :ivar differences: a line for each thing that is another one since then; or the line that nothing recorded is.
    :ivar changes: all that it explains.
    """

    what: str
    differences: tuple[str, ...]
    changes: tuple[Change, ...]


def causes(changes: Sequence[Change]) -> list[Cause]:
    """Return the likely causes, those of the worst changes first.

    Changes belong together that came on one partition, in one night, in one direction, and in the same kind of series:
    bare values, overheads, or both of one figure.
    """
    moved = {kind: {_figure(one) for one in changes if one.series.kind == kind} for kind in (BARE, OVERHEAD)}
    both = moved[BARE] & moved[OVERHEAD]
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for one in changes:
        kind = "both" if _figure(one) in both else one.series.kind
        # Both may well go in opposite directions: a faster host leaves a container behind.
        key = (*_place(one), kind, None if kind == "both" else one.worse)
        groups.setdefault(key, []).append(one)
    ordered = sorted(groups.items(), key=lambda item: not any(one.worse for one in item[1]))
    return [Cause(_what(key[-2], group), _differences(group), tuple(group)) for key, group in ordered]


def _place(change: Change) -> tuple[str, str, str]:
    return change.series.system, change.series.partition, change.first.night.name


def _figure(change: Change) -> tuple[Any, ...]:
    one = change.series
    return (*_place(change), one.environ, one.application, one.nodes, tuple(one.axes.items()), one.figure)


def _what(kind: str, group: Sequence[Change]) -> str:
    system, partition, night = _place(group[0])
    where = f"on {system}:{partition} since {night}"
    if kind == "both":
        bare, overheads = ([one for one in group if one.series.kind == kind] for kind in (BARE, OVERHEAD))
        return (
            f"bare and overhead both moved {where}: {_moves(bare)}, and {_moves(overheads)}. "
            "What changed concerns the machine, and the container more or less than bare"
        )
    if kind == BARE:
        return f"the machine changed {where}: {_moves(group)}, and their overheads did not"
    return f"runtime, image or MPI changed {where}: {_moves(group)}, and their bare values did not"


def _moves(group: Sequence[Change]) -> str:
    """Return by how much the series of a group moved: the largest first, a few of them by name."""
    ordered = sorted(group, key=_severity, reverse=True)
    named = "; ".join(_name(one) for one in ordered[:NAMED])
    more = f"; and {len(group) - NAMED} more" if len(group) > NAMED else ""
    kind = "bare" if group[0].series.kind == BARE else "the overhead"
    return f"{kind} moved ({named}{more})"


def _severity(change: Change) -> float:
    return abs(change.size) / change.series.least if change.series.least > 0 else abs(change.size)


def _name(change: Change) -> str:
    one = change.series
    nodes = f", {one.nodes} nodes" if one.nodes > 1 else ""
    unit = "%" if one.kind == BARE else one.unit
    variant = f" {one.variant}" if one.variant else ""
    return f"{one.label}{variant}{nodes} {one.figure} by {number(change.size, 2, '+')} {unit}"


def _differences(group: Sequence[Change]) -> tuple[str, ...]:
    """Return what the provenance says: what no night of the level before had, and all nights since then have."""
    lines: dict[str, None] = {}
    for change in group:
        points = change.series.points
        for line in provenance.differences(points[change.since : change.at], points[change.at :]):
            lines.setdefault(line)
    return tuple(lines) or ("nothing that is recorded changed with it",)
