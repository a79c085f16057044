"""Select the cases of a session that failed or were lost, and name its problems. The verdict of a case is final."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import names

#: Results that are failures.
FAILED = ("fail", "fail_deps", "abort")
#: ReFrame's exceptions for a check that has a result; any other one is a defect of the check, or of the machine.
MEASURED = ("", "SanityError", "PerformanceError")
#: Reason of a case that ReFrame no longer generates.
GONE = "ReFrame does not generate it any more: its check file, its partition or its environment is missing"


def failure(case: Case) -> Case | None:
    """Return the last run in which a case failed, which no later run undoes; None where it did not fail."""
    return next((run for run in (case, *reversed(case.earlier)) if run.result in FAILED), None)


def is_regression(run: Case) -> bool:
    """Return whether a failed run was measured, with a result that is not accepted; else it could not be measured."""
    return run.result == "fail" and run.phase in ("sanity", "performance") and run.error in MEASURED


def ran(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that were run, and not skipped."""
    return [case for case in cases if case.result not in ("skip", "fail_deps")]


def problems(cases: Sequence[Case]) -> list[str]:
    """Return messages about the problems of the cases."""
    if not cases:
        return ["no check was run: nothing matches the selection, or no check file loads"]
    failed = sum(failure(case) is not None for case in cases)
    if failed:
        return [f"{failed} of {len(cases)} checks failed: see above"]
    return [] if ran(cases) else ["no check was run: everything was skipped"]


def questions(cases: Sequence[Case]) -> list[str]:
    """Return a message about cases with open metrics that look too slow or too fast."""
    asked = [case for case in cases if not failure(case) and open_verdicts.asking(case)]
    if not asked:
        return []
    return [f"not certain yet, but {'they are' if len(asked) > 1 else 'it is'} too slow or too fast: {names(asked)}"]


def lost(before: Iterable[Case], now: Iterable[Case]) -> list[Case]:
    """Return the cases that were measured before and are skipped or missing now, each as a skip with its reason.

    :param now: the cases of a dry run, then those that were run: a case without budget is only among the former.
    """
    present = {case.identity: case for case in now}
    missing = []
    for identity, case in {case.identity: case for case in before if is_measured(case)}.items():
        again = present.get(identity, replace(case, result="skip", reason=GONE))
        if again.result == "skip":
            missing.append(again)
    return missing


def is_measured(case: Case) -> bool:
    """Return whether a run of the case was measured, be it with a result that is not accepted."""
    return any(run.result not in ("skip", *FAILED) or is_regression(run) for run in (*case.earlier, case))
