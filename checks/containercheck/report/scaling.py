"""Report speed-ups over nodes, over the cores of equally many nodes, and under policies of sharing cores.

Only metrics with ``scaling`` in their row of the results are reported, from the cases of one session. The base of a
speed-up is the run on the fewest nodes or cores, as in D12.6 sections 6.9.1 and 8.1. The efficiency is the speed-up
divided by the ratio of the numbers of nodes or cores. Cases over cores differ in an axis of ranks or of threads (D12.6,
figures 8.9, 8.10, 8.12, 8.13). Mixes of ranks and threads that fill a node are left out, as all use the same cores.

The speed-up compares work per time (J. L. Gustafson, "Reevaluating Amdahl's law", CACM 31 (1988)). With constant work,
it is the quotient of the times (strong scaling). If the work is proportional to the nodes, the efficiency is
time(1) / time(n) (weak scaling).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.job.contract import BASELINE, SUBJECT
from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.formatting import by_key, count, number
from containercheck.results.row import Row, is_finite

#: Endings of units of work per time, which do not depend on the amount of work.
WORK = ("FLOPS", "FLOP/s", "images/s")
#: Label of the bare side, and the metric of the time of all programs that share cores.
BARE, WHOLE = "bare", "seconds_whole"

#: A case, and its row of the metric.
Measured = tuple[Case, Row]


@dataclass(frozen=True)
class Curve:
    """Cases of a variant that differ only in their number of nodes or of cores.

    :ivar over: ``node`` or ``core``.
    :ivar label: label of its cases, without the axis that sets the cores.
    :ivar cases: cases by number of nodes or cores, the fewest first.
    """

    over: str
    label: str
    cases: Mapping[int, Case]


def lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each variant and metric that scales, and for each case with policies of sharing cores."""
    # Other lines report the skips.
    ran = [case for case in cases if case.result != "skip"]
    several = len({case.place for case in ran}) > 1
    scaled = [line for curve in (*_over_nodes(ran), *_over_cores(ran)) for line in _lines(curve, several)]
    return [*scaled, *(line for case in ran for line in _policies(case))]


def _over_nodes(cases: Iterable[Case]) -> Iterator[Curve]:
    for group in by_key(cases, lambda case: (*_common(case), *sorted(case.axes.items()))).values():
        yield _curve("node", group[0].label, {case.nodes: case for case in reversed(group)})


def _over_cores(cases: Iterable[Case]) -> Iterator[Curve]:
    """Yield the cases on equally many nodes that differ only in an axis of ranks or of threads."""
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        for axis in case.axes:
            others = tuple(sorted(item for item in case.axes.items() if item[0] != axis))
            groups.setdefault((*_common(case), case.nodes, axis, others), []).append(case)
    for (*_, axis, _), group in groups.items():
        layouts = [(case.expected.get("ranks"), case.expected.get("threads")) for case in group]
        varying = [len({layout[part] for layout in layouts}) > 1 for part in (0, 1)]
        # If both vary, these are mixes of a node with the same cores. An old report may have neither.
        if varying.count(True) == 1 and not any(None in layout for layout in layouts):
            label = group[0].label.replace(f" {axis}={group[0].axes[axis]}", "")
            by_cores = {case.expected["ranks"] * case.expected["threads"]: case for case in reversed(group)}
            yield _curve("core", label, by_cores)


def _common(case: Case) -> tuple[str, ...]:
    """Return the common properties of all cases of a curve."""
    return (*case.key[:3], case.application, case.variant)


def _curve(over: str, label: str, cases: Mapping[int, Case]) -> Curve:
    return Curve(over, label, dict(sorted(cases.items())))


def _lines(curve: Curve, with_place: bool) -> Iterator[str]:
    by_metric: dict[tuple[str, str], dict[int, Measured]] = {}
    for at, case in curve.cases.items():
        for row in case.rows if _was_measured(case) else ():
            if row.scaling and all(_is_positive(getattr(row, side)) for side in _sides(row)):
                by_metric.setdefault((row.metric, row.subject_label), {})[at] = (case, row)
    for measured in by_metric.values():
        if len(measured) > 1:
            yield _line(curve, measured, with_place)


def _was_measured(case: Case) -> bool:
    """Return whether a case's metrics count. A case that is only too slow counts: it may scale badly."""
    run = selections.failure(case)
    return run is None or (run.phase == "performance" and selections.is_regression(run))


def _is_positive(value: Any) -> bool:
    return is_finite(value) and value > 0


