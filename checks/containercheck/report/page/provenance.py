"""Tables of the provenance of a night: runtimes, images, MPI libraries, the machine, and differences between cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from containercheck.report.page.wording import Table, share_of
from containercheck.results.cases import Case
from containercheck.results.formatting import size
from containercheck.results.sides_seen import OTHERS

#: Parts of a provenance that have a table of their own, or differ in nearly every case.
OWN = ("runtimes", "image", "image_sha256", "image_bytes", "image_content_bytes", "image_release", "mpi")
#: Beginnings of the names that come first among the others.
FIRST = ("machine", "host")


def provenance(cases: Sequence[Case]) -> tuple[Table, ...]:
    """Return tables of the runtimes, images and MPI libraries of cases, and of facts that they share or not."""
    ran = [case for case in cases if case.provenance]
    same, different = _others(ran)
    return (
        _used("Container runtimes", ("version", "command", "used by"), ran, _runtimes),
        _used("Images", ("image", "release", "size", "its files", "SHA-256", "used by"), ran, _images),
        _used("MPI libraries that the ranks loaded", ("side", "library", "used by"), ran, _libraries),
        Table("The same in all cases", ("what", "value"), same, 2),
        Table("What differs between cases", ("what", "value", "cases"), different, 3),
    )


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all facts of a provenance as name and value; empty ones are left out."""
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


def _used(
    caption: str,
    headings: tuple[str, ...],
    cases: Sequence[Case],
    rows_of: Callable[[Mapping[str, Any]], Iterator[tuple[str, ...]]],
) -> Table:
    """Return a table of things that cases use, each with the cases that use it.

    :param rows_of: returns the rows of a case's provenance.
    """
    users: dict[tuple[str, ...], dict[tuple[str, ...], Case]] = {}
    for case in cases:
        for row in rows_of(case.provenance):
            users.setdefault(row, {})[case.key] = case
    rows = ((*row, share_of(list(using.values()), cases)) for row, using in sorted(users.items()))
    return Table(caption, headings, tuple(rows), len(headings))


def _runtimes(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for runtime in (facts.get("runtimes") or {}).values():
        yield str(runtime.get("version") or "?"), str(runtime.get("command") or "?")


def _images(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if facts.get("image"):
        name = str(facts["image"]).rpartition("/")[2]
        sizes = (size(facts[key]) if facts.get(key) else "" for key in ("image_bytes", "image_content_bytes"))
        yield name, str(facts.get("image_release") or ""), *sizes, str(facts.get("image_sha256") or "not recorded")


def _libraries(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for side, libraries in (facts.get("mpi") or {}).items():
        for library in libraries or ():
            yield str(side), str(library)


def _others(cases: Sequence[Case]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Return the rows of facts that all cases share, and of those in which they differ."""
    by_name: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        rest = {key: value for key, value in case.provenance.items() if key not in OWN}
        # There are many variables that no rule knows, and a fingerprint means nothing to a person.
        for name, value in (fact for fact in flat(rest) if f" {OTHERS} " not in fact[0]):
            by_name.setdefault(name, {}).setdefault(value, []).append(case)
    same, different = [], []
    for name in sorted(by_name, key=lambda name: (not name.startswith(FIRST), name)):
        values = by_name[name]
        if len(values) == 1 and len(cases) == len(next(iter(values.values()))):
            same.append((name, next(iter(values))))
        else:
            different += [(name, value, share_of(using, cases)) for value, using in values.items()]
    return tuple(same), tuple(different)
