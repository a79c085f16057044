"""The matrix: the state of each application on each partition, by variant and nodes; and why cases were skipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from containercheck.report.page import wording
from containercheck.report.page.shapes import style_of
from containercheck.report.page.states import ALL, SKIP, State, state
from containercheck.results.cases import Case


@dataclass(frozen=True)
class Entry:
    """Cases of a cell in the same state.

    :ivar target: anchor of the text about them; empty without one.
    :ivar mark: text of the link to it.
    """

    state: State
    count: int
    target: str
    mark: str


@dataclass(frozen=True)
class Row:
    """A row: an application with the axes that differ; a cell is empty where there is no case."""

    name: str
    target: str
    cells: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """The matrix of a partition.

    :ivar groups: the variants, with the numbers of nodes of each.
    """

    partition: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Skip:
    """A reason for which cases were skipped, with their number and names."""

    anchor: str
    mark: str
    reason: str
    count: int
    who: str


def skips(cases: Sequence[Case]) -> dict[str, Skip]:
    """Return the skips by their reasons, the rarest reason first, as it is the most informative."""
    by_reason: dict[str, list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            by_reason.setdefault(case.skip_reason, []).append(case)
    ordered = sorted(by_reason.items(), key=lambda item: len(item[1]))
    return {
        reason: Skip(f"skip-{place}", str(place), reason, len(skipped), _who(skipped))
        for place, (reason, skipped) in enumerate(ordered, 1)
    }


def _who(cases: Sequence[Case]) -> str:
    names = [wording.name(case) for case in cases]
    applications = sorted({case.application for case in cases})
    return ", ".join(names) if len(names) <= wording.NAMED else ", ".join(applications)


def matrices(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping[str, str]) -> list[Matrix]:
    """Return a matrix for each partition.

    :param reasons: result of :func:`skips`.
    :param targets: anchors, by the name of an application and by the key of a failed case.
    """
    partitions: dict[str, list[Case]] = {}
    for case in cases:
        environ = "" if case.key[2] == "builtin" else f" {case.key[2]}"
        partitions.setdefault(wording.partition(case) + environ, []).append(case)
    return [_matrix(name, of_partition, reasons, targets) for name, of_partition in sorted(partitions.items())]


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
    places = {place for cells in rows.values() for place in cells}
    ordered = sorted(places, key=lambda place: (style_of(place[0]), place))
    groups = {variant: tuple(n for name, n in ordered if name == variant) for variant, _ in ordered}
    return Matrix(
        partition,
        tuple(groups.items()),
        tuple(
            Row(label, targets.get(name, ""), tuple(_cell(cells.get(place, ()), reasons, targets) for place in ordered))
            for (name, label), cells in sorted(rows.items())
        ),
    )


def _label(case: Case, ran: Collection[str]) -> str:
    """Return the name of a case's row; empty for a skipped case whose label did not run while others did.

    :param ran: labels of the cases of its application that ran.
    """
    if case.label in ran:
        return case.label
    return "" if ran else case.application


def _cell(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping) -> tuple[Entry, ...]:
    by_state: dict[State, list[Case]] = {}
    for case in cases:
        by_state.setdefault(state(case), []).append(case)
    if len(by_state) > 1:
        # Skips do not show beside cases that ran.
        by_state.pop(SKIP, None)
    return tuple(_entry(kind, by_state[kind], reasons, targets) for kind in ALL if kind in by_state)


def _entry(kind: State, cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Mapping) -> Entry:
    if kind is SKIP:
        reason = reasons[cases[0].skip_reason]
        return Entry(kind, len(cases), reason.anchor, f"why: {reason.mark}")
    target = next((targets[case.key] for case in cases if case.key in targets), "")
    return Entry(kind, len(cases), target, "why" if target else "")
