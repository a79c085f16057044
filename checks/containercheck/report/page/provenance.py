"""What ran in a night: runtimes, images, MPI libraries, the machine; and what differs between its cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.report.page.wording import Table, share_of
from containercheck.results.cases import Case

#: Parts of a provenance that have a table of their own, and such as are another for nearly each case.
OWN = ("runtimes", "image", "image_sha256", "image_release", "mpi")
#: The first of the others.
FIRST = ("machine", "host")


@dataclass(frozen=True)
class Provenance:
    """The tables of it.

    :ivar same: what all cases have in common.
    :ivar different: what they have not.
    """

    runtimes: Table
    images: Table
    mpi: Table
    same: Table
    different: Table


def provenance(cases: Sequence[Case]) -> Provenance:
    """Return what ran in these cases."""
    ran = [case for case in cases if case.provenance]
    same, different = _others(ran)
    return Provenance(
        _used("Container runtimes", ("version", "command", "used by"), ran, _runtimes),
        _used("Images", ("image", "release", "SHA-256", "used by"), ran, _images),
        _used("MPI libraries that the ranks loaded", ("side", "library", "used by"), ran, _libraries),
        Table("The same in all cases", ("what", "value"), same, 2),
        Table("What differs between cases", ("what", "value", "cases"), different, 3),
    )


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all that a provenance says, as name and value; what it does not say is left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, (list, tuple)):
        if value:
            yield name, ", ".join(map(str, value))
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    elif value not in (None, ""):
        yield name, str(value)


def _used(caption: str, headings: tuple[str, ...], cases: Sequence[Case], told: Any) -> Table:
    """Return a table of what cases use, each with the cases that do."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], Case]] = {}
    for case in cases:
        for row in told(case.provenance):
            found.setdefault(row, {})[case.key] = case
    rows = ((*row, share_of(list(those.values()), cases)) for row, those in sorted(found.items()))
    return Table(caption, headings, tuple(rows), len(headings))


def _runtimes(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for one in (facts.get("runtimes") or {}).values():
        yield str(one.get("version") or "?"), str(one.get("command") or "?")


def _images(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if facts.get("image"):
        name = str(facts["image"]).rpartition("/")[2]
        yield name, str(facts.get("image_release") or ""), str(facts.get("image_sha256") or "not recorded")


def _libraries(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for side, libraries in (facts.get("mpi") or {}).items():
        for library in libraries or ():
            yield str(side), str(library)


def _others(cases: Sequence[Case]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Return what all cases have in common, and what they have not."""
    found: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        rest = {key: value for key, value in case.provenance.items() if key not in OWN}
        for name, value in flat(rest):
            found.setdefault(name, {}).setdefault(value, []).append(case)
    same, different = [], []
    for name in sorted(found, key=lambda name: (not name.startswith(FIRST), name)):
        values = found[name]
        if len(values) == 1 and len(cases) == len(next(iter(values.values()))):
            same.append((name, next(iter(values))))
        else:
            different += [(name, value, share_of(those, cases)) for value, those in values.items()]
    return tuple(same), tuple(different)
