"""Show the cases of a night on the page: names, matrix, failures, commands that repeat them, and provenance."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from containercheck.report.table import Reason, rounds
from containercheck.results import selections, states
from containercheck.results.cases import Case, Key
from containercheck.results.formatting import by_key, count, first, size, typed
from containercheck.results.row import is_finite
from containercheck.results.sides_seen import OTHERS, flat
from containercheck.results.states import State
from containercheck.session.usage import FULL

#: Escape sequences of a terminal, such as colors.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Characters that are not allowed in HTML or XML.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: Most names in a list.
NAMED = 3
#: Variants in the order of the page; other names follow.
VARIANTS = ("bare", "integrated", "generic")
#: Parts of a provenance that have another table, or differ in nearly every case.
OWN = ("images", "image", "image_sha256", "image_bytes", "image_release")
#: Beginnings of the names that come first in the table.
FIRST = ("runtimes", "machine", "host", "mpi")


@dataclass(frozen=True)
class Table:
    """A table of the page.

    :ivar caption: its content; captions are unique on the page.
    :ivar left: number of columns with text; the others have numbers.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def plain(text: str) -> str:
    """Return a text without escape sequences, and with unprintable characters replaced."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", text).replace("\r\n", "\n"))


def finite(value: float | None) -> float | None:
    """Return a number if it is finite, else None."""
    return value if is_finite(value) else None


def variant_order(name: str) -> int:
    """Return the place of a variant, or of the label of a side, among the others."""
    return VARIANTS.index(name) if name in VARIANTS else len(VARIANTS)


def place(case: Case) -> str:
    """Return a case's partition, with its environment if that is not ReFrame's built-in one."""
    environ = case.key[2]
    return case.place + ("" if environ in ("", "builtin") else f" {environ}")


def name(case: Case, where: bool = False) -> str:
    """Return the name of a case.

    :param where: whether to add its partition and environment.
    """
    return f"{case.label} {case.variant}, {count(case.nodes, 'node')}" + (f", {place(case)}" if where else "")


def axes(values: Mapping[str, str]) -> str:
    """Return the values of a check's own parameters."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def grouped(cases: Iterable[Case], with_axes: bool = True) -> dict[str, list[Case]]:
    """Return cases by the beginning of a title: application, axes and place. A group differs in variant and nodes."""

    def title(case: Case) -> str:
        words = [case.application, axes(case.axes) if with_axes else ""]
        return f"{' '.join(filter(None, words))}, {place(case)}"

    return by_key(cases, title)


def listed(cases: Sequence[Case]) -> str:
    """Return the names of the first cases, and the number of the others."""
    return first([name(case) for case in cases], NAMED)


