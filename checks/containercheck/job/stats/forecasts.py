"""Forecast an open verdict: the reason, whether it is still within reach, and the rounds that it needs.

Forecasts give no verdict, and ending early can only leave one open, so they may be rough. They assume normal
differences with the same centre and scale.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import math
import statistics
from typing import NamedTuple, Optional, Sequence

from containercheck.job.stats.boundaries import (
    HORIZON,
    Moderated,
    PriorSpread,
    averages,
    centre,
    moderated_scale,
    rank_boundary,
    spread,
)

#: Kinds of an open verdict, most urgent first: too slow but not yet certain, suspiciously fast, close to the tolerance,
#: too noisy.
SLOWER, FASTER, CLOSE, NOISY = "slower", "faster", "close", "noisy"
#: First round in which the rounds alone can show that a known spread is too wide.
ENOUGH = 6
#: Standard errors of the mean by which a metric must exceed the accepted range to be called too slow. At the end of the
#: range, noise alone comes that far in one metric of twenty. To be called too fast needs more, as this is unexpected: a
#: few rounds of noise must not look like it.
TOO_SLOW, TOO_FAST = 1.645, 2.5
#: Tolerances by which a gain may exceed the target before it is suspicious: the subject may not do the same work.
MOST_GAIN = 5.0
#: Round before which a suspicious gain does not pass: by then ranks alone can decide.
UNTIL = 12
#: Source of a known spread that was never measured.
DEFAULT = "default"
#: First round in which a metric can be given up.
PATIENCE = 10
#: Standard errors of the median, 1.25 s / sqrt(n), by which a verdict is favoured before it counts as out of reach.
#: With 1, verdicts that would have come are given up; with 2, many useless rounds are run (simulated).
FAVOUR = 1.5


class Accepted(NamedTuple):
    """Hold the accepted range of a metric's overhead, as d, and the boundaries that apply.

    :ivar low, high: the ends of the range.
    :ivar target: the ideal d.
    :ivar metrics: number of metrics of the row of boundaries.
    """

    low: float
    high: float
    target: float
    metrics: int

    def highest_question(self, scale: float) -> float:
        """Return the d below which a gain is suspicious; minus infinity if any gain is accepted.

        It is many tolerances below the target, and further than single rounds spread.

        :param scale: standard deviation of d.
        """
        tolerance = self.high - self.target
        if not 0 < tolerance < math.inf:
            return -math.inf
        return self.target - max(MOST_GAIN * tolerance, scale)


def open_kind(changes: Sequence[float], accepted: Accepted, known: Optional[PriorSpread]) -> str:
    """Return the kind of an open verdict, one of the constants above.

    - ``slower``: the estimate and most rounds exceed the accepted range, and not only by chance.
    - ``faster``: the same below the lowest accepted overhead, or below the suspicious gain.
    - ``close``: rounds with this spread would have decided a metric on its target by now; the metric's own overhead
      keeps it open.
    - ``noisy``: its rounds spread too much.

    :param changes: d of each round.
    :param known: the known spread; None if unknown.
    """
    rounds = len(changes)
    if not rounds or (rounds < 2 and known is None):
        return NOISY
    scale = _likely_scale(changes, known, rounds >= ENOUGH)
    error = scale / math.sqrt(rounds)
    lowest = accepted.low if accepted.low > -math.inf else accepted.highest_question(scale)
    above, below = (sum(change > accepted.high for change in changes), sum(change < lowest for change in changes))
    if 2 * above > rounds and centre(changes) - accepted.high > TOO_SLOW * error:
        return SLOWER
    if 2 * below > rounds and lowest - centre(changes) > TOO_FAST * error:
        return FASTER
    return CLOSE if decides(accepted.target, scale, rounds, accepted, known) else NOISY


def is_hopeless(changes: Sequence[float], accepted: Accepted, known: Optional[PriorSpread]) -> bool:
    """Return whether an open metric would probably stay open up to the horizon.

    Only from round 10 on, and in doubt False: the centre moves by :data:`FAVOUR` standard errors of the median in
    favour of each verdict.

    :param changes, known: see :func:`open_kind`.
    """
    rounds = len(changes)
    if rounds >= HORIZON or rounds < PATIENCE:
        return rounds >= HORIZON
    scale = spread(changes)
    favour = FAVOUR * 1.2533 * scale / math.sqrt(rounds)
    return not decides(statistics.median(changes), scale, HORIZON, accepted, known, favour)


def is_believable(rounds: int, source: str) -> bool:
    """Return whether a forecast can be printed: after few rounds without a measured spread it may be wrong tenfold.

    :param source: source of the known spread.
    """
    return rounds >= ENOUGH or source != DEFAULT


def rounds_needed(changes: Sequence[float], accepted: Accepted, known: Optional[PriorSpread]) -> Optional[int]:
    """Return the approximate number of rounds that decide an open metric, if centre and scale stay as they are.

    None if more rounds than the horizon are needed, or if the scale is unknown.

    :param changes, known: see :func:`open_kind`.
    """
    rounds = len(changes)
    if not rounds or (rounds < 2 and known is None):
        return None
    return _first_deciding(centre(changes), _likely_scale(changes, known), rounds + 1, accepted, known)


def rounds_expected(accepted: Accepted, known: Optional[PriorSpread]) -> int:
    """Return the approximate number of rounds to decide a metric on its target, by its known spread alone.

    The horizon if it is expected to stay open, or if the spread is unknown.

    :param known: see :func:`open_kind`.
    """
    if known is None:
        return HORIZON
    return _first_deciding(accepted.target, known.scale, 2, accepted, known) or HORIZON


def _likely_scale(changes: Sequence[float], known: Optional[PriorSpread], is_limited: bool = True) -> float:
    """Return the standard deviation of d from known and seen spread.

    :param is_limited: whether the result is at most twice the seen spread, from two rounds on. Few rounds show little
        of their spread, but a known spread may be a default that is ten times too wide.
    """
    seen = spread(changes)
    if known is None:
        return seen
    scale = moderated_scale(known, seen, len(changes))
    return min(scale, 2 * seen) if is_limited and len(changes) > 1 else scale


def _first_deciding(
    expected: float, scale: float, first: int, accepted: Accepted, known: Optional[PriorSpread]
) -> Optional[int]:
    numbers = range(first, HORIZON + 1)
    return next((number for number in numbers if decides(expected, scale, number, accepted, known)), None)


def decides(
    expected: float, scale: float, rounds: int, accepted: Accepted, known: Optional[PriorSpread], favour: float = 0.0
) -> bool:
    """Return whether rounds are expected to have a verdict.

    :param expected, scale: mean and standard deviation of their normal d.
    :param known: see :func:`open_kind`.
    :param favour: d by which the mean is moved towards each verdict.
    """
    moderated = Moderated(rounds, expected, known, moderated_scale(known, scale, rounds) if known else None)

    def is_reached(gap: float, kind: str) -> bool:
        count = expected_count(gap + favour, scale, rounds)
        if count >= rank_boundary(kind, rounds, accepted.metrics):
            return True
        return gap + favour >= moderated.margin(kind, accepted.metrics)

    low, high, target = accepted.low, accepted.high, accepted.target
    return (
        is_reached(min(high - expected, expected - low), "pass")
        or (is_reached(expected - high, "fail") and is_reached(expected - target, "zero"))
        or (is_reached(low - expected, "fail") and is_reached(target - expected, "zero"))
    )


def expected_count(gap: float, scale: float, rounds: int) -> float:
    """Return the expected count of Walsh averages beyond a bound that is ``gap`` below the centre of normal d.

    It is rounded to an integer, as a count is one. Otherwise the earliest boundaries, which need all Walsh averages,
    would never be reached.
    """
    if scale == 0 or math.isinf(gap):
        return averages(rounds) if gap > 0 else 0
    shares = [(1 + math.erf(gap / scale / width)) / 2 for width in (1.0, math.sqrt(2))]
    return math.floor(rounds * (rounds - 1) / 2 * shares[0] + rounds * shares[1] + 0.5)
