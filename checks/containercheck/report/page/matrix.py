"""The matrix: what each application came to on each partition, by variant and nodes; and why cases were skipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from containercheck.report.page import wording
from containercheck.report.page.shapes import style_of
from containercheck.report.page.states import ALL, SKIP, State, state
from containercheck.results.cases import Case


@dataclass(frozen=True)
class Entry:
    """Cases of a cell that came to the same.

    :ivar target: anchor of what there is to read about them; empty for nothing.
    :ivar mark: what leads there.
    """

    state: State
    count: int
    target: str
    mark: str


@dataclass(frozen=True)
class Row:
    """An application, with those of its axes that differ; its cells are empty where there is no case."""

    name: str
    target: str
    cells: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """A partition.

    :ivar groups: the variants, with the numbers of nodes of each.
    """

    partition: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Skip:
    """A reason for which cases were skipped, and which ones."""

    anchor: str
    mark: str
    reason: str
    count: int
    who: str


def skips(cases: Sequence[Case]) -> dict[str, Skip]:
    """Return the reasons for which cases were skipped, by themselves, the rarest first: it says most."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            found.setdefault(case.reason or "ReFrame skipped it", []).append(case)
    ordered = sorted(found.items(), key=lambda item: len(item[1]))
    return {
        reason: Skip(f"skip-{place}", str(place), reason, len(those), _who(those))
        for place, (reason, those) in enumerate(ordered, 1)
    }


def _who(cases: Sequence[Case]) -> str:
    names = [wording.name(case) for case in cases]
    applications = sorted({case.application for case in cases})
    return ", ".join(names) if len(names) <= wording.NAMED else ", ".join(applications)


def matrices(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping[str, str]) -> list[Matrix]:
    """Return a matrix for each partition.

    :param reasons: of :func:`skips`.
    :param targets: anchors of what there is to read, by application (its name), and by case that failed (its key).
    """
    partitions: dict[str, list[Case]] = {}
    for case in cases:
        environ = "" if case.key[2] == "builtin" else f" {case.key[2]}"
        partitions.setdefault(wording.partition(case) + environ, []).append(case)
    return [_matrix(name, those, reasons, targets) for name, those in sorted(partitions.items())]


def _matrix(partition: str, cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping) -> Matrix:
    ran: dict[str, set[str]] = {}
    for case in cases:
        if case.result != "skip":
            ran.setdefault(case.application, set()).add(case.label)
    rows: dict[tuple[str, str], dict[tuple[str, int], list[Case]]] = {}
    for case in cases:
        label = _label(case, ran.get(case.application, set()))
        if label:
            rows.setdefault((case.application, label), {}).setdefault((case.variant, case.nodes), []).append(case)
    columns = {at for cells in rows.values() for at in cells}
    ordered = sorted(columns, key=lambda at: (style_of(at[0]), at))
    groups = {variant: tuple(n for name, n in ordered if name == variant) for variant, _ in ordered}
    return Matrix(
        partition,
        tuple(groups.items()),
        tuple(
            Row(label, targets.get(name, ""), tuple(_cell(cells.get(at, ()), reasons, targets) for at in ordered))
            for (name, label), cells in sorted(rows.items())
        ),
    )


def _label(case: Case, ran: Collection[str]) -> str:
    """Return the row of a case; empty for one that was skipped while others of its application ran.

    :param ran: labels of the cases of its application that ran.
    """
    if case.label in ran:
        return case.label
    return "" if ran else case.application


def _cell(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping) -> tuple[Entry, ...]:
    found: dict[State, list[Case]] = {}
    for case in cases:
        found.setdefault(state(case), []).append(case)
    if len(found) > 1:
        # Other cases of the same cell ran.
        found.pop(SKIP, None)
    return tuple(_entry(one, found[one], reasons, targets) for one in ALL if one in found)


def _entry(one: State, cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping) -> Entry:
    if one is SKIP:
        reason = reasons[cases[0].reason or "ReFrame skipped it"]
        return Entry(one, len(cases), reason.anchor, f"why: {reason.mark}")
    target = next((targets[case.key] for case in cases if case.key in targets), "")
    return Entry(one, len(cases), target, "why" if target else "")
