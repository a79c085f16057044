"""Forecasts: whether a verdict is still within reach, and how many rounds it would take.

Nothing here decides a verdict, and ending early can only leave one open: so the forecasts may be rough. They are those
for normal differences of the same centre and scale, by the ranks or by the moderated t.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import List, NamedTuple, Optional

from containercheck.node.stats import robust
from containercheck.node.stats.boundaries import HORIZON, averages, boundary, critical, reaches
from containercheck.node.stats.moderated import scale_of

#: First round in which a figure can be given up.
PATIENCE = 10
#: Standard errors of the median, 1.25 s / sqrt(n), by which a verdict is favoured before it counts as out of reach.
#: With 1, verdicts that would have come are given up; with 2, many rounds are run that tell nothing (simulated).
FAVOUR = 1.5


class Accepted(NamedTuple):
    """The range in which a figure's overhead is accepted, as d, and the boundaries that apply to it.

    :ivar low, high: the ends of the range.
    :ivar target: the d that is as it should be.
    :ivar figures: number of figures of the row of boundaries.
    :ivar known: known standard deviation of d; None where none is known.
    """

    low: float
    high: float
    target: float
    figures: int
    known: Optional[float] = None


def hopeless(changes: List[float], accepted: Accepted) -> bool:
    """Return whether an open figure would stay open, most probably, up to the horizon.

    From round 10 on, and with the benefit of the doubt. A verdict is out of reach if the count that is expected
    at the horizon does not come to its boundary, with a scale as it is and a centre that is moved by :data:`FAVOUR`
    standard errors of the median in favour of the verdict.
    """
    rounds = len(changes)
    if rounds >= HORIZON:
        return True
    if rounds < PATIENCE:
        return False
    scale = robust.scale(changes)
    favour = FAVOUR * 1.2533 * scale / math.sqrt(rounds)
    return not decides(robust.median(sorted(changes)), scale, HORIZON, accepted, favour)


def rounds_needed(changes: List[float], accepted: Accepted) -> Optional[int]:
    """Return about how many rounds in all would decide an open figure, if centre and scale stay as they are.

    None where more than the horizon would be needed, or while nothing is known of the scale.
    """
    if not changes or (len(changes) < 2 and accepted.known is None):
        return None
    centre = robust.median(robust.walsh(changes))
    scale = robust.scale(changes)
    if accepted.known is not None:
        scale = sober(scale_of(accepted.known, scale, len(changes)), changes)
    return _first(centre, scale, len(changes) + 1, accepted)


def sober(scale: float, changes: List[float]) -> float:
    """Return a scale from the known spread, limited to twice the scale of the rounds where there are two or more.

    The median absolute deviation of a few rounds says little, and is too small on average; a known spread may be a
    default that is ten times too wide.
    """
    return min(scale, 2 * robust.scale(changes)) if len(changes) > 1 else scale


def rounds_expected(accepted: Accepted) -> int:
    """Return after about how many rounds a figure on its target has its verdict, by its known spread alone.

    The horizon where it is expected to stay open, or where nothing is known.
    """
    if accepted.known is None:
        return HORIZON
    return _first(accepted.target, accepted.known, 2, accepted) or HORIZON


def _first(centre: float, scale: float, rounds: int, accepted: Accepted) -> Optional[int]:
    numbers = range(rounds, HORIZON + 1)
    return next((number for number in numbers if decides(centre, scale, number, accepted)), None)


def decides(centre: float, scale: float, rounds: int, accepted: Accepted, favour: float = 0.0) -> bool:
    """Tell whether normal d of that centre and scale would be expected to have a verdict after ``rounds`` rounds."""
    error = None
    if accepted.known is not None:
        error = scale_of(accepted.known, scale, rounds) / math.sqrt(rounds)

    def reached(gap: float, kind: str) -> bool:
        boundaries = boundary(kind, rounds, accepted.figures), critical(kind, rounds, accepted.figures)
        if error is not None and boundaries[1] is not None and gap + favour >= boundaries[1] * error:
            return True
        return reaches(expected_count(gap + favour, scale, rounds), boundaries[0])

    low, high, target = accepted.low, accepted.high, accepted.target
    return (
        reached(min(high - centre, centre - low), "pass")
        or (reached(centre - high, "fail") and reached(centre - target, "zero"))
        or (reached(low - centre, "fail") and reached(target - centre, "zero"))
    )


def expected_count(gap: float, scale: float, rounds: int) -> float:
    """Return the expected count of Walsh averages beyond a bound that is ``gap`` below the centre of normal d.

    Rounded to the nearest integer, as a count is one: otherwise the earliest boundaries, which are all Walsh averages,
    would never be reached.
    """
    if scale == 0 or math.isinf(gap):
        return averages(rounds) if gap > 0 else 0
    shares = [(1 + math.erf(gap / scale / width)) / 2 for width in (1.0, math.sqrt(2))]
    return math.floor(rounds * (rounds - 1) / 2 * shares[0] + rounds * shares[1] + 0.5)
