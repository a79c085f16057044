"""The moderated t: how far the mean of the rounds lies from a bound, with what is known of their spread beforehand.

    s2 = (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1)        s0 the known spread, s that of the n rounds, d0 = 4
    t  = (mean(d) - bound) / sqrt(s2 / n)

(G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments", SAGMB 3, 2004.) It is used from round 2 on. Where the rounds spread so much more than is known that
chance would do it in one of a hundred, it goes on with three times as much in place of s0, or with nine times, and so
on: a container that is ten times slower is not missed because its rounds spread more than those of a good one.

Standard library only, Python 3.6 or newer.
"""

import math
from typing import Optional

from containercheck.node.stats.boundaries import HORIZON, PRIOR_DEGREES, contradicted

#: Factor for a known spread that the rounds contradict. Simulated (ci/benchmark detection): with 4, false verdicts
#: are as rare as by ranks alone where rounds spread up to twice as much as is known; with 2, more fail falsely.
WIDER = 3.0


def scale_of(known: float, scale: float, rounds: int) -> float:
    """Return the standard deviation that follows from known and seen spread after this many rounds."""
    degrees = PRIOR_DEGREES + rounds - 1
    return math.sqrt((PRIOR_DEGREES * known * known + (rounds - 1) * scale * scale) / degrees)


class Moderated:
    """The mean and the spread of rounds, beside the known spread.

    :param known: known standard deviation of d; None where none is known.
    """

    def __init__(self, known: Optional[float]) -> None:
        """Begin without rounds."""
        self._known = known
        self._rounds = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, change: float) -> None:
        """Add a round (B. P. Welford, Technometrics 4, 1962)."""
        self._rounds += 1
        step = change - self.mean
        self.mean += step / self._rounds
        self._squares += step * (change - self.mean)

    @property
    def contradicted(self) -> bool:
        """Whether the rounds spread more than the known spread allows."""
        return self._known is not None and self._squares > contradicted(self._rounds) * self._known**2

    @property
    def assumed(self) -> Optional[float]:
        """The known spread, or the next multiple of it that the rounds do not contradict; None where none is known."""
        if self._known is None or not self._squares < math.inf:
            return None
        assumed, limit = self._known, contradicted(self._rounds)
        while self._squares > limit * assumed**2:
            assumed *= WIDER
        return assumed

    @property
    def scale(self) -> Optional[float]:
        """The standard deviation of d that follows from known and seen spread; None where none is known."""
        assumed = self.assumed
        if assumed is None:
            return None
        seen = math.sqrt(self._squares / (self._rounds - 1)) if self._rounds > 1 else 0.0
        return scale_of(assumed, seen, max(1, self._rounds))

    def margin(self, critical: Optional[float]) -> float:
        """Return by how much the mean must be off a bound for t to reach a boundary; infinite where none is enough.

        :param critical: the boundary; None for none.
        """
        scale = self.scale
        if critical is None or scale is None or not 0 < self._rounds <= HORIZON:
            return math.inf
        return critical * scale / math.sqrt(self._rounds)
