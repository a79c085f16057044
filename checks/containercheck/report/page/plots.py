"""The plots of an application on a partition, like those of D12.6, with their data.

They are a figure over nodes with its intervals, the speed-up, and the overhead of each variant with its accepted range.
A plot without information, such as one over a single number of nodes, is not drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from containercheck.report import scaling, table
from containercheck.report.page import drawing, published, shapes
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import SERIES, VARIANTS
from containercheck.report.page.published import Published
from containercheck.report.page.shapes import Curve, Interval
from containercheck.report.page.wording import Table, finite, measured
from containercheck.report.scaling import Scaling, Side
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row

#: Most rows of intervals in a plot.
MOST_ROWS = 18
#: Headings of the table of overheads.
OVERHEADS = ("figure", "variant", "nodes", "overhead", "accepted", "rounds", "verdict")
#: Standard errors on each side of a figure's interval.
ERRORS = 2.0


@dataclass(frozen=True)
class Value:
    """A figure of one side of a case.

    :ivar side: label of the side: bare, or that of the variant or the runtime.
    """

    side: str
    figure: str
    unit: str
    better: str
    nodes: int
    value: float
    error: float | None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """Ends of the value's interval."""
        if self.error is None:
            return None, None
        return self.value - ERRORS * self.error, self.value + ERRORS * self.error


def values(cases: Sequence[Case]) -> list[Value]:
    """Return the figures of all sides; for a baseline in several cases, that of most rounds.

    A bare case is a single run, at another time than the container that it stands beside: on a machine of two speeds
    that would draw a difference which no round has.
    """
    by_side: dict[tuple[str, str, int], list[tuple[int, Value]]] = {}
    # The bare case comes first: so do its sides.
    for case in sorted(cases, key=lambda case: case.variant != "bare"):
        for row in case.rows:
            for side in _sides(row):
                value = _value(case, row, side)
                by_side.setdefault((value.side, value.figure, value.nodes), []).append((row.rounds or 0, value))
    return [max(found, key=lambda pair: pair[0])[1] for found in by_side.values()]


def _sides(row: Row) -> Iterator[str]:
    return (side for side in ("baseline", "subject") if finite(getattr(row, side)) is not None)


def _value(case: Case, row: Row, side: str) -> Value:
    label = getattr(row, f"{side}_label") or (case.variant if side == "subject" else "bare")
    facts = (row.figure, row.unit, row.better, case.nodes)
    return Value(label, *facts, getattr(row, side), finite(getattr(row, f"{side}_error")))


def plots(prefix: str, heading: str, cases: Sequence[Case], most: int) -> list[Chart]:
    """Return the plots of cases of an application that differ in variant and number of nodes only.

    :param prefix: beginning of the names of the plots.
    :param heading: application, with partition and axes: the beginning of their titles.
    :param most: most plots; the most informative ones come first.
    """
    # The generator draws no more plots than are taken.
    return list(itertools.islice(_all(prefix, heading, cases), most))


