"""Group related changes, and name their likely causes: differences between the nights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.change_points import LevelChange
from containercheck.history.series import BARE, OVERHEAD
from containercheck.results.formatting import number
from containercheck.results.sides_seen import SEES, USES, flat

#: Most series that a sentence names.
NAMED = 3
#: Digits of a SHA-256 that are shown, as many as for a commit.
DIGITS = 12
#: Names for people of some keys of a provenance; other keys are shown as they are.
WORDS = {"runtimes": "runtime", "image_sha256": "image", "mpi": "MPI library", "builds": "build", "bound": "cores"}
#: Keys that are redundant if the digest of the image is known.
OF_DIGEST = ("image", "image_id")
#: Value of a fact that a side did not see, but the same side in another night did.
ABSENT = "none"
#: Fewest nights of which at least two have to agree: a fact that was new in each of them explains nothing.
SETTLED = 3


@dataclass(frozen=True)
class ChangeCause:
    """The likely cause of some changes.

    :ivar sentence: kind of the change, system and partition, and its first night.
    :ivar differences: the nodes that show the changes, if others do not; then a line for each recorded fact that
        differs since then, or one line that there is none.
    :ivar changes: the changes that it explains.
    """

    sentence: str
    differences: tuple[str, ...]
    changes: tuple[LevelChange, ...]


def causes(changes: Sequence[LevelChange]) -> list[ChangeCause]:
    """Return the likely causes; causes of worse values come first.

    Changes form a group if they share partition, night, direction and kind of series: bare values, overheads, or both
    of one metric.
    """
    moved = {kind: {_metric(change) for change in changes if change.series.kind == kind} for kind in (BARE, OVERHEAD)}
    both = moved[BARE] & moved[OVERHEAD]
    groups: dict[tuple[Any, ...], list[LevelChange]] = {}
    for change in changes:
        kind = "both" if _metric(change) in both else change.series.kind
        # Both may move in opposite directions: on a faster host, a container's overhead may grow.
        key = (*_place(change), kind, None if kind == "both" else change.worse)
        groups.setdefault(key, []).append(change)
    ordered = sorted(groups.items(), key=lambda item: not any(change.worse for change in item[1]))
    return [
        ChangeCause(_what(key[-2], group), (*_nodes(group), *_differences(group)), tuple(group))
        for key, group in ordered
    ]


def _place(change: LevelChange) -> tuple[str, str, str]:
    return change.series.system, change.series.partition, change.first.night.name


def _metric(change: LevelChange) -> tuple[Any, ...]:
    return (change.first.night.name, *change.series.of_metric)


def _what(kind: str, group: Sequence[LevelChange]) -> str:
    system, partition, night = _place(group[0])
    where = f"on {system}:{partition} since {night}"
    if kind == "both":
        bare, overheads = ([change for change in group if change.series.kind == kind] for kind in (BARE, OVERHEAD))
        return (
            f"bare and overhead both moved {where}: {_moves(bare)}, and {_moves(overheads)}. "
            "The machine changed, and the change affects container and bare differently"
        )
    if kind == BARE:
        return f"the machine changed {where}: {_moves(group)}, and their overheads did not"
    return f"runtime, image or MPI changed {where}: {_moves(group)}, and their bare values did not"


def _moves(group: Sequence[LevelChange]) -> str:
    """Return the sizes of a group's changes as text, the largest first, with the names of a few series."""
    ordered = sorted(group, key=_severity, reverse=True)
    names = "; ".join(_name(change) for change in ordered[:NAMED])
    more = f"; and {len(group) - NAMED} more" if len(group) > NAMED else ""
    kind = "bare" if group[0].series.kind == BARE else "the overhead"
    return f"{kind} moved ({names}{more})"


def _severity(change: LevelChange) -> float:
    return abs(change.size) / change.series.least if change.series.least > 0 else abs(change.size)


def _name(change: LevelChange) -> str:
    series = change.series
    nodes = f", {series.nodes} nodes" if series.nodes > 1 else ""
    unit = "%" if series.kind == BARE else series.unit
    variant = f" {series.variant}" if series.variant else ""
    return f"{series.label}{variant}{nodes} {series.metric} by {number(change.size, 2, '+')} {unit}"


def _nodes(group: Sequence[LevelChange]) -> list[str]:
    """Return the nodes that show a group's changes, and nodes that do not, of a few changes."""
    return list(dict.fromkeys(change.where for change in group if change.where))[:NAMED]


def _differences(group: Sequence[LevelChange]) -> tuple[str, ...]:
    """Return the facts that differ between the nights of the previous level and the nights since then."""
    lines: dict[str, None] = {}
    for change in group:
        provenances = [point.provenance for point in change.series.points]
        if change.where:
            # The nodes are named, and the rerun was on others on purpose.
            provenances = [{name: value for name, value in each.items() if name != "host"} for each in provenances]
        lines.update(dict.fromkeys(differences(provenances[change.since : change.at], provenances[change.at :])))
    return tuple(lines) or ("nothing that is recorded changed with it",)


def differences(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], complete: bool = False
) -> list[str]:
    """Return a line for each fact that has only new values after a change.

    So facts that differ between nights, such as the node of a job, are left out: an earlier night had the value. Facts
    that only one of the two has are left out too, as an older library did not record them.

    :param before, after: the provenances before and after the change.
    :param complete: whether both recorded all facts, so that a fact which only one of them has is a difference.
    """
    names = dict.fromkeys(name for provenance in (*before, *after) for name, _ in flat(provenance))
    # A record is a complete list of the things that a side saw or used.
    seen = [name for name in names if complete or name.split()[0] in (SEES, USES)]
    then, now = (_values(provenances, seen, complete) for provenances in (before, after))
    changed = [name for name in now if name in then and not then[name].keys() & now[name].keys()]
    # A value that was new in every night explains nothing.
    changed = [name for name in changed if len(before) < SETTLED or len(then[name]) < len(before)]
    if "image_sha256" in changed:
        changed = [name for name in changed if name not in OF_DIGEST]
    # There may be several values: the ones next to the change are shown.
    return [f"{_title(name)}: {_short(list(then[name])[-1])} -> {_short(next(iter(now[name])))}" for name in changed]


def _values(
    provenances: Sequence[Mapping[str, Any]], seen: Sequence[str], complete: bool
) -> dict[str, dict[str, None]]:
    """Return the values of each name, the earliest first.

    :param seen: names of facts that are absent if the record, or that of their side, does not have them.
    """
    values: dict[str, dict[str, None]] = {}
    for provenance in provenances:
        facts = dict(flat(provenance))
        sides = {tuple(name.split()[:2]) for name in facts}
        absent = {name: ABSENT for name in seen if complete or tuple(name.split()[:2]) in sides}
        for name, value in {**absent, **facts}.items():
            values.setdefault(name, {}).pop(value, None)
            values[name][value] = None
    return values


def _short(text: str) -> str:
    """Return a text, or the first digits of a SHA-256."""
    return text[:DIGITS] if re.fullmatch("[0-9a-f]{64}", text) else text


def _title(name: str) -> str:
    """Return a name for people: ``runtime`` for the version of the subject's runtime, ``bare`` for the baseline."""
    first, *rest = name.split()
    rest = [word for word in rest if word != "subject"]
    rest = ["bare" if word == "baseline" else word for word in rest]
    if first == "runtimes" and rest[-1:] == ["version"]:
        rest.pop()
    return " ".join([WORDS.get(first, first), *rest]).replace("machine ", "")
