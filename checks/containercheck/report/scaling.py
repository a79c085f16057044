"""How applications scale over nodes: speed-up and parallel efficiency of each variant, from the cases of one session.

Only figures of which their check says so do: ``scaling`` in a row of the results. The speed-up is against the fewest
nodes that ran, as in D12.6 sections 6.9.1 and 8.1; the efficiency is the speed-up, divided by how many times as many
nodes there are. What is compared is work in a time (J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988)): on
the same work that is the quotient of the times (strong scaling), and where the work grows like the nodes the efficiency
is time(1) / time(n) (weak scaling).
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

#: Ends of units of work in a time, whatever the amount of work is.
WORK = ("FLOPS", "FLOP/s", "images/s")
#: Work may be so much more, relative to that on the fewest nodes, and still be the same.
SAME = 1e-9

#: A case, and its row of the figure.
Measured = tuple[Case, Row]
#: What there is to add to a row of the results, by case, figure, and label of the subject; that is empty without one.
ByRow = dict[tuple[Key, str, str], dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """A side on a number of nodes.

    :ivar case: key of the case that ran there.
    :ivar value: the median, in the figure's unit.
    :ivar work: what a run worked on; 1 is that on the fewest nodes.
    :ivar speed_up: how many times as much work in a time as on the fewest nodes.
    :ivar efficiency: of that, the part of the ideal: 1 is the ideal.
    :ivar error: mean error of the speed-up; None where it is not known, and on the fewest nodes, which are the measure.
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
    """What is compared: bare, a variant, a runtime.

    :ivar which: ``baseline`` or ``subject``, as the rows call it; what ran alone is a baseline.
    :ivar points: two at least, the fewest nodes first.
    """

    which: str
    label: str
    points: tuple[Point, ...]

    @property
    def fewest(self) -> int:
        """The nodes that the others are compared with."""
        return self.points[0].nodes


@dataclass(frozen=True)
class Scaling:
    """A figure of a variant over nodes.

    :ivar label: of its cases.
    :ivar where: partition, and environment where that is not ReFrame's own.
    :ivar subject_label: as the rows have it; empty for a bare case.
    :ivar kind: ``weak`` where a run worked on more with more nodes, else ``strong``.
    :ivar sides: the baseline, as it ran in the jobs of the subject, and the subject; or what ran alone. All have the
        same numbers of nodes.
    :ivar left_out: numbers of nodes that were run and are not among them, with why.
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
    """Return what there is to say of each variant and figure that ran on two numbers of nodes or more."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        # Why others were skipped is told in lines of their own.
        if case.result != "skip":
            system, partition, environ, _ = case.key
            axes = tuple(sorted(case.axes.items()))
            groups.setdefault((system, partition, environ, case.application, case.variant, axes), []).append(case)
    return [one for those in groups.values() for one in _of_variant(sorted(those, key=lambda case: case.nodes))]


def _of_variant(cases: Sequence[Case]) -> Iterator[Scaling]:
    """Yield what there is to say of cases that differ in their nodes only, the fewest first."""
    found: dict[tuple[str, str], dict[int, Measured]] = {}
    for case in cases:
        for row in case.rows if _was_measured(case) else ():
            if row.scaling and _has_values(row):
                over = found.setdefault((row.figure, row.subject_label), {})
                over.setdefault(case.nodes, (case, row))
    for (_, label), over in found.items():
        if len(over) > 1:
            others = {case.nodes: case for case in cases if case.nodes not in over}
            yield _scaling(label, list(over.values()), others.values())


def _was_measured(case: Case) -> bool:
    """Tell whether its figures count. Those of a case that was only slow do: it is what does not scale."""
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
        left_out=tuple((one.nodes, "no value" if _was_measured(one) else "failed") for one in others),
    )


def _work(measured: Sequence[Measured]) -> list[float]:
    """Return what a run worked on, for each number of nodes; 1 is that on the fewest.

    The amount that the check says. Of an input of which it says nothing, such as a published one, the declaration
    tells: the same, or as many times more as there are nodes.
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
        up = _speed(row, value, times) / _speed(base, getattr(base, which), 1.0)
        # Against itself there is no doubt.
        spread = 0.0 if row is base else math.hypot(_relative_error(base, which), _relative_error(row, which))
        ideal = case.nodes / first.nodes
        points.append(Point(case.key, case.nodes, value, times, up, up / ideal, up * spread or None))
    usual = first.variant if which == "subject" else "bare"
    return Side(which, getattr(base, f"{which}_label") or usual, tuple(points))


def _speed(row: Row, value: float, work: float) -> float:
    """Return work in a time, up to a factor that is the same for all nodes."""
    if row.better == "lower":
        return work / value
    return value if row.unit.endswith(WORK) else work * value


def _relative_error(row: Row, which: str) -> float:
    error = getattr(row, f"{which}_error")
    return error / getattr(row, which) if error is not None and math.isfinite(error) else 0.0


def lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each variant, with its figure where the application has several that scale."""
    found = of(cases)
    several = len({one.where for one in found}) > 1
    figures: dict[str, set[str]] = {}
    for one in found:
        figures.setdefault(one.label, set()).add(one.figure)
    return [_line(one, len(figures[one.label]) > 1, several) for one in found]


def _line(one: Scaling, with_figure: bool, with_place: bool) -> str:
    subject = one.sides[-1]
    name = f"{one.label} {one.variant}"
    name += f" ({subject.label})" if subject.label != one.variant else ""
    name += f", {one.figure}" if with_figure else ""
    name += f", {one.where}" if with_place else ""
    values = ", ".join(_value(point, one.unit) for point in subject.points)
    ups = _listed([number(point.speed_up, 3) for point in subject.points[1:]])
    against = f" against {nodes(subject.fewest)}" if subject.fewest > 1 else ""
    told = f"{name}: {values}: speed-up {ups}{against}, efficiency {_efficiencies(subject)}"
    if len(one.sides) > 1:
        told += f" ({one.sides[0].label} {_efficiencies(one.sides[0])})"
    return told + (f"; {without(one)}" if one.left_out else "")


def _value(point: Point, unit: str) -> str:
    times = number(point.work, 3)
    more = "" if times == "1" else f" ({times} times the work)"
    return f"{nodes(point.nodes)} {number(point.value)} {unit}{more}"


def _efficiencies(side: Side) -> str:
    return _listed([percent(point.efficiency) for point in side.points[1:]])


def _listed(texts: Sequence[str]) -> str:
    """Return texts as people list them: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def without(one: Scaling) -> str:
    """Return which numbers of nodes are left out, and why; empty where none is."""
    told = ", ".join(f"{nodes(amount)} ({why})" for amount, why in one.left_out)
    return f"left out: {told}" if told else ""


def nodes(amount: int) -> str:
    """Return so many nodes: ``1 node``, ``2 nodes``."""
    return f"{amount} node{'' if amount == 1 else 's'}"


def percent(efficiency: float) -> str:
    """Return an efficiency as the documents give it, in percent."""
    return f"{100 * efficiency:.0f} %"


def by_row(cases: Iterable[Case]) -> ByRow:
    """Return what there is to add to rows of the results.

    ``scaling`` is the kind; speed-up and efficiency have the side before them: ``baseline_speed_up``.
    """
    rows: ByRow = {}
    for one in of(cases):
        for side in one.sides:
            for point in side.points:
                told = rows.setdefault((point.case, one.figure, one.subject_label), {"scaling": one.kind})
                told[f"{side.which}_speed_up"] = point.speed_up
                told[f"{side.which}_efficiency"] = point.efficiency
    return rows
