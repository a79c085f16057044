"""Plots of a figure over an axis of its check, as the documents draw them: curves over numbers, points over names.

Published values are hollow marks beside ours, with their machine. Figures of one quantity at several sizes of a message
(``latency_8B``, ``bandwidth_64KiB``) are a curve over the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from containercheck.report.page import drawing, plots, published, shapes
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.plots import Value
from containercheck.report.page.shapes import Curve
from containercheck.report.page.wording import Table, measured
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

    :ivar hollow: whether it was published, and not measured here.
    """

    side: str
    place: str
    value: float
    low: float | None = None
    high: float | None = None
    hollow: bool = False


def charts(prefix: str, heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over each axis whose cases differ in that axis, variant and nothing else.

    :param prefix: beginning of the names of the plots.
    :param heading: application with partition: the beginning of their titles.
    :param cases: of one application on one partition and environment.
    """
    for axis in dict.fromkeys(name for case in cases for name in case.axes):
        group = most_values(axis, cases)
        for figure, by_place in _figures(axis, group).items():
            ours = [point for points in by_place.values() for point in points]
            unit = next(row.unit for case in group for row in case.rows if row.figure == figure)
            points = [*ours, *_published(figure, axis, group)]
            yield chart(f"{prefix}-{axis}-{figure}", f"{heading}: {figure} over {axis}", axis, unit, points)
    for place, (quantity, unit, points) in enumerate(_sizes(cases)):
        title = f"{heading}: {quantity} over the size of a message"
        yield chart(f"{prefix}-sizes-{place}", title, "bytes", unit, points)


def most_values(axis: str, cases: Sequence[Case]) -> list[Case]:
    """Return those cases that differ in an axis only, of all such groups the one with most values; else none."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        if axis in case.axes and case.rows:
            others = tuple(sorted(item for item in case.axes.items() if item[0] != axis))
            groups.setdefault((case.nodes, others), []).append(case)
    best = max(groups.values(), key=lambda group: len({case.axes[axis] for case in group}), default=[])
    return best if len({case.axes[axis] for case in best}) > 1 else []


def _figures(axis: str, cases: Sequence[Case]) -> dict[str, dict[str, list[Point]]]:
    """Return the points of each figure that has several values of the axis, by value."""
    figures: dict[str, dict[str, list[Point]]] = {}
    for place in dict.fromkeys(case.axes[axis] for case in cases):
        for value in plots.values([case for case in cases if case.axes[axis] == place]):
            figures.setdefault(value.figure, {}).setdefault(place, []).append(_point(place, value))
    return {figure: by_place for figure, by_place in figures.items() if len(by_place) > 1}


def _point(place: str, value: Value) -> Point:
    return Point(value.side, place, value.value, *value.ends)


def _published(figure: str, axis: str, cases: Sequence[Case]) -> list[Point]:
    """Return the published values of a figure over an axis; of cases with other values of other axes, none."""
    numbers = published.of(cases[0].application)
    return [
        Point(f"{known.machine}, {known.variant}", dict(known.axes)[axis], known.value, hollow=True)
        for known in numbers
        if known.figure == figure and axis in dict(known.axes)
    ]


def _sizes(cases: Sequence[Case]) -> Iterator[tuple[str, str, list[Point]]]:
    """Yield quantity, unit and points of figures at several sizes, of the case on most nodes."""
    if not cases:
        return
    nodes = max(case.nodes for case in cases)
    quantities: dict[tuple[str, str], dict[tuple[str, int], Point]] = {}
    for value in plots.values([case for case in cases if case.nodes == nodes]):
        match = SIZED.match(value.figure)
        if match:
            size = int(match[2]) * BYTES[match[3]]
            by_size = quantities.setdefault((match[1], value.unit), {})
            by_size.setdefault((value.side, size), _point(str(size), value))
    for (quantity, unit), points in quantities.items():
        if len({size for _, size in points}) >= FEWEST_SIZES:
            yield quantity, unit, list(points.values())


def is_numeric(places: Iterable[str]) -> bool:
    """Tell whether all values of an axis are positive numbers, so that a curve over them makes sense."""
    return all(re.fullmatch(r"\d+(\.\d+)?", place) and float(place) > 0 for place in places)


def chart(name: str, title: str, axis: str, unit: str, points: Sequence[Point]) -> Chart:
    """Return the plot of a figure over an axis."""
    places = list(dict.fromkeys(point.place for point in points))
    numeric = is_numeric(places)
    places = sorted(places, key=float) if numeric else places
    sides = sorted(dict.fromkeys((point.hollow, point.side) for point in points), key=_order)
    others = [side for hollow, side in sides if not hollow and side not in VARIANTS]
    curves = []
    for hollow, side in sides:
        of_side = sorted(
            (point for point in points if (point.hollow, point.side) == (hollow, side)),
            key=lambda point: places.index(point.place),
        )
        at = [float(point.place) if numeric else float(places.index(point.place)) for point in of_side]
        drawn = tuple((x, point.value, point.low, point.high) for x, point in zip(at, of_side))
        label = f"published: {side}" if hollow else side
        style = shapes.style_of(side.rpartition(", ")[2] if hollow else side, others)
        curves.append(Curve(label, style, drawn, hollow=hollow))
    text = f"{unit or 'Value'} over {axis}; bars are two standard errors. " + "; ".join(map(_ends, curves)) + "."
    rows = tuple(
        (curve.label, places[int(x)] if not numeric else f"{x:.12g}", measured(value, None, unit))
        for curve in curves
        for x, value, _, _ in curve.points
    )
    data = Table(f"Data of the plot: {title}", ("side", axis, f"value, {unit}" if unit else "value"), rows)
    svg = drawing.over_numbers(curves, unit, axis) if numeric else drawing.over_names(curves, places, unit)
    return Chart.of(re.sub(r"[^\w-]", "-", name), title, text, svg, data)


def _order(side: tuple[bool, str]) -> tuple[bool, int, str]:
    hollow, name = side
    return hollow, shapes.style_of(name), name


def _ends(curve: Curve) -> str:
    values = [point[1] for point in curve.points]
    return f"{curve.label}: {number(min(values))} to {number(max(values))}"
