"""Turn nights into series: the paired overhead and the bare value of each metric, one point a night.

A single series does not distinguish a change of the machine from a change of the containers. Two series do: bare values
change with the machine, and paired overheads with runtime, image and MPI.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from containercheck.history.nights import CONFIRMATION, Night
from containercheck.results.cases import Case, Key, on_nodes
from containercheck.results.row import Row, is_finite
from containercheck.results.sides_seen import SEES, USES

OVERHEAD, BARE = "overhead", "bare"
#: Results of cases with a measurement.
MEASURED = ("pass", "fail", "xfail", "xpass")
#: The smallest change to report, in percent, of bare values and of overheads that are ratios. Most checks have a
#: tolerance of 5 %: two or three unreported changes of that size would exhaust it.
LEAST = 2.0
#: The smallest change of overheads that are differences, as a part of the accepted overhead. The accepted overhead is
#: wide, because the value of the host is small (a start-up time); a successor may be worse by a fifth
#: (``references.margins``). A tenth is to that about as 2 % is to 5 %.
LEAST_PART = 0.1


@dataclass(frozen=True)
class Point:
    """The value of a series in one night.

    :ivar value: the overhead in its unit, or the bare value in the metric's unit.
    :ivar error: standard error, from the rounds, in the same unit; None for a single run.
    :ivar confirmation: whether it is from a confirmation: fresh rounds after a proposal.
    :ivar provenance: provenance of the run; for a bare value, only of the bare side.
    :ivar unconfirmed: value of the night before its confirmation; None if there is none.
    :ivar cases: keys of its cases.
    :ivar where: nodes on which a confirmation shows a change, and on which not; see ``results.cases.on_nodes``.
    """

    night: Night
    value: float
    error: float | None
    confirmation: bool
    provenance: Mapping[str, Any]
    unconfirmed: float | None = None
    cases: tuple[Key, ...] = ()
    where: str = ""


@dataclass(frozen=True)
class Series:
    """One metric of one case, night by night.

    :ivar kind: ``overhead`` or ``bare``.
    :ivar variant: empty for bare.
    :ivar label: the application, with the axes that differ among the cases of a night.
    :ivar unit: unit of the values.
    :ivar better: whether ``higher`` or ``lower`` values of the metric are better; of overheads, lower is better.
    :ivar least: the smallest change to report: in percent for bare, else in the overhead's unit.
    :ivar points: one point for each night since the last break of the series, the earliest first.
    :ivar earlier: points before that break, for plots.
    :ivar cases: keys of the cases of its last point, for a paired rerun.
    """

    kind: str
    system: str
    partition: str
    environ: str
    application: str
    variant: str
    nodes: int
    axes: Mapping[str, str]
    metric: str
    label: str
    unit: str
    better: str
    least: float
    points: tuple[Point, ...]
    earlier: tuple[Point, ...] = ()
    cases: tuple[Key, ...] = ()

    @property
    def of_metric(self) -> tuple[Any, ...]:
        """The properties that a metric's series have in common: the bare value, and the overhead of each variant."""
        place = (self.system, self.partition, self.environ, self.application)
        return (*place, self.nodes, tuple(self.axes.items()), self.metric)


#: A case, and its row for a metric.
_CaseRow = tuple[Case, Row]


#: A series of a single night, with one point; and facts that must not change within a series, else its values are not
#: comparable.
_Seen = tuple[Series, tuple[Any, ...]]


def series(nights: Sequence[Night]) -> list[Series]:
    """Return the series of the nights that ci/nightly ran.

    A series breaks at a night after a change on purpose, and if amount of work, ranks, input or unit change: values
    before and after are not comparable.

    :param nights: nights, the earliest first.
    """
    seen: dict[tuple[Any, ...], list[_Seen]] = {}
    changes = 0
    for night in (night for night in nights if night.is_nightly):
        changes += bool(night.changed)
        for member, work in [*_overheads(night), *_bare(night)]:
            key = (member.kind, member.variant, *member.of_metric)
            seen.setdefault(key, []).append((member, (changes, *work)))
    return [_joined(each) for each in seen.values()]


def _joined(seen: Sequence[_Seen]) -> Series:
    """Return the series of these nights since its last break."""
    last, work = seen[-1]
    count = sum(1 for _ in itertools.takewhile(lambda each: each[1] == work, reversed(seen)))
    points = [point for member, _ in seen for point in member.points]
    return replace(last, points=tuple(points[-count:]), earlier=tuple(points[:-count]))


def _rows(case: Case) -> Iterator[Row]:
    """Yield the rows that compare with bare or have the bare value itself; rows of emulated processors are left out."""
    for row in case.rows:
        if not row.emulated and row.baseline_label == "bare" and row.subject_label in ("", case.variant):
            yield row


def _measured(night: Night) -> Iterator[_CaseRow]:
    for case in night.cases:
        if case.result in MEASURED:
            for row in _rows(case):
                yield case, row


def _before_confirmation(case: Case, metric: str) -> Row | None:
    """Return the row of the night's last run before the confirmation of a case; None if there is none."""
    if case.nightly_pass == CONFIRMATION:
        for run in reversed(case.earlier):
            if run.nightly_pass != CONFIRMATION and run.result in MEASURED:
                return next((row for row in _rows(run) if row.metric == metric), None)
    return None


