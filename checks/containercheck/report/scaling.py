"""How applications scale over nodes: speed-up and parallel efficiency of each variant, from the cases of one session.

Only figures with ``scaling`` in their row of the results have them. The speed-up is against the fewest nodes that ran,
as in D12.6 sections 6.9.1 and 8.1; the efficiency is the speed-up divided by the ratio of the numbers of nodes. Work
per time is compared (J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988)): for the same work that is the
quotient of the times (strong scaling), and where the work grows like the nodes the efficiency is time(1) / time(n)
(weak scaling).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.results import selections
from containercheck.results.cases import Case, Key
from containercheck.results.formatting import number
from containercheck.results.row import Row

#: Ends of units of work per time, which do not depend on the amount of work.
WORK = ("FLOPS", "FLOP/s", "images/s")
#: Relative difference in work up to which it counts as the same.
SAME = 1e-9

#: A case, and its row of the figure.
Measured = tuple[Case, Row]
#: Facts to add to rows of the results, by case, figure, and label of the subject (empty without a subject).
ByRow = dict[tuple[Key, str, str], dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """Result of a side on a number of nodes.

    :ivar case: key of the case that ran there.
    :ivar value: the median, in the figure's unit.
    :ivar work: amount of work of a run, relative to that on the fewest nodes.
    :ivar speed_up: work per time, relative to that on the fewest nodes.
    :ivar efficiency: the speed-up relative to the ideal one.
    :ivar error: standard error of the speed-up; None where it is not known, and on the fewest nodes.
    """

    case: Key
    nodes: int
    value: float
    work: float
    speed_up: float
    efficiency: float
    error: float | None


@dataclass(frozen=True)
class Side:
    """A compared side over nodes: bare, a variant, or a runtime.

    :ivar which: ``baseline`` or ``subject``, as the rows call it; a side that ran alone is a baseline.
    :ivar points: two at least, the fewest nodes first.
    """

    which: str
    label: str
    points: tuple[Point, ...]

    @property
    def fewest(self) -> int:
        """The number of nodes that the others are compared with."""
        return self.points[0].nodes


@dataclass(frozen=True)
class Scaling:
    """A figure of a variant over nodes.

    :ivar label: label of its cases.
    :ivar where: partition, and environment where that is not ReFrame's own.
    :ivar subject_label: as in the rows; empty for a bare case.
    :ivar kind: ``weak`` where the work of a run grows with the nodes, else ``strong``.
    :ivar sides: the baseline, as it ran in the jobs of the subject, and the subject; or the side that ran alone. All
        have the same numbers of nodes.
    :ivar left_out: numbers of nodes that were run and are left out, with the reason.
    """

    label: str
    where: str
    variant: str
    figure: str
    unit: str
    subject_label: str
    kind: str
    sides: tuple[Side, ...]
    left_out: tuple[tuple[int, str], ...]


def of(cases: Iterable[Case]) -> list[Scaling]:
    """Return the scaling of each variant and figure that ran on two numbers of nodes or more."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        # Skips are reported in lines of their own.
        if case.result != "skip":
            system, partition, environ, _ = case.key
            axes = tuple(sorted(case.axes.items()))
            groups.setdefault((system, partition, environ, case.application, case.variant, axes), []).append(case)
    return [scaling for group in groups.values() for scaling in _of_variant(sorted(group, key=lambda case: case.nodes))]


def _of_variant(cases: Sequence[Case]) -> Iterator[Scaling]:
    """Yield the scaling of each figure of cases that differ in their nodes only.

    :param cases: the fewest nodes first.
    """
    by_figure: dict[tuple[str, str], dict[int, Measured]] = {}
    for case in cases:
        for row in case.rows if _was_measured(case) else ():
            if row.scaling and _has_values(row):
                by_nodes = by_figure.setdefault((row.figure, row.subject_label), {})
                by_nodes.setdefault(case.nodes, (case, row))
    for (_, label), by_nodes in by_figure.items():
        if len(by_nodes) > 1:
            others = {case.nodes: case for case in cases if case.nodes not in by_nodes}
            yield _scaling(label, list(by_nodes.values()), others.values())


def _was_measured(case: Case) -> bool:
    """Return whether a case's figures count; those of a case that was only slow do, as it may not scale."""
    return all(run.result not in selections.FAILED or selections.was_slow(run) for run in (*case.earlier, case))


def _has_values(row: Row) -> bool:
    values = [getattr(row, side) for side in _sides(row)]
    return all(value is not None and math.isfinite(value) and value > 0 for value in values)


def _sides(row: Row) -> list[str]:
    return ["baseline", "subject"] if row.is_comparison else ["baseline"]


def _scaling(label: str, measured: Sequence[Measured], others: Iterable[Case]) -> Scaling:
    case, row = measured[0]
    work = _work(measured)
    environ = case.key[2]
    return Scaling(
        label=case.label,
        where=case.partition + ("" if environ in ("", "builtin") else f" {environ}"),
        variant=case.variant,
        figure=row.figure,
        unit=row.unit,
        subject_label=label,
        kind="weak" if max(work) > 1 + SAME else "strong",
        sides=tuple(_side(which, measured, work) for which in _sides(row)),
        left_out=tuple((other.nodes, "no value" if _was_measured(other) else "failed") for other in others),
    )


