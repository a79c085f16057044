"""Plots of metrics over an axis: nodes, cores, an axis of the check, sizes of messages, policies, runtime versions.

Numbers have a curve for each side, names have bars. Published values are hollow, with their machine.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Union

from containercheck.history.nights import Night
from containercheck.report import policies, scaling
from containercheck.report.page import drawing, wording
from containercheck.report.page.axis_values import Published, is_number, places, published
from containercheck.report.page.drawing import Chart, PlotValue
from containercheck.report.page.wording import finite, variant_order
from containercheck.report.scaling import Scaling, Side
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row, is_finite

#: Standard errors on each side of a value.
ERRORS = 2.0
#: A metric at one size of a message, bytes of its units, and fewest sizes that make a curve.
SIZED = re.compile(r"^(\w+?)_(\d+)(B|KiB|MiB)$")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
FEWEST_SIZES = 4
#: Metrics of each application that are drawn over versions of the runtime (D12.6 section 9).
OF_VERSIONS = {"StartUp": ("start",), "RAMP": ("outside", "seconds_unet", "compute", "memory"), "DB12": ("DB12",)}

#: A row of a case with its place on an axis.
Placed = tuple[Case, Row, Union[float, str]]


def values(rows: Iterable[Placed], labels: Mapping[str, str] | None = None) -> list[PlotValue]:
    """Return the values of both sides of rows at their places; of several values, that of most rounds.

    A bare case is a single run, at another time than the container: on a machine of two speeds it would show a
    difference that no round has.

    :param labels: label to show for each label of a side that counts; None for all of them.
    """
    by_place: dict[tuple[str, object], list[tuple[int, PlotValue]]] = {}
    for case, row, at in sorted(rows, key=lambda placed: placed[0].variant != "bare"):
        for value in _of_row(case, row, at):
            side = value.side if labels is None else labels.get(value.side, "")
            if side:
                by_place.setdefault((side, at), []).append((row.rounds, replace(value, side=side)))
    return [max(of_place, key=lambda pair: pair[0])[1] for of_place in by_place.values()]


def _of_row(case: Case, row: Row, at: float | str) -> Iterator[PlotValue]:
    sides = (
        (row.baseline_label or "bare", row.baseline, row.baseline_error),
        (row.subject_label or case.variant, row.subject, row.subject_error),
    )
    for side, value, error in sides:
        if is_finite(value):
            yield with_error(PlotValue(side, at, value), finite(error))


def with_error(value: PlotValue, error: float | None) -> PlotValue:
    """Return a value with its interval; without one where its error is None."""
    if error is None:
        return value
    return replace(value, low=value.value - ERRORS * error, high=value.value + ERRORS * error)


def chart(
    title: str,
    axis: str,
    unit: str,
    points: Sequence[PlotValue],
    text: str = "",
    bars: str = "bars are two standard errors",
    ideal: bool = False,
) -> Chart:
    """Return the plot of values over an axis.

    :param text: sentences about it.
    :param bars: meaning of the intervals.
    :param ideal: whether to draw the ideal speed-up.
    """
    sides = drawing.by_side(points)
    ends = (f"{side}: {_ends(of_side)}" for side, of_side in sides.items())
    description = " ".join(filter(None, [f"{unit or 'Value'} over {axis}; {bars}.", text, f"{'; '.join(ends)}."]))
    rows = ((side, value.where, _cell(value, unit)) for side, of_side in sides.items() for value in of_side)
    if drawing.is_numeric(points):
        figure = drawing.over_numbers(points, axis, unit, ideal)
    else:
        figure = drawing.over_names(points, unit)
    return Chart.of(title, description, figure, ("side", axis, f"value, {unit}" if unit else "value"), rows)


def _ends(of_side: Sequence[PlotValue]) -> str:
    texts = (f"{number(value.value)} at {value.where}" for value in (of_side[0], of_side[-1]))
    return " to ".join(dict.fromkeys(texts))


def _cell(value: PlotValue, unit: str) -> str:
    ends = "" if value.low is None or value.high is None else f" ({number(value.low)} to {number(value.high)})"
    return f"{number(value.value)}{ends} {unit}".rstrip() + (f", {value.note}" if value.note else "")


def _mark(reference: Published, at: float | str, place: str = "") -> PlotValue:
    return PlotValue(f"published: {reference.label}", at, reference.value, place=place, published=True)


def over_nodes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the speed-up of each metric that scales, then each metric over nodes.

    :param heading: application, with partition and axes: the beginning of the titles.
    :param cases: they differ in variant and number of nodes only.
    """
    yield from _scalings(heading, [result for result in scaling.of(cases) if result.over == scaling.NODES])
    for metric, unit in _metrics(cases).items():
        points = values((case, row, case.nodes) for case, row in _rows(cases, metric))
        if len({value.at for value in points}) > 1:
            references = (value for value in published(cases[0].application) if value.metric == metric)
            points += [_mark(value, value.nodes) for value in references if value.is_of(cases[0].axes)]
            yield chart(f"{heading}: {metric} over nodes", "nodes", unit, points)


