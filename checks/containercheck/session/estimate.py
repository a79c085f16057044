"""Estimate the cost of a session in a dry run, count spent node-hours, and choose the cases.

If the node-hours are too few for all cases at once, a session has several runs of ReFrame. The cases of a run cannot
exceed the rest of the budget, even if each job takes its time limit. The node-hours of a run are counted before the
next run. Builds are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from containercheck.history.nights import Night
from containercheck.results import selections
from containercheck.results.cases import Case, names
from containercheck.results.formatting import by_key, columns, number, say

#: Function that returns the cases to run, in their order, and prints the names of the others.
Choice = Callable[[Sequence[Case]], list[Case]]


def node_hours(case: Case, seconds: str = "expected") -> float:
    """Return the node-hours of a case.

    :param seconds: ``expected``, or ``at_most`` for the upper limit.
    """
    return case.nodes * case.expected.get(seconds, 0.0) / 3600


def lines(cases: Sequence[Case]) -> list[str]:
    """Return the table, with a line for each application, partition and number of nodes, and a line of totals."""
    several = len({case.partition for case in cases}) > 1
    heading = ("application", "partition", "nodes", "ranks", "a run", "jobs", "node-hours", "at most")
    text: list[tuple[str, ...]] = [heading]
    for group in by_key(cases, lambda case: (case.label, case.partition, case.nodes)).values():
        case, run = group[0], group[0].expected
        seconds = f"{number(run['seconds'], 2)} s" if run.get("seconds") else "?"
        head = (case.label, case.partition, str(case.nodes), str(run.get("ranks", "?")), seconds)
        text.append((*head, str(len(group)), *_hours(group)))
    if not several:
        text = [(row[0], *row[2:]) for row in text]
    return [*columns(text), total(cases)]


def total(cases: Sequence[Case]) -> str:
    """Return the number of jobs, and their node-hours."""
    expected, most = _hours(cases)
    return f"{len(cases)} job(s): about {expected} node-hours, at most {most}"


def cheapest_first(cases: Iterable[Case]) -> list[Case]:
    """Return the cases sorted by their node-hours."""
    return sorted(cases, key=node_hours)


def tonight(nights: Sequence[Night], minutes: float | None = None) -> Choice:
    """Return the choice of a night: cases that never ran, then failed cases, then the cases that ran longest ago.

    Each case gets the shortest time. Jobs in a queue run at the same time and do not count.

    :param nights: nights, the earliest first.
    :param minutes: time for the cases without a queue; None for no limit.
    """
    # For each case: whether it passed in its last night, and the number of that night.
    last = {
        case.identity: (selections.failure(case) is None, number)
        for number, night in enumerate(night for night in nights if night.is_nightly)
        for case in selections.ran(night.cases)
    }

    def choose(cases: Sequence[Case]) -> list[Case]:
        chosen: list[Case] = []
        left: list[Case] = []
        for case in sorted(cases, key=lambda case: last.get(case.identity, (False, -1))):
            local = [other for other in (*chosen, case) if other.scheduler == "local"]
            takes = selections.takes(local, selections.first_seconds(local, 0))
            fits = case.scheduler != "local" or minutes is None or takes <= 60 * minutes
            (chosen if fits else left).append(case)
        if left:
            say(f"no time tonight, and so first tomorrow: {names(left)}")
        return chosen

    return choose


def spent(cases: Iterable[Case]) -> float:
    """Return the node-hours of the jobs of these cases, with earlier runs and without builds."""
    return sum(run.nodes * run.job_seconds for case in cases for run in (case, *case.earlier)) / 3600


def fitting(cases: Iterable[Case], left: float) -> tuple[list[Case], float | None]:
    """Return the cases that fit together into the rest of a budget, and a limit for a single job.

    They fit even if each case takes its upper limit. If no case does, the result is the first case that is expected to
    fit, and the limit of its job in node-hours.
    """
    cases, chosen, most = list(cases), [], 0.0
    for case in cases:
        if most + node_hours(case, "at_most") <= left:
            chosen.append(case)
            most += node_hours(case, "at_most")
    expected = [case for case in cases if node_hours(case) <= left]
    if chosen or not expected:
        return chosen, None
    return expected[:1], left


def _hours(cases: Iterable[Case]) -> tuple[str, str]:
    cases = list(cases)
    expected, most = (sum(node_hours(case, which) for case in cases) for which in ("expected", "at_most"))
    return number(expected, 2), number(most, 2)
