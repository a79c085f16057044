"""What ran, as it was recorded with each value: in what nights differ, and in which of them something was new."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from containercheck.history.series import Point

#: Of a SHA-256 so many digits are shown, as of a commit.
DIGITS = 12
#: What people call the keys of a provenance; the others are called what they are.
WORDS = {"runtimes": "runtime", "image_sha256": "image", "mpi": "MPI library", "builds": "build", "bound": "cores"}
#: What says the same as the digest does, where there is one.
OF_DIGEST = ("image", "image_id")
#: What is another one from job to job, and says nothing of what the values depend on.
PASSING = ("host",)
#: Something new counts where so many nights before it had nothing new: where images are built every night, that they
#: are says nothing.
SETTLED = 3


def renewed(points: Sequence[Point]) -> list[bool]:
    """Tell of each night whether something that was recorded is one that no night before had, after settled nights."""
    seen: dict[str, set[str]] = {}
    found: list[bool] = []
    settled = 0
    for point in points:
        own = {name: value for name, value in _flat(point.provenance) if name not in PASSING}
        is_new = any(name in seen and value not in seen[name] for name, value in own.items())
        found.append(is_new and settled >= SETTLED)
        settled = 0 if is_new else settled + 1
        for name, value in own.items():
            seen.setdefault(name, set()).add(value)
    return found


def differences(before: Sequence[Point], after: Sequence[Point]) -> list[str]:
    """Return a line for each thing in which the provenance of all points after differs from that of all before.

    What also differs from night to night, such as the node of a job, is not told: some night has had it before. What
    only one of the two knows, because an older library did not record it, is not told either.
    """
    then, now = (_values(points) for points in (before, after))
    changed = [name for name in now if name in then and not then[name] & now[name]]
    if "image_sha256" in changed:
        changed = [name for name in changed if name not in OF_DIGEST]
    # The newest of each, as there may be several.
    last = dict(_flat(before[-1].provenance)) if before else {}
    first = dict(_flat(after[0].provenance)) if after else {}
    return [f"{_called(name)}: {last[name]} -> {first[name]}" for name in changed if name in last and name in first]


def _values(points: Sequence[Point]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for point in points:
        for name, value in _flat(point.provenance):
            found.setdefault(name, set()).add(value)
    return found


def _flat(provenance: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Return names and values as text; names of what is nested are joined by blanks."""
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


def _called(name: str) -> str:
    """Return what people call a name: the runtime's version of the subject is the runtime's, of the baseline is not."""
    first, *rest = name.split()
    rest = [word for word in rest if word != "subject"]
    rest = ["bare" if word == "baseline" else word for word in rest]
    if first == "runtimes" and rest[-1:] == ["version"]:
        rest.pop()
    return " ".join([WORDS.get(first, first), *rest]).replace("machine ", "")
