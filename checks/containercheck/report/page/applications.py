"""The part of the page about each application: its plots, and a table of its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, starmap

from containercheck.history.nights import Night
from containercheck.report import table
from containercheck.report.page import drawing, kept_files, over_axis, wording
from containercheck.report.page.cases import state
from containercheck.report.page.drawing import Chart
from containercheck.report.page.wording import Table, finite, variant_order
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import PASS, Row

#: Most plots of each kind of an application: each takes 0.2 s to draw, and 20 kB.
MOST = 8
#: Most rows of the table, all of which are in the CSV, and most rows of intervals in a plot.
MOST_ROWS, MOST_INTERVALS = 60, 18
METRICS = ("case", "partition", "metric", "bare", "container", "spreads", "overhead", "accepted", "rounds", "verdict")
OVERHEADS = ("metric", "variant", "nodes", "overhead", "accepted", "rounds", "verdict")

#: Cases that differ in variant and nodes only, by the beginning of the titles of their plots.
Groups = Mapping[str, Sequence[Case]]


@dataclass(frozen=True)
class Application:
    """The part of the page about an application.

    :ivar anchor: identifies it on the page.
    :ivar tables: time in MPI of each case where it was measured.
    :ivar remarks: a line on each file that could not be shown.
    :ivar metrics: the metrics of all its cases that ran.
    """

    name: str
    anchor: str
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    remarks: tuple[str, ...]
    metrics: Table


def applications(nights: Sequence[Night], most: int) -> list[Application]:
    """Return the applications that ran in the last night.

    :param most: most plots over nodes; the applications share them.
    """
    by_application: dict[str, list[Case]] = {}
    for case in sorted(nights[-1].cases, key=lambda case: (case.label, variant_order(case.variant), case.nodes)):
        # Skipped cases have a part of the page of their own.
        if case.result != "skip":
            by_application.setdefault(case.application, []).append(case)
    ran = sorted((name, cases) for name, cases in by_application.items() if any(case.rows for case in cases))
    share = min(MOST, max(1, most // max(1, len(ran))))
    return [
        _application(name, f"application-{position}", cases, nights, share)
        for position, (name, cases) in enumerate(ran, 1)
    ]


def _application(name: str, anchor: str, cases: Sequence[Case], nights: Sequence[Night], share: int) -> Application:
    maps, map_problems = kept_files.maps(cases, MOST)
    tables, problems = kept_files.mpi_times(cases, MOST)
    places: dict[str, list[Case]] = {}
    for case in cases:
        places.setdefault(f"{name}, {wording.place(case)}", []).append(case)
    charts = (
        *islice(over_axis.over_versions(name, nights), MOST),
        *islice(_over_nodes(_groups(cases)), share),
        *islice(chain.from_iterable(starmap(over_axis.over_policies, places.items())), MOST),
        *islice(chain.from_iterable(starmap(over_axis.over_axes, places.items())), MOST),
        *maps,
    )
    return Application(name, anchor, charts, tuple(tables), (*map_problems, *problems), _metrics(name, cases))


def _groups(cases: Sequence[Case]) -> Groups:
    """Return the comparable cases of an application by the beginning of the titles of their plots."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        heading = f"{case.application} {wording.axes(case.axes)}".strip()
        groups.setdefault(f"{heading}, {wording.place(case)}", []).append(case)
    return {heading: group for heading, group in groups.items() if any(case.rows for case in group)}


def _over_nodes(groups: Groups) -> Iterator[Chart]:
    """Yield the plots of all groups: the overheads of each, then the speed-ups and metrics over nodes."""
    for heading, group in groups.items():
        compared = [(case, row) for case in group for row in case.rows if finite(row.overhead) is not None]
        for unit in dict.fromkeys(row.overhead_unit for _, row in compared):
            yield _overheads(heading, unit, [pair for pair in compared if pair[1].overhead_unit == unit])
    for heading, group in groups.items():
        yield from over_axis.over_nodes(heading, group)


def _overheads(heading: str, unit: str, measured: Sequence[tuple[Case, Row]]) -> Chart:
    """Return the plot of the overheads in one unit, with their intervals and accepted ranges."""
    several = len({case.nodes for case, _ in measured}) > 1
    lines: dict[str, list[tuple[Case, Row]]] = {}
    for case, row in measured:
        line = f"{row.metric}, {count(case.nodes, 'node')}" if several else row.metric
        lines.setdefault(line, []).append((case, row))
    nearest = set(sorted(lines, key=lambda line: min(_room(row) for _, row in lines[line]))[:MOST_INTERVALS])
    drawn = [(line, case, row) for line, pairs in lines.items() if line in nearest for case, row in pairs]
    text = f"A row for each metric{' and number of nodes' if several else ''}, with a point and its interval for each "
    text += "variant; lines across a row are the ends of the accepted range. "
    text += "An interval without an end reaches the edge; a point without one has too few rounds. "
    if len(nearest) < len(lines):
        text += f"The {len(nearest)} of {len(lines)} rows nearest to the accepted range, or beyond; the CSV has all. "
    _, case, worst = max(drawn, key=lambda entry: entry[2].overhead or 0.0)
    text += f"The largest overhead is {number(worst.overhead, 2, '+')} {unit}: {worst.metric}, {_label(case, worst)}."
    figure = drawing.overheads([(line, _label(case, row), row) for line, case, row in drawn], unit)
    cells = (
        (row.metric, _label(case, row), str(case.nodes), *_judged(row), table.verdict(row)) for _, case, row in drawn
    )
    return Chart.of(f"{heading}: overhead in {unit}", text, figure, OVERHEADS, cells)


def _label(case: Case, row: Row) -> str:
    return row.subject_label or case.variant


def _room(row: Row) -> float:
    """Return the distance of a row's overhead to the accepted maximum; negative beyond it."""
    return (row.accepted[1] or 0.0) - (row.overhead or 0.0)


def _judged(row: Row) -> tuple[str, str, str]:
    """Return the cells of a row's overhead, accepted range, and number of rounds."""
    return table.overhead(row), accepted(row), str(row.rounds or "")


def accepted(row: Row) -> str:
    """Return the accepted range of a row's overhead."""
    (low, high), unit = row.accepted, row.overhead_unit
    if low is not None and high is not None:
        return f"{number(low, 3, '+')} to {number(high, 3, '+')} {unit}"
    if high is not None:
        return f"at most {number(high, 3, '+')} {unit}"
    return f"at least {number(low, 3, '+')} {unit}" if low is not None else ""


def _metrics(application: str, cases: Sequence[Case]) -> Table:
    """Return the table of metrics; of very many, those that did not pass and the first of the others."""
    measured = [(case, row) for case in cases for row in case.rows]
    chosen = sorted(range(len(measured)), key=lambda place: measured[place][1].verdict in ("", PASS))[:MOST_ROWS]
    rows = tuple(_metric(*measured[place]) for place in sorted(chosen))
    caption = f"{application}: {wording.shown_count(len(rows), len(measured), 'metric')}"
    return Table(caption, METRICS, rows, left=3)


def _metric(case: Case, row: Row) -> tuple[str, ...]:
    sides = (table.side(row, side, row.baseline_label != "bare") for side in ("baseline", "subject"))
    head = (wording.name(case), case.place, row.metric)
    return (*head, *sides, table.spreads(row), *_judged(row), table.verdict(row) or state(case).word)
