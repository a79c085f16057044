"""The documents' figures in their order, each with our results: whether they agree, or why there are none.

A statement of a document has up to two parts. The first compares a container with bare: it holds where every overhead
agrees with it, and does not where one says the opposite. *As fast* is an overhead within its tolerance that is not
accepted only because a reference expects it; *slower* and *faster* are intervals on that side of zero. The cases of a
check that compares nothing have to pass.

The second part is the course of a metric over an axis. Two values within five percent of each other are the same. A
metric *rises* where its last value is larger than its first, and none is smaller than the one before; over names, such
as instruction sets, each has to be larger than the one before. It *falls* the other way round, and *varies* where its
best and its worst value are not the same. Where a place is named as the best, no other place may be better. The values
are of one side: bare, unless another is named. The outcome is *agrees* where both parts hold, and *differs* where one
does not.

A night has the time to close a part of its verdicts. Where it leaves a statement open, or did not run the check, the
last night before counts that decided it, but none before an intended change.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from containercheck.history.nights import Night
from containercheck.report.page import axis_values
from containercheck.report.page import cases as page_cases
from containercheck.report.page.axis_values import Published, is_number
from containercheck.report.page.wording import Table, finite
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import PASS, Row

#: The documents' figures; its comments explain the fields of :class:`Statement`.
DATA = Path(__file__).with_suffix(".yaml")
#: Words of a document on a container, or another side, against its baseline; and where it compares nothing.
AS_FAST, SLOWER, FASTER, WORKS, NOTHING = "as fast", "slower", "faster", "works", "nothing"
#: Trends of a metric over an axis.
RISES, FALLS, VARIES = "rises", "falls", "varies"
#: Axes that are not a parameter of a check: the number of nodes, and the sides that are compared, such as policies.
NODES, SIDES = "nodes", "policies"
#: Largest overhead in percent that a reference may expect of a container that is as fast, and relative difference
#: within which two values are the same: a check's default tolerance.
MOST, NEAR = 5.0, 0.05
#: Outcomes.
AGREES, DIFFERS, OPEN, NOT_RUN, NOT_REPEATED = "agrees", "differs", "not certain", "not run", "not repeated"
HEADINGS = ("figure", "shows", "check", "theirs", "ours", "outcome", "reason")
#: Most values that are listed, and characters of the reason of a skip.
MOST_LISTED, MOST_REASON = 8, 120


@dataclass(frozen=True)
class Course:
    """A document's statement about a metric over an axis; :data:`DATA` explains the fields."""

    metric: str
    axis: str
    trend: str = ""
    best: str = ""
    places: tuple[str, ...] = ()
    up_to: float = math.inf
    side: str = "bare"
    relative: bool = False
    subject: str = ""
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The statement in words."""
        side = f" {self.side}" if self.side != "bare" else ""
        metric = f"{self.metric}{side}{' against its baseline' if self.relative else ''}"
        if self.best:
            return f"{metric}: best at {self.best} ({self.axis})"
        if self.places:
            return f"{metric}: {(' < ' if self.trend == RISES else ' > ').join(self.places)}"
        return f"{metric} {self.trend} over {self.axis}" + (f" up to {self.up_to:g}" if self.up_to < math.inf else "")


@dataclass(frozen=True)
class Statement:
    """A figure or table of a document, with its statement; :data:`DATA` explains the fields."""

    document: str
    place: str
    shows: str
    check: str = ""
    says: str = AS_FAST
    variant: str = ""
    nodes: int = 1
    metrics: tuple[str, ...] = ()
    subject: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    course: Course | None = None
    value: str = ""
    theirs: str = ""
    note: str = ""
    not_repeated: str = ""


@dataclass(frozen=True)
class Outcome:
    """The results of a night on a statement, or on a part of it.

    :ivar word: whether they agree, one of the outcomes above.
    :ivar ours: our values, in short.
    :ivar reason: why they do not agree, or are missing.
    """

    word: str
    ours: str = ""
    reason: str = ""


@functools.cache
def statements() -> tuple[Statement, ...]:
    """Return the figures of all documents, in their order."""
    documents = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return tuple(_statement(document, facts) for document, figures in documents.items() for facts in figures)


def _statement(document: str, facts: dict[str, Any]) -> Statement:
    course = facts.get("course")
    if course:
        facts["course"] = Course(**{**course, "places": tuple(course.get("places", ()))})
    return Statement(document=document, **{**facts, "metrics": tuple(facts.get("metrics", ()))})


def table(nights: Sequence[Night]) -> Table:
    """Return the table of all figures of the documents, with the results of the nights.

    :param nights: the last one is shown.
    """
    outcomes = [(statement, decided(statement, nights)) for statement in statements()]
    rows = tuple(
        (
            f"{statement.document}, {statement.place}",
            statement.shows,
            statement.check,
            theirs(statement),
            result.ours,
            result.word,
            result.reason,
        )
        for statement, result in outcomes
    )
    agreeing = sum(result.word == AGREES for _, result in outcomes)
    return Table(f"Figures of the documents: {agreeing} of {len(rows)} agree", HEADINGS, rows, len(HEADINGS))


def decided(statement: Statement, nights: Sequence[Night]) -> Outcome:
    """Return the outcome of the last night, or where it is open, of the last night that decided it."""
    last = outcome(statement, nights[-1].cases if nights else ())
    if last.word not in (OPEN, NOT_RUN):
        return last
    for later, night in zip(reversed(nights), reversed(nights[:-1])):
        if later.changed:
            break
        earlier = outcome(statement, night.cases)
        if earlier.word in (AGREES, DIFFERS):
            return replace(earlier, reason=_joined(f"in the night {night.name}", earlier.reason))
    return last


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def theirs(statement: Statement) -> str:
    """Return the words of a document, and its numbers."""
    says = statement.says if statement.says not in (WORKS, NOTHING) and not statement.not_repeated else ""
    course = statement.course.words if statement.course else ""
    return _joined(says, course, statement.theirs, *_published(statement))


def _published(statement: Statement) -> list[str]:
    """Return the published values of the metric that is shown, by machine and variant."""
    course, variants, metric = statement.course, {"bare", statement.variant}, statement.value
    if course and not metric and not course.relative and not course.places:
        metric, variants = course.metric, {course.side}
    by_side: dict[str, list[Published]] = {}
    for value in axis_values.published(statement.check) if metric else ():
        if value.metric == metric and (value.variant in variants or not statement.variant):
            by_side.setdefault(f"{value.partition}, {value.variant}", []).append(value)
    return [
        f"{side} {', '.join(_ends([number(value.value, 6) for value in values]))} {values[0].unit}"
        for side, values in by_side.items()
    ]


def _ends(texts: Sequence[str]) -> Sequence[str]:
    """Return texts, or of many of them, the first and the last ones."""
    if len(texts) <= MOST_LISTED:
        return texts
    return [*texts[: MOST_LISTED // 2], "…", *texts[-MOST_LISTED // 2 :]]


def outcome(statement: Statement, cases: Sequence[Case]) -> Outcome:
    """Return whether the results of cases agree with a statement, our values, and why they do not."""
    if statement.not_repeated:
        return Outcome(NOT_REPEATED, reason=statement.not_repeated)
    of_check = [case for case in cases if case.application == statement.check]
    ran = [case for case in of_check if case.result != "skip" and statement.system in ("", case.key[0])]
    parts: list[Outcome] = []
    if statement.says != NOTHING:
        parts.append(_compared(statement, [case for case in ran if _counts(statement, case)]))
    if statement.course:
        parts.append(follows(statement.course, ran))
    words = {part.word for part in parts}
    if words <= {NOT_RUN}:
        return Outcome(NOT_RUN, reason=_why_not_run(statement, of_check))
    word = DIFFERS if DIFFERS in words else AGREES if words == {AGREES} else OPEN
    note = statement.note if word != AGREES else ""
    return Outcome(word, _joined(*(part.ours for part in parts)), _joined(*(part.reason for part in parts), note))


def _why_not_run(statement: Statement, cases: Sequence[Case]) -> str:
    if statement.system and not any(case.key[0] == statement.system for case in cases):
        return f"of {statement.system} only"
    skipped = next((case.reason for case in cases if case.result == "skip"), "")
    return skipped.partition("\n")[0][:MOST_REASON]


def _is_there(case: Case, where: Mapping[str, str]) -> bool:
    return all(case.axes.get(axis, "").startswith(beginning) for axis, beginning in where.items())


def _counts(statement: Statement, case: Case) -> bool:
    # "Works" is about a container, unless the check is about something else.
    is_any = statement.says != WORKS or case.variant != "bare"
    is_variant = statement.variant == case.variant if statement.variant else is_any
    return is_variant and case.nodes >= statement.nodes and _is_there(case, statement.where)


def _compared(statement: Statement, cases: Sequence[Case]) -> Outcome:
    """Return whether the overheads of cases agree, or the cases passed where they have none."""
    if cases and (statement.says == WORKS or not any(case.rows for case in cases)):
        return _works(statement, cases)
    rows = [row for case in cases for row in case.rows if _is_meant(statement, row)]
    if not rows:
        return Outcome(NOT_RUN, reason="nothing compared")
    agree = [_agrees(statement.says, row) for row in rows]
    reason = f"{agree.count(True)} of {count(len(agree), 'overhead')} certain to be {statement.says}"
    reason += f", the opposite: {agree.count(False)}" if False in agree else ""
    word = DIFFERS if False in agree else OPEN if None in agree else AGREES
    by_unit: dict[str, list[float]] = {}
    for row in rows:
        by_unit.setdefault(row.overhead_unit, []).append(row.overhead or 0.0)
    ours = [_range(overheads, unit) for unit, overheads in by_unit.items()]
    return Outcome(word, _joined(*ours, _values(statement, cases)), "" if word == AGREES else reason)


def _is_meant(statement: Statement, row: Row) -> bool:
    is_metric = not statement.metrics or row.metric.startswith(statement.metrics)
    return is_metric and finite(row.overhead) is not None and statement.subject in row.subject_label


def _range(overheads: Sequence[float], unit: str) -> str:
    """Return the smallest and the largest overhead."""
    ends = dict.fromkeys(number(end, 2, "+") for end in (min(overheads), max(overheads)))
    return f"{count(len(overheads), 'overhead')}: {' to '.join(ends)} {unit}"


def _values(statement: Statement, cases: Sequence[Case]) -> str:
    """Return the values of the metric that is shown, of the case on most nodes."""
    for case in sorted(cases, key=lambda case: -case.nodes):
        for row in case.rows:
            if row.metric == statement.value and row.baseline is not None and row.subject is not None:
                subject = f"{row.subject_label or case.variant} {number(row.subject)} {row.unit}"
                return f"{row.baseline_label} {number(row.baseline)}, {subject}"
    return ""


def _works(statement: Statement, cases: Sequence[Case]) -> Outcome:
    """Return whether cases passed that compare nothing."""
    states = [page_cases.state(case) for case in cases]
    failed, unmeasured = states.count(page_cases.FAIL), states.count(page_cases.UNMEASURED)
    if failed:
        return Outcome(DIFFERS, reason=f"{count(failed, 'case')} of {len(states)} failed")
    if unmeasured:
        return Outcome(OPEN, reason=f"{count(unmeasured, 'case')} of {len(states)} ended before there was an answer")
    passed = f"{count(len(states), 'case')} passed"
    return Outcome(AGREES, passed) if statement.says == WORKS else Outcome(OPEN, passed, "nothing compared")


def _agrees(says: str, row: Row) -> bool | None:
    """Return whether a row agrees with a word of a document; None where it may."""
    low, high = finite(row.low), finite(row.high)
    if says == AS_FAST:
        return _is_as_fast(row, low, high)
    if low is None or high is None:
        return None
    if says == FASTER:
        low, high = -high, -low
    return True if low > 0 else False if high < 0 else None


def _is_as_fast(row: Row, low: float | None, high: float | None) -> bool | None:
    """Return whether the container is as fast; None where it may be."""
    most, accepted = row.accepted[1] or 0.0, row.verdict == PASS
    if row.expected and (row.overhead_unit != "%" or most > MOST):
        # An overhead that a reference expects is accepted, and is not a tolerance.
        most = MOST if row.overhead_unit == "%" else 0.0
        accepted = accepted and high is not None and high <= most
    return True if accepted else False if low is not None and low > most else None


@dataclass(frozen=True)
class Curve:
    """Values of a side over an axis, all else being the same, by their places in order."""

    points: tuple[tuple[str, float], ...]
    unit: str
    is_lower_better: bool


def follows(course: Course, cases: Sequence[Case]) -> Outcome:
    """Return whether all curves have this course, with the values of the worst one."""
    judged = [_judge(course, curve) for curve in _curves(course, cases)]
    if not judged:
        return Outcome(NOT_RUN, reason=f"no two values over {course.axis}")
    worst = min(judged, key=lambda result: (DIFFERS, OPEN, AGREES).index(result.word))
    agreeing = sum(result.word == AGREES for result in judged)
    return replace(worst, ours=_joined(f"{agreeing} of {len(judged)} curves" if len(judged) > 1 else "", worst.ours))


def _judge(course: Course, curve: Curve) -> Outcome:
    values = sorted(curve.points, key=lambda point: point[1], reverse=not curve.is_lower_better)
    (best_place, best), (worst_place, worst) = values[0], values[-1]
    if course.best:
        ours = f"best at {best_place}; {_listed(course, curve)}"
        if best_place == course.best:
            return Outcome(AGREES, ours)
        if _step(best, dict(curve.points)[course.best]) == 0:
            return Outcome(OPEN, ours, f"{best_place} is as good")
        return Outcome(DIFFERS, ours, f"{best_place} is better")
    if course.trend == VARIES:
        ours = f"best at {best_place}, worst at {worst_place}; {_listed(course, curve)}"
        return Outcome(AGREES, ours) if _step(best, worst) else Outcome(DIFFERS, ours, "best and worst are the same")
    return _has_trend(course, curve)


def _has_trend(course: Course, curve: Curve) -> Outcome:
    wanted = 1 if course.trend == RISES else -1
    ours = _listed(course, curve)
    pairs = list(zip(curve.points, curve.points[1:]))
    for (before, first), (after, second) in pairs:
        if _step(first, second) == -wanted:
            return Outcome(DIFFERS, ours, f"it {FALLS if wanted == 1 else RISES} from {before} to {after}")
    for (before, first), (after, second) in pairs if course.places else [(curve.points[0], curve.points[-1])]:
        if _step(first, second) != wanted:
            return Outcome(OPEN, ours, f"{before} and {after} are the same")
    return Outcome(AGREES, ours)


def _step(first: float, second: float) -> int:
    """Return whether the second of two values is larger (1), smaller (-1) or the same (0).

    >>> _step(100, 110), _step(110, 100), _step(100, 104)
    (1, -1, 0)
    """
    if abs(second - first) <= NEAR * min(abs(first), abs(second)):
        return 0
    return 1 if second > first else -1


def _listed(course: Course, curve: Curve) -> str:
    values = ", ".join(_ends([number(value, 3) for _, value in curve.points]))
    places = ", ".join(_ends([place for place, _ in curve.points]))
    return f"{values} {curve.unit} at {course.axis} {places}"


def _curves(course: Course, cases: Sequence[Case]) -> Iterator[Curve]:
    """Yield the values over the axis, for each group of cases that differ in nothing else."""
    groups: dict[tuple[object, ...], dict[str, tuple[float, Row, Case]]] = {}
    # The bare cases come first: they ran one after the other, and a course compares them with each other.
    for case in sorted(cases, key=lambda case: case.variant != "bare"):
        for row in case.rows if _is_there(case, course.where) else ():
            value, place = _value(course, case, row), _place(course, case, row)
            if row.metric == course.metric and value is not None and place:
                others = tuple(sorted(item for item in case.axes.items() if item[0] != course.axis))
                group = (case.key[:3], others, 0 if course.axis == NODES else case.nodes)
                groups.setdefault(group, {}).setdefault(place, (value, row, case))
    for by_place in groups.values():
        points = _ordered(course, by_place)
        if len(points) > 1 and (not course.best or course.best in dict(points)):
            _, row, _ = next(iter(by_place.values()))
            yield Curve(points, "%" if course.relative else row.unit, row.better == "lower" and not course.relative)


def _value(course: Course, case: Case, row: Row) -> float | None:
    baseline, subject = finite(row.baseline), finite(row.subject)
    if course.relative:
        is_meant = case.variant == course.side and course.subject in row.subject_label
        if not is_meant or not baseline or not subject:
            return None
        return 100 * (baseline / subject if row.better == "lower" else subject / baseline)
    if course.side == "bare":
        return baseline if row.baseline_label == "bare" or case.variant == "bare" else None
    return subject if case.variant == course.side and row.subject_label in ("", course.side) else None


def _place(course: Course, case: Case, row: Row) -> str:
    if course.axis == NODES:
        return str(case.nodes)
    return row.subject_label if course.axis == SIDES else case.axes.get(course.axis, "")


def _ordered(course: Course, by_place: Mapping[str, tuple[float, Row, Case]]) -> tuple[tuple[str, float], ...]:
    """Return the places that count with their values, in their order: numbers, or the names of the statement.

    A default of the axis stands at its number: ``ranks=0`` at 28, where it is 28 of them.
    """
    if course.places:
        return tuple((place, by_place[place][0]) for place in course.places if place in by_place)
    names = {place: place for place in by_place}
    if not course.best and course.axis not in (NODES, SIDES):
        placed = axis_values.places(course.axis, [case for _, _, case in by_place.values()])
        names = {place: f"{at:g}" for place, at in placed.numbers.items()} if placed else {}
    points = [(name, by_place[place][0]) for place, name in names.items() if place in by_place]
    numbers = sorted((point for point in points if is_number(point[0])), key=lambda point: float(point[0]))
    if course.best or course.axis == SIDES:
        return (*numbers, *(point for point in points if not is_number(point[0])))
    return tuple(point for point in numbers if float(point[0]) <= course.up_to)
