"""Group changes that belong together, and name their likely causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from containercheck.application.declare import Figure
from containercheck.explain import between
from containercheck.explain.between import SEES, USES
from containercheck.history import provenance
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, OVERHEAD, Point
from containercheck.node.explain import explanation
from containercheck.node.explain.causes import Cause
from containercheck.node.explain.observations import CONTAINER, HOST, Observation, Use, reworded
from containercheck.results.formatting import number

#: Most series that are named in a sentence, and most likely causes.
NAMED = 3


@dataclass(frozen=True)
class ChangeCause:
    """The likely cause of some changes.

    :ivar sentence: what changed, where and since when.
    :ivar differences: a line for each likely cause, then for each recorded fact that is different since then; or the
        line that there is none.
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
    """Return what differs between the nights of the level before and the nights since then.

    First what can be the cause by the rules of failures, then all differences in provenance.
    """
    by_rules: dict[str, None] = {}
    lines: dict[str, None] = {}
    for change in group:
        by_rules.update(dict.fromkeys(_by_rules(change)))
        points = change.series.points
        for line in provenance.differences(points[change.since : change.at], points[change.at :]):
            lines.setdefault(line)
    return (*[*by_rules][:NAMED], *lines) or ("nothing that is recorded changed with it",)


def _by_rules(change: Change) -> list[str]:
    """Return a line for each difference that can be the cause, with what to do; the likeliest first.

    It has to be there between the last night of the level before and each night since, and between each night of the
    level before and the first night since: else it comes and goes, and the level does not.
    """
    series = change.series
    label = series.variant or BARE
    then, now = (
        [_facts(point, label) for point in points]
        for points in (series.points[change.since : change.at], series.points[change.at :])
    )
    if not then or not now:
        return []
    pairs = [(then[-1], since) for since in now] + [(before, now[0]) for before in then]
    found = [_between(change, *pair) for pair in pairs]
    words = (CONTAINER if series.variant else HOST, ("in earlier nights", "earlier nights"))
    slow, fast = words if change.worse else words[::-1]
    return [
        f"may be the cause: {reworded(cause.sentence, slow, fast)}; do: {cause.remedy} ({cause.source})"
        for (rule, about), cause in found[0].items()
        if all((rule, about) in each for each in found)
    ]


#: What a side saw in a night, where that is known, and what its runs used.
_Facts = tuple[Optional[Observation], Use]


def _facts(point: Point, label: str) -> _Facts:
    seen, used = ((point.provenance.get(name) or {}).get(label) for name in (SEES, USES))
    return between.observation(seen) if seen else None, between.use(used or {})


def _between(change: Change, before: _Facts, since: _Facts) -> dict[tuple[str, str], Cause]:
    """Return the causes by rule and subject: of what is worse since then, or of what was worse before."""
    series = change.series
    fast, slow = (before, since) if change.worse else (since, before)
    # Only what it measures counts here.
    figure = Figure("figure", "(x)", series.unit, measures=series.measures)
    found = explanation.causes(fast[0], slow[0], (fast[1], slow[1]), [figure], series.ranks)
    return {(cause.rule, cause.about): cause for cause in found}
