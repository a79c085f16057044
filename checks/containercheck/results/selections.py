"""Select the cases of a session that failed, and those that have to be run again.

Runs differ by chance, so slowness is measured again, and counts unless that refutes it: a figure that is open the
second time refutes nothing. Everything else is a failure at once: a wrong answer that does not come again is still
wrong. What ended or hung in the container only is run once more to prove its cause, where that can be tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import names, number
from containercheck.results.row import FAIL, PASS, Row

#: Results that are failures.
FAILED = ("fail", "fail_deps", "abort")
#: ReFrame's exceptions for a check that has a result; any other one is a defect of the check, or of the machine.
MEASURED = ("", "SanityError", "PerformanceError")


def was_slow(case: Case) -> bool:
    """Return whether this run failed for its performance alone."""
    # An exception of another kind in that phase is a defect of the check.
    return case.result == "fail" and case.phase == "performance" and case.error in ("", "PerformanceError")


def failure(case: Case) -> Case | None:
    """Return the run that makes a case count as failed; None where it did not fail."""
    if case.result in FAILED:
        return case
    failed = (run for run in case.earlier if run.result in FAILED)
    return next((run for run in failed if not was_slow(run) or unrefuted(case, run)), None)


def unrefuted(case: Case, slow: Case) -> list[Row]:
    """Return the figures that failed in an earlier, slow run of a case, and passed in none of its later runs."""
    later = (*case.earlier[case.earlier.index(slow) + 1 :], case)
    passed = {_figure(row) for run in later for row in run.rows if row.verdict == PASS}
    return [row for row in slow.rows if row.verdict == FAIL and _figure(row) not in passed]


def _figure(row: Row) -> tuple[str, str]:
    return row.figure, row.subject_label


def remark(case: Case, run: Case) -> str:
    """Return a clause on what became of a failed run when the case was run again; empty where it was not.

    :param run: as :func:`failure` returns it.
    """
    if run is case:
        return ""
    rows = unrefuted(case, run) if was_slow(run) else []
    if not rows:
        return ", and passed when it was run again"
    last = {_figure(row): row for row in case.rows}
    counts = []
    for row in rows:
        both = [row, *filter(None, [last.get(_figure(row))])]
        most = "what is accepted" if row.accepted[1] is None else f"{number(row.accepted[1], 3)} {row.overhead_unit}"
        above, rounds = sum(each.above for each in both), sum(each.rounds for each in both)
        counts.append(f"{row.figure} above {most} in {above} of {rounds}")
    return f", and a second run did not refute it ({'; '.join(counts)} rounds of both runs)"


def is_regression(run: Case) -> bool:
    """Return whether a failed run was measured, with a result that is not accepted; else it could not be measured."""
    return run.result == "fail" and run.phase in ("sanity", "performance") and run.error in MEASURED


def unconfirmed(case: Case) -> Case | None:
    """Return the slow run of a case that its last run did not confirm; None if there is none, or the case failed."""
    return None if failure(case) else next((run for run in case.earlier if was_slow(run)), None)


def to_repeat(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that have to be run again before they count as failed."""
    return [case for case in cases if was_slow(case) and all(run.result == "pass" for run in case.earlier)]


def to_prove(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that ended or hung in each run of the container only, and have a cause that can be tried.

    They have failed, whatever becomes of that.
    """
    return [case for case in cases if case.result == "fail" and not case.earlier and any(map(_is_to_try, case.causes))]


def _is_to_try(cause: Mapping[str, Any]) -> bool:
    failed, runs = cause.get("ended") or (0, 1)
    return failed == runs > 1 and bool(cause.get("experiment")) and not cause.get("result")


def ran(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that were run, and not skipped."""
    return [case for case in cases if case.result not in ("skip", "fail_deps")]


def problems(cases: Sequence[Case]) -> list[str]:
    """Return messages about what is wrong with the cases; empty where nothing is."""
    if not cases:
        return ["no check was run: nothing matches the selection, or no check file loads"]
    failed = sum(failure(case) is not None for case in cases)
    if failed:
        return [f"{failed} of {len(cases)} checks failed: see above"]
    return [] if ran(cases) else ["no check was run: everything was skipped"]


def questions(cases: Sequence[Case]) -> list[str]:
    """Return a message about cases with open figures that look too slow or too fast."""
    asked = [case for case in cases if not failure(case) and open_verdicts.asking(case)]
    if not asked:
        return []
    return [f"not certain yet, but {'they are' if len(asked) > 1 else 'it is'} too slow or too fast: {names(asked)}"]
