"""Look up the boundaries of the sequential verdict in ``boundaries.json``, which ci/benchmarks/boundaries.py makes.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import json
import math
import os
from typing import Any, Dict, List, Optional

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "boundaries.json")) as _file:
    _TABLE: Dict[str, Any] = json.load(_file)

#: The last round in which a verdict can fall.
HORIZON: int = _TABLE["horizon"]
#: Degrees of freedom of a known spread.
PRIOR_DEGREES: int = _TABLE["prior_degrees"]
#: The numbers of figures that have a row in the table.
_ROWS: List[int] = sorted(int(figures) for figures in _TABLE["fail"])


def boundary(kind: str, rounds: int, figures: int = 1) -> Optional[int]:
    """Return the count of Walsh averages that must be reached after ``rounds`` rounds, or None where none is enough.

    Beyond the table, where there are no verdicts, it is as many standard deviations as in the last round.

    :param kind: ``pass``, ``fail`` or ``zero``.
    :param figures: number of figures that are judged together; ``pass`` does not depend on it.
    :raises ValueError: more figures than the table has.
    """
    row = _row(kind, figures)
    if rounds <= HORIZON:
        return row[rounds - 1] if rounds > 0 else None
    deviations = (row[-1] - averages(HORIZON) / 2.0) / _deviation(HORIZON)
    return int(math.ceil(averages(rounds) / 2.0 + deviations * _deviation(rounds)))


def critical(kind: str, rounds: int, figures: int = 1) -> Optional[float]:
    """Return the moderated t that must be reached after ``rounds`` rounds, or None where there is no look.

    Beyond the table it is the last one.

    :param kind: ``pass``, ``fail`` or ``zero``.
    :param figures: number of figures that are judged together; ``pass`` does not depend on it.
    :raises ValueError: more figures than the table has.
    """
    row = _row("t_" + kind, figures)
    return row[min(rounds, HORIZON) - 1] if rounds > 0 else None


def contradicted(rounds: int) -> float:
    """Return the sum of squared deviations, in known variances, from which on the known spread is contradicted."""
    bound = _TABLE["contradicted"][min(rounds, HORIZON) - 1] if rounds > 0 else None
    return math.inf if bound is None else bound


def _row(kind: str, figures: int) -> List[Any]:
    if kind.endswith("pass"):
        return _TABLE[kind]
    rows = [row for row in _ROWS if row >= figures]
    if figures < 1 or not rows:
        raise ValueError(f"{figures} figures: the table has rows for 1 to {_ROWS[-1]}")
    return _TABLE[kind][str(rows[0])]


def reaches(count: float, bound: Optional[int]) -> bool:
    """Return whether a count is at a boundary or beyond; never where there is none."""
    return bound is not None and count >= bound


def averages(rounds: int) -> int:
    """Return the number of Walsh averages of this many rounds."""
    return rounds * (rounds + 1) // 2


def _deviation(rounds: int) -> float:
    """Return the standard deviation of the signed-rank statistic under the null hypothesis (Wilcoxon 1945)."""
    return math.sqrt(rounds * (rounds + 1) * (2 * rounds + 1) / 24.0)
