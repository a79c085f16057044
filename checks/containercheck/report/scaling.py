"""How applications scale over nodes, and over the cores of as many nodes: speed-up and efficiency of each variant.

Only metrics with ``scaling`` in their row of the results have them, from the cases of one session. The speed-up is
against the fewest nodes, or cores, that ran, as in D12.6 sections 6.9.1 and 8.1; the efficiency is the speed-up divided
by the ratio of their numbers. Over cores are cases that differ in an axis of ranks, or of threads: figures 8.9, 8.10,
8.12 and 8.13 of D12.6. Mixes of ranks and threads that fill a node have no such scaling: all use its cores.

Work per time is compared (J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988)): for the same work that is the
quotient of the times (strong scaling), and where the work grows like the nodes the efficiency is time(1) / time(n)
(weak scaling).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.results import selections
from containercheck.results.cases import Case, Key
from containercheck.results.formatting import count, number
from containercheck.results.row import Row, is_finite

#: Ends of units of work per time, which do not depend on the amount of work.
WORK = ("FLOPS", "FLOP/s", "images/s")
#: Relative difference in work up to which it counts as the same.
SAME = 1e-9

#: Scales of cases.
NODES, CORES = "nodes", "cores"

#: A case, and its row of the metric.
Measured = tuple[Case, Row]
#: Facts to add to rows of the results, by case, metric, and label of the subject (empty without a subject).
ByRow = dict[tuple[Key, str, str], dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """Result of a side on a number of nodes, or of cores.

    :ivar case: key of the case that ran there.
    :ivar at: that number.
    :ivar value: the median, in the metric's unit.
    :ivar work: amount of work of a run, relative to that on the fewest.
    :ivar speed_up: work per time, relative to that on the fewest.
    :ivar efficiency: the speed-up relative to the ideal one.
    :ivar error: standard error of the speed-up; None where it is not known, and on the fewest.
    """

    case: Key
    nodes: int
    at: int
    value: float
    work: float
    speed_up: float
    efficiency: float
    error: float | None


@dataclass(frozen=True)
class Side:
    """A compared side over nodes or cores: bare, a variant, or a runtime.

    :ivar which: ``baseline`` or ``subject``, as the rows call it; a side that ran alone is a baseline.
    :ivar points: two at least, the fewest first.
    """

    which: str
    label: str
    points: tuple[Point, ...]

    @property
    def fewest(self) -> int:
        """The number of nodes or cores that the others are compared with."""
        return self.points[0].at


@dataclass(frozen=True)
class Scaling:
    """A metric of a variant over nodes, or over cores.

    :ivar over: :data:`NODES` or :data:`CORES`.
    :ivar label: label of its cases, without the axis that sets the cores.
    :ivar where: partition, and environment where that is not ReFrame's own.
    :ivar subject_label: as in the rows; empty for a bare case.
    :ivar kind: ``weak`` where the work of a run grows with them, else ``strong``.
    :ivar sides: the baseline, as it ran in the jobs of the subject, and the subject; or the side that ran alone. All
        have the same numbers.
    :ivar left_out: numbers that were run and are left out, with the reason.
    """

    over: str
    label: str
    where: str
    variant: str
    metric: str
    unit: str
    subject_label: str
    kind: str
    sides: tuple[Side, ...]
    left_out: tuple[tuple[int, str], ...]


def of(cases: Iterable[Case]) -> list[Scaling]:
    """Return the scaling of each variant and metric that ran on two numbers of nodes, or of cores, or more."""
    # Skips are reported in lines of their own.
    ran = [case for case in cases if case.result != "skip"]
    return [*_over_nodes(ran), *over_cores(ran)]


def _over_nodes(cases: Iterable[Case]) -> Iterator[Scaling]:
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        axes = tuple(sorted(case.axes.items()))
        groups.setdefault((*_common(case), axes), []).append(case)
    for group in groups.values():
        numbered = [(case.nodes, case) for case in group]
        yield from _of_variant(NODES, group[0].label, sorted(numbered, key=lambda pair: pair[0]))


def over_cores(cases: Iterable[Case]) -> Iterator[Scaling]:
    """Yield the scaling over cores of cases on as many nodes that differ in an axis of ranks, or of threads, alone."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        for axis in case.axes:
            others = tuple(sorted(item for item in case.axes.items() if item[0] != axis))
            groups.setdefault((*_common(case), case.nodes, axis, others), []).append(case)
    for (*_, axis, _), group in groups.items():
        layouts = [(case.expected.get("ranks"), case.expected.get("threads")) for case in group]
        varying = [len({layout[part] for layout in layouts}) > 1 for part in (0, 1)]
        # With both, the mixes of a node differ, and its cores do not; an old report may have neither.
        if varying.count(True) == 1 and not any(None in layout for layout in layouts):
            numbered = [(case.expected["ranks"] * case.expected["threads"], case) for case in group]
            label = group[0].label.replace(f" {axis}={group[0].axes[axis]}", "")
            yield from _of_variant(CORES, label, sorted(numbered, key=lambda pair: pair[0]))


