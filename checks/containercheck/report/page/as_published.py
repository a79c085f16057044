"""The documents' figures in their order, each with ours of this night: whether the shape agrees, or why there is none.

A shape has up to two parts. The first is what the document says of a container against bare: it holds where every
overhead that was measured says so, *as fast* (the overhead is within what is accepted, and not because a reference
expects it), *slower* or *faster* (its interval is on that side of zero), and does not where one says the opposite. Of a
check that compares nothing, the answers or the steps themselves are what a document says: its cases have to pass. The
second part is the course of a figure over an axis (courses.py). A shape agrees where both hold, and differs where one
does not.

What this night leaves open, or did not run, is as the last night says that decided it: a night has the time to close a
part of its verdicts, and a person runs one check after the other. Nights before something was changed on purpose do not
count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from containercheck.history.nights import Night
from containercheck.report.page import courses, published, states
from containercheck.report.page.courses import Part
from containercheck.report.page.documents import AS_FAST, SHAPES, SLOWER, WORKS, Shape
from containercheck.report.page.published import Published
from containercheck.report.page.wording import Table, finite
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import PASS, Row

#: Largest overhead in percent that a reference may expect of a container that is as fast: a check's default tolerance.
MOST = 5.0
#: Outcomes.
AGREES, DIFFERS, OPEN, NOT_RUN, NOT_HAD = "agrees", "differs", "not certain", "not run", "none here"
HEADINGS = ("figure", "shows", "check", "theirs", "ours", "shape", "why")
#: Most values of a reference that are listed, and characters of the reason of a skip.
MOST_LISTED, MOST_REASON = 6, 120


@dataclass(frozen=True)
class Outcome:
    """What a night says of a shape.

    :ivar word: whether it agrees, one of the outcomes above.
    :ivar ours: our values, in short.
    :ivar why: why it does not agree, or was not run.
    """

    word: str
    ours: str = ""
    why: str = ""


def table(nights: Sequence[Night]) -> Table:
    """Return the table of all figures of the documents, with what the nights say.

    :param nights: the last one is shown.
    """
    outcomes = [(shape, decided(shape, nights)) for shape in SHAPES]
    rows = tuple(
        (
            f"{shape.document}, {shape.place}",
            shape.shows,
            shape.check,
            theirs(shape),
            result.ours,
            result.word,
            result.why,
        )
        for shape, result in outcomes
    )
    agreeing = sum(result.word == AGREES for _, result in outcomes)
    return Table(f"Figures of the documents: {agreeing} of {len(rows)} agree", HEADINGS, rows, len(HEADINGS))


def decided(shape: Shape, nights: Sequence[Night]) -> Outcome:
    """Return what the last night says of a shape, or where it leaves that open, the last that decided it."""
    last = outcome(shape, nights[-1].cases if nights else ())
    if last.word not in (OPEN, NOT_RUN):
        return last
    for later, night in zip(reversed(nights), reversed(nights[:-1])):
        if later.changed:
            break
        found = outcome(shape, night.cases)
        if found.word in (AGREES, DIFFERS):
            return replace(found, why="; ".join(filter(None, [f"in the night {night.name}", found.why])))
    return last


def theirs(shape: Shape) -> str:
    """Return what a document says, and its numbers."""
    if shape.without:
        return shape.theirs
    words = [shape.says if shape.says != WORKS else "", shape.course.words if shape.course else ""]
    return "; ".join(filter(None, [*words, shape.theirs, *_published(shape)]))


def _published(shape: Shape) -> list[str]:
    """Return the published values of the figure that is shown, by machine and variant."""
    course, variants = shape.course, {"bare", shape.variant}
    figure = shape.value
    if course and not figure and not course.relative and not course.ratios:
        figure, variants = course.figure, {course.side}
    by_side: dict[str, list[Published]] = {}
    for known in published.of(shape.check) if figure else ():
        if known.figure == figure and (known.variant in variants or not shape.variant):
            by_side.setdefault(f"{known.partition}, {known.variant}", []).append(known)
    return [f"{side} {_listed(values)}" for side, values in by_side.items()]


def _listed(values: Sequence[Published]) -> str:
    texts = [number(known.value, 6) for known in values]
    texts = [*texts[: MOST_LISTED - 1], "…", texts[-1]] if len(texts) > MOST_LISTED else texts
    return f"{', '.join(texts)} {values[0].unit}"


def outcome(shape: Shape, cases: Sequence[Case]) -> Outcome:
    """Return whether the shape agrees, our values, and why it does not."""
    if shape.without:
        return Outcome(NOT_HAD, why=shape.without)
    of_check = [case for case in cases if case.application == shape.check]
    ran = [case for case in of_check if case.result != "skip" and shape.system in ("", case.key[0])]
    parts: list[Part | None] = []
    if shape.says:
        parts.append(_compared(shape, [case for case in ran if _counts(shape, case)]))
    if shape.course:
        parts.append(courses.judge(shape.course, ran))
    there = [part for part in parts if part]
    if not there:
        return Outcome(NOT_RUN, why=_why_not_run(shape, of_check))
    holds = [part.holds if part else None for part in parts]
    word = DIFFERS if False in holds else OPEN if None in holds else AGREES
    why = [part.why for part in there if part.holds is not True]
    if len(there) < len(parts):
        why.append(f"no two values over {shape.course.axis}" if shape.course and not parts[-1] else "nothing compared")
    why += [shape.note] if word != AGREES else []
    return Outcome(word, "; ".join(part.ours for part in there), "; ".join(filter(None, why)))


def _why_not_run(shape: Shape, cases: Sequence[Case]) -> str:
    if shape.system and not any(case.key[0] == shape.system for case in cases):
        return f"said of {shape.system} only"
    skipped = next((case.reason for case in cases if case.result == "skip"), "")
    return skipped.partition("\n")[0][:MOST_REASON]


def _counts(shape: Shape, case: Case) -> bool:
    # What works is what a container does, unless the check is about something else.
    variants = shape.variant == case.variant if shape.variant else shape.says != WORKS or case.variant != "bare"
    axis, beginning = shape.where
    return variants and case.nodes >= shape.nodes and case.axes.get(axis, "").startswith(beginning)


def _compared(shape: Shape, cases: Sequence[Case]) -> Part | None:
    """Return what the overheads say; None where there are none."""
    rows = [row for case in cases for row in case.rows if _is_meant(shape, row)]
    if cases and (shape.says == WORKS or not any(case.rows for case in cases)):
        return _works(shape, cases)
    if not rows:
        return None
    said = [_says(shape.says, row) for row in rows]
    why = [f"{said.count(True)} of {count(len(said), 'overhead')} certain to be {shape.says}"]
    why += [f"the opposite: {said.count(False)}"] if False in said else []
    holds = False if False in said else None if None in said else True
    if holds is None and shape.says == AS_FAST:
        why += _at_most(rows)
    return Part(holds, "; ".join([*_ranges(rows), *_values(shape, cases)]), "" if holds else ", ".join(why))


def _at_most(rows: Sequence[Row]) -> list[str]:
    """Return how much slower the container may be, by the largest end of an interval in each unit."""
    texts = []
    for unit, of_unit in _by_unit(rows).items():
        ends = [finite(row.high) for row in of_unit]
        high = max(math.inf if end is None else end for end in ends)
        texts += [f"none over {number(high, 2)} {unit} worse"] if 0 < high < math.inf else []
    return texts


def _ranges(rows: Sequence[Row]) -> list[str]:
    """Return the smallest and the largest overhead in each unit."""
    texts = []
    for unit, of_unit in _by_unit(rows).items():
        values = [row.overhead or 0.0 for row in of_unit]
        ends = dict.fromkeys(number(end, 2, "+") for end in (min(values), max(values)))
        texts.append(f"{count(len(values), 'overhead')}: {' to '.join(ends)} {unit}")
    return texts


def _by_unit(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.overhead_unit, []).append(row)
    return groups


def _values(shape: Shape, cases: Sequence[Case]) -> list[str]:
    """Return the values of the figure that is shown, of the case on most nodes."""
    for case in sorted(cases, key=lambda case: -case.nodes):
        for row in case.rows:
            if row.figure == shape.value and row.baseline is not None and row.subject is not None:
                subject = f"{row.subject_label or case.variant} {number(row.subject)} {row.unit}"
                return [f"{row.baseline_label} {number(row.baseline)}, {subject}"]
    return []


def _works(shape: Shape, cases: Sequence[Case]) -> Part:
    """Return whether cases without anything that is compared are as a document says."""
    ended = [states.state(case) for case in cases]
    if states.FAIL in ended:
        return Part(False, "", f"{count(ended.count(states.FAIL), 'case')} of {len(ended)} failed")
    if states.UNMEASURED in ended:
        before = f"{count(ended.count(states.UNMEASURED), 'case')} of {len(ended)} ended before there was an answer"
        return Part(None, "", before)
    passed = f"{count(len(ended), 'case')} passed"
    return Part(True, passed) if shape.says == WORKS else Part(None, passed, "nothing compared")


def _is_meant(shape: Shape, row: Row) -> bool:
    named = not shape.figures or row.figure.startswith(shape.figures)
    return named and finite(row.overhead) is not None and shape.subject in (row.subject_label or "")


def _says(word: str, row: Row) -> bool | None:
    """Tell whether a row says this word; None where it may."""
    low, high = finite(row.low), finite(row.high)
    if word == AS_FAST:
        return _is_as_fast(row, low, high)
    if low is None or high is None:
        return None
    if word == SLOWER:
        return True if low > 0 else False if high < 0 else None
    return True if high < 0 else False if low > 0 else None


def _is_as_fast(row: Row, low: float | None, high: float | None) -> bool | None:
    """Tell whether a row says that the container is as fast; None where it may be."""
    most = row.accepted[1] or 0.0
    if row.expected and (row.overhead_unit != "%" or most > MOST):
        # An overhead that a reference expects is accepted, and no tolerance.
        most = MOST if row.overhead_unit == "%" else 0.0
        accepted = row.verdict == PASS and high is not None and high <= most
    else:
        accepted = row.verdict == PASS
    return True if accepted else False if low is not None and low > most else None
