"""Which cases a night runs first, when it cannot run all: what was never run, what failed last time, the oldest."""

from __future__ import annotations

from collections.abc import Sequence

from containercheck.history.nights import Night
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import names, say


class Priority:
    """The order of the cases, from what earlier nights ran.

    :param nights: the earliest first.
    :param minutes: that a first pass of cases without a queue may take; None for any.
    """

    def __init__(self, nights: Sequence[Night], minutes: float | None = None) -> None:
        """Take in what was run when."""
        self._minutes = minutes
        # Of each case the number of the last night that ran it, and whether it failed then.
        self._last = {
            case.identity: (number, selections.failure(case) is not None)
            for number, night in enumerate(night for night in nights if night.is_nightly)
            for case in selections.ran(night.cases)
        }

    def order(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases: those that never ran, those that failed when they last did, then the longest ago."""
        return sorted(cases, key=self._rank)

    def _rank(self, case: Case) -> tuple[int, int]:
        number, failed = self._last.get(case.identity, (-1, False))
        return (0 if number < 0 else 1 if failed else 2, number)

    def choose(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases that are run tonight, in their order; say which there is no time for.

        Each gets the shortest first pass. Jobs in a queue run beside each other, so that minutes say nothing of them.
        """
        ordered = self.order(cases)
        chosen: list[Case] = []
        for case in ordered:
            local = [one for one in (*chosen, case) if one.scheduler == "local"]
            takes = open_verdicts.shortest_takes(local)
            if case.scheduler != "local" or self._minutes is None or takes <= 60 * self._minutes:
                chosen.append(case)
        left = [case for case in ordered if case not in chosen]
        if left:
            say(f"no time tonight, and so first tomorrow: {names(left)}")
        return chosen
