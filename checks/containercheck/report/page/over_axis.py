"""Plots of a figure over an axis of its check, as the documents draw them: curves over numbers, bars over names.

Published values are hollow marks beside ours, with their machine. Figures of one quantity at several sizes of a message
(``latency_8B``, ``bandwidth_64KiB``) are a curve over the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from containercheck.report import policies, scaling
from containercheck.report.page import drawing, places, plots, published, shapes
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.places import Places
from containercheck.report.page.published import Published
from containercheck.report.page.shapes import Curve
from containercheck.report.page.wording import Table, measured
from containercheck.report.scaling import Scaling
from containercheck.results.cases import Case
from containercheck.results.formatting import number

#: A figure at one size of a message, and the bytes of its units.
SIZED = re.compile(r"^(\w+?)_(\d+)(B|KiB|MiB)$")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
#: Fewest sizes that make a curve.
FEWEST_SIZES = 4


@dataclass(frozen=True)
class Point:
    """A value at a place on the axis.

    :ivar place: value of the axis.
    :ivar at: its number; on an axis of names None.
    """

    side: str
    place: str
    at: float | None
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """A published value at a place on the axis, of which ``place`` and ``at`` are those of a :class:`Point`."""

    known: Published
    place: str
    at: float | None


def charts(prefix: str, heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over each axis whose cases differ in that axis, variant and nothing else.

    :param prefix: beginning of the names of the plots.
    :param heading: application with partition: the beginning of their titles.
    :param cases: of one application on one partition and environment.
    """
    for axis in dict.fromkeys(name for case in cases for name in case.axes):
        group = most_values(axis, cases)
        yield from _scalings(f"{prefix}-{axis}", heading, group)
        placed = places.of(axis, group)
        for figure, ours in _figures(axis, group, placed).items():
            unit = next(row.unit for case in group for row in case.rows if row.figure == figure)
            marks = list(_published(figure, axis, group, placed))
            title = f"{heading}: {figure} over {axis}"
            yield chart(f"{prefix}-{axis}-{figure}", title, axis, unit, ours, marks, placed)
    for place, (quantity, unit, points, marks) in enumerate(_sizes(cases)):
        title = f"{heading}: {quantity} over the size of a message"
        yield chart(f"{prefix}-sizes-{place}", title, "bytes", unit, points, marks)


def most_values(axis: str, cases: Sequence[Case]) -> list[Case]:
    """Return those cases that differ in an axis only, of all such groups the one with most values; else none."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        if axis in case.axes and case.rows:
            others = tuple(sorted(item for item in case.axes.items() if item[0] != axis))
            groups.setdefault((case.nodes, others), []).append(case)
    best = max(groups.values(), key=lambda group: len({case.axes[axis] for case in group}), default=[])
    return best if len({case.axes[axis] for case in best}) > 1 else []


def _scalings(prefix: str, heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield speed-up and efficiency over cores of figures that scale, of cases that differ in an axis and variant."""
    by_figure: dict[str, list[Scaling]] = {}
    for result in scaling.over_cores(cases):
        by_figure.setdefault(result.figure, []).append(result)
    for figure, results in by_figure.items():
        title = f"of {figure} over cores"
        yield plots.speed_up(_name(f"{prefix}-speed-up-{figure}"), f"{heading}: speed-up {title}", results)
        yield plots.efficiency(_name(f"{prefix}-efficiency-{figure}"), f"{heading}: efficiency {title}", results)


def _figures(axis: str, cases: Sequence[Case], placed: Places | None) -> dict[str, list[Point]]:
    """Return the points of each figure that has several values of the axis.

    Of policies of sharing cores, only the sides without one: the others have plots of their own (policies.py).
    """
    figures: dict[str, list[Point]] = {}
    without = policies.without(cases)
    for place in dict.fromkeys(case.axes[axis] for case in cases):
        if placed is None or place in placed.numbers:
            at = placed.numbers[place] if placed else None
            done = set()
            for value in plots.values([case for case in cases if case.axes[axis] == place]):
                side = without.get(value.side, "") if without else value.side
                if side and (value.figure, side) not in done:
                    done.add((value.figure, side))
                    figures.setdefault(value.figure, []).append(Point(side, place, at, value.value, *value.ends))
    return {figure: points for figure, points in figures.items() if len({point.place for point in points}) > 1}