def _metrics(cases: Sequence[Case]) -> dict[str, str]:
    """Return the metrics of cases with their units."""
    return {row.metric: row.unit for case in cases for row in case.rows}


def _rows(cases: Sequence[Case], metric: str) -> Iterator[tuple[Case, Row]]:
    return ((case, row) for case in cases for row in case.rows if row.metric == metric)


def _scalings(heading: str, results: Sequence[Scaling]) -> Iterator[Chart]:
    """Yield the speed-up of each metric that scales, and over cores its efficiency, as figures 8.9 to 8.13 of D12.6."""
    by_metric: dict[str, list[Scaling]] = {}
    for result in results:
        by_metric.setdefault(result.metric, []).append(result)
    for metric, of_metric in by_metric.items():
        sides, over = _merged(of_metric), of_metric[0].over
        fewest = min(side.fewest for side in sides)
        ends = [f"{side.label}: efficiency {scaling.percent(side.points[-1].efficiency)}" for side in sides]
        text = ["; ".join(ends) + "."]
        if any(result.kind == "weak" for result in of_metric):
            text.append(f"A run works on more with more {over}, which counts.")
        text += [
            f"{side.label} is compared with {scaling.amount(side.fewest, over)}, and begins on the line of the ideal."
            for side in sides
            if side.fewest > fewest
        ]
        text += [f"{result.variant}: {scaling.without(result)}." for result in of_metric if result.left_out]
        points = [_scaled(side, point, side.fewest / fewest) for side in sides for point in side.points]
        title = f"{heading}: speed-up of {metric}" + (f" over {over}" if over != scaling.NODES else "")
        yield chart(title, over, "speed-up", points, " ".join(text), ideal=True)
        if over == scaling.CORES:
            points = [_scaled(side, point, 100 * side.fewest / point.at) for side in sides for point in side.points]
            yield chart(f"{heading}: efficiency of {metric} over {over}", over, "efficiency, %", points, " ".join(text))


def _scaled(side: Side, point: scaling.Point, factor: float) -> PlotValue:
    note = f"efficiency {scaling.percent(point.efficiency)}"
    value = PlotValue(side.label, point.at, factor * point.speed_up, note=note)
    return with_error(value, None if point.error is None else factor * point.error)


def _merged(results: Sequence[Scaling]) -> list[Side]:
    """Return the sides; of a side in several cases, that over most nodes, or that of the bare case."""
    sides: dict[str, Side] = {}
    for result in sorted(results, key=lambda result: (-len(result.sides[0].points), result.variant != "bare")):
        for side in result.sides:
            sides.setdefault(side.label, side)
    return sorted(sides.values(), key=lambda side: (variant_order(side.label), side.label))