def _where(case: Case) -> str:
    """Return the nodes of a confirmed case: its last run counts, and the confirmations before it did not confirm."""
    if case.nightly_pass != CONFIRMATION:
        return ""
    before = [run for run in case.earlier if run.nightly_pass != CONFIRMATION]
    return on_nodes([*before[-1:], case], [run for run in case.earlier if run.nightly_pass == CONFIRMATION])


def _overheads(night: Night) -> Iterator[_Seen]:
    for case, row in _measured(night):
        if not is_finite(row.overhead):
            continue
        spread, rounds, earlier = row.spread, row.rounds, _before_confirmation(case, row.metric)
        before = earlier.overhead if earlier else None
        point = Point(
            night,
            row.overhead,
            spread / math.sqrt(rounds) if spread is not None and rounds > 1 else None,
            case.nightly_pass == CONFIRMATION,
            case.provenance,
            before if is_finite(before) else None,
            (case.key,),
            _where(case),
        )
        work = (*_work(case), row.overhead_unit, row.unit, row.duet)
        yield _series_of(OVERHEAD, case, row, case.variant, point), work


def _series_of(kind: str, case: Case, row: Row, variant: str, point: Point) -> Series:
    """Return the series of a single point."""
    system, partition, environ, application, _, nodes, axes = case.identity
    return Series(
        kind=kind,
        system=system,
        partition=partition,
        environ=environ,
        application=application,
        variant=variant,
        nodes=nodes,
        axes=dict(axes),
        metric=row.metric,
        label=case.label,
        unit=row.overhead_unit if kind == OVERHEAD else row.unit,
        better=row.better,
        least=_least(row) if kind == OVERHEAD else LEAST,
        points=(point,),
        cases=point.cases,
    )


def _work(case: Case) -> tuple[Any, ...]:
    return (case.expected.get("ranks"), case.expected.get("amount"), case.provenance.get("input"))


def _least(row: Row) -> float:
    """Return the smallest change of an overhead to report, in its unit."""
    low, high = row.accepted
    if row.overhead_unit == "%":
        return LEAST
    if not is_finite(high):
        # Every overhead is accepted, so the change is relative to the value itself.
        return LEAST / 100 * abs(row.subject or row.overhead or 0.0)
    return LEAST_PART * (high - low if is_finite(low) else abs(high))


def _bare(night: Night) -> Iterator[_Seen]:
    """Yield the bare values: the median of the container cases' baselines, or the bare case's own value."""
    groups: dict[tuple[Any, ...], list[_CaseRow]] = {}
    for case, row in _measured(night):
        # In a duet, the baseline ran on half a node.
        if is_finite(row.baseline) and not row.duet:
            groups.setdefault((case.identity_as(""), row.metric), []).append((case, row))
    for pairs in groups.values():
        used = [(case, row) for case, row in pairs if row.subject is not None] or pairs
        case, row = used[-1]
        yield _series_of(BARE, case, row, "", _bare_point(night, used)), (*_work(case), row.unit)


def _bare_point(night: Night, pairs: Sequence[_CaseRow]) -> Point:
    # If only some cases were confirmed, only these count.
    fresh = [(case, row) for case, row in pairs if case.nightly_pass == CONFIRMATION]
    rows = [row for _, row in fresh or pairs]
    return Point(
        night,
        statistics.median(row.baseline for row in rows if row.baseline is not None),
        _error([row.baseline_error for row in rows]),
        bool(fresh),
        _baseline_provenance((fresh or pairs)[-1][0].provenance),
        _unconfirmed(pairs) if fresh else None,
        tuple(case.key for case, _ in pairs),
        next(filter(None, (_where(case) for case, _ in fresh)), ""),
    )


def _unconfirmed(pairs: Sequence[_CaseRow]) -> float | None:
    """Return the median of the bare values before some of the cases were confirmed; None if there is none."""
    before = [
        _before_confirmation(case, row.metric) if case.nightly_pass == CONFIRMATION else row for case, row in pairs
    ]
    values = [row.baseline for row in before if row and is_finite(row.baseline)]
    return statistics.median(values) if values else None


def _error(errors: Sequence[float | None]) -> float | None:
    """Return the standard error of a median: the standard error of the mean; for more than two values, 1.25 times."""
    present = [error for error in errors if error is not None]
    if not present:
        return None
    factor = 1.2533 if len(errors) > 2 else 1.0
    return factor * math.sqrt(statistics.mean(error**2 for error in present) / len(errors))


def _baseline_provenance(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a provenance that is about the bare side."""
    kept = {}
    for name in ("host", "machine", "kept_awake", "input"):
        if name in provenance:
            kept[name] = provenance[name]
    for name in ("builds", "mpi", "bound"):
        sides = provenance.get(name)
        if isinstance(sides, Mapping) and "baseline" in sides:
            kept[name] = {"baseline": sides["baseline"]}
    for name in (SEES, USES):
        sides = provenance.get(name) or {}
        kept.update({name: {BARE: sides[BARE]}} if BARE in sides else {})
    return kept
