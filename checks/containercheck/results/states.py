"""Name the state of a case by the worst of its metrics, for a terminal and for the page.

Each state has a word and a sign in addition to its color.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from containercheck.job.stats import forecasts, pairs
from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.row import EMULATED as NOT_JUDGED
from containercheck.results.row import Row


@dataclass(frozen=True)
class State:
    """A state of a case.

    :ivar shown: word in a terminal.
    :ivar color: name of a color of the page.
    :ivar meaning: text of the page's legend.
    """

    word: str
    sign: str
    shown: str
    color: str
    meaning: str


FAIL = State("fail", "✗", "FAIL", "bad", "slower than accepted, confirmed in the same job; wrong answers; a hang")
UNMEASURED = State("not run", "!", "FAIL", "bad", "ended before anything was measured: aborted, not set up, not built")
SLOWER = State("too slow?", "▲", "slow?", "doubt", "slower than accepted in most rounds, not certain yet")
FASTER = State("too fast?", "▼", "fast?", "doubt", "better than its rounds explain: does it compute the same?")
CLOSE = State("close", "◇", "open", "doubt", "close to the tolerance: more rounds may not decide")
NOISY = State("noisy", "…", "open", "doubt", "its rounds spread too much; the largest possible overhead is shown")
OPEN = State("open", "?", "open", "doubt", 'more rounds may not decide; see "Not measured"')
KNOWN = State("known", "≈", "pass", "good", "an overhead or a failure that a reference expects")
EMULATED = State("emulated", "∿", "ran", "muted", "overheads are reported, not judged: the processors are emulated")
PASS = State("pass", "✓", "pass", "good", "every metric is within its tolerance")
BARE = State("measured", "○", "ran", "muted", "bare only, without a reference to compare it with")
SKIP = State("skipped", "–", "skip", "muted", "not run; the number leads to the reason")
#: State of a case by the most urgent kind of its open metrics.
OF_KIND = {forecasts.SLOWER: SLOWER, forecasts.FASTER: FASTER, forecasts.CLOSE: CLOSE, forecasts.NOISY: NOISY}
#: All states, the worst first.
ALL = (FAIL, UNMEASURED, SLOWER, FASTER, CLOSE, NOISY, OPEN, KNOWN, PASS, EMULATED, BARE, SKIP)


def state_of(case: Case) -> State:
    """Return the state of a case."""
    run = selections.failure(case)
    if run:
        return FAIL if selections.is_regression(run) else UNMEASURED
    if case.result == "skip":
        return SKIP
    still_open = selections.open_rows(case)
    if still_open:
        return OF_KIND.get(still_open[0].open_kind, OPEN)
    if any(row.verdict == NOT_JUDGED for row in case.rows):
        return EMULATED
    if case.result in ("xfail", "xpass") or any(row.expected for row in case.rows):
        return KNOWN
    compared = any(row.is_comparison for row in case.rows)
    # The entries are value, reference, lower and upper bound, unit and result; 0 stands for no reference.
    referenced = any(tuple(values[1:4]) != (0, None, None) for values in case.performance.values())
    return PASS if compared or referenced or not case.rows else BARE


def counted(cases: Iterable[Case]) -> list[tuple[State, int]]:
    """Return the number of cases in each state, the worst first, without states of 0 cases."""
    case_states = [state_of(case) for case in cases]
    return [(kind, case_states.count(kind)) for kind in ALL if kind in case_states]


def describe(row: Row) -> str:
    """Return the message about an open metric; "open" for rows of an earlier version."""
    return row.answer or "open"


def verdicts(case: Case) -> dict[str, int]:
    """Return the number of a case's metrics with each verdict, the worst first."""
    judged_rows = [row.verdict for row in case.rows if row.is_judged]
    return {
        verdict: judged_rows.count(verdict)
        for verdict in (pairs.FAIL, pairs.PASS, pairs.INCONCLUSIVE)
        if verdict in judged_rows
    }


def tally(case: Case) -> str:
    """Return a summary of a case's verdicts: ``13 of 14 pass, 1 open``; empty if nothing was judged."""
    counts = verdicts(case)
    present = [f"{count} {'open' if verdict == pairs.INCONCLUSIVE else verdict}" for verdict, count in counts.items()]
    if len(present) > 1:
        head, _, rest = present[0].partition(" ")
        return ", ".join([f"{head} of {sum(counts.values())} {rest}", *present[1:]])
    return "".join(f"all {text}" if not text.startswith("1 ") else text[2:] for text in present)
