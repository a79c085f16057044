"""Why a verdict is open: too slow but not yet certain, close to the tolerance, too noisy, or suspiciously fast.

Nothing here decides a verdict: open ones are only told apart.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import List, Optional

from containercheck.node.stats import prospects, robust
from containercheck.node.stats.prospects import Accepted

#: Kinds of an open verdict, the most urgent first.
SLOWER, FASTER, CLOSE, NOISY = "slower", "faster", "close", "noisy"
#: First round in which the rounds alone can show that a known spread is too wide.
ENOUGH = 6
#: Standard errors of the mean by which a figure must be off its target, and off the accepted range, to be called too
#: slow: noise alone comes as far off the target in one figure of twenty.
OFF_TARGET, OFF_ACCEPTED = 1.645, 1.0
#: The same to be called too fast, which is unexpected: a few rounds of noise must not look like it.
OFF_GAIN = 2.5
#: Tolerances by which a gain may exceed the target before it becomes a question: does the subject do the same work?
MOST_GAIN = 5.0
#: Number of figures whose row of the stricter boundary is used for this question: 1 % / 10.
RARELY = 10
#: Round before which a gain that may be too good does not pass: by then ranks alone can decide.
UNTIL = 12


def far(accepted: Accepted, scale: float) -> float:
    """Return the d below which a gain is a question; minus infinity where any gain is accepted.

    It is off the target by many tolerances, and by more than single rounds spread.
    """
    tolerance = accepted.high - accepted.target
    if not 0 < tolerance < math.inf:
        return -math.inf
    return accepted.target - max(MOST_GAIN * tolerance, scale)


def kind(changes: List[float], accepted: Accepted, scale: Optional[float]) -> str:
    """Return the kind of an open verdict, one of the constants above.

    ``slower``: the estimate and most rounds lie above what is accepted, and not only by chance. ``faster``: the same
    below the lowest that is accepted, or below what :func:`far` says. ``close``: by now, rounds that spread like these
    would have told of a figure on its target; what keeps this one open is where it lies. ``noisy``: its rounds spread
    too much to tell so far.

    :param scale: standard deviation of d, where it was known; else it is what the rounds themselves say.
    """
    rounds = len(changes)
    if not rounds or (rounds < 2 and scale is None):
        return NOISY
    scale = robust.scale(changes) if scale is None else scale
    if rounds >= ENOUGH:
        scale = prospects.sober(scale, changes)
    centre = robust.median(robust.walsh(changes))
    error = scale / math.sqrt(rounds)
    lowest = accepted.low if accepted.low > -math.inf else far(accepted, scale)
    above, below = (sum(change > accepted.high for change in changes), sum(change < lowest for change in changes))
    off_target = centre - accepted.target > OFF_TARGET * error
    if 2 * above > rounds and off_target and centre - accepted.high > OFF_ACCEPTED * error:
        return SLOWER
    if 2 * below > rounds and lowest - centre > OFF_GAIN * error:
        return FASTER
    return CLOSE if prospects.decides(accepted.target, scale, rounds, accepted) else NOISY
