"""What more rounds would tell: whether a verdict is still within reach, and how many rounds it would take.

Nothing here decides a verdict, and ending early can only leave one open: this may be rough. Expected is what normal
differences of the same centre and scale would be expected to bring.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
from typing import List, NamedTuple, Optional

from containercheck.verdict import robust
from containercheck.verdict.boundaries import HORIZON, averages, boundary, reaches

#: The round from which on a figure can be given up.
PATIENCE = 10
#: Standard errors of the median, 1.25 s / sqrt(n), by which a verdict is favoured before it counts as out of reach.
#: With 1, verdicts that would have come are given up; with 2, many rounds are run that tell nothing (simulated).
FAVOUR = 1.5


class Accepted(NamedTuple):
    """What a figure is judged by: the ends of what is accepted and the target, as d; whose boundaries it takes."""

    low: float
    high: float
    target: float
    figures: int


def hopeless(changes: List[float], accepted: Accepted) -> bool:
    """Return whether an open figure would stay open, most probably, up to the horizon.

    Asked from round 10 on, and with the benefit of the doubt. A verdict is out of reach if the count that is expected
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

    None where more than the horizon would be needed, or with fewer than two rounds.
    """
    if len(changes) < 2:
        return None
    centre, scale = robust.median(robust.walsh(changes)), robust.scale(changes)
    numbers = range(len(changes) + 1, HORIZON + 1)
    return next((number for number in numbers if decides(centre, scale, number, accepted)), None)


def decides(centre: float, scale: float, rounds: int, accepted: Accepted, favour: float = 0.0) -> bool:
    """Whether normal d of that centre and scale would be expected to have a verdict after ``rounds`` rounds."""

    def reached(gap: float, kind: str) -> bool:
        return reaches(expected_count(gap + favour, scale, rounds), boundary(kind, rounds, accepted.figures))

    low, high, target, _ = accepted
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
