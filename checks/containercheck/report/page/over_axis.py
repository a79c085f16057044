"""Plots of metrics over an axis: nodes, cores, an axis of the check, sizes of messages, policies, runtime versions.

Numbers have a curve for each side, names have bars. Published values are hollow, with their machine. A default such as
``ranks=0`` or ``ranks=all`` stands where its ranks are: what the numbers of an axis are (ranks of a node, threads of a
rank ...) follows from the layouts of the cases that state one.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

from containercheck.history.nights import Night
from containercheck.report import policies, scaling
from containercheck.report.page import drawing, published, wording
from containercheck.report.page.drawing import Chart, Value
from containercheck.report.page.published import Published
from containercheck.report.page.wording import finite, variant_order
from containercheck.report.scaling import Scaling, Side
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row

#: Standard errors on each side of a value.
ERRORS = 2.0
#: A metric at one size of a message, bytes of its units, and fewest sizes that make a curve.
SIZED = re.compile(r"^(\w+?)_(\d+)(B|KiB|MiB)$")
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
FEWEST_SIZES = 4
#: Value of an axis for all cores of a node, and relative difference up to which two amounts of work are the same.
ALL, SAME = "all", 1e-9
#: Facts of a case's layout that an axis may set; None where the case does not state them.
FACTS: Mapping[str, Callable[[Case], float | None]] = {
    "on a node": lambda case: _product(case, ("ranks",), case.nodes),
    "in all": lambda case: _product(case, ("ranks",)),
    "threads of a rank": lambda case: _product(case, ("threads",)),
    "cores of a node": lambda case: _product(case, ("ranks", "threads"), case.nodes),
}
#: Facts whose value ``all`` is the number of cores of a node.
OF_CORES = ("on a node", "cores of a node")
#: Metrics of each application that are drawn over versions of the runtime (D12.6 section 9).
OF_VERSIONS = {"StartUp": ("start",), "RAMP": ("outside", "seconds_unet", "compute", "memory"), "DB12": ("DB12",)}
#: Those that are drawn in percent more than bare too.
IN_PERCENT = ("outside", "seconds_unet")

#: A row of a case with its place on an axis.
Placed = tuple[Case, Row, Union[float, str]]


def values(rows: Iterable[Placed], labels: Mapping[str, str] | None = None) -> list[Value]:
    """Return the values of both sides of rows at their places; of several values, that of most rounds.

    A bare case is a single run, at another time than the container: on a machine of two speeds it would show a
    difference that no round has.

    :param labels: label to show for each label of a side that counts; None for all of them.
    """
    by_place: dict[tuple[str, object], list[tuple[int, Value]]] = {}
    for case, row, at in sorted(rows, key=lambda placed: placed[0].variant != "bare"):
        for value in _of_row(case, row, at):
            side = value.side if labels is None else labels.get(value.side, "")
            if side:
                by_place.setdefault((side, at), []).append((row.rounds, replace(value, side=side)))
    return [max(of_place, key=lambda pair: pair[0])[1] for of_place in by_place.values()]


def _of_row(case: Case, row: Row, at: float | str) -> Iterator[Value]:
    sides = (
        (row.baseline_label or "bare", row.baseline, row.baseline_error),
        (row.subject_label or case.variant, row.subject, row.subject_error),
    )
    for side, value, error in sides:
        if value is not None and math.isfinite(value):
            yield with_error(Value(side, at, value), finite(error))


def with_error(value: Value, error: float | None) -> Value:
    """Return a value with its interval; without one where its error is None."""
    if error is None:
        return value
    return replace(value, low=value.value - ERRORS * error, high=value.value + ERRORS * error)


def chart(
    title: str,
    axis: str,
    unit: str,
    points: Sequence[Value],
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
        metric = drawing.over_numbers(points, axis, unit, ideal)
    else:
        metric = drawing.over_names(points, unit)
    return Chart.of(title, description, metric, ("side", axis, f"value, {unit}" if unit else "value"), rows)


def _ends(of_side: Sequence[Value]) -> str:
    texts = (f"{number(value.value)} at {value.where}" for value in (of_side[0], of_side[-1]))
    return " to ".join(dict.fromkeys(texts))


def _cell(value: Value, unit: str) -> str:
    ends = "" if value.low is None or value.high is None else f" ({number(value.low)} to {number(value.high)})"
    return f"{number(value.value)}{ends} {unit}".rstrip() + (f", {value.note}" if value.note else "")


def _mark(reference: Published, at: float | str, place: str = "") -> Value:
    return Value(f"published: {reference.label}", at, reference.value, place=place, published=True)


def over_nodes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the speed-up of each metric that scales, then each metric over nodes.

    :param heading: application, with partition and axes: the beginning of the titles.
    :param cases: they differ in variant and number of nodes only.
    """
    yield from _scalings(heading, [result for result in scaling.of(cases) if result.over == scaling.NODES], False)
    for metric, unit in _metrics(cases).items():
        points = values((case, row, case.nodes) for case, row in _rows(cases, metric))
        if len({value.at for value in points}) > 1:
            references = (value for value in published.of(cases[0].application) if value.metric == metric)
            points += [_mark(value, value.nodes) for value in references if value.is_of(cases[0].axes)]
            yield chart(f"{heading}: {metric} over nodes", "nodes", unit, points)


