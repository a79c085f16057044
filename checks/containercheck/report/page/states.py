"""The states of cases in the matrix: each has a word and a sign, and never a color alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from containercheck.node.stats import forecasts
from containercheck.results import open_verdicts, selections
from containercheck.results import row as row_values
from containercheck.results.cases import Case


@dataclass(frozen=True)
class State:
    """A state of a case.

    :ivar color: name of a color of palette.py.
    :ivar meaning: text of the legend.
    """

    word: str
    sign: str
    color: str
    meaning: str


FAIL = State("fail", "✗", "bad", "slower than accepted, confirmed in the same job; or wrong answers, ranks, a hang")
UNMEASURED = State("not run", "!", "bad", "ended before anything was measured: aborted, not set up, not built")
SLOWER = State("too slow?", "▲", "doubt", "slower than accepted in most rounds, which is not certain yet")
FASTER = State("too fast?", "▼", "doubt", "better than its rounds explain: does it compute the same?")
CLOSE = State("close", "◇", "doubt", "close to what is accepted: more rounds would tell, or none")
NOISY = State("noisy", "…", "doubt", "its rounds spread too much to tell; the most that it can cost is shown")
OPEN = State("open", "?", "doubt", "more rounds would tell, or nothing would; see what could not be measured")
KNOWN = State("known", "≈", "good", "an overhead or a failure that a reference expects")
EMULATED = State("emulated", "∿", "muted", "overheads are reported, not judged: its nodes' processors are emulated")
PASS = State("pass", "✓", "good", "every figure is within what is accepted")
BARE = State("measured", "○", "muted", "bare only: there is no reference to compare it with")
SKIP = State("skipped", "–", "muted", "was not run; the number leads to the reason")
FAILED = (FAIL, UNMEASURED)
#: State of a case by the most urgent kind of its open figures.
OF_KIND = {
    forecasts.SLOWER: SLOWER,
    forecasts.FASTER: FASTER,
    forecasts.CLOSE: CLOSE,
    forecasts.NOISY: NOISY,
}
#: All states, the worst first.
ALL = (FAIL, UNMEASURED, SLOWER, FASTER, CLOSE, NOISY, OPEN, KNOWN, PASS, EMULATED, BARE, SKIP)


def state(case: Case) -> State:
    """Return the state of a case."""
    run = selections.failure(case)
    if run:
        return FAIL if selections.is_regression(run) else UNMEASURED
    if case.result == "skip":
        return SKIP
    still_open = open_verdicts.open_rows(case)
    if still_open:
        return OF_KIND.get(still_open[0].open_kind, OPEN)
    if any(row.verdict == row_values.EMULATED for row in case.rows):
        return EMULATED
    if case.result in ("xfail", "xpass") or any(row.expected for row in case.rows):
        return KNOWN
    compared = any(row.is_comparison for row in case.rows)
    return PASS if compared or has_reference(case) or not case.rows else BARE


def has_reference(case: Case) -> bool:
    """Return whether a figure of the case has an absolute reference.

    ReFrame's database gives each as value, reference, lower and upper bound, unit and result. Without a reference the
    second one is 0, and there are no bounds.
    """
    return any(tuple(values[1:4]) != (0, None, None) for values in case.performance.values())


def counted(cases: Iterable[Case]) -> list[tuple[State, int]]:
    """Return the number of cases in each state, the worst first, without states that no case has."""
    case_states = [state(case) for case in cases]
    return [(kind, case_states.count(kind)) for kind in ALL if kind in case_states]