def _sides(row: Row) -> list[str]:
    return [BASELINE, SUBJECT] if row.is_comparison else [BASELINE]


def _line(curve: Curve, measured: Mapping[int, Measured], with_place: bool) -> str:
    case, row = next(iter(measured.values()))
    name = f"{curve.label} {case.variant}"
    name += f" ({row.subject_label})" if row.subject_label not in ("", case.variant) else ""
    name += f", {row.metric}"
    name += f", {case.partition}" if with_place else ""
    name += f", {count(case.nodes, 'node')}" if curve.over == "core" and case.nodes > 1 else ""
    work = _work(measured)
    judged, fewest = _sides(row)[-1], next(iter(measured))
    values = (
        f"{count(at, curve.over)} {number(getattr(each, judged))} {each.unit}"
        + ("" if number(times, 3) == "1" else f" ({number(times, 3)} times the work)")
        for (at, (_, each)), times in zip(measured.items(), work)
    )
    ups = _speed_ups(judged, measured, work)
    against = f" against {count(fewest, curve.over)}" if fewest > 1 else ""
    text = f"{name}: {', '.join(values)}: speed-up {_listed([number(up, 3) for up in ups.values()])}{against}"
    text += f", efficiency {_efficiencies(ups, fewest)}"
    if judged == SUBJECT:
        text += f" ({row.baseline_label or BARE} {_efficiencies(_speed_ups(BASELINE, measured, work), fewest)})"
    return text


def _work(measured: Mapping[int, Measured]) -> list[float]:
    """Return the amount of work of a run for each number of nodes or cores, relative to the fewest.

    It is the amount that the check declares. For an input of unknown size, such as a published one, the declared
    scaling gives it: constant if strong, proportional to the number if weak.
    """
    amounts = [case.expected.get("amount") or 0.0 for case, _ in measured.values()]
    if min(amounts) <= 0:
        weak = next(iter(measured.values()))[1].scaling == "weak"
        amounts = [at if weak else 1 for at in measured]
    return [amount / amounts[0] for amount in amounts]


def _speed_ups(side: str, measured: Mapping[int, Measured], work: Sequence[float]) -> dict[int, float]:
    """Return the work per time on all numbers except the fewest, relative to the fewest."""
    speeds = {at: _speed(row, getattr(row, side), times) for (at, (_, row)), times in zip(measured.items(), work)}
    (_, base), *others = speeds.items()
    return {at: speed / base for at, speed in others}


def _speed(row: Row, value: float, work: float) -> float:
    """Return work per time, except for a common factor of all nodes."""
    if row.better == "lower":
        return work / value
    return value if row.unit.endswith(WORK) else work * value


def _efficiencies(speed_ups: Mapping[int, float], fewest: int) -> str:
    return _listed([f"{100 * up * fewest / at:.0f} %" for at, up in speed_ups.items()])


def _listed(texts: Sequence[str]) -> str:
    """Return texts as a list in English: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _policies(case: Case) -> Iterator[str]:
    """Yield the speed-up of all programs together under each policy of sharing cores, with bare in brackets.

    It is the time without a policy divided by the time with it (D12.5 figures 14 and 20), both bare or in a container.
    """
    inside: dict[str, float] = {}
    bare: dict[str, float] = {}
    rows = [row for row in case.rows if row.metric == WHOLE and row.baseline and row.subject]
    # The bare side without a policy is called bare; it comes first.
    for row in sorted(rows, key=lambda row: row.baseline_label != BARE):
        if case.variant == BARE:
            inside.setdefault(row.baseline_label, row.baseline or 0.0)
            inside.setdefault(row.subject_label, row.subject or 0.0)
        elif row.subject_label.startswith(f"{case.variant}, "):
            policy = row.subject_label.removeprefix(f"{case.variant}, ")
            inside.setdefault(policy, row.subject or 0.0)
            is_none = row.baseline_label == BARE
            bare.setdefault(policy if is_none else row.baseline_label.removeprefix(f"{BARE}, "), row.baseline or 0.0)
    if len(inside) < 2:
        return
    (none, seconds), *policies = inside.items()
    texts = []
    for policy, time in policies:
        text = f"{policy} {number(seconds / time, 3)}"
        text += f" (bare {number(bare[none] / bare[policy], 3)})" if policy in bare and none in bare else ""
        texts.append(text)
    where = f", {count(case.nodes, 'node')}" if case.nodes > 1 else ""
    yield f"{case.label} {case.variant}{where}: speed-up against {none}: {', '.join(texts)}"
