"""Lines on the cases of a session: first those that are too slow or too fast, then how many metrics of a case pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import names, number
from containercheck.results.row import Row


def lines(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case that is too slow or too fast, then one for each whose metrics did not all pass."""
    return [*questions(cases), *tallies(cases)]


def questions(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with open metrics that are too slow, then for each with some that are too fast."""
    cases = [case for case in cases if not selections.failure(case)]
    slow = [(case, open_verdicts.asking(case, [open_verdicts.SLOWER])) for case in cases]
    fast = [(case, open_verdicts.asking(case, [open_verdicts.FASTER])) for case in cases]
    slow_lines = [f"TOO SLOW, not yet certain: {names([case])}: {_together(rows)}" for case, rows in slow if rows]
    return slow_lines + [f"QUESTION: {names([case])}: {_described(rows)}" for case, rows in fast if rows]


def _together(rows: Iterable[Row]) -> str:
    """Return the overheads of metrics; those above the same tolerance in as many rounds share a clause."""
    by_tolerance: dict[str, list[str]] = {}
    for row in rows:
        unit, accepted = row.overhead_unit, row.accepted[1]
        above = f", above {number(accepted, 3)} {unit} in {row.above} of {row.rounds} rounds"
        overhead = f"{row.metric} {number(row.overhead, 2, '+')} {unit}"
        by_tolerance.setdefault("" if accepted is None else above, []).append(overhead)
    return "; ".join(f"{', '.join(overheads)}{above}" for above, overheads in by_tolerance.items())


def _described(rows: Iterable[Row]) -> str:
    return "; ".join(f"{row.metric} is {open_verdicts.describe(row)}" for row in rows)


def tallies(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with several metrics that did not all pass: how many did, and how many are open."""
    tallied = [(case, open_verdicts.tally(case)) for case in cases]
    return [f"{names([case])}: {tally}" for case, tally in tallied if len(case.rows) > 1 and not _is_clear(tally)]


def _is_clear(tally: str) -> bool:
    return not tally or tally.endswith("pass") and tally.startswith("all ")
