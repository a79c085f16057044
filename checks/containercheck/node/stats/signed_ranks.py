"""Counts of Walsh averages above and below a bound: Wilcoxon's signed-rank statistic, round by round.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

from typing import List


class Bound:
    """A bound on d, with the counts of Walsh averages above and below it; either may be infinite."""

    def __init__(self, value: float) -> None:
        """Begin without rounds."""
        self.value = value
        self.above = 0
        self.below = 0

    def add(self, changes: List[float], slacks: List[float]) -> None:
        """Count the Walsh averages of the last change with all."""
        new, slack = changes[-1] - 2 * self.value, slacks[-1]
        for old, own in zip(changes, slacks):
            twice = old + new
            if twice > slack + own:
                self.above += 1
            elif twice < -slack - own:
                self.below += 1