def _metrics(cases: Sequence[Case]) -> dict[str, str]:
    """Return the metrics of cases with their units."""
    return {row.metric: row.unit for case in cases for row in case.rows}


def _rows(cases: Sequence[Case], metric: str) -> Iterator[tuple[Case, Row]]:
    return ((case, row) for case in cases for row in case.rows if row.metric == metric)


def _scalings(heading: str, results: Sequence[Scaling], with_efficiency: bool) -> Iterator[Chart]:
    """Yield the speed-up of each metric that scales, and its efficiency, as in figures 8.9 to 8.13 of D12.6."""
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
        if with_efficiency:
            points = [_scaled(side, point, 100 * side.fewest / point.at) for side in sides for point in side.points]
            yield chart(f"{heading}: efficiency of {metric} over {over}", over, "efficiency, %", points, " ".join(text))


def _scaled(side: Side, point: scaling.Point, factor: float) -> Value:
    note = f"efficiency {scaling.percent(point.efficiency)}"
    value = Value(side.label, point.at, factor * point.speed_up, note=note)
    return with_error(value, None if point.error is None else factor * point.error)


def _merged(results: Sequence[Scaling]) -> list[Side]:
    """Return the sides; of a side in several cases, that over most nodes, or that of the bare case."""
    sides: dict[str, Side] = {}
    for result in sorted(results, key=lambda result: (-len(result.sides[0].points), result.variant != "bare")):
        for side in result.sides:
            sides.setdefault(side.label, side)
    return sorted(sides.values(), key=lambda side: (variant_order(side.label), side.label))


@dataclass(frozen=True)
class Places:
    """Numbers of the values of an axis.

    :ivar meaning: fact of :data:`FACTS` that the axis sets; empty where all values are numbers.
    :ivar numbers: number of each value that has one.
    :ivar left_out: values without one, each with the reason.
    """

    meaning: str
    numbers: Mapping[str, float]
    left_out: tuple[tuple[str, str], ...] = ()

    def elsewhere(self, reference: Published, value: str) -> float | None:
        """Return the number of a value on the machine of a published value; None where it has none."""
        if is_number(value):
            return float(value)
        return published.cores(reference.partition) if value == ALL and self.meaning in OF_CORES else None


def is_number(value: str) -> bool:
    """Return whether a value of an axis is a positive number: 0 stands for a default."""
    return re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) > 0


def places(axis: str, cases: Sequence[Case]) -> Places | None:
    """Return the numbers of the values of an axis; None where they are names.

    :param cases: they differ in that axis and variant only.
    """
    first = {case.axes[axis]: case for case in reversed(cases)}
    stated = [case for case in cases if is_number(case.axes[axis])]
    named = {value: case for value, case in sorted(first.items()) if not is_number(value)}
    numbers = {case.axes[axis]: float(case.axes[axis]) for case in stated}
    fitting = [
        meaning for meaning, fact in FACTS.items() if all(fact(case) == float(case.axes[axis]) for case in stated)
    ]
    meanings = (fitting or (["cores of a node"] if ALL in named else [])) if named else []
    candidates = [_placed(meaning, numbers, named, stated) for meaning in meanings]
    candidates.append(Places("", numbers, tuple((value, "no number") for value in named)))
    best = max(candidates, key=lambda candidate: len(candidate.numbers))
    return best if numbers and len(best.numbers) > 1 else None


def _placed(meaning: str, stated: Mapping[str, float], named: Mapping[str, Case], numbered: Sequence[Case]) -> Places:
    numbers, left_out = dict(stated), []
    for value, case in named.items():
        at = FACTS[meaning](case)
        if at is None:
            left_out.append((value, "no number"))
        elif not any(_is_same_work(case, other) for other in numbered):
            left_out.append((value, "another amount of work"))
        elif at in numbers.values():
            left_out.append((value, f"also {at:g}"))
        else:
            numbers[value] = at
    return Places(meaning, numbers, tuple(left_out))


def _is_same_work(case: Case, other: Case) -> bool:
    """Return whether two cases work on as much, in all or for each rank: else they are different problems."""
    amounts = [each.expected.get("amount") or 0.0 for each in (case, other)]
    of_ranks = [amount / (each.expected.get("ranks") or 1) for amount, each in zip(amounts, (case, other))]
    return any(math.isclose(first, second, rel_tol=SAME) for first, second in (amounts, of_ranks))


