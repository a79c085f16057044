"""List the figures of the documents next to the results of a night: overheads, or the reason of a missing result.

A reader compares both. A statement is about a container against bare; cases that compare nothing have their state.
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
from containercheck.results.row import Row

#: The figures of the documents. The comments in the file explain the fields of :class:`Statement`.
DATA = Path(__file__).with_suffix(".yaml")
#: Statements of a document on a container, or another side, against its baseline; the last two compare nothing.
AS_FAST, WORKS, NOTHING = "as fast", "works", "nothing"
HEADINGS = ("figure", "shows", "check", "theirs", "ours", "remark")
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
        ours, remark = results(each, cases)
        says = each.says if each.says not in (WORKS, NOTHING) and not each.not_repeated else ""
        theirs = "; ".join(filter(None, [says, each.theirs]))
        rows.append((f"{each.document}, {each.place}", each.shows, each.check, theirs, ours, remark))
    return Table("Figures of the documents", HEADINGS, tuple(rows), len(HEADINGS))


def results(statement: Statement, cases: Sequence[Case]) -> tuple[str, str]:
    """Return the overheads or states of the cases that a statement is about, and the remark or the reason of none."""
    if statement.not_repeated:
        return "not repeated", statement.not_repeated
    of_check = [case for case in cases if case.application == statement.check]
    chosen = [case for case in of_check if case.result != "skip" and statement.counts(case)]
    if not chosen:
        skipped = next((case.reason for case in of_check if case.result == "skip"), "")
        return "not run", skipped.partition("\n")[0][:MOST_REASON]
    by_unit: dict[str, list[float]] = {}
    for row in (row for case in chosen for row in case.rows if _is_meant(statement, row)):
        by_unit.setdefault(row.overhead_unit, []).append(row.overhead or 0.0)
    if by_unit and statement.says not in (WORKS, NOTHING):
        return "; ".join(_range(overheads, unit) for unit, overheads in by_unit.items()), statement.note
    return ", ".join(f"{amount} {state.word}" for state, amount in states.counted(chosen)), statement.note


def _is_meant(statement: Statement, row: Row) -> bool:
    is_metric = not statement.metrics or row.metric.startswith(statement.metrics)
    return is_metric and finite(row.overhead) is not None and statement.subject in row.subject_label


def _range(overheads: Sequence[float], unit: str) -> str:
    """Return the smallest and the largest overhead."""
    ends = dict.fromkeys(number(end, 2, "+") for end in (min(overheads), max(overheads)))
    return f"{count(len(overheads), 'overhead')}: {' to '.join(ends)} {unit}"
