"""Group changes that belong together, and name their likely causes: differences between the nights."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from containercheck.application.declare import Metric
from containercheck.history.change_points import Change
from containercheck.history.series import BARE, OVERHEAD, Point
from containercheck.job.explain import explanation
from containercheck.job.explain.causes import Cause
from containercheck.job.explain.observations import CONTAINER, HOST, Observation, Use, reworded
from containercheck.results import sides_seen
from containercheck.results.formatting import number
from containercheck.results.sides_seen import SEES, USES

#: Most series that are named in a sentence, and most likely causes.
NAMED = 3
#: Digits of a SHA-256 that are shown, as for a commit.
DIGITS = 12
#: Names for people of some keys of a provenance; other keys are shown as they are.
WORDS = {"runtimes": "runtime", "image_sha256": "image", "mpi": "MPI library", "builds": "build", "bound": "cores"}
#: Keys that say the same as the image's digest, where there is one.
OF_DIGEST = ("image", "image_id")
#: Value of a fact that a side did not see, where another night's did.
ABSENT = "none"
#: Fewest nights of which at least two have to agree: what was new in each of them is new for no reason.
SETTLED = 3


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
    both of one metric.
    """
    moved = {kind: {_metric(change) for change in changes if change.series.kind == kind} for kind in (BARE, OVERHEAD)}
    both = moved[BARE] & moved[OVERHEAD]
    groups: dict[tuple[Any, ...], list[Change]] = {}
    for change in changes:
        kind = "both" if _metric(change) in both else change.series.kind
        # Both may well move in opposite directions: on a faster host a container's overhead may grow.
        key = (*_place(change), kind, None if kind == "both" else change.worse)
        groups.setdefault(key, []).append(change)
    ordered = sorted(groups.items(), key=lambda item: not any(change.worse for change in item[1]))
    return [ChangeCause(_what(key[-2], group), _differences(group), tuple(group)) for key, group in ordered]


def _place(change: Change) -> tuple[str, str, str]:
    return change.series.system, change.series.partition, change.first.night.name


def _metric(change: Change) -> tuple[Any, ...]:
    series = change.series
    axes = tuple(series.axes.items())
    return (*_place(change), series.environ, series.application, series.nodes, axes, series.metric)


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
    return f"{series.label}{variant}{nodes} {series.metric} by {number(change.size, 2, '+')} {unit}"


def _differences(group: Sequence[Change]) -> tuple[str, ...]:
    """Return what differs between the nights of the level before and the nights since then.

    First what can be the cause by the rules of failures, then all differences in provenance.
    """
    by_rules: dict[str, None] = {}
    lines: dict[str, None] = {}
    for change in group:
        by_rules.update(dict.fromkeys(_by_rules(change)))
        points = change.series.points
        for line in differences(points[change.since : change.at], points[change.at :]):
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


#: Observation of a side in a night, where there is one, and the use of its runs.
_Facts = tuple[Optional[Observation], Use]


def _facts(point: Point, label: str) -> _Facts:
    seen, used = ((point.provenance.get(name) or {}).get(label) for name in (SEES, USES))
    return sides_seen.observation(seen) if seen else None, sides_seen.use(used or {})


def _between(change: Change, before: _Facts, since: _Facts) -> dict[tuple[str, str], Cause]:
    """Return the causes by rule and subject: of what is worse since then, or of what was worse before."""
    series = change.series
    fast, slow = (before, since) if change.worse else (since, before)
    # Only what it measures counts here.
    metric = Metric("metric", "(x)", series.unit, measures=series.measures)
    found = explanation.causes(fast[0], slow[0], (fast[1], slow[1]), [metric], series.ranks)
    return {(cause.rule, cause.about): cause for cause in found}


def differences(before: Sequence[Point], after: Sequence[Point]) -> list[str]:
    """Return a line for each name whose values after a change are all different from those before it.

    So what differs from night to night, such as the node of a job, is left out: some night had the value before. Names
    that only one of the two has, because an older library did not record them, are left out too.
    """
    before, after = _with_absent(before, after)
    then, now = (_values(points) for points in (before, after))
    changed = [name for name in now if name in then and not then[name] & now[name]]
    # A value that was new in every night is new for no reason.
    changed = [name for name in changed if len(before) < SETTLED or len(then[name]) < len(before)]
    if "image_sha256" in changed:
        changed = [name for name in changed if name not in OF_DIGEST]
    # The values next to the change, as there may be several.
    last = dict(_flat(before[-1].provenance)) if before else {}
    first = dict(_flat(after[0].provenance)) if after else {}
    return [f"{_title(name)}: {last[name]} -> {first[name]}" for name in changed if name in last and name in first]


def _with_absent(before: Sequence[Point], after: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return the points with what a side did not see, where another night's did: a variable that was not set, say.

    Only of sides that a night recorded: all that there is of these is in their record.
    """
    sights: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for point in (*before, *after):
        for what, label, seen in _sides(point):
            sights.setdefault((what, label), set()).update(
                (kind, name) for kind, facts in seen.items() if isinstance(facts, Mapping) for name in facts
            )

    def completed(point: Point) -> Point:
        sides: dict[str, dict[str, Any]] = {}
        for what, label, seen in _sides(point):
            complete = {kind: dict(facts) if isinstance(facts, Mapping) else facts for kind, facts in seen.items()}
            for kind, name in sorted(sights[what, label]):
                facts = complete.setdefault(kind, {})
                if isinstance(facts, dict):
                    facts.setdefault(name, ABSENT)
            sides.setdefault(what, {})[label] = complete
        return replace(point, provenance={**point.provenance, **sides}) if sides else point

    return [completed(point) for point in before], [completed(point) for point in after]


def _sides(point: Point) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield what each side of a night saw and used: the key in the provenance, its label, and the facts."""
    for what in (SEES, USES):
        for label, facts in (point.provenance.get(what) or {}).items():
            yield what, label, facts


def _values(points: Sequence[Point]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for point in points:
        for name, value in _flat(point.provenance):
            values.setdefault(name, set()).add(value)
    return values


def _flat(provenance: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield names and values as text; nested names are joined by blanks."""
    for name, value in provenance.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name} ")
        elif value is not None:
            yield f"{path}{name}", _text(value)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:DIGITS] if re.fullmatch("[0-9a-f]{64}", text) else text


def _title(name: str) -> str:
    """Return a name for people: ``runtime`` for the version of the subject's runtime, ``bare`` for the baseline."""
    first, *rest = name.split()
    rest = [word for word in rest if word != "subject"]
    rest = ["bare" if word == "baseline" else word for word in rest]
    if first == "runtimes" and rest[-1:] == ["version"]:
        rest.pop()
    return " ".join([WORDS.get(first, first), *rest]).replace("machine ", "")
