"""Compare the provenance of nights: what differs between them, and which of them had something new."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from containercheck.explain.between import OTHERS, SEES, USES
from containercheck.history.series import Point

#: Digits of a SHA-256 that are shown, as for a commit.
DIGITS = 12
#: Names for people of some keys of a provenance; other keys are shown as they are.
WORDS = {"runtimes": "runtime", "image_sha256": "image", "mpi": "MPI library", "builds": "build", "bound": "cores"}
#: Keys that say the same as the image's digest, where there is one.
OF_DIGEST = ("image", "image_id")
#: Keys that change from job to job, and that the values do not depend on.
PASSING = ("host",)
#: What a fact is called that a side did not see, and another night's did.
ABSENT = "none"
#: Nights without anything new before something new counts: images that are built every night say nothing.
SETTLED = 3


def _is_passing(name: str) -> bool:
    """Return whether a fact may be another one in any night: what happens to be seen of runs counts as such."""
    what = name.split(" ", 1)[0]
    return name in PASSING or what == USES or (what == SEES and f" {OTHERS} " in name)


def renewed(points: Sequence[Point]) -> list[bool]:
    """Return for each night whether it recorded a value that no earlier night had, after settled nights."""
    seen: dict[str, set[str]] = {}
    is_renewed: list[bool] = []
    settled = 0
    for point in points:
        values = {name: value for name, value in _flat(point.provenance) if not _is_passing(name)}
        is_new = any(name in seen and value not in seen[name] for name, value in values.items())
        is_renewed.append(is_new and settled >= SETTLED)
        settled = 0 if is_new else settled + 1
        for name, value in values.items():
            seen.setdefault(name, set()).add(value)
    return is_renewed


def differences(before: Sequence[Point], after: Sequence[Point]) -> list[str]:
    """Return a line for each name whose values after a change are all different from those before it.

    So what differs from night to night, such as the node of a job, is left out: some night had the value before. Names
    that only one of the two has, because an older library did not record them, are left out too.
    """
    before, after = _with_absent(before, after)
    then, now = (_values(points) for points in (before, after))
    changed = [name for name in now if name in then and not then[name] & now[name]]
    # What was new in every night is new for no reason.
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
