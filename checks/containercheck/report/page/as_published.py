"""The documents' figures in their order, each with our results: whether they agree, or why there are none.

A statement of a document has up to two parts. The first compares a container with bare: it holds where every overhead
agrees with it, and does not where one says the opposite. *As fast* is an overhead within its tolerance that is not
accepted only because a reference expects it; *slower* and *faster* are intervals on that side of zero. Of a check that
compares nothing, the cases have to pass. The second part is the course of a metric over an axis (courses.py). The
outcome is *agrees* where both hold, and *differs* where one does not.

A night has the time to close a part of its verdicts. Where it leaves a statement open, or did not run the check, the
last night before counts that decided it, but none before an intended change.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from containercheck.history.nights import Night
from containercheck.report.page import cases as page_cases
from containercheck.report.page import courses, published
from containercheck.report.page.courses import Course, Part
from containercheck.report.page.wording import Table, finite
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import PASS, Row

#: The documents' figures; its comments explain the fields of :class:`Statement`.
DATA = Path(__file__).with_suffix(".yaml")
#: Words of a document on a container, or another side, against its baseline; and where it compares nothing.
AS_FAST, SLOWER, FASTER, WORKS, NOTHING = "as fast", "slower", "faster", "works", "nothing"
#: Largest overhead in percent that a reference may expect of a container that is as fast: a check's default tolerance.
MOST = 5.0
#: Outcomes.
AGREES, DIFFERS, OPEN, NOT_RUN, NOT_REPEATED = "agrees", "differs", "not certain", "not run", "not repeated"
HEADINGS = ("figure", "shows", "check", "theirs", "ours", "outcome", "reason")
#: Most values of a reference that are listed, and characters of the reason of a skip.
MOST_LISTED, MOST_REASON = 6, 120


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
    """The results of a night on a statement.

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
    if course and not metric and not course.relative and not course.ratios:
        metric, variants = course.metric, {course.side}
    by_side: dict[str, list[published.Published]] = {}
    for value in published.of(statement.check) if metric else ():
        if value.metric == metric and (value.variant in variants or not statement.variant):
            by_side.setdefault(f"{value.partition}, {value.variant}", []).append(value)
    return [f"{side} {_listed([v.value for v in values])} {values[0].unit}" for side, values in by_side.items()]


def _listed(values: Sequence[float]) -> str:
    texts = [number(value, 6) for value in values]
    return ", ".join([*texts[: MOST_LISTED - 1], "…", texts[-1]] if len(texts) > MOST_LISTED else texts)


def outcome(statement: Statement, cases: Sequence[Case]) -> Outcome:
    """Return whether the results of cases agree with a statement, our values, and why they do not."""
    if statement.not_repeated:
        return Outcome(NOT_REPEATED, reason=statement.not_repeated)
    of_check = [case for case in cases if case.application == statement.check]
    ran = [case for case in of_check if case.result != "skip" and statement.system in ("", case.key[0])]
    parts: list[Part | None] = []
    if statement.says != NOTHING:
        parts.append(_compared(statement, [case for case in ran if _counts(statement, case)]))
    if statement.course:
        parts.append(courses.judge(statement.course, ran))
    there = [part for part in parts if part]
    if not there:
        return Outcome(NOT_RUN, reason=_why_not_run(statement, of_check))
    holds = [part.holds if part else None for part in parts]
    word = DIFFERS if False in holds else OPEN if None in holds else AGREES
    reasons = [part.reason for part in there if not part.holds]
    if len(there) < len(parts):
        axis = statement.course.axis if statement.course and not parts[-1] else ""
        reasons.append(f"no two values over {axis}" if axis else "nothing compared")
    reasons += [statement.note] if word != AGREES else []
    return Outcome(word, _joined(*(part.ours for part in there)), _joined(*reasons))


