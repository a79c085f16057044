"""The node-hours that a session of ci/run may take: what may be run with what is left of them.

What is run together cannot exceed what is left, as no job takes more than its time limit; so cases are run in several
passes, and what each of them really took is counted before the next. Builds are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from containercheck.results.cases import Case, ReportError
from containercheck.results.formatting import names, say
from containercheck.session import estimate


class Budget:
    """A session's node-hours.

    :ivar foreseen: the report of a dry run of all cases.
    :ivar waiting: those of them that are still to be run.
    """

    def __init__(self, node_hours: float | None) -> None:
        """Nothing waits yet.

        :param node_hours: None for any.
        """
        self._all = node_hours or math.inf
        self.foreseen: dict[str, Any] = {}
        self.waiting: list[Case] = []

    def begin(self, foreseen: dict[str, Any], cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
        """Return the first cases that are run, and ReFrame's options for that; say which ones never are.

        :param cases: those of the report that are to be run, in their order.
        :raises ReportError: no case is expected to fit.
        """
        self.foreseen = foreseen
        self.waiting, left = estimate.affordable(cases, self._all)
        if left:
            taken = sum(map(estimate.node_hours, left))
            say(f"left out, as they would take {taken:.3g} node-hours more: {names(left)}")
        if cases and not self.waiting:
            raise ReportError(f"nothing that is selected is expected to fit into {self._all:g} node-hours")
        return self.next([])

    def next(self, done: Iterable[Case]) -> tuple[list[Case], list[str]]:
        """Return the next of what waits, as :meth:`within` does; where nothing fits any more, say so, and end that."""
        chosen, options = self.within(self.waiting, done)
        if self.waiting and not chosen:
            say(f"left out, as only {self.left(done):.3g} node-hours are left: {names(self.waiting)}")
        self.waiting = [case for case in self.waiting if chosen and case not in chosen]
        return chosen, options

    def left(self, done: Iterable[Case]) -> float:
        """Return what is left after these cases."""
        return self._all - estimate.spent(done)

    def within(self, cases: Sequence[Case], done: Iterable[Case]) -> tuple[list[Case], list[str]]:
        """Return which of these cases may be run now, the first ones first, and ReFrame's options for that.

        :param done: what was run before.
        """
        if math.isinf(self._all):
            return list(cases), []
        chosen, most = estimate.fitting(cases, self.left(done))
        return chosen, ["-S", f"node_hours={most:.6g}"] if most else []