def _common(case: Case) -> tuple[str, ...]:
    """Return what all cases of a curve have in common."""
    return (*case.key[:3], case.application, case.variant)


def _of_variant(over: str, label: str, cases: Sequence[tuple[int, Case]]) -> Iterator[Scaling]:
    """Yield the scaling of each metric of cases that differ in their nodes, or cores, only.

    :param cases: with their number of them, the fewest first.
    """
    by_metric: dict[tuple[str, str], dict[int, Measured]] = {}
    for at, case in cases:
        for row in case.rows if _was_measured(case) else ():
            if row.scaling and _has_values(row):
                by_number = by_metric.setdefault((row.metric, row.subject_label), {})
                by_number.setdefault(at, (case, row))
    for (_, subject), by_number in by_metric.items():
        if len(by_number) > 1:
            others = {at: case for at, case in cases if at not in by_number}
            yield _scaling(over, label, subject, by_number, others)


def _was_measured(case: Case) -> bool:
    """Return whether a case's metrics count; those of a case that is only slow do, as it may not scale."""
    run = selections.failure(case)
    return run is None or (run.phase == "performance" and selections.is_regression(run))


def _has_values(row: Row) -> bool:
    values = [getattr(row, side) for side in _sides(row)]
    return all(is_finite(value) and value > 0 for value in values)


def _sides(row: Row) -> list[str]:
    return ["baseline", "subject"] if row.is_comparison else ["baseline"]


def _scaling(
    over: str, label: str, subject: str, measured: Mapping[int, Measured], others: Mapping[int, Case]
) -> Scaling:
    case, row = next(iter(measured.values()))
    work = _work(measured)
    environ = case.key[2]
    return Scaling(
        over=over,
        label=label,
        where=case.partition + ("" if environ in ("", "builtin") else f" {environ}"),
        variant=case.variant,
        metric=row.metric,
        unit=row.unit,
        subject_label=subject,
        kind="weak" if max(work) > 1 + SAME else "strong",
        sides=tuple(_side(which, measured, work) for which in _sides(row)),
        left_out=tuple((at, "no value" if _was_measured(other) else "failed") for at, other in others.items()),
    )


def _work(measured: Mapping[int, Measured]) -> list[float]:
    """Return the amount of work of a run for each number of nodes or cores, relative to that on the fewest.

    It is the amount that the check states. For an input of unknown size, such as a published one, it follows from the
    declared scaling: constant if strong, proportional to the number if weak.
    """
    amounts = [case.expected.get("amount") or 0.0 for case, _ in measured.values()]
    if min(amounts) <= 0:
        weak = next(iter(measured.values()))[1].scaling == "weak"
        amounts = [at if weak else 1 for at in measured]
    return [amount / amounts[0] for amount in amounts]


def _side(which: str, measured: Mapping[int, Measured], work: Sequence[float]) -> Side:
    (fewest, (first, base)), points = next(iter(measured.items())), []
    for (at, (case, row)), times in zip(measured.items(), work):
        value = getattr(row, which)
        speed_up = _speed(row, value, times) / _speed(base, getattr(base, which), 1.0)
        # The speed-up against itself is exactly 1.
        spread = 0.0 if row is base else math.hypot(_relative_error(base, which), _relative_error(row, which))
        efficiency = speed_up * fewest / at
        points.append(Point(case.key, case.nodes, at, value, times, speed_up, efficiency, speed_up * spread or None))
    usual = first.variant if which == "subject" else "bare"
    return Side(which, getattr(base, f"{which}_label") or usual, tuple(points))


