"""What a session ends with where nobody asks for every metric: counts, what failed, what is open, what was not run."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from containercheck.report import answers, case_lines, ran, skipped, summary
from containercheck.results import selections
from containercheck.results.cases import Case
from containercheck.results.formatting import short_name, typed

#: Lines of a failure's reason that are shown.
REASON = 8
_INDENT = "  "
#: What is said of the cases in each state.
_COUNTED = {
    case_lines.FAILED: "failed",
    case_lines.SLOW: "too slow but not certain",
    case_lines.FAST: "too fast but not certain",
    case_lines.STILL_OPEN: "open",
    case_lines.PASSED: "pass",
    case_lines.RAN: "ran bare",
}


def lines(cases: Sequence[Case]) -> list[str]:
    """Return all lines to print."""
    run = selections.ran(cases)
    states = collections.Counter(case_lines.state_of(case) for case in run)
    counts = ", ".join(f"{states[state]} {words}" for state, words in _COUNTED.items() if states[state])
    printed = ["", f"{len(run)} case(s): {counts}" if run else "no case was run"]
    for case in run:
        printed += failure(case)
    printed += answers.questions(cases)
    printed += [*summary.notes(cases), *summary.last_line(cases)]
    reasons = skipped.by_reason(cases)
    if reasons:
        printed += ["not run:", *(f"{_INDENT}{reason.line}" for reason in reasons)]
    return printed


def failure(case: Case) -> list[str]:
    """Return why a case failed, with the command that repeats it; nothing for one that did not."""
    run = selections.failure(case)
    if not run:
        return []
    again = "" if run is case else ", and passed later"
    reason = (run.reason or run.result).splitlines()
    more = [f"{_INDENT}..."] if len(reason) > REASON else []
    printed = [f"FAILED{again}: {short_name(case)}: {reason[0]}"]
    printed += [f"{_INDENT}{line}" for line in reason[1:REASON]] + more
    return [*printed, *(f"{_INDENT}{line}" for line in ran.reproducers([case]))]


def places(report: str, log: str) -> str:
    """Return the line that says where everything is.

    :param report: path of the report.
    :param log: path of what ReFrame printed.
    """
    return f"every metric: {typed('report')}; report: {report}; what ReFrame printed: {log}"
