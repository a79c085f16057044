"""Make the part of the page about each application: its plots, and a table of its metrics.

Metrics are drawn over nodes, axes of the check, and sizes of messages.
Speed-ups, and gains by policies of sharing cores, are lines of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Union

from containercheck.job.contract import BASELINE, SUBJECT
from containercheck.report import scaling, table
from containercheck.report.page import cases as page_cases
from containercheck.report.page import plots
from containercheck.report.page.cases import Table, finite, variant_order
from containercheck.report.page.plots import Chart, Panel, PlotValue
from containercheck.results import states
from containercheck.results.cases import Case
from containercheck.results.formatting import by_key, count, number
from containercheck.results.row import PASS, Row, is_finite

#: Most plots of each kind for an application: a plot takes 0.2 s to draw, and 20 kB.
MOST = 8
#: Most rows of the table.
MOST_ROWS = 60
METRICS = ("case", "partition", "metric", "bare", "container", "spreads", "overhead", "accepted", "rounds", "verdict")
#: Standard errors on each side of a value.
ERRORS = 2.0
#: A metric at one size of a message, bytes of its units, and fewest sizes of a curve.
SIZED = re.compile(r"^(\w+?)_(\d+)(B|KiB|MiB)$")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
FEWEST_SIZES = 4

#: A row of a case with its place on an axis.
Placed = tuple[Case, Row, Union[float, str]]


@dataclass(frozen=True)
class Application:
    """The part of the page about an application.

    :ivar anchor: identifies it on the page.
    :ivar remarks: speed-ups.
    :ivar metrics: the metrics of all its cases that ran.
    """

    name: str
    anchor: str
    charts: tuple[Chart, ...]
    remarks: tuple[str, ...]
    metrics: Table


def applications(cases: Iterable[Case]) -> list[Application]:
    """Return the applications that ran, of the cases of a night."""
    by_application: dict[str, list[Case]] = {}
    for case in sorted(cases, key=lambda case: (case.label, variant_order(case.variant), case.nodes)):
        # Another part of the page has the skipped cases.
        if case.result != "skip":
            by_application.setdefault(case.application, []).append(case)
    ran = sorted((name, cases) for name, cases in by_application.items() if any(case.rows for case in cases))
    return [_application(name, f"application-{position}", cases) for position, (name, cases) in enumerate(ran, 1)]


def _application(name: str, anchor: str, cases: Sequence[Case]) -> Application:
    groups, places = (page_cases.grouped(cases, are_axes_apart).items() for are_axes_apart in (True, False))
    charts = (
        *islice(chain.from_iterable(over_nodes(*group) for group in groups), MOST),
        *islice(chain.from_iterable(over_axes(*group) for group in places), MOST),
    )
    return Application(name, anchor, charts, tuple(scaling.lines(cases)), _metrics(name, cases))


def accepted(row: Row) -> str:
    """Return the accepted range of a row's overhead."""
    (low, high), unit = row.accepted, row.overhead_unit
    if low is not None and high is not None:
        return f"{number(low, 3, '+')} to {number(high, 3, '+')} {unit}"
    if high is not None:
        return f"at most {number(high, 3, '+')} {unit}"
    return f"at least {number(low, 3, '+')} {unit}" if low is not None else ""


def _metrics(application: str, cases: Sequence[Case]) -> Table:
    """Return the table of metrics. If there are too many, metrics that did not pass come before others."""
    measured = [(case, row) for case in cases for row in case.rows]
    chosen = sorted(range(len(measured)), key=lambda place: measured[place][1].verdict in ("", PASS))[:MOST_ROWS]
    rows = tuple(_metric(*measured[place]) for place in sorted(chosen))
    return Table(f"{application}: {len(rows)} of {count(len(measured), 'metric')}", METRICS, rows, left=3)


def _metric(case: Case, row: Row) -> tuple[str, ...]:
    head = (page_cases.name(case), case.place, row.metric)
    sides = (table.side(row, side, row.baseline_label != "bare") for side in (BASELINE, SUBJECT))
    judged = (table.overhead(row), accepted(row), str(row.rounds or ""))
    return (*head, *sides, table.spreads(row), *judged, table.verdict(row) or states.state_of(case).word)