def _speed(row: Row, value: float, work: float) -> float:
    """Return work per time, up to a factor that is the same for all nodes."""
    if row.better == "lower":
        return work / value
    return value if row.unit.endswith(WORK) else work * value


def _relative_error(row: Row, which: str) -> float:
    error = getattr(row, f"{which}_error")
    return error / getattr(row, which) if is_finite(error) else 0.0


def lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each variant, and for each metric where the application has several that scale."""
    scalings = of(cases)
    several = len({scaling.where for scaling in scalings}) > 1
    metrics: dict[str, set[str]] = {}
    for scaling in scalings:
        metrics.setdefault(scaling.label, set()).add(scaling.metric)
    return [_line(scaling, len(metrics[scaling.label]) > 1, several) for scaling in scalings]


def _line(scaling: Scaling, with_metric: bool, with_place: bool) -> str:
    subject = scaling.sides[-1]
    name = f"{scaling.label} {scaling.variant}"
    name += f" ({subject.label})" if subject.label != scaling.variant else ""
    name += f", {scaling.metric}" if with_metric else ""
    name += f", {scaling.where}" if with_place else ""
    on_nodes = subject.points[0].nodes
    name += f", {amount(on_nodes, NODES)}" if scaling.over == CORES and on_nodes > 1 else ""
    values = ", ".join(_value(point, scaling) for point in subject.points)
    speed_ups = _listed([number(point.speed_up, 3) for point in subject.points[1:]])
    against = f" against {amount(subject.fewest, scaling.over)}" if subject.fewest > 1 else ""
    text = f"{name}: {values}: speed-up {speed_ups}{against}, efficiency {_efficiencies(subject)}"
    if len(scaling.sides) > 1:
        text += f" ({scaling.sides[0].label} {_efficiencies(scaling.sides[0])})"
    return text + (f"; {without(scaling)}" if scaling.left_out else "")


def _value(point: Point, scaling: Scaling) -> str:
    times = number(point.work, 3)
    more = "" if times == "1" else f" ({times} times the work)"
    return f"{amount(point.at, scaling.over)} {number(point.value)} {scaling.unit}{more}"


def _efficiencies(side: Side) -> str:
    return _listed([percent(point.efficiency) for point in side.points[1:]])


def _listed(texts: Sequence[str]) -> str:
    """Return texts as a list in English: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def without(scaling: Scaling) -> str:
    """Return the numbers that are left out, with the reasons; empty where none is."""
    listed = ", ".join(f"{amount(at, scaling.over)} ({why})" for at, why in scaling.left_out)
    return f"left out: {listed}" if listed else ""


def amount(number_of: int, over: str) -> str:
    """Return a number of nodes or cores with its noun: ``1 node``, ``2 nodes``.

    :param over: :data:`NODES` or :data:`CORES`.
    """
    return count(number_of, over.removesuffix("s"))


def percent(efficiency: float) -> str:
    """Return an efficiency in percent, as D12.6 gives it."""
    return f"{100 * efficiency:.0f} %"


def by_row(cases: Iterable[Case]) -> ByRow:
    """Return the scaling facts to add to rows of the results.

    ``scaling`` is the kind; speed-up and efficiency are prefixed with the side: ``baseline_speed_up``. Those over cores
    end in ``_over_cores``, as does their kind.
    """
    rows: ByRow = {}
    for scaling in of(cases):
        end = "_over_cores" if scaling.over == CORES else ""
        for side in scaling.sides:
            for point in side.points:
                facts = rows.setdefault((point.case, scaling.metric, scaling.subject_label), {})
                facts[f"scaling{end}"] = scaling.kind
                facts[f"{side.which}_speed_up{end}"] = point.speed_up
                facts[f"{side.which}_efficiency{end}"] = point.efficiency
    return rows
