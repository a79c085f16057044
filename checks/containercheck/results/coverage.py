"""Find lost coverage: the cases that were measured before, and are not any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from containercheck.results import selections
from containercheck.results.cases import Case

#: Reason of a case that ReFrame no longer generates.
GONE = "ReFrame does not generate it any more: its check file, its partition or its environment is missing"


def lost(before: Iterable[Case], now: Iterable[Case]) -> list[Case]:
    """Return the cases that were measured before and are skipped or missing now, each as a skip with its reason.

    :param now: the cases of a dry run, then those that were run: what a budget left out is only among the former.
    """
    expected = {case.identity: case for case in before if is_measured(case)}
    present = {case.identity: case for case in now}
    found = []
    for identity, case in expected.items():
        again = present.get(identity)
        if again is None:
            found.append(replace(case, result="skip", reason=GONE))
        elif again.result == "skip":
            found.append(again)
    return found


def is_measured(case: Case) -> bool:
    """Return whether a run of the case was measured, be it with a result that is not accepted."""
    runs = (*case.earlier, case)
    return any(run.result not in ("skip", *selections.FAILED) or selections.is_regression(run) for run in runs)
