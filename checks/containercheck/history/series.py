"""Nights as series: the paired overhead and the bare value of each figure, one point a night.

No stored number can tell a change of the machine from one of the containers. The two series can: bare moves with the
machine, and the overhead, measured in pairs, with runtime, image and MPI.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from containercheck.history.nights import CONFIRMATION, Night
from containercheck.results.cases import Case, Key
from containercheck.results.row import Row

OVERHEAD, BARE = "overhead", "bare"
#: Results with which a case has measured something.
MEASURED = ("pass", "fail", "xfail", "xpass")
#: The smallest change worth telling of a bare value, and of an overhead that is a ratio, in percent. The tolerance of
#: most checks is 5 %: two or three such changes after another, and none of them told, would use that up.
LEAST = 2.0
#: The same of an overhead that is a difference, as a part of what is accepted. That is against the host, which hardly
#: has any of it (a start-up time), and much wider: a successor may be worse by a fifth (``Figure.margin``). A tenth is
#: to that what 2 % are to 5 %, about.
LEAST_PART = 0.1


@dataclass(frozen=True)
class Point:
    """What a night measured.

    :ivar value: the overhead in its unit, or the bare value in the figure's.
    :ivar error: standard error, from the rounds, in the same unit; None for a single run.
    :ivar confirmation: it comes from a confirmation: fresh rounds, after a proposal.
    :ivar provenance: of the run; of a bare value, what is the bare side's.
    :ivar unconfirmed: what the night had measured before its confirmation; None where there is none.
    :ivar cases: where it comes from.
    """

    night: Night
    value: float
    error: float | None
    confirmation: bool
    provenance: Mapping[str, Any]
    unconfirmed: float | None = None
    cases: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Series:
    """One figure of one case, night by night.

    :ivar kind: ``overhead`` or ``bare``.
    :ivar variant: empty for bare.
    :ivar label: the application, with those of its axes that differ among the cases of a night.
    :ivar unit: of the values.
    :ivar better: which direction is, of the figure; an overhead is better when it is lower.
    :ivar least: the smallest change worth telling: in percent for bare, else in the overhead's unit.
    :ivar points: one a night, since the series was last broken on purpose, the earliest first.
    :ivar earlier: those before; for plots.
    :ivar cases: what its last point comes from, and a paired rerun has to run.
    """

    kind: str
    system: str
    partition: str
    environ: str
    application: str
    variant: str
    nodes: int
    axes: Mapping[str, str]
    figure: str
    label: str
    unit: str
    better: str
    least: float
    points: tuple[Point, ...]
    earlier: tuple[Point, ...] = ()
    cases: tuple[Key, ...] = ()


#: A case, and its row of a figure.
Told = tuple[Case, Row]
#: What tells series apart: kind, what identifies a case, and figure; the first facts of a Series, in its order.
Name = tuple[Any, ...]


@dataclass(frozen=True)
class _Seen:
    """A figure of one case in one night.

    :ivar work: what must stay the same, or values cannot be compared.
    """

    name: Name
    label: str
    unit: str
    better: str
    least: float
    work: tuple[Any, ...]
    point: Point


@dataclass
class _Growing:
    """A series while it is put together.

    :ivar broken: how many breaks there were before its last point.
    """

    last: _Seen
    broken: int
    points: list[Point] = field(default_factory=list)
    earlier: list[Point] = field(default_factory=list)

    def add(self, seen: _Seen, broken: int) -> None:
        if broken != self.broken or seen.work != self.last.work:
            self.earlier += self.points
            self.points = []
        self.points.append(seen.point)
        self.last, self.broken = seen, broken

    def series(self) -> Series:
        last = self.last
        *name, axes, figure = last.name
        facts: list[Any] = [*name, dict(axes), figure, last.label, last.unit, last.better, last.least]
        facts += [tuple(self.points), tuple(self.earlier), last.point.cases]
        return Series(*facts)


def series(nights: Sequence[Night]) -> list[Series]:
    """Return the series of these nights, which come the earliest first; of those that ci/nightly ran.

    A series breaks at a night that says that something was changed on purpose, and where the amount of work, the ranks,
    the input or the unit become others: values before and after cannot be compared.
    """
    found: dict[Name, _Growing] = {}
    broken = 0
    for night in (night for night in nights if night.is_nightly):
        broken += bool(night.changed)
        for seen in [*_overheads(night), *_bare(night)]:
            found.setdefault(seen.name, _Growing(seen, broken)).add(seen, broken)
    return [one.series() for one in found.values()]


def _rows(case: Case) -> Iterator[Row]:
    """Return what was compared with bare, or is the bare value itself; nothing where processors are emulated."""
    for row in case.rows:
        if not row.emulated and row.baseline_label == "bare" and row.subject_label in ("", case.variant):
            yield row


def _measured(night: Night) -> Iterator[Told]:
    for case in night.cases:
        if case.result in MEASURED:
            for row in _rows(case):
                yield case, row


def _before_confirmation(case: Case, figure: str) -> Row | None:
    """Return the row of the last run of the night before it was run again to confirm; None where there is none."""
    if case.nightly_pass == CONFIRMATION:
        for run in reversed(case.earlier):
            if run.nightly_pass != CONFIRMATION and run.result in MEASURED:
                return next((row for row in _rows(run) if row.figure == figure), None)
    return None


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _overheads(night: Night) -> Iterator[_Seen]:
    for case, row in _measured(night):
        if not _finite(row.overhead):
            continue
        spread, rounds, earlier = row.spread, row.rounds, _before_confirmation(case, row.figure)
        before = earlier.overhead if earlier else None
        point = Point(
            night,
            row.overhead,
            spread / math.sqrt(rounds) if spread is not None and rounds > 1 else None,
            case.nightly_pass == CONFIRMATION,
            case.provenance,
            before if _finite(before) else None,
            (case.key,),
        )
        unit = row.overhead_unit
        work = (*_work(case), unit, row.unit, *(["duet"] if row.duet else []))
        name = _name(OVERHEAD, case, case.variant, row.figure)
        yield _Seen(name, case.label, unit, row.better, _least(row), work, point)


def _name(kind: str, case: Case, variant: str, figure: str) -> Name:
    return (kind, *case.identity_as(variant), figure)


def _work(case: Case) -> tuple[Any, ...]:
    return (case.expected.get("ranks"), case.expected.get("amount"), case.provenance.get("input"))


def _least(row: Row) -> float:
    """Return the smallest change of an overhead that is worth telling, in its unit."""
    low, high = row.accepted
    if row.overhead_unit == "%":
        return LEAST
    if not _finite(high):
        # Whatever it is, it is accepted: what counts is how large it is.
        return LEAST / 100 * abs(row.subject or row.overhead)
    return LEAST_PART * (high - low if _finite(low) else abs(high))


def _bare(night: Night) -> Iterator[_Seen]:
    """Return the bare values: the median of what container cases measured beside theirs, or the bare case's own."""
    groups: dict[Name, list[Told]] = {}
    for case, row in _measured(night):
        # In a duet it is of half a node.
        if _finite(row.baseline) and not row.duet:
            groups.setdefault(_name(BARE, case, "", row.figure), []).append((case, row))
    for name, every in groups.items():
        found = [(case, row) for case, row in every if row.subject is not None] or every
        case, row = found[-1]
        facts = (case.label, row.unit, row.better, LEAST, (*_work(case), row.unit))
        yield _Seen(name, *facts, _bare_point(night, found))


