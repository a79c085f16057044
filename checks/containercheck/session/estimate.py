"""What a session costs: what a dry run, in which the checks say it themselves, expects, and what was spent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import columns, number

#: Units of memory, the largest first.
_BYTES = ((1 << 40, " TiB"), (1 << 30, " GiB"), (1 << 20, " MiB"))
#: Steps of a number that is too long for a column.
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def node_hours(case: Case, seconds: str = "expected") -> float:
    """Return the node-hours that a case is expected to take.

    :param seconds: ``at_most`` for the most that it may take.
    """
    return case.nodes * case.expected.get(seconds, 0.0) / 3600


def lines(cases: Sequence[Case]) -> list[str]:
    """Return the table: a line for each application, partition and number of nodes, and one for all."""
    several = len({case.partition for case in cases}) > 1
    heading = ("application", "partition", "nodes", "ranks", "input", "of it a rank", "memory", "a run", "rounds")
    text: list[tuple[str, ...]] = [(*heading, "jobs", "node-hours", "at most")]
    for group in _grouped(cases):
        text.append((*_inputs(group[0]), _rounds(group), str(len(group)), *_hours(group)))
    if not several:
        text = [(row[0], *row[2:]) for row in text]
    expected, most = _hours(cases)
    return [
        *columns(text, left=2 if several else 1),
        f"{len(cases)} job(s): some {expected} node-hours, at most {most}",
    ]


def cheapest_first(cases: Iterable[Case]) -> list[Case]:
    """Return the cases by their node-hours."""
    return sorted(cases, key=node_hours)


def affordable(cases: Iterable[Case], budget: float) -> tuple[list[Case], list[Case]]:
    """Return the cases that fit into a budget of node-hours, each after those before it, and those that do not."""
    chosen: list[Case] = []
    left: list[Case] = []
    taken = 0.0
    for case in cases:
        fits = taken + node_hours(case) <= budget
        taken += node_hours(case) if fits else 0.0
        (chosen if fits else left).append(case)
    return chosen, left


def spent(cases: Iterable[Case]) -> float:
    """Return the node-hours that the jobs of these cases took, those of their earlier runs too; without builds."""
    return sum(run.nodes * run.job_seconds for case in cases for run in (case, *case.earlier)) / 3600


def fitting(cases: Iterable[Case], left: float) -> tuple[list[Case], float | None]:
    """Return the cases that may be run together without exceeding what is left of a budget, in their order.

    They fit with the most that they may take. Where not even one does, it is the first that is expected to fit, with
    the node-hours that its job has to be limited to.
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


def _grouped(cases: Iterable[Case]) -> list[list[Case]]:
    groups: dict[tuple[str, str, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.label, case.partition, case.nodes), []).append(case)
    return list(groups.values())


def _inputs(case: Case) -> tuple[str, ...]:
    head = (case.label, case.partition, str(case.nodes), str(case.expected.get("ranks", "?")))
    run = case.expected
    if not run.get("unit"):
        return (*head, "?", "?", "?", "?")
    amount, share = (_scaled(one, _THOUSANDS, 3) for one in (run["amount"], run["amount"] / run["ranks"]))
    return (
        *head,
        f"{amount} {run['unit']}",
        share,
        _scaled(run["memory"], _BYTES, 2),
        f"{number(run['seconds'], 2)} s",
    )


def _rounds(cases: Iterable[Case]) -> str:
    """Return after how many rounds figures are expected to have their verdicts, and how many of a case stay open.

    As far as it is known how far their rounds spread; a question mark where nobody knows.
    """
    known = [case.expected.get("closing") or () for case in cases if case.variant != "bare"]
    reached = max((rounds for closing in known for rounds in closing if rounds < open_verdicts.HORIZON), default=None)
    still = max((sum(rounds >= open_verdicts.HORIZON for rounds in closing) for closing in known), default=0)
    if reached is None:
        return "open" if still else "?"
    return f"{reached} ({still} open)" if still else str(reached)


def _hours(cases: Iterable[Case]) -> tuple[str, str]:
    cases = list(cases)
    expected, most = (sum(node_hours(case, which) for case in cases) for which in ("expected", "at_most"))
    return number(expected, 2), number(most, 2)


def _scaled(value: float, steps: Sequence[tuple[float, str]], digits: int) -> str:
    """Return a number in the largest of the steps that it reaches, or in the smallest."""
    step, name = next((one for one in steps if value >= one[0]), steps[-1])
    return f"{number(value / step, digits)}{name}"