def _product(case: Case, names: Sequence[str], divisor: int = 1) -> float | None:
    """Return the product of numbers of a case's layout, divided; None where a number is not known."""
    if any(case.expected.get(name) is None for name in names):
        return None
    return math.prod(case.expected[name] for name in names) / divisor


def over_axes(heading: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over each axis of a check, and over the sizes of messages.

    :param heading: application with partition: the beginning of their titles.
    :param cases: of one application on one partition and environment.
    """
    for axis in dict.fromkeys(name for case in cases for name in case.axes):
        group = most_values(axis, cases)
        yield from _scalings(heading, list(scaling.over_cores(group)), True)
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
    for reference in published.of(cases[0].application):
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
            for reference in published.of(cases[0].application):
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
            # Those of bare are of its own case where it ran, else of a container's job.
            sides: dict[str, Mapping[str, policies.Value]] = {}
            for case in group:
                for side, times in policies.times(case, metric).items():
                    sides.setdefault(side, times) if times else None
            points = [
                with_error(Value(side, policy, time.seconds), time.error)
                for side, times in sides.items()
                for policy, time in times.items()
            ]
            if metric == policies.WHOLE and points:
                yield chart(f"{name}: {metric} under each policy", "policy", "s", points)
            none = next((next(iter(times)) for times in sides.values() if len(times) > 1), "")
            gains = [
                with_error(Value(side, policy, gain), error)
                for side, times in sides.items()
                if none in times
                for policy, time in times.items()
                if policy != none
                for gain, error in [time.speed_up(times[none])]
            ]
            if gains:
                yield chart(f"{name}: speed-up of {metric} against {none}", "policy", "speed-up", gains)


def over_versions(application: str, nights: Sequence[Night]) -> Iterator[Chart]:
    """Yield bars over the versions of the runtime that ran in the nights, as figures 9.1 to 9.7 of D12.6.

    They are medians of the nights, of partitions where several versions ran.
    """
    cases = [case for night in nights for case in night.cases if case.application == application]
    axes = dict.fromkeys(name for case in cases for name in case.axes)
    differing = [name for name in axes if len({case.axes.get(name) for case in cases}) > 1]
    groups: dict[str, list[Case]] = {}
    for case in cases:
        chosen = wording.axes({name: case.axes[name] for name in differing if name in case.axes})
        heading = f"{' '.join(filter(None, (application, chosen)))}, {wording.place(case)}"
        groups.setdefault(heading, []).append(case)
    for metric in OF_VERSIONS.get(application, ()):
        for heading, group in groups.items():
            rows = list(_rows(group, metric))
            title = f"{heading}: {metric} under each version of the runtime"
            points = _medians(value for case, row in rows for value in _of_versions(case, row))
            if len({value.at for value in points if value.side != "bare"}) > 1:
                text, bars = "Medians of the nights.", "bars are the smallest and the largest value"
                yield chart(title, "runtime", rows[0][1].unit, points, text, bars)
                more = _medians(value for case, row in rows for value in _in_percent(case, row))
                if metric in IN_PERCENT and more:
                    yield chart(f"{title}, more than bare", "runtime", "%", more, text, bars)


def _of_versions(case: Case, row: Row) -> Iterator[Value]:
    """Yield the values of a row over versions: of bare, and of each side in a container whose version is known."""
    runtimes = case.provenance.get("runtimes") or {}
    for which, label in (("baseline", row.baseline_label), ("subject", row.subject_label)):
        version = (runtimes.get(which) or runtimes.get(label) or {}).get("version")
        value = finite(getattr(row, which))
        if value is not None and which == "baseline" and label == "bare":
            yield Value("bare", "bare", value)
        elif value is not None and version:
            yield Value(case.variant, version, value)


def _in_percent(case: Case, row: Row) -> Iterator[Value]:
    """Yield by how many percent a container's values are more than bare in the same job."""
    if row.baseline and row.baseline_label == "bare":
        for value in _of_versions(case, row):
            if value.side != "bare":
                yield replace(value, value=100 * (value.value / row.baseline - 1))


def _medians(points: Iterable[Value]) -> list[Value]:
    """Return the median of the values of each side at each place, with the smallest and the largest one."""
    groups: dict[tuple[str, float | str], list[float]] = {}
    for value in points:
        groups.setdefault((value.side, value.at), []).append(value.value)
    return [
        Value(side, at, statistics.median(group), min(group), max(group), note=count(len(group), "night"))
        for (side, at), group in sorted(groups.items(), key=lambda item: variant_order(item[0][0]))
    ]
