"""A case in one line: how it came out, the metric that decides, its overhead, and after how many rounds."""

from __future__ import annotations

from dataclasses import dataclass

from containercheck.job.stats.forecasts import FASTER, SLOWER
from containercheck.report import table
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import number, short_name
from containercheck.results.row import FAIL, OPEN, Row

#: How a case came out, in the first column. ``ran`` is for what compares nothing.
FAILED, SLOW, FAST, STILL_OPEN, PASSED, RAN = "FAIL", "slow?", "fast?", "open", "pass", "ran"


@dataclass(frozen=True)
class Line:
    """A line, column by column.

    :ivar state: one of the words above.
    :ivar name: the case.
    :ivar metric: the one that decides.
    :ivar value: its overhead with the interval; of a bare case its value.
    :ivar rest: after how many rounds, and what else is known.
    """

    state: str
    name: str
    metric: str = ""
    value: str = ""
    rest: str = ""


def line(case: Case) -> Line:
    """Return the line of a case that was run."""
    state = state_of(case)
    row = deciding(case)
    if row is None:
        return Line(state, short_name(case))
    if not row.is_comparison:
        return Line(state, short_name(case), row.metric, f"{number(row.baseline)} {row.unit}".strip())
    several = open_verdicts.tally(case) if len(open_verdicts.judged(case)) > 1 else ""
    rounds = f"{row.rounds} round{'s'[: row.rounds > 1]}"
    rest = open_verdicts.describe(row) if row.verdict == OPEN else several if several.startswith("all ") else ""
    if state == FAILED and several:
        rest = several
    return Line(state, short_name(case), row.metric, table.overhead(row), "; ".join(filter(None, [rounds, rest])))


def state_of(case: Case) -> str:
    """Return how a case came out."""
    if case.result != "pass" or selections.failure(case):
        return FAILED
    kinds = [row.open_kind for row in open_verdicts.open_rows(case)]
    if SLOWER in kinds:
        return SLOW
    if FASTER in kinds:
        return FAST
    if kinds:
        return STILL_OPEN
    return PASSED if open_verdicts.judged(case) else RAN


def deciding(case: Case) -> Row | None:
    """Return the metric that decides: the worst that failed, else the most urgent open one, else the worst of all."""
    failed = [row for row in case.rows if row.verdict == FAIL]
    still_open = open_verdicts.open_rows(case)
    if failed or not still_open:
        return max(failed or case.rows, key=_badness, default=None)
    return max((row for row in still_open if row.open_kind == still_open[0].open_kind), key=_badness)


def _badness(row: Row) -> float:
    """Return the overhead in parts of what is accepted; of rows that compare nothing, the same for all."""
    most = row.accepted[1]
    return (row.overhead or 0.0) / most if most else row.overhead or 0.0
