"""The plots of an application on a partition, as the documents have them: which ones there are, and their data.

A figure over nodes with its intervals, the speed-up, the overhead of each variant with what is accepted. A plot that
would say nothing, as one over a single number of nodes, is not drawn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from containercheck.report import scaling, table
from containercheck.report.page import drawing, shapes
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.shapes import Curve, Interval
from containercheck.report.page.wording import Table, count, finite, measured
from containercheck.report.scaling import Scaling, Side
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import Row

#: So many rows of intervals are drawn.
MOST_ROWS = 18
#: Of the table of overheads.
OVERHEADS = ("figure", "variant", "nodes", "overhead", "accepted", "rounds", "verdict")
#: An interval of a figure has two standard errors on each side.
ERRORS = 2.0


@dataclass(frozen=True)
class Value:
    """A figure of one side of a case.

    :ivar side: bare, or what stands for the variant or the runtime.
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
        """Ends of its interval."""
        if self.error is None:
            return None, None
        return self.value - ERRORS * self.error, self.value + ERRORS * self.error


def values(cases: Sequence[Case]) -> list[Value]:
    """Return the figures of all sides; of a baseline that several cases have, the bare case's own or the first one."""
    found: dict[tuple[str, str, int], Value] = {}
    # The bare case's own come first.
    for case in sorted(cases, key=lambda case: case.variant != "bare"):
        for row in case.rows:
            for side in _sides(row):
                one = _value(case, row, side)
                found.setdefault((one.side, one.figure, one.nodes), one)
    return list(found.values())


def _sides(row: Row) -> Iterator[str]:
    return (side for side in ("baseline", "subject") if finite(getattr(row, side)) is not None)


def _value(case: Case, row: Row, side: str) -> Value:
    label = getattr(row, f"{side}_label") or (case.variant if side == "subject" else "bare")
    facts = (row.figure, row.unit, row.better, case.nodes)
    return Value(label, *facts, getattr(row, side), finite(getattr(row, f"{side}_error")))


def plots(prefix: str, heading: str, cases: Sequence[Case], most: int) -> list[Chart]:
    """Return the plots of cases of an application that differ in variant and number of nodes only.

    :param prefix: begins the names of the plots.
    :param heading: application, with partition and axes; begins their titles.
    :param most: so many, with those first that say most.
    """
    # No further one is drawn.
    return list(itertools.islice(_all(prefix, heading, cases), most))