def _published(figure: str, axis: str, cases: Sequence[Case], placed: Places | None) -> Iterator[Mark]:
    """Yield the published values of a figure over an axis, on as many nodes and with the same values of other axes."""
    for known in published.of(cases[0].application):
        place = dict(known.axes).get(axis)
        if known.figure == figure and known.nodes == cases[0].nodes and place is not None:
            at = placed.elsewhere(place, known.cores) if placed else None
            if known.is_of({**cases[0].axes, axis: place}) and (at is not None or placed is None):
                yield Mark(known, place, at)


def _sizes(cases: Sequence[Case]) -> Iterator[tuple[str, str, list[Point], list[Mark]]]:
    """Yield quantity, unit and values of figures at several sizes, of the case on most nodes, and published values."""
    if not cases:
        return
    nodes = max(case.nodes for case in cases)
    chosen = [case for case in cases if case.nodes == nodes]
    quantities: dict[tuple[str, str], dict[tuple[str, int], Point]] = {}
    for value in plots.values(chosen):
        if sized := _size(value.figure):
            by_size = quantities.setdefault((sized[0], value.unit), {})
            point = Point(value.side, str(sized[1]), sized[1], value.value, *value.ends)
            by_size.setdefault((value.side, sized[1]), point)
    for (quantity, unit), points in quantities.items():
        if len({size for _, size in points}) >= FEWEST_SIZES:
            yield quantity, unit, list(points.values()), list(_published_sizes(quantity, chosen))


def _published_sizes(quantity: str, cases: Sequence[Case]) -> Iterator[Mark]:
    """Yield the published values of a quantity at sizes, on as many nodes and with the axes of one of the cases."""
    for known in published.of(cases[0].application):
        sized = _size(known.figure)
        fits = known.nodes == cases[0].nodes and any(known.is_of(case.axes) for case in cases)
        if fits and sized and sized[0] == quantity:
            yield Mark(known, str(sized[1]), sized[1])


def _size(figure: str) -> tuple[str, int] | None:
    """Return quantity and bytes of a figure at a size of a message; None for another figure."""
    match = SIZED.match(figure)
    return (match[1], int(match[2]) * BYTES[match[3]]) if match else None


def chart(
    name: str,
    title: str,
    axis: str,
    unit: str,
    points: Sequence[Point],
    marks: Sequence[Mark] = (),
    placed: Places | None = None,
) -> Chart:
    """Return the plot of a figure over an axis; all points have numbers, or none has."""
    numeric = all(point.at is not None for point in points)
    names = list(dict.fromkeys([*(point.place for point in points), *(mark.place for mark in marks)]))
    # Numbers by the value of the axis: of published values too, whose machine may have another number of cores.
    at = {(point.place, point.at): point.at if point.at is not None else names.index(point.place) for point in points}
    at.update({(mark.place, mark.at): mark.at if mark.at is not None else names.index(mark.place) for mark in marks})
    texts = {number_of: _place(*key) for key, number_of in reversed(at.items())}
    sides = sorted({point.side for point in points}, key=lambda side: (shapes.style_of(side), side))
    others = [side for side in sides if side not in VARIANTS]
    curves = []
    for side in sides:
        of_side = sorted(
            (at[point.place, point.at], point.value, point.low, point.high) for point in points if point.side == side
        )
        curves.append(Curve(side, shapes.style_of(side, others), tuple(of_side)))
    curves += plots.marked([(mark.known, at[mark.place, mark.at]) for mark in marks])
    rows = [(curve.label, texts[x], measured(value, None, unit)) for curve in curves for x, value, *_ in curve.points]
    meaning = f"{axis} ({placed.meaning})" if placed and placed.meaning else axis
    text = f"{unit or 'Value'} over {meaning}; bars are two standard errors. " + "; ".join(map(_ends, curves)) + "."
    if placed and placed.left_out:
        text += f" Not drawn: {', '.join(f'{axis}={value} ({reason})' for value, reason in placed.left_out)}."
    data = Table(f"Data of the plot: {title}", ("side", axis, f"value, {unit}" if unit else "value"), tuple(rows))
    svg = drawing.over_numbers(curves, unit, meaning) if numeric else drawing.over_names(curves, names, unit)
    return Chart.of(_name(name), title, text, svg, data)


def _name(name: str) -> str:
    """Return the name of a plot as an identifier of HTML."""
    return re.sub(r"[^\w-]", "-", name)


def _place(value: str, at: float | None) -> str:
    """Return a value of the axis for a table, with its number where that is another."""
    return value if at is None or places.is_number(value) else f"{at:g} ({value})"


def _ends(curve: Curve) -> str:
    values = [point[1] for point in curve.points]
    return f"{curve.label}: {number(min(values))} to {number(max(values))}"
