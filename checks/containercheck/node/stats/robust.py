"""Estimate centre, scale and correlation of numbers such that an outlier does not matter.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import Dict, List, Optional


def median(ordered: List[float]) -> float:
    """Return the median of sorted numbers, of which there is at least one."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def walsh(values: List[float]) -> List[float]:
    """Return the means of all pairs, each number with itself too, sorted: the Walsh averages."""
    return sorted((values[i] + values[j]) / 2 for i in range(len(values)) for j in range(i + 1))


def scale(values: List[float]) -> float:
    """Return 1.4826 times the median absolute deviation: the standard deviation, if they are normal."""
    middle = median(sorted(values))
    return 1.4826 * median(sorted(abs(value - middle) for value in values))


def correlation(values: List[float]) -> Optional[float]:
    """Return the lag-1 serial correlation of the ranks (Wald and Wolfowitz 1943; Bartels 1982); None if all are equal.

    It lies between -1 and 1. For n independent values it scatters by about 1 / sqrt(n) around -1 / n.
    """
    mean = (len(values) - 1) / 2.0
    ranks = [rank - mean for rank in _ranks(values)]
    total = math.fsum(rank * rank for rank in ranks)
    return math.fsum(rank * following for rank, following in zip(ranks, ranks[1:])) / total if total else None


def _ranks(values: List[float]) -> List[float]:
    """Return the rank of each value from 0; equal values share the mean of theirs."""
    ordered = sorted(values)
    first: Dict[float, int] = {}
    for place, value in enumerate(ordered):
        first.setdefault(value, place)
    return [first[value] + (ordered.count(value) - 1) / 2.0 for value in values]