def _why_not_run(statement: Statement, cases: Sequence[Case]) -> str:
    if statement.system and not any(case.key[0] == statement.system for case in cases):
        return f"of {statement.system} only"
    skipped = next((case.reason for case in cases if case.result == "skip"), "")
    return skipped.partition("\n")[0][:MOST_REASON]


def _counts(statement: Statement, case: Case) -> bool:
    # "Works" is about a container, unless the check is about something else.
    is_any = statement.says != WORKS or case.variant != "bare"
    is_variant = statement.variant == case.variant if statement.variant else is_any
    is_place = all(case.axes.get(axis, "").startswith(beginning) for axis, beginning in statement.where.items())
    return is_variant and case.nodes >= statement.nodes and is_place


def _compared(statement: Statement, cases: Sequence[Case]) -> Part | None:
    """Return whether the overheads of cases agree; None where there are none."""
    if cases and (statement.says == WORKS or not any(case.rows for case in cases)):
        return _works(statement, cases)
    rows = [row for case in cases for row in case.rows if _is_meant(statement, row)]
    if not rows:
        return None
    agree = [_agrees(statement.says, row) for row in rows]
    reasons = [f"{agree.count(True)} of {count(len(agree), 'overhead')} certain to be {statement.says}"]
    reasons += [f"the opposite: {agree.count(False)}"] if False in agree else []
    holds = False if False in agree else None if None in agree else True
    by_unit: dict[str, list[Row]] = {}
    for row in rows:
        by_unit.setdefault(row.overhead_unit, []).append(row)
    if holds is None and statement.says == AS_FAST:
        reasons += filter(None, (_at_most(of_unit, unit) for unit, of_unit in by_unit.items()))
    ours = [_range(of_unit, unit) for unit, of_unit in by_unit.items()]
    return Part(holds, _joined(*ours, _values(statement, cases)), "" if holds else ", ".join(reasons))


def _is_meant(statement: Statement, row: Row) -> bool:
    is_metric = not statement.metrics or row.metric.startswith(statement.metrics)
    return is_metric and finite(row.overhead) is not None and statement.subject in row.subject_label


def _at_most(rows: Sequence[Row], unit: str) -> str:
    """Return how much slower the container may be, by the largest end of an interval; empty where one has no end."""
    ends = [finite(row.high) for row in rows]
    high = max(math.inf if end is None else end for end in ends)
    return f"none over {number(high, 2)} {unit} worse" if 0 < high < math.inf else ""


def _range(rows: Sequence[Row], unit: str) -> str:
    """Return the smallest and the largest overhead."""
    values = [row.overhead or 0.0 for row in rows]
    ends = dict.fromkeys(number(end, 2, "+") for end in (min(values), max(values)))
    return f"{count(len(values), 'overhead')}: {' to '.join(ends)} {unit}"


def _values(statement: Statement, cases: Sequence[Case]) -> str:
    """Return the values of the metric that is shown, of the case on most nodes."""
    for case in sorted(cases, key=lambda case: -case.nodes):
        for row in case.rows:
            if row.metric == statement.value and row.baseline is not None and row.subject is not None:
                subject = f"{row.subject_label or case.variant} {number(row.subject)} {row.unit}"
                return f"{row.baseline_label} {number(row.baseline)}, {subject}"
    return ""


def _works(statement: Statement, cases: Sequence[Case]) -> Part:
    """Return whether cases passed that compare nothing."""
    states = [page_cases.state(case) for case in cases]
    failed, unmeasured = states.count(page_cases.FAIL), states.count(page_cases.UNMEASURED)
    if failed:
        return Part(False, "", f"{count(failed, 'case')} of {len(states)} failed")
    if unmeasured:
        return Part(None, "", f"{count(unmeasured, 'case')} of {len(states)} ended before there was an answer")
    passed = f"{count(len(states), 'case')} passed"
    return Part(True, passed) if statement.says == WORKS else Part(None, passed, "nothing compared")


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