def command(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return the command that runs exactly these cases of one partition and environment; "" for none.

    ReFrame matches the expression with the displayed name without spaces. Configuration files and variables are those
    of the session that first ran the first of the cases.

    :param everything: all cases of the night. The environment is named only if the partition has several.
    """
    if not cases:
        return ""
    system, partition, environ, _ = cases[0].key
    selection = "|".join(f"^{_escaped(case.name.replace(' ', ''))}$" for case in cases)
    words = [f"--system={system}:{partition}"] if system else []
    if any(case.key[:2] == (system, partition) and case.key[2] != environ for case in everything):
        words += ["-p", f"^{_escaped(environ)}$"]
    options = (*cases[0].earlier, cases[0])[0].options
    words += ["-n", selection, *options]
    if any("full" in case.tags for case in cases) and FULL[1] not in options:
        words += FULL
    return f"{typed('run')} {shlex.join(words)}"


def _escaped(text: str) -> str:
    # ReFrame reads a name with an @ as a test and the number of its variant.
    return re.escape(text).replace("\\-", "-").replace("@", ".")


def failures(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Return the cases that count as failed, each with its failed run."""
    failed = [(case, run) for case in cases if (run := selections.failure(case))]
    return sorted(failed, key=lambda pair: (pair[0].label, pair[0].variant, pair[0].nodes))


def remark(case: Case, run: Case) -> str:
    """Return further remarks on a failure: the tally of its metrics, whether a later run passed, and its nodes."""
    several = len(states.verdicts(run)) > 1
    sentences = [f"Of its metrics: {states.tally(run)}."] if several else []
    if run is not case:
        sentences.append("A later run passed; the failure remains.")
    nodes = selections.nodes_of_failure(case)
    sentences += [f"It failed {nodes}."] if nodes else []
    return " ".join(sentences)


def still_open(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with open verdicts, the most urgent first."""
    return sorted(
        (case for case in cases if selections.open_rows(case)), key=lambda case: states.ALL.index(states.state_of(case))
    )


def open_metrics(case: Case) -> list[str]:
    """Return a text on each open metric of a case."""
    return [f"{row.metric}: {states.describe(row)} ({rounds(row)})" for row in selections.open_rows(case)]


@dataclass(frozen=True)
class Link:
    """A link within the page.

    :ivar anchor: identifies its target.
    :ivar text: text to click on.
    """

    anchor: str
    text: str


@dataclass(frozen=True)
class CellState:
    """Cases of a cell in the same state, with the first link of these cases."""

    state: State
    count: int
    link: Link | None


@dataclass(frozen=True)
class MatrixRow:
    """A row: an application with the axes that differ; a cell without a case is empty."""

    application: str
    name: str
    cells: tuple[tuple[CellState, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """The matrix of a partition.

    :ivar groups: the variants, with the numbers of nodes of each.
    """

    partition: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    rows: tuple[MatrixRow, ...]


def links(failed: Iterable[Case], skips: Iterable[Reason]) -> dict[Key, Link]:
    """Return the links of cases to the reason of their failure or skip."""
    found = {case.key: Link(f"failure-{number}", "why") for number, case in enumerate(failed, 1)}
    for number, skip in enumerate(skips, 1):
        for case in skip.cases:
            # An earlier run may have failed; the failure is more important.
            found.setdefault(case.key, Link(f"skip-{number}", f"why: {number}"))
    return found


def matrices(cases: Iterable[Case], links: Mapping[Key, Link]) -> list[Matrix]:
    """Return a matrix for each partition."""
    return [_matrix(partition, members, links) for partition, members in sorted(by_key(cases, place).items())]


def _matrix(partition: str, cases: Sequence[Case], links: Mapping[Key, Link]) -> Matrix:
    ran: dict[str, set[str]] = {}
    for case in cases:
        if case.result != "skip":
            ran.setdefault(case.application, set()).add(case.label)
    rows: dict[tuple[str, str], dict[tuple[str, int], list[Case]]] = {}
    for case in cases:
        label = _label(case, ran.get(case.application, set()))
        if label:
            rows.setdefault((case.application, label), {}).setdefault((case.variant, case.nodes), []).append(case)
    columns = {column for cells in rows.values() for column in cells}
    ordered = sorted(columns, key=lambda column: (variant_order(column[0]), column))
    groups = {variant: tuple(n for other, n in ordered if other == variant) for variant, _ in ordered}
    matrix_rows = (
        MatrixRow(application, label, tuple(_cell(cells.get(column, ()), links) for column in ordered))
        for (application, label), cells in sorted(rows.items())
    )
    return Matrix(partition, tuple(groups.items()), tuple(matrix_rows))


def _label(case: Case, ran: Collection[str]) -> str:
    """Return the name of a case's row; empty for a skipped case if only other labels of its application ran.

    :param ran: labels of the application's cases that ran.
    """
    if case.label in ran:
        return case.label
    return "" if ran else case.application


def _cell(cases: Sequence[Case], links: Mapping[Key, Link]) -> tuple[CellState, ...]:
    by_state = by_key(cases, states.state_of)
    if len(by_state) > 1:
        # A cell with cases that ran does not show skips.
        by_state.pop(states.SKIP, None)
    return tuple(
        CellState(
            kind, len(by_state[kind]), next((links[case.key] for case in by_state[kind] if case.key in links), None)
        )
        for kind in states.ALL
        if kind in by_state
    )


def provenance(cases: Sequence[Case]) -> tuple[Table, ...]:
    """Return tables of the images of cases, of their common facts, and of the facts that differ."""
    ran = [case for case in cases if case.provenance]
    same, different = _others(ran)
    return (
        Table("Images", ("image", "release", "size", "SHA-256", "used by"), _images(ran), 5),
        Table("The same in all cases", ("what", "value"), same, 2),
        Table("Differences between cases", ("what", "value", "cases"), different, 3),
    )


def _images(cases: Sequence[Case]) -> tuple[tuple[str, ...], ...]:
    """Return the rows of the images of cases, each with its cases."""
    users: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        facts = case.provenance
        for image in (facts, *(facts.get("images") or {}).values()):
            if image.get("image"):
                image_size = size(image["image_bytes"]) if image.get("image_bytes") else ""
                digest = str(image.get("image_sha256") or "not recorded")
                row = (Path(image["image"]).name, str(image.get("image_release") or ""), image_size, digest)
                users.setdefault(row, []).append(case)
    return tuple((*row, listed(using)) for row, using in sorted(users.items()))


def _others(cases: Sequence[Case]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Return the rows of the common facts of all cases, and of the facts that differ."""
    by_name: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        rest = {key: value for key, value in case.provenance.items() if key not in OWN}
        # There are many variables without a rule, and their fingerprints are not readable.
        for fact, value in (each for each in flat(rest) if f" {OTHERS} " not in each[0]):
            by_name.setdefault(fact, {}).setdefault(value, []).append(case)
    same, different = [], []
    for fact in sorted(by_name, key=lambda fact: (not fact.startswith(FIRST), fact)):
        values = by_name[fact]
        if len(values) == 1 and len(cases) == len(next(iter(values.values()))):
            same.append((fact, next(iter(values))))
        else:
            different += [(fact, value, listed(using)) for value, using in values.items()]
    return tuple(same), tuple(different)