def over_nodes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plot of each metric over nodes.

    :param heading: beginning of the titles: application, with partition and axes.
    :param cases: cases that differ only in variant and number of nodes.
    """
    for metric in _metrics_of(cases):
        rows = [(case, row, float(case.nodes)) for case, row in _rows(cases, metric)]
        yield from _over(f"{heading}: {metric}", "nodes", rows)


def _metrics_of(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(row.metric for case in cases for row in case.rows))


def _rows(cases: Iterable[Case], metric: str) -> list[tuple[Case, Row]]:
    return [(case, row) for case in cases for row in case.rows if row.metric == metric]


def over_axes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over each axis of a check, and over the sizes of messages.

    :param heading: beginning of the titles: application with partition.
    :param cases: cases of one application on one partition and environment.
    """
    for axis in dict.fromkeys(name for case in cases for name in case.axes):
        group = most_values(axis, cases)
        # Zero is a placeholder for a default.
        numeric = all(re.fullmatch(r"\d*[1-9]\d*", case.axes[axis]) for case in group)
        for metric in _metrics_of(group):
            rows = [(case, row, _place(case.axes[axis], numeric)) for case, row in _rows(group, metric)]
            yield from _over(f"{heading}: {metric}", axis, rows)
    yield from _over_sizes(heading, cases)


def _place(value: str, numeric: bool) -> float | str:
    return float(value) if numeric else "default" if value == "0" else value


def most_values(axis: str, cases: Sequence[Case]) -> list[Case]:
    """Return the largest group of cases that differ only in an axis; none without two values."""

    def others(case: Case) -> tuple[object, ...]:
        return (case.nodes, *sorted(item for item in case.axes.items() if item[0] != axis))

    groups = by_key((case for case in cases if axis in case.axes and case.rows), others)
    best = max(groups.values(), key=lambda group: len({case.axes[axis] for case in group}), default=[])
    return best if len({case.axes[axis] for case in best}) > 1 else []


def _over_sizes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield a plot over the sizes of a message for each quantity, from the cases on most nodes."""
    nodes = max((case.nodes for case in cases), default=0)
    quantities: dict[str, list[Placed]] = {}
    for case in cases:
        for row in case.rows if case.nodes == nodes else ():
            quantity, size = _sized(row.metric)
            if quantity:
                quantities.setdefault(quantity, []).append((case, row, size))
    for quantity, rows in quantities.items():
        if len({size for _, _, size in rows}) >= FEWEST_SIZES:
            yield from _over(f"{heading}: {quantity}", "the size of a message in bytes", rows)


def _sized(metric: str) -> tuple[str, float]:
    """Return quantity and bytes of a metric at a size of a message; an empty quantity for any other metric."""
    match = SIZED.match(metric)
    return (match[1], float(match[2]) * BYTES[match[3]]) if match else ("", 0.0)


def _over(title: str, axis: str, placed: Sequence[Placed]) -> Iterator[Chart]:
    """Yield the plot of both sides of rows over an axis; none with less than two places."""
    values = _values(placed)
    if len({at for _, _, at in placed}) < 2 or not values:
        return
    unit = placed[0][1].unit
    order = sorted({value.at for value in values}, key=lambda at: (isinstance(at, str), at))
    sides = plots.by_side(sorted(values, key=lambda value: order.index(value.at)))
    ends = (f"{side}: {' to '.join(dict.fromkeys((_end(of[0]), _end(of[-1]))))}" for side, of in sides.items())
    description = f"{unit or 'Value'} over {axis}; bars are two standard errors. {'; '.join(ends)}."
    yield Chart.of(f"{title} over {axis}", description, [Panel(unit, values)], axis, order)


def _end(value: PlotValue) -> str:
    return f"{number(value.value)} at {plots.short(value.at)}"


def _values(placed: Sequence[Placed]) -> list[PlotValue]:
    """Return the values of both sides of rows at their places; of several values at a place, the middle one.

    A bare case is a single run, at another time than the container. On a machine with two speeds, it would show a
    difference that is not in the rounds. So it counts only if the container cases have no bare value at this place.
    """
    alone = _by_place(each for each in placed if not each[1].is_comparison)
    compared = _by_place(each for each in placed if each[1].is_comparison)
    values = []
    for (side, at), of_place in {**alone, **compared}.items():
        value, error = sorted(of_place, key=lambda pair: pair[0])[(len(of_place) - 1) // 2]
        half = None if error is None else ERRORS * error
        values.append(PlotValue(side, at, value, *((None, None) if half is None else (value - half, value + half))))
    return values


def _by_place(placed: Iterable[Placed]) -> dict[tuple[str, float | str], list[tuple[float, float | None]]]:
    """Return the values with their errors, by side and place."""
    by_place: dict[tuple[str, float | str], list[tuple[float, float | None]]] = {}
    for case, row, at in placed:
        baseline = (row.baseline_label or "bare", row.baseline, row.baseline_error)
        subject = (row.subject_label or case.variant, row.subject, row.subject_error)
        for side, value, error in (baseline, subject):
            if is_finite(value):
                by_place.setdefault((side, at), []).append((value, finite(error)))
    return by_place
