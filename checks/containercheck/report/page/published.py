"""Compare the figures of the documents with the results of a night: agreement, or the reason of a missing result.

A statement compares a container with bare. Results agree if every overhead agrees with it, and differ if one overhead
contradicts it. *As fast* is an overhead within its tolerance; an overhead that only a reference expects is not meant.
*Slower* and *faster* are intervals on that side of zero. The cases of a check that compares nothing have to pass.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from containercheck.report.page.cases import Table, finite
from containercheck.results import states
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import PASS, Row

#: The figures of the documents. The comments in the file explain the fields of :class:`Statement`.
DATA = Path(__file__).with_suffix(".yaml")
#: Statements of a document on a container, or another side, against its baseline; the last one for no comparison.
AS_FAST, SLOWER, FASTER, WORKS, NOTHING = "as fast", "slower", "faster", "works", "nothing"
#: Largest expected overhead in percent of a container that is as fast: the default tolerance of a check.
MOST = 5.0
#: Outcomes.
AGREES, DIFFERS, OPEN = "agrees", "differs", "not certain"
NOT_RUN, NOT_REPEATED, PLOTTED = "not run", "not repeated", "see its plots"
HEADINGS = ("figure", "shows", "check", "theirs", "ours", "outcome", "reason")
#: Most characters of the reason of a skip.
MOST_REASON = 120


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
    theirs: str = ""
    note: str = ""
    not_repeated: str = ""

    def counts(self, case: Case) -> bool:
        """Return whether the statement applies to a case of its check."""
        # "Works" applies to containers, unless the statement names a variant.
        is_any = self.says != WORKS or case.variant != "bare"
        is_variant = self.variant == case.variant if self.variant else is_any
        is_there = all(case.axes.get(axis, "").startswith(beginning) for axis, beginning in self.where.items())
        return is_variant and is_there and case.nodes >= self.nodes and self.system in ("", case.key[0])


@dataclass(frozen=True)
class StatementOutcome:
    """The results of a night on a statement.

    :ivar word: one of the outcomes above.
    :ivar ours: summary of the overheads of the night.
    :ivar reason: reason of a difference or of missing results.
    """

    word: str
    ours: str = ""
    reason: str = ""


@functools.cache
def statements() -> tuple[Statement, ...]:
    """Return the figures of all documents, in their order."""
    documents = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return tuple(
        Statement(document=document, **{**figure, "metrics": tuple(figure.get("metrics", ()))})
        for document, figures in documents.items()
        for figure in figures
    )


def table(cases: Sequence[Case]) -> Table:
    """Return the table of all figures of the documents, with the results of cases."""
    rows = []
    for each in statements():
        result = outcome(each, cases)
        says = each.says if each.says not in (WORKS, NOTHING) and not each.not_repeated else ""
        theirs = "; ".join(filter(None, [says, each.theirs]))
        figure = f"{each.document}, {each.place}"
        rows.append((figure, each.shows, each.check, theirs, result.ours, result.word, result.reason))
    agreeing = sum(row[-2] == AGREES for row in rows)
    return Table(f"Figures of the documents: {agreeing} of {len(rows)} agree", HEADINGS, tuple(rows), len(HEADINGS))


def outcome(statement: Statement, cases: Sequence[Case]) -> StatementOutcome:
    """Return the outcome of a statement, with the overheads of the cases and the reason of a difference."""
    if statement.not_repeated:
        return StatementOutcome(NOT_REPEATED, reason=statement.not_repeated)
    of_check = [case for case in cases if case.application == statement.check]
    chosen = [case for case in of_check if case.result != "skip" and statement.counts(case)]
    if not chosen:
        skipped = next((case.reason for case in of_check if case.result == "skip"), "")
        return StatementOutcome(NOT_RUN, reason=skipped.partition("\n")[0][:MOST_REASON])
    if statement.says == NOTHING:
        return StatementOutcome(PLOTTED)
    if statement.says == WORKS or not any(case.rows for case in chosen):
        return _works(statement, chosen)
    rows = [row for case in chosen for row in case.rows if _is_meant(statement, row)]
    if not rows:
        return StatementOutcome(NOT_RUN, reason="nothing compared")
    return _compared(statement, rows)


def _is_meant(statement: Statement, row: Row) -> bool:
    is_metric = not statement.metrics or row.metric.startswith(statement.metrics)
    return is_metric and finite(row.overhead) is not None and statement.subject in row.subject_label


def _works(statement: Statement, cases: Sequence[Case]) -> StatementOutcome:
    """Return the outcome for cases that compare nothing."""
    of_cases = [states.state_of(case) for case in cases]
    failed, unmeasured = of_cases.count(states.FAIL), of_cases.count(states.UNMEASURED)
    of_all = f"of {count(len(of_cases), 'case')}"
    if failed:
        return StatementOutcome(DIFFERS, reason=f"{failed} {of_all} failed")
    if unmeasured:
        return StatementOutcome(OPEN, reason=f"{unmeasured} {of_all} ended before there was an answer")
    passed = f"{count(len(of_cases), 'case')} passed"
    if statement.says == WORKS:
        return StatementOutcome(AGREES, passed)
    return StatementOutcome(OPEN, passed, "nothing compared")


def _compared(statement: Statement, rows: Sequence[Row]) -> StatementOutcome:
    """Return the outcome for the overheads of rows."""
    agree = [_agrees(statement.says, row) for row in rows]
    word = DIFFERS if False in agree else OPEN if None in agree else AGREES
    reason = f"{agree.count(True)} of {count(len(agree), 'overhead')} certain to be {statement.says}"
    reason += f", the opposite: {agree.count(False)}" if False in agree else ""
    by_unit: dict[str, list[float]] = {}
    for row in rows:
        by_unit.setdefault(row.overhead_unit, []).append(row.overhead or 0.0)
    ours = "; ".join(_range(overheads, unit) for unit, overheads in by_unit.items())
    return StatementOutcome(word, ours, "" if word == AGREES else "; ".join(filter(None, [reason, statement.note])))


def _range(overheads: Sequence[float], unit: str) -> str:
    """Return the smallest and the largest overhead."""
    ends = dict.fromkeys(number(end, 2, "+") for end in (min(overheads), max(overheads)))
    return f"{count(len(overheads), 'overhead')}: {' to '.join(ends)} {unit}"


def _agrees(says: str, row: Row) -> bool | None:
    """Return whether a row agrees with a statement; None if that is not certain."""
    low, high = finite(row.low), finite(row.high)
    if says == AS_FAST:
        return _is_as_fast(row, low, high)
    if low is None or high is None:
        return None
    if says == FASTER:
        low, high = -high, -low
    return True if low > 0 else False if high < 0 else None


def _is_as_fast(row: Row, low: float | None, high: float | None) -> bool | None:
    """Return whether the container is as fast; None if that is not certain."""
    most, accepted = row.accepted[1] or 0.0, row.verdict == PASS
    if row.expected and (row.overhead_unit != "%" or most > MOST):
        # An overhead that a reference expects is accepted, but does not show that the container is as fast.
        most = MOST if row.overhead_unit == "%" else 0.0
        accepted = accepted and high is not None and high <= most
    return True if accepted else False if low is not None and low > most else None