def _bare_point(night: Night, found: Sequence[Told]) -> Point:
    # Where only some were run again, the others have nothing to add to what they said before.
    fresh = [(case, row) for case, row in found if case.nightly_pass == CONFIRMATION]
    rows = [row for _, row in fresh or found]
    return Point(
        night,
        statistics.median(row.baseline for row in rows),
        _error([row.baseline_error for row in rows]),
        bool(fresh),
        _of_baseline((fresh or found)[-1][0].provenance),
        _unconfirmed(found) if fresh else None,
        tuple(case.key for case, _ in found),
    )


def _unconfirmed(found: Sequence[Told]) -> float | None:
    """Return the median of what these cases measured before some of them were run again."""
    before = [
        _before_confirmation(case, row.figure) if case.nightly_pass == CONFIRMATION else row for case, row in found
    ]
    values = [row.baseline for row in before if row]
    return statistics.median(filter(_finite, values)) if any(map(_finite, values)) else None


def _error(errors: Sequence[float | None]) -> float | None:
    """Return the standard error of the median of values with these: of two it is the mean, of more 1.25 times it."""
    known = [error for error in errors if error is not None]
    if not known:
        return None
    factor = 1.2533 if len(errors) > 2 else 1.0
    return factor * math.sqrt(statistics.mean(error**2 for error in known) / len(errors))


def _of_baseline(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return what says something of the bare side."""
    found = {}
    for name in ("host", "machine", "kept_awake", "input"):
        if name in provenance:
            found[name] = provenance[name]
    for name in ("builds", "mpi", "bound"):
        sides = provenance.get(name)
        if isinstance(sides, Mapping) and "baseline" in sides:
            found[name] = {"baseline": sides["baseline"]}
    return found
