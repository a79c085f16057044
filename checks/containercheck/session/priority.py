"""The order of cases in a night that has no time for all: those that never ran, that failed last, then the oldest."""

from __future__ import annotations

from collections.abc import Sequence

from containercheck.history.nights import Night
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import names, say


class Priority:
    """The order of the cases, by the runs of earlier nights.

    :param nights: the earliest first.
    :param minutes: time for the cases without a queue; None for no limit.
    """

    def __init__(self, nights: Sequence[Night], minutes: float | None = None) -> None:
        """Record the last run of each case."""
        self._minutes = minutes
        # For each case, the number of the last night that ran it, and whether it failed then.
        self._last = {
            case.identity: (number, selections.failure(case) is not None)
            for number, night in enumerate(night for night in nights if night.is_nightly)
            for case in selections.ran(night.cases)
        }

    def order(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases: those that never ran, those whose last run failed, then those of the longest ago."""
        return sorted(cases, key=self._rank)

    def _rank(self, case: Case) -> tuple[int, int]:
        number, failed = self._last.get(case.identity, (-1, False))
        return (0 if number < 0 else 1 if failed else 2, number)

    def choose(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases that are run tonight, in their order; print those for which there is no time.

        Each gets the shortest time. Jobs in a queue run at the same time, and so do not count.
        """
        ordered = self.order(cases)
        chosen: list[Case] = []
        for case in ordered:
            local = [other for other in (*chosen, case) if other.scheduler == "local"]
            seconds = open_verdicts.shortest_takes(local)
            if case.scheduler != "local" or self._minutes is None or seconds <= 60 * self._minutes:
                chosen.append(case)
        left = [case for case in ordered if case not in chosen]
        if left:
            say(f"no time tonight, and so first tomorrow: {names(left)}")
        return chosen
