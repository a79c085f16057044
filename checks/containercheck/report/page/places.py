"""Places of an axis's values: numbers at themselves, and a default such as ``0`` or ``all`` at what its case had.

``ranks=0`` and ``ranks=all`` are one rank on each core: on 28 cores they belong beyond ``ranks=14``, on the same curve.
What the numbers of an axis are (ranks of a node, threads of a rank ...) follows from the layout of the cases that have
them, so no axis needs to be known here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from containercheck.results.cases import Case

#: Value of an axis for all cores of a node.
ALL = "all"
#: Relative difference up to which two amounts of work are the same.
SAME = 1e-9
#: Facts of a case's layout that an axis may set; None where the case does not know.
FACTS: Mapping[str, Callable[[Case], float | None]] = {
    "on a node": lambda case: _quotient(case.expected.get("ranks"), case.nodes),
    "in all": lambda case: case.expected.get("ranks"),
    "threads of a rank": lambda case: case.expected.get("threads"),
    "cores of a node": lambda case: _cores(case),
}
#: Those whose value ``all`` is the number of cores of a node.
OF_CORES = ("on a node", "cores of a node")


@dataclass(frozen=True)
class Places:
    """Numbers of the values of an axis.

    :ivar meaning: fact of :data:`FACTS` that the axis sets; empty where none was needed.
    :ivar numbers: number of each value that has a place.
    :ivar left_out: values that have none, with the reason.
    """

    meaning: str
    numbers: Mapping[str, float]
    left_out: tuple[tuple[str, str], ...] = ()

    def elsewhere(self, value: str, cores: int | None) -> float | None:
        """Return the number of a value on another machine; None where it has none.

        :param cores: of a node of that machine; None if unknown.
        """
        if is_number(value):
            return float(value)
        return cores if value == ALL and self.meaning in OF_CORES else None


def is_number(value: str) -> bool:
    """Tell whether a value of an axis is a positive number: 0 stands for a default."""
    return re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) > 0


def of(axis: str, cases: Sequence[Case]) -> Places | None:
    """Return the places of the values of an axis; None where they are names.

    :param cases: they differ in that axis and variant only.
    """
    by_value: dict[str, list[Case]] = {}
    for case in cases:
        by_value.setdefault(case.axes[axis], []).append(case)
    stated = {value: float(value) for value in by_value if is_number(value)}
    named = [value for value in by_value if value not in stated]
    if not stated:
        return None
    numbered = [case for value in stated for case in by_value[value]]
    most: Places | None = None
    for meaning in _meanings(axis, numbered, named):
        placed = _placed(meaning, stated, {value: by_value[value][0] for value in named}, numbered)
        if most is None or len(placed.numbers) > len(most.numbers):
            most = placed
    most = most or Places("", stated, tuple((value, "no number") for value in named))
    return most if len(most.numbers) > 1 else None


def _meanings(axis: str, numbered: Sequence[Case], named: Sequence[str]) -> list[str]:
    """Return the facts that are the axis's number in each case that states one; without such a fact, all are cores."""
    if not named:
        return []
    fitting = [
        meaning for meaning, fact in FACTS.items() if all(fact(case) == float(case.axes[axis]) for case in numbered)
    ]
    return fitting or (["cores of a node"] if ALL in named else [])


def _placed(meaning: str, stated: Mapping[str, float], named: Mapping[str, Case], numbered: Sequence[Case]) -> Places:
    numbers, left_out = dict(stated), []
    for value, case in named.items():
        number = FACTS[meaning](case)
        if number is None:
            left_out.append((value, "no number"))
        elif not _same_work(case, numbered):
            left_out.append((value, "another amount of work"))
        elif number in numbers.values():
            left_out.append((value, f"also {number:g}"))
        else:
            numbers[value] = number
    return Places(meaning, numbers, tuple(left_out))


def _same_work(case: Case, others: Sequence[Case]) -> bool:
    """Tell whether a case works on as much as another, in all or for each rank: else it is another problem."""
    measures = [_work(other) for other in others]
    return any(math.isclose(a, b, rel_tol=SAME) for pair in measures for a, b in zip(_work(case), pair))


def _work(case: Case) -> tuple[float, float]:
    """Return the amount of work of a run, in all and for each rank; 0 where it is not known."""
    amount = case.expected.get("amount") or 0.0
    return amount, amount / (case.expected.get("ranks") or 1)


def _quotient(number: float | None, by: int) -> float | None:
    return None if number is None else number / by


def _cores(case: Case) -> float | None:
    ranks, threads = (case.expected.get(name) for name in ("ranks", "threads"))
    return None if ranks is None or threads is None else ranks * threads / case.nodes