def _all(prefix: str, heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the overheads by their units, then the speed-up of figures that scale, then the figures over nodes."""
    rows = [(case, row) for case in cases for row in case.rows if finite(row.overhead) is not None]
    for place, unit in enumerate(dict.fromkeys(row.overhead_unit for _, row in rows)):
        pairs = [(case, row) for case, row in rows if row.overhead_unit == unit]
        yield overheads(f"{prefix}-overhead-{place}", heading, unit, pairs)
    by_figure: dict[str, list[Value]] = {}
    for value in values(cases):
        by_figure.setdefault(value.figure, []).append(value)
    several_nodes = {name: points for name, points in by_figure.items() if len({point.nodes for point in points}) > 1}
    scaled: dict[str, list[Scaling]] = {}
    for result in scaling.of(cases):
        scaled.setdefault(result.figure, []).append(result)
    for place, (figure, of_figure) in enumerate(scaled.items()):
        yield speed_up(f"{prefix}-speed-up-{place}", f"{heading}: speed-up of {figure}", of_figure)
    for place, (figure, values_of_figure) in enumerate(several_nodes.items()):
        known = [
            value
            for value in published.of(cases[0].application)
            if value.figure == figure and value.is_of(cases[0].axes)
        ]
        yield over_nodes(f"{prefix}-nodes-{place}", f"{heading}: {figure} over nodes", values_of_figure, known)


def overheads(name: str, heading: str, unit: str, rows: Sequence[tuple[Case, Row]]) -> Chart:
    """Return the plot of the overheads in one unit, with their intervals and accepted ranges."""
    several = len({case.nodes for case, _ in rows}) > 1
    measured = [_interval(case, row, several) for case, row in rows]
    names = dict.fromkeys(interval.row for interval in measured)
    chosen = set(sorted(names, key=lambda row: _least_room(measured, row))[:MOST_ROWS])
    drawn = [interval for interval in measured if interval.row in chosen]
    labels = list(dict.fromkeys(interval.label for interval in drawn))
    drawn = [_styled(interval, labels) for interval in drawn]
    total = len(names)
    title = f"{heading}: overhead in {unit}"
    text = f"A row for each figure{' and number of nodes' if several else ''}, a point with its interval for each of "
    text += f"{', '.join(labels)}; lines across a row are the ends of what is accepted. "
    text += "An interval without an end reaches the edge; a point without one has too few rounds. "
    if len(chosen) < total:
        text += f"The {len(chosen)} of {total} rows nearest to what is accepted, or beyond; the CSV has all. "
    worst = max(measured, key=lambda interval: interval.value)
    text += f"The largest overhead is {number(worst.value, 2, '+')} {unit}: {worst.row}, {worst.label}."
    cells = (_cells(case, row) for (case, row), interval in zip(rows, measured) if interval.row in chosen)
    data = Table(f"Data of the plot: {title}", OVERHEADS, tuple(cells), 3)
    return Chart.of(name, title, text, drawing.intervals(drawn, f"overhead in {unit}; larger is worse"), data)


def _cells(case: Case, row: Row) -> tuple[str, ...]:
    """Return a row of the table of overheads."""
    who = (row.figure, row.subject_label or case.variant, str(case.nodes))
    return (*who, table.overhead(row), accepted(row), str(row.rounds or ""), table.verdict(row))


def accepted(row: Row) -> str:
    """Return the accepted range of a row's overhead."""
    (low, high), unit = row.accepted, row.overhead_unit
    if low is not None and high is not None:
        return f"{number(low, 3, '+')} to {number(high, 3, '+')} {unit}"
    if high is not None:
        return f"at most {number(high, 3, '+')} {unit}"
    return f"at least {number(low, 3, '+')} {unit}" if low is not None else ""


def _interval(case: Case, row: Row, several: bool) -> Interval:
    where = f"{row.figure}, {count(case.nodes, 'node')}" if several else row.figure
    low, high = map(finite, row.accepted)
    ends = (finite(row.low), finite(row.high))
    return Interval(where, row.subject_label or case.variant, 0, row.overhead, *ends, (low, high))


def _styled(interval: Interval, labels: Sequence[str]) -> Interval:
    others = [label for label in labels if label not in VARIANTS]
    style = shapes.style_of(interval.label, others)
    return Interval(interval.row, interval.label, style, interval.value, interval.low, interval.high, interval.accepted)


def _least_room(candidates: Sequence[Interval], row: str) -> float:
    """Return the distance of a row's worst overhead to the accepted maximum; negative beyond it."""
    return min((interval.accepted[1] or 0.0) - interval.value for interval in candidates if interval.row == row)


def over_nodes(name: str, title: str, points: Sequence[Value], known: Sequence[Published] = ()) -> Chart:
    """Return the plot of a figure over nodes, with a curve for each side.

    :param known: published values of it, which are hollow marks with their machine.
    """
    unit, better = points[0].unit, points[0].better
    nodes = _numbers((point.nodes for point in points), scaling.NODES)
    text = f"{unit} over {nodes}; {f'{better} is better; ' if better else ''}bars are two standard errors. "
    text += "; ".join(_ends_text(side, of_side, unit) for side, of_side in _by_side(points).items()) + "."
    rows = tuple(
        (point.side, str(point.nodes), measured(point.value, point.error, unit))
        for of_side in _by_side(points).values()
        for point in of_side
    )
    marks = marked([(value, value.nodes) for value in known])
    rows += tuple((mark.label, str(at), measured(value, None, unit)) for mark in marks for at, value, *_ in mark.points)
    data = Table(f"Data of the plot: {title}", ("side", "nodes", f"value, {unit}"), rows)
    return Chart.of(name, title, text, drawing.over_nodes([*_curves(points), *marks], unit), data)


def marked(known: Iterable[tuple[Published, float]]) -> list[Curve]:
    """Return published values as hollow marks, a series for each machine and variant.

    :param known: each with its place on the axis.
    """
    series: dict[str, list[tuple[float, Published]]] = {}
    for value, at in sorted(known, key=lambda pair: (shapes.style_of(pair[0].variant), pair[0].label, pair[1])):
        series.setdefault(value.label, []).append((at, value))
    curves: list[Curve] = []
    for label, of_series in series.items():
        # Two machines with the same variant have different marks.
        taken = {curve.style for curve in curves}
        free = [style for style in range(len(VARIANTS), len(SERIES)) if style not in taken]
        style = shapes.style_of(of_series[0][1].variant)
        style = free[0] if style in taken and free else style
        points = tuple((at, value.value, None, None) for at, value in of_series)
        curves.append(Curve(f"published: {label}", style, points, hollow=True))
    return curves


def speed_up(name: str, title: str, scalings: Sequence[Scaling]) -> Chart:
    """Return the plot of the speed-up of each side, relative to its fewest nodes or cores, with the ideal.

    A side whose fewest are more than those of another side begins on the line of the ideal.

    :param scalings: the scaling of the same figure for each variant.
    """
    sides, over = _merged_sides(scalings), scalings[0].over
    fewest = min(side.fewest for side in sides)
    others = [side.label for side in sides if side.label not in VARIANTS]
    curves = [_speed_up(side, shapes.style_of(side.label, others), fewest) for side in sides]
    numbers = _numbers((point.at for side in sides for point in side.points), over)
    text = [f"How many times faster than on the fewest {over}, over {numbers}; the ideal is a line."]
    if any(result.kind == "weak" for result in scalings):
        text.append(f"A run works on more with more {over}, which counts.")
    text += [
        f"{side.label} is compared with {scaling.amount(side.fewest, over)}, where it begins on that line."
        for side in sides
        if side.fewest > fewest
    ]
    text += _efficiencies(scalings, sides)
    data = _scaling_table(title, over, sides)
    svg = drawing.over_nodes(curves, "speed-up", ideal=True, axis=over)
    return Chart.of(name, title, " ".join(text), svg, data)


def efficiency(name: str, title: str, scalings: Sequence[Scaling]) -> Chart:
    """Return the plot of the parallel efficiency of each side in percent, as figures 8.10, 8.12 and 8.13 of D12.6.

    :param scalings: the scaling of the same figure for each variant.
    """
    sides, over = _merged_sides(scalings), scalings[0].over
    others = [side.label for side in sides if side.label not in VARIANTS]
    curves = [
        Curve(
            side.label,
            shapes.style_of(side.label, others),
            tuple((point.at, *_with_ends(point, 100 * side.fewest / point.at)) for point in side.points),
        )
        for side in sides
    ]
    numbers = _numbers((point.at for side in sides for point in side.points), over)
    text = [f"Speed-up in percent of the ideal one, over {numbers}.", *_efficiencies(scalings, sides)]
    svg = drawing.over_nodes(curves, "efficiency, %", axis=over)
    return Chart.of(name, title, " ".join(text), svg, _scaling_table(title, over, sides))


def _efficiencies(scalings: Sequence[Scaling], sides: Sequence[Side]) -> Iterator[str]:
    """Yield sentences about the last point of each side, and about what was left out."""
    yield "; ".join(_efficiency_text(side) for side in sides) + "."
    yield from (f"{result.variant}: {scaling.without(result)}." for result in scalings if result.left_out)


def _scaling_table(title: str, over: str, sides: Sequence[Side]) -> Table:
    rows = tuple(
        (side.label, str(point.at), number(point.speed_up, 3), scaling.percent(point.efficiency))
        for side in sides
        for point in side.points
    )
    return Table(f"Data of the plot: {title}", ("side", over, "speed-up", "efficiency"), rows)


def _merged_sides(scalings: Sequence[Scaling]) -> list[Side]:
    """Return the sides, bare first; for a side in several cases, that over most nodes, or that of the bare case."""
    sides: dict[str, Side] = {}
    for result in sorted(scalings, key=lambda result: (-len(result.sides[0].points), result.variant != "bare")):
        for side in result.sides:
            sides.setdefault(side.label, side)
    return sorted(sides.values(), key=lambda side: (shapes.style_of(side.label), side.label))


def _speed_up(side: Side, style: int, fewest: int) -> Curve:
    """Return the curve of a side's speed-up with intervals.

    :param fewest: number of nodes or cores at which the ideal is 1.
    """
    begin = side.fewest / fewest
    points = tuple((point.at, *_with_ends(point, begin)) for point in side.points)
    return Curve(side.label, style, points)


def _with_ends(point: scaling.Point, factor: float) -> tuple[float, float | None, float | None]:
    """Return a speed-up and the ends of its interval, times a factor."""
    if point.error is None:
        return factor * point.speed_up, None, None
    half = ERRORS * point.error
    return factor * point.speed_up, factor * (point.speed_up - half), factor * (point.speed_up + half)


def _efficiency_text(side: Side) -> str:
    last = side.points[-1]
    return f"{side.label}: {number(last.speed_up, 3)} on {last.at}, efficiency {scaling.percent(last.efficiency)}"


def _by_side(points: Sequence[Value]) -> dict[str, list[Value]]:
    """Return the values of each side by nodes, bare first."""
    by_side: dict[str, list[Value]] = {}
    for point in sorted(points, key=lambda point: (shapes.style_of(point.side), point.side, point.nodes)):
        by_side.setdefault(point.side, []).append(point)
    return by_side


def _curves(points: Sequence[Value]) -> list[Curve]:
    sides = _by_side(points)
    others = [side for side in sides if side not in VARIANTS]
    return [
        Curve(side, shapes.style_of(side, others), tuple((point.nodes, point.value, *point.ends) for point in of_side))
        for side, of_side in sides.items()
    ]


def _numbers(numbers: Iterable[int], over: str) -> str:
    several = sorted(set(numbers))
    return f"{', '.join(map(str, several[:-1]))} and {several[-1]} {over}"


def _ends_text(side: str, points: Sequence[Value], unit: str) -> str:
    first, last = points[0], points[-1]
    ends = [f"{number(point.value)} {unit} on {point.nodes}" for point in dict.fromkeys((first, last))]
    return f"{side}: {', '.join(ends)}"
