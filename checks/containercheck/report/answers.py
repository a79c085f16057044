"""What a session answers, case by case: first what may be wrong and is not certain yet, then how many figures pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import names, number
from containercheck.results.row import Row


def lines(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case that is too slow or too fast, then one for each of whose figures not all passed."""
    return [*questions(cases), *tallies(cases)]


def questions(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with open figures that are too slow, then for each with some that are too fast."""
    cases = list(cases)
    slow = [(case, open_verdicts.asking(case, [open_verdicts.SLOWER])) for case in cases]
    fast = [(case, open_verdicts.asking(case, [open_verdicts.FASTER])) for case in cases]
    found = [f"TOO SLOW, not yet certain: {names([case])}: {_together(rows)}" for case, rows in slow if rows]
    return found + [f"QUESTION: {names([case])}: {_asked(rows)}" for case, rows in fast if rows]


def _together(rows: Iterable[Row]) -> str:
    """Return the overheads of figures, those together that were above the same tolerance in as many rounds."""
    found: dict[str, list[str]] = {}
    for row in rows:
        unit, accepted = row.overhead_unit, row.accepted[1]
        above = f", above {number(accepted, 3)} {unit} in {row.above} of {row.rounds} rounds"
        overhead = f"{row.figure} {number(row.overhead, 2, '+')} {unit}"
        found.setdefault("" if accepted is None else above, []).append(overhead)
    return "; ".join(f"{', '.join(overheads)}{above}" for above, overheads in found.items())


def _asked(rows: Iterable[Row]) -> str:
    return "; ".join(f"{row.figure} is {open_verdicts.describe(row)}" for row in rows)


def tallies(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with several figures of which not all passed: how many did, and how many are open."""
    told = [(case, open_verdicts.tally(case)) for case in cases]
    return [f"{names([case])}: {tally}" for case, tally in told if len(case.rows) > 1 and not _is_clear(tally)]


def _is_clear(tally: str) -> bool:
    return not tally or tally.endswith("pass") and tally.startswith("all ")