def _all(prefix: str, heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the overheads by their units, then the speed-up of figures that scale, then the figures over nodes."""
    rows = [(case, row) for case in cases for row in case.rows if finite(row.overhead) is not None]
    for place, unit in enumerate(dict.fromkeys(row.overhead_unit for _, row in rows)):
        ones = [(case, row) for case, row in rows if row.overhead_unit == unit]
        yield overheads(f"{prefix}-overhead-{place}", heading, unit, ones)
    by_figure: dict[str, list[Value]] = {}
    for one in values(cases):
        by_figure.setdefault(one.figure, []).append(one)
    over = {name: ones for name, ones in by_figure.items() if len({one.nodes for one in ones}) > 1}
    scaled: dict[str, list[Scaling]] = {}
    for found in scaling.of(cases):
        scaled.setdefault(found.figure, []).append(found)
    for place, (figure, those) in enumerate(scaled.items()):
        yield speed_up(f"{prefix}-speed-up-{place}", f"{heading}: speed-up of {figure}", those)
    for place, (figure, found_values) in enumerate(over.items()):
        yield over_nodes(f"{prefix}-nodes-{place}", f"{heading}: {figure} over nodes", found_values)


def overheads(name: str, heading: str, unit: str, rows: Sequence[tuple[Case, Row]]) -> Chart:
    """Return the overheads in one unit, with their intervals and what is accepted."""
    several = len({case.nodes for case, _ in rows}) > 1
    found = [_interval(case, row, several) for case, row in rows]
    chosen = set(sorted(dict.fromkeys(one.row for one in found), key=lambda row: _least_room(found, row))[:MOST_ROWS])
    drawn = [one for one in found if one.row in chosen]
    labels = list(dict.fromkeys(one.label for one in drawn))
    drawn = [_styled(one, labels) for one in drawn]
    total = len({one.row for one in found})
    title = f"{heading}: overhead in {unit}"
    text = f"A row for each figure{' and number of nodes' if several else ''}, a point with its interval for each of "
    text += f"{', '.join(labels)}; lines across a row are the ends of what is accepted. "
    text += "An interval without an end reaches the edge; a point without one has too few rounds. "
    if len(chosen) < total:
        text += f"The {len(chosen)} of {total} rows nearest to what is accepted, or beyond; the CSV has all. "
    worst = max(found, key=lambda one: one.value)
    text += f"The largest overhead is {number(worst.value, 2, '+')} {unit}: {worst.row}, {worst.label}."
    cells = (_cells(case, row) for (case, row), one in zip(rows, found) if one.row in chosen)
    data = Table(f"Data of the plot: {title}", OVERHEADS, tuple(cells), 3)
    return Chart.of(name, title, text, drawing.intervals(drawn, f"overhead in {unit}; larger is worse"), data)


def _cells(case: Case, row: Row) -> tuple[str, ...]:
    """Return a row of the table of overheads."""
    who = (row.figure, row.subject_label or case.variant, str(case.nodes))
    return (*who, table.overhead(row), accepted(row), str(row.rounds or ""), table.verdict(row))


def accepted(row: Row) -> str:
    """Return what is accepted of a row's overhead."""
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


def _styled(one: Interval, labels: Sequence[str]) -> Interval:
    others = [label for label in labels if label not in VARIANTS]
    style = shapes.style_of(one.label, others)
    return Interval(one.row, one.label, style, one.value, one.low, one.high, one.accepted)


def _least_room(found: Sequence[Interval], row: str) -> float:
    """Return how far the worst of a row is from what is accepted: below 0 beyond that."""
    return min((one.accepted[1] or 0.0) - one.value for one in found if one.row == row)


def over_nodes(name: str, title: str, ones: Sequence[Value]) -> Chart:
    """Return a figure over nodes, a curve for each side."""
    unit, better = ones[0].unit, ones[0].better
    nodes = _nodes(one.nodes for one in ones)
    text = f"{unit} over {nodes}; {f'{better} is better; ' if better else ''}bars are two standard errors. "
    text += "; ".join(_said(side, those, unit) for side, those in _by_side(ones).items()) + "."
    rows = tuple(
        (one.side, str(one.nodes), measured(one.value, one.error, unit))
        for those in _by_side(ones).values()
        for one in those
    )
    data = Table(f"Data of the plot: {title}", ("side", "nodes", f"value, {unit}"), rows)
    return Chart.of(name, title, text, drawing.over_nodes(_curves(ones), unit), data)


def speed_up(name: str, title: str, found: Sequence[Scaling]) -> Chart:
    """Return how many times faster each side works on more nodes than on the fewest that it ran on, and the ideal.

    A side whose fewest nodes are more than those of another one begins on the line of the ideal.

    :param found: the same figure of each variant.
    """
    sides = _scaled(found)
    fewest = min(side.fewest for side in sides)
    others = [side.label for side in sides if side.label not in VARIANTS]
    curves = [_speed_up(side, shapes.style_of(side.label, others), fewest) for side in sides]
    nodes = _nodes(point.nodes for side in sides for point in side.points)
    text = [f"How many times faster than on the fewest nodes, over {nodes}; the ideal is a line."]
    if any(one.kind == "weak" for one in found):
        text.append("A run works on more with more nodes, which counts.")
    text += [
        f"{side.label} is compared with {count(side.fewest, 'node')}, where it begins on that line."
        for side in sides
        if side.fewest > fewest
    ]
    text.append("; ".join(_told(side) for side in sides) + ".")
    text += [f"{one.variant}: {scaling.without(one)}." for one in found if one.left_out]
    rows = tuple(
        (side.label, str(point.nodes), number(point.speed_up, 3), scaling.percent(point.efficiency))
        for side in sides
        for point in side.points
    )
    data = Table(f"Data of the plot: {title}", ("side", "nodes", "speed-up", "efficiency"), rows)
    return Chart.of(name, title, " ".join(text), drawing.over_nodes(curves, "speed-up", ideal=True), data)


def _scaled(found: Sequence[Scaling]) -> list[Side]:
    """Return the sides, bare first; of one that several cases have, that over most nodes, or the bare case's own."""
    sides: dict[str, Side] = {}
    for one in sorted(found, key=lambda one: (-len(one.sides[0].points), one.variant != "bare")):
        for side in one.sides:
            sides.setdefault(side.label, side)
    return sorted(sides.values(), key=lambda side: (shapes.style_of(side.label), side.label))


def _speed_up(side: Side, style: int, fewest: int) -> Curve:
    """Return the speed-up with intervals.

    :param fewest: nodes with which the line of the ideal begins, at 1.
    """
    begin = side.fewest / fewest
    points = []
    for point in side.points:
        half = None if point.error is None else ERRORS * point.error
        ends = (None, None) if half is None else (begin * (point.speed_up - half), begin * (point.speed_up + half))
        points.append((point.nodes, begin * point.speed_up, *ends))
    return Curve(side.label, style, tuple(points))


def _told(side: Side) -> str:
    last = side.points[-1]
    return f"{side.label}: {number(last.speed_up, 3)} on {last.nodes}, efficiency {scaling.percent(last.efficiency)}"


def _by_side(ones: Sequence[Value]) -> dict[str, list[Value]]:
    """Return the values of each side by nodes, bare first."""
    found: dict[str, list[Value]] = {}
    for one in sorted(ones, key=lambda one: (shapes.style_of(one.side), one.side, one.nodes)):
        found.setdefault(one.side, []).append(one)
    return found


def _curves(ones: Sequence[Value]) -> list[Curve]:
    sides = _by_side(ones)
    others = [side for side in sides if side not in VARIANTS]
    return [
        Curve(side, shapes.style_of(side, others), tuple((one.nodes, one.value, *one.ends) for one in those))
        for side, those in sides.items()
    ]


def _nodes(nodes: Iterable[int]) -> str:
    several = sorted(set(nodes))
    return f"{', '.join(map(str, several[:-1]))} and {several[-1]} nodes"


def _said(side: str, those: Sequence[Value], unit: str) -> str:
    first, last = those[0], those[-1]
    ends = [f"{number(one.value)} {unit} on {one.nodes}" for one in dict.fromkeys((first, last))]
    return f"{side}: {', '.join(ends)}"