def over_axes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over each axis of a check, and over the sizes of messages.

    :param heading: application with partition: the beginning of their titles.
    :param cases: of one application on one partition and environment.
    """
    for axis in dict.fromkeys(name for case in cases for name in case.axes):
        group = most_values(axis, cases)
        yield from _scalings(heading, list(scaling.over_cores(group)))
        for metric, unit in _metrics(group).items():
            yield from _over_axis(heading, axis, metric, unit, group)
    yield from _over_sizes(heading, cases)


def most_values(axis: str, cases: Sequence[Case]) -> list[Case]:
    """Return those cases that differ in an axis only, of all such groups the one with most values; else none."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        if axis in case.axes and case.rows:
            others = tuple(sorted(item for item in case.axes.items() if item[0] != axis))
            groups.setdefault((case.nodes, others), []).append(case)
    best = max(groups.values(), key=lambda group: len({case.axes[axis] for case in group}), default=[])
    return best if len({case.axes[axis] for case in best}) > 1 else []


def _over_axis(heading: str, axis: str, metric: str, unit: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plot of a metric over an axis; of policies of sharing cores, only the sides without one count."""
    placed = places(axis, cases)
    numbers: dict[str, float | str] = {}
    numbers.update(placed.numbers if placed else {case.axes[axis]: case.axes[axis] for case in cases})
    texts = {at: _place(name, at) for name, at in numbers.items()}
    rows = ((case, row, numbers[case.axes[axis]]) for case, row in _rows(cases, metric) if case.axes[axis] in numbers)
    points = [replace(value, place=texts[value.at]) for value in values(rows, policies.without(cases) or None)]
    if len({value.at for value in points}) < 2:
        return
    for reference in published(cases[0].application):
        name = reference.axes.get(axis, "")
        at = placed.elsewhere(reference, name) if placed else name
        is_meant = name and reference.metric == metric and reference.nodes == cases[0].nodes
        if is_meant and at is not None and reference.is_of({**cases[0].axes, axis: name}):
            points.append(_mark(reference, at, _place(name, at)))
    meaning = f"{axis} ({placed.meaning})" if placed and placed.meaning else axis
    left_out = ", ".join(f"{axis}={value} ({why})" for value, why in placed.left_out) if placed else ""
    text = f"Not drawn: {left_out}." if left_out else ""
    yield chart(f"{heading}: {metric} over {axis}", meaning, unit, points, text)


def _place(value: str, at: float | str) -> str:
    """Return the text of a place: its number, with the value of the axis where that is another."""
    return value if isinstance(at, str) or is_number(value) else f"{at:g} ({value})"


def _over_sizes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots of metrics of one quantity at several sizes of a message, of the cases on most nodes."""
    nodes = max((case.nodes for case in cases), default=0)
    chosen = [case for case in cases if case.nodes == nodes]
    quantities: dict[tuple[str, str], list[Placed]] = {}
    for case in chosen:
        for row in case.rows:
            quantity, size = _sized(row.metric)
            if quantity:
                quantities.setdefault((quantity, row.unit), []).append((case, row, size))
    for (quantity, unit), rows in quantities.items():
        points = values(rows)
        if len({value.at for value in points}) >= FEWEST_SIZES:
            for reference in published(cases[0].application):
                name, size = _sized(reference.metric)
                is_meant = name == quantity and reference.nodes == nodes
                if is_meant and any(reference.is_of(case.axes) for case in chosen):
                    points.append(_mark(reference, size))
            yield chart(f"{heading}: {quantity} over the size of a message", "bytes", unit, points)


def _sized(metric: str) -> tuple[str, int]:
    """Return quantity and bytes of a metric at a size of a message; an empty quantity for another metric."""
    match = SIZED.match(metric)
    return (match[1], int(match[2]) * BYTES[match[3]]) if match else ("", 0)


def over_policies(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the time of the whole under each policy of sharing cores, and the speed-up of each program.

    As in figures 13, 14, 20 and 21 of D12.5, of each group of cases that differ in variant only. A speed-up is against
    the same side without a policy: bare, or in the same container.
    """
    groups: dict[tuple[int, str], list[Case]] = {}
    for case in sorted(cases, key=lambda case: variant_order(case.variant)):
        if policies.metrics(case):
            groups.setdefault((case.nodes, wording.axes(case.axes)), []).append(case)
    for (nodes, axes), group in groups.items():
        name = " ".join(filter(None, (heading, axes))) + (f" on {nodes} nodes" if len(groups) > 1 and nodes > 1 else "")
        for metric in dict.fromkeys(metric for case in group for metric in policies.metrics(case)):
            yield from _under_policies(name, metric, group)


def _under_policies(name: str, metric: str, cases: Sequence[Case]) -> Iterator[Chart]:
    # The times of bare are those of its own case where it ran, else those of a container's job.
    sides: dict[str, Mapping[str, policies.Value]] = {}
    for case in cases:
        for side, times in policies.times(case, metric).items():
            if times:
                sides.setdefault(side, times)
    seconds, speed_ups = [], []
    none = next((next(iter(times)) for times in sides.values() if len(times) > 1), "")
    for side, times in sides.items():
        for policy, time in times.items():
            seconds.append(with_error(PlotValue(side, policy, time.seconds), time.error))
            if none in times and policy != none:
                gain, error = time.speed_up(times[none])
                speed_ups.append(with_error(PlotValue(side, policy, gain), error))
    if metric == policies.WHOLE and seconds:
        yield chart(f"{name}: {metric} under each policy", "policy", "s", seconds)
    if speed_ups:
        yield chart(f"{name}: speed-up of {metric} against {none}", "policy", "speed-up", speed_ups)


def over_versions(application: str, nights: Sequence[Night]) -> Iterator[Chart]:
    """Yield bars over the versions of the runtime that ran in the nights, as figures 9.1 to 9.7 of D12.6.

    They are medians of the nights, of partitions where several versions ran.
    """
    groups: dict[str, list[Case]] = {}
    for case in (case for night in nights for case in night.cases if case.application == application):
        heading = f"{' '.join(filter(None, (application, wording.axes(case.axes))))}, {wording.place(case)}"
        groups.setdefault(heading, []).append(case)
    for metric in OF_VERSIONS.get(application, ()):
        for heading, group in groups.items():
            rows = list(_rows(group, metric))
            points = _medians(value for case, row in rows for value in _of_versions(case, row))
            if len({value.at for value in points if value.side != "bare"}) > 1:
                title = f"{heading}: {metric} under each version of the runtime"
                text, bars = "Medians of the nights.", "bars are the smallest and the largest value"
                yield chart(title, "runtime", rows[0][1].unit, points, text, bars)


def _of_versions(case: Case, row: Row) -> Iterator[PlotValue]:
    """Yield the values of a row over versions: of bare, and of a container whose version is known."""
    runtimes = case.provenance.get("runtimes") or {}
    baseline, subject = finite(row.baseline), finite(row.subject)
    if baseline is not None and row.baseline_label == "bare":
        yield PlotValue("bare", "bare", baseline)
    version = (runtimes.get("subject") or runtimes.get(row.subject_label) or {}).get("version")
    if subject is not None and version:
        yield PlotValue(case.variant, version, subject)


def _medians(points: Iterable[PlotValue]) -> list[PlotValue]:
    """Return the median of the values of each side at each place, with the smallest and the largest one."""
    groups: dict[tuple[str, float | str], list[float]] = {}
    for value in points:
        groups.setdefault((value.side, value.at), []).append(value.value)
    return [
        PlotValue(side, at, statistics.median(group), min(group), max(group), note=count(len(group), "night"))
        for (side, at), group in sorted(groups.items(), key=lambda item: variant_order(item[0][0]))
    ]
