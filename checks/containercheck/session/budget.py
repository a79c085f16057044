"""The node-hours that a session of ci/run may take: selects the cases that fit into the rest.

The cases of a run cannot exceed the rest even if each job takes its time limit; so cases are run in several runs of
ReFrame, and what the jobs of one really took is counted before the next. Builds are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from containercheck.results.cases import Case, ReportError
from containercheck.results.formatting import names, say
from containercheck.session import estimate


class Budget:
    """A session's budget of node-hours.

    :ivar waiting: cases that are still to be run.
    """

    def __init__(self, node_hours: float | None) -> None:
        """Begin without waiting cases.

        :param node_hours: the budget; None for no limit.
        """
        self._all = node_hours or math.inf
        self.waiting: list[Case] = []

    def begin(self, cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
        """Return the first cases to run, with ReFrame's options for that; print the cases that do not fit.

        :param cases: the cases that are to be run, in their order.
        :raises ReportError: no case is expected to fit.
        """
        self.waiting, left = estimate.affordable(cases, self._all)
        if left:
            excess = sum(map(estimate.node_hours, left))
            say(f"left out, as they would take {excess:.3g} node-hours more: {names(left)}")
        if cases and not self.waiting:
            raise ReportError(f"nothing that is selected is expected to fit into {self._all:g} node-hours")
        return self.next([])

    def next(self, done: Iterable[Case]) -> tuple[list[Case], list[str]]:
        """Return the next waiting cases, as :meth:`within` does; where none fits any more, drop them with a message."""
        chosen, options = self.within(self.waiting, done)
        if self.waiting and not chosen:
            say(f"left out, as only {self.left(done):.3g} node-hours are left: {names(self.waiting)}")
        self.waiting = [case for case in self.waiting if chosen and case not in chosen]
        return chosen, options

    def left(self, done: Iterable[Case]) -> float:
        """Return the node-hours that are left after these cases."""
        return self._all - estimate.spent(done)

    def within(self, cases: Sequence[Case], done: Iterable[Case]) -> tuple[list[Case], list[str]]:
        """Return those of the cases that may be run now, in their order, with ReFrame's options for that.

        :param done: the cases that were run before.
        """
        if math.isinf(self._all):
            return list(cases), []
        chosen, most = estimate.fitting(cases, self.left(done))
        return chosen, ["-S", f"node_hours={most:.6g}"] if most else []
