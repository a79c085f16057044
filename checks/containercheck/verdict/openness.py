"""Why a verdict is open: too slow but not yet certain, close to the tolerance, too noisy, or suspiciously fast.

Nothing here decides a verdict: this only tells open ones apart.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import List, Optional

from containercheck.verdict import prospects, robust
from containercheck.verdict.prospects import Accepted

#: Kinds of an open verdict, the most urgent first.
SLOWER, FASTER, CLOSE, NOISY = "slower", "faster", "close", "noisy"
#: Standard errors of the mean by which a figure must be off its target, and off what is accepted, before it is called
#: too slow: noise alone comes as far off the target in one figure of twenty.
OFF_TARGET, OFF_ACCEPTED = 1.645, 1.0


def kind(changes: List[float], accepted: Accepted, scale: Optional[float]) -> str:
    """Return the kind of an open verdict, one of the constants above.

    ``slower``: the estimate and most rounds lie above what is accepted, and not only by chance. ``faster``: the same
    below the lowest that is accepted. ``close``: by now, rounds that spread like these would have told of a figure on
    its target; what keeps this one open is where it lies. ``noisy``: its rounds spread too much to tell so far.

    :param scale: standard deviation of d; None where it is not known.
    """
    rounds = len(changes)
    if not rounds or scale is None:
        return NOISY
    centre = robust.median(robust.walsh(changes))
    error = scale / math.sqrt(rounds)
    most_above = 2 * sum(change > accepted.high for change in changes) > rounds
    most_below = 2 * sum(change < accepted.low for change in changes) > rounds

    def is_off(beyond: float, off_target: float) -> bool:
        return beyond > OFF_ACCEPTED * error and off_target > OFF_TARGET * error

    if most_above and is_off(centre - accepted.high, centre - accepted.target):
        return SLOWER
    if most_below and is_off(accepted.low - centre, accepted.target - centre):
        return FASTER
    return CLOSE if prospects.decides(accepted.target, scale, rounds, accepted) else NOISY