def _work(measured: Sequence[Measured]) -> list[float]:
    """Return the amount of work of a run for each number of nodes, relative to that on the fewest.

    It is the amount that the check states. For an input of unknown size, such as a published one, it follows from the
    declared scaling: constant if strong, proportional to the nodes if weak.
    """
    amounts = [case.expected.get("amount") or 0.0 for case, _ in measured]
    if min(amounts) <= 0:
        weak = measured[0][1].scaling == "weak"
        amounts = [case.nodes if weak else 1 for case, _ in measured]
    return [amount / amounts[0] for amount in amounts]


def _side(which: str, measured: Sequence[Measured], work: Sequence[float]) -> Side:
    (first, base), points = measured[0], []
    for (case, row), times in zip(measured, work):
        value = getattr(row, which)
        speed_up = _speed(row, value, times) / _speed(base, getattr(base, which), 1.0)
        # The speed-up against itself is exactly 1.
        spread = 0.0 if row is base else math.hypot(_relative_error(base, which), _relative_error(row, which))
        ideal = case.nodes / first.nodes
        points.append(Point(case.key, case.nodes, value, times, speed_up, speed_up / ideal, speed_up * spread or None))
    usual = first.variant if which == "subject" else "bare"
    return Side(which, getattr(base, f"{which}_label") or usual, tuple(points))


def _speed(row: Row, value: float, work: float) -> float:
    """Return work per time, up to a factor that is the same for all nodes."""
    if row.better == "lower":
        return work / value
    return value if row.unit.endswith(WORK) else work * value


def _relative_error(row: Row, which: str) -> float:
    error = getattr(row, f"{which}_error")
    return error / getattr(row, which) if error is not None and math.isfinite(error) else 0.0


def lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each variant, and for each figure where the application has several that scale."""
    scalings = of(cases)
    several = len({scaling.where for scaling in scalings}) > 1
    figures: dict[str, set[str]] = {}
    for scaling in scalings:
        figures.setdefault(scaling.label, set()).add(scaling.figure)
    return [_line(scaling, len(figures[scaling.label]) > 1, several) for scaling in scalings]


def _line(scaling: Scaling, with_figure: bool, with_place: bool) -> str:
    subject = scaling.sides[-1]
    name = f"{scaling.label} {scaling.variant}"
    name += f" ({subject.label})" if subject.label != scaling.variant else ""
    name += f", {scaling.figure}" if with_figure else ""
    name += f", {scaling.where}" if with_place else ""
    values = ", ".join(_value(point, scaling.unit) for point in subject.points)
    speed_ups = _listed([number(point.speed_up, 3) for point in subject.points[1:]])
    against = f" against {nodes(subject.fewest)}" if subject.fewest > 1 else ""
    text = f"{name}: {values}: speed-up {speed_ups}{against}, efficiency {_efficiencies(subject)}"
    if len(scaling.sides) > 1:
        text += f" ({scaling.sides[0].label} {_efficiencies(scaling.sides[0])})"
    return text + (f"; {without(scaling)}" if scaling.left_out else "")


def _value(point: Point, unit: str) -> str:
    times = number(point.work, 3)
    more = "" if times == "1" else f" ({times} times the work)"
    return f"{nodes(point.nodes)} {number(point.value)} {unit}{more}"


def _efficiencies(side: Side) -> str:
    return _listed([percent(point.efficiency) for point in side.points[1:]])


def _listed(texts: Sequence[str]) -> str:
    """Return texts as a list in English: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def without(scaling: Scaling) -> str:
    """Return the numbers of nodes that are left out, with the reasons; empty where none is."""
    listed = ", ".join(f"{nodes(amount)} ({why})" for amount, why in scaling.left_out)
    return f"left out: {listed}" if listed else ""


def nodes(amount: int) -> str:
    """Return a number of nodes with its noun: ``1 node``, ``2 nodes``."""
    return f"{amount} node{'' if amount == 1 else 's'}"


def percent(efficiency: float) -> str:
    """Return an efficiency in percent, as D12.6 gives it."""
    return f"{100 * efficiency:.0f} %"


def by_row(cases: Iterable[Case]) -> ByRow:
    """Return the scaling facts to add to rows of the results.

    ``scaling`` is the kind; speed-up and efficiency are prefixed with the side: ``baseline_speed_up``.
    """
    rows: ByRow = {}
    for scaling in of(cases):
        for side in scaling.sides:
            for point in side.points:
                facts = rows.setdefault((point.case, scaling.figure, scaling.subject_label), {"scaling": scaling.kind})
                facts[f"{side.which}_speed_up"] = point.speed_up
                facts[f"{side.which}_efficiency"] = point.efficiency
    return rows
