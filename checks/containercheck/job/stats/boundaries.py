"""Express rounds as d, estimate their centre and spread, and return the distance from a bound that decides.

d is the judged difference: a log ratio, or a difference in the metric's unit; positive if the subject is worse. A wild
round does not affect the estimates of centre and spread.

``boundaries.json`` has the boundaries after each round; ci/benchmarks/boundaries.py makes it. The moderated t is the
distance of the rounds' mean from a bound. It uses the spread known beforehand:

    s2 = (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1)        s0 the known spread, s that of the n rounds
    t  = (mean(d) - bound) / sqrt(s2 / n)              d0 = 4, or 8 if many nights agree (history/spreads.py)

(G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments", SAGMB 3, 2004.) It is used from round 2 on. If chance would give such a spread in only one of a hundred,
the known spread is multiplied by three, or nine, and so on. Simulated, with (without) this rule. Ten times the known
spread: 8.5 (11.7) % fail falsely without overhead, and 15 (20) % at the tolerance. Twice the known spread: 7.2 (7.8) %
at the tolerance. If chance would give so small a spread in only one of a thousand, it is divided by three, and so on.
Simulated, with a tenth of the known spread: a check of six metrics finds 40 % after 4.5 (9.3) rounds. With nine kinds
of noise, 0.1 to 1 (0.1 to 0.6) % fail falsely without overhead, and 3.9 (3.9) % at the tolerance.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import json
import math
import os
import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "boundaries.json")) as _file:
    _TABLE: Dict[str, Any] = json.load(_file)

#: The first and the last round in which a verdict can fall.
FEWEST = 2
HORIZON: int = _TABLE["horizon"]
#: Degrees of freedom of a known spread that have a table; the fewest, the first, are the usual ones.
DEGREES: List[int] = sorted(map(int, _TABLE["t"]))
PRIOR_DEGREES = DEGREES[0]
#: Numbers of metrics with a row in the table, and the largest of them.
_ROWS: List[int] = sorted(int(metrics) for metrics in _TABLE["fail"])
MOST_METRICS = _ROWS[-1]
#: Factor for a known spread that the rounds contradict. Simulated (ci/benchmark detection): with 4, false verdicts are
#: as rare as by ranks alone, up to twice the known spread; with 2, more fail falsely.
WIDER = 3.0


# Rounds.

#: Relative difference of metrics that are equal except for rounding. A mean of two d this close to a bound is a tie:
#: the verdict must not depend on the libm.
ROUNDING = 1e-9


class Difference(NamedTuple):
    """Hold d of one round.

    :ivar change: its value.
    :ivar rounding: its error from rounding.
    """

    change: float
    rounding: float


class Scale:
    """Convert between metrics, overheads and d.

    :param better: ``higher`` or ``lower``.
    :param compare: ``ratio`` or ``difference``.
    :ivar unit: d's unit in overheads: 100 percent, or 1 of the metric's unit.
    """

    def __init__(self, better: str, compare: str) -> None:
        """Keep the direction and the kind of the comparison."""
        self._sign = -1.0 if better == "higher" else 1.0
        self._difference = compare == "difference"
        self.unit = 1.0 if self._difference else 100.0

    def change(self, overhead: float) -> float:
        """Return d for an overhead in percent or in the unit."""
        if self._difference:
            return overhead
        ratio = self._sign * overhead / 100
        return self._sign * (math.log1p(ratio) if ratio > -1 else -math.inf)

    def overhead(self, change: float) -> float:
        """Return the overhead in percent or in the unit for a d."""
        if self._difference or math.isinf(change):
            return change
        try:
            return self._sign * 100 * math.expm1(self._sign * change)
        except OverflowError:
            return math.copysign(math.inf, change)

    def between(self, baseline: float, subject: float) -> Difference:
        """Return d of one round.

        :raises ValueError: a metric is not finite, or not positive in a ratio.
        """
        if not (math.isfinite(baseline) and math.isfinite(subject)):
            raise ValueError(f"metrics must be finite, not {baseline!r} and {subject!r}")
        if self._difference:
            return Difference(self._sign * (subject - baseline), ROUNDING * (abs(subject) + abs(baseline)))
        if baseline <= 0 or subject <= 0:
            raise ValueError(f"a ratio needs positive metrics, not {baseline!r} and {subject!r}")
        # The logarithm of the quotient would not be exactly the negative when the sides are swapped.
        return Difference(self._sign * (math.log(subject) - math.log(baseline)), ROUNDING)


def side_value(values: Sequence[float], compare: str) -> float:
    """Return the value of a side in a round that ran it several times, in the metric's unit.

    The geometric mean for a ratio, else the mean, so that d of two values is the mean of the runs' d.

    :param values: of each run; for a ratio, all must be positive.
    :param compare: ``ratio`` or ``difference``.
    """
    if len(values) == 1:
        return values[0]
    if compare == "ratio" and min(values) > 0:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def walsh_averages(changes: Sequence[float]) -> List[float]:
    """Return the means of all pairs of numbers, each number with itself too, sorted."""
    return sorted((changes[i] + changes[j]) / 2 for i in range(len(changes)) for j in range(i + 1))


def centre(changes: Sequence[float]) -> float:
    """Return the median of the Walsh averages (Hodges and Lehmann 1963)."""
    return statistics.median(walsh_averages(changes))


def spread(changes: Sequence[float]) -> float:
    """Return 1.4826 times the median absolute deviation: the standard deviation, if they are normal."""
    middle = statistics.median(changes)
    return 1.4826 * statistics.median(abs(change - middle) for change in changes)


def distance(change: float, changes: Sequence[float], known_spread: Optional[float]) -> float:
    """Return the distance of a round's d from the median of all rounds, in spreads.

    The spread is the larger of the seen and the known one: few rounds that agree prove little.

    :param known_spread: known standard deviation of d; None if unknown.
    """
    widest = max(spread(changes), known_spread or 0.0)
    return abs(change - statistics.median(changes)) / widest if widest else 0.0


# Boundaries.


class PriorSpread(NamedTuple):
    """Hold the known spread of a metric's rounds.

    :ivar scale: standard deviation of d.
    :ivar degrees: its degrees of freedom, one of :data:`DEGREES`.
    """

    scale: float
    degrees: int = PRIOR_DEGREES


def rank_boundary(kind: str, rounds: int, metrics: int = 1) -> float:
    """Return the count of Walsh averages that must be reached after ``rounds`` rounds; infinite if none is enough.

    Beyond the table there are no verdicts. The part of all Walsh averages is then as in the last round: more than
    needed.

    :param kind: ``pass``, ``fail`` or ``zero``.
    :param metrics: number of metrics that are judged together; ``pass`` does not depend on it.
    :raises ValueError: more metrics than the table has.
    """
    bound = _at(_row(_TABLE, kind, metrics), min(rounds, HORIZON))
    return bound if rounds <= HORIZON else math.ceil(bound * averages(rounds) / averages(HORIZON))


def t_boundary(kind: str, rounds: int, metrics: int = 1, degrees: int = PRIOR_DEGREES) -> float:
    """Return the moderated t that must be reached after ``rounds`` rounds; infinite if none is enough.

    :param kind, metrics: see :func:`rank_boundary`.
    :param degrees: degrees of freedom of the known spread.
    :raises ValueError: more metrics than the table has.
    """
    return _at(_row(_TABLE["t"][str(degrees)], kind, metrics), rounds)


def contradicted(rounds: int) -> float:
    """Return the sum of squared deviations, in known variances, that contradicts the known spread."""
    return _at(_TABLE["contradicted"], min(rounds, HORIZON))


def contradicted_below(rounds: int) -> float:
    """Return the sum of squared deviations, in known variances, below which the known spread is too wide."""
    return _at(_TABLE["contradicted_below"], min(rounds, HORIZON))


def averages(rounds: int) -> int:
    """Return the number of Walsh averages of these rounds."""
    return rounds * (rounds + 1) // 2


def _row(table: Dict[str, Any], kind: str, metrics: int) -> List[Optional[float]]:
    if kind == "pass":
        return table[kind]
    rows = [row for row in _ROWS if row >= metrics]
    if metrics < 1 or not rows:
        raise ValueError(f"{metrics} metrics: the table has rows for 1 to {MOST_METRICS}")
    return table[kind][str(rows[0])]


def _at(row: List[Optional[float]], rounds: int) -> float:
    bound = row[rounds - 1] if 0 < rounds <= len(row) else None
    return math.inf if bound is None else bound


def moderated_scale(known: PriorSpread, scale: float, rounds: int) -> float:
    """Return the standard deviation that follows from known and seen spread after these rounds."""
    degrees = known.degrees + rounds - 1
    return math.sqrt((known.degrees * known.scale * known.scale + (rounds - 1) * scale * scale) / degrees)


class Moderated(NamedTuple):
    """Hold the mean and the moderated spread of rounds.

    :ivar rounds: their number.
    :ivar mean: of d.
    :ivar known: the known spread, or a multiple or part that the rounds do not contradict; None if unknown.
    :ivar scale: standard deviation of d that follows from known and seen spread; None if no spread is known.
    """

    rounds: int
    mean: float
    known: Optional[PriorSpread]
    scale: Optional[float]

    def margin(self, kind: str, metrics: int) -> float:
        """Return the distance from a bound at which t reaches a boundary; infinite if none is enough.

        :param kind, metrics: see :func:`rank_boundary`.
        """
        if self.known is None or self.scale is None:
            return math.inf
        critical = t_boundary(kind, self.rounds, metrics, self.known.degrees)
        return math.inf if math.isinf(critical) else critical * self.scale / math.sqrt(self.rounds)


def moderate(changes: Sequence[float], known: Optional[PriorSpread]) -> Moderated:
    """Return mean and moderated spread of rounds.

    A spread that the rounds contradict is not known well, however many nights it has.

    :param changes: d of each round.
    :param known: None if the spread is unknown.
    """
    rounds = len(changes)
    mean = math.fsum(changes) / max(1, rounds)
    squares = sum((change - mean) * (change - mean) for change in changes)
    if known is None or not squares < math.inf:
        return Moderated(rounds, mean, None, None)
    assumed = known.scale
    # Rounds that agree but for rounding, as values of few digits do, show no spread.
    rounding = ROUNDING * max(assumed, abs(mean))
    while squares > contradicted(rounds) * assumed * assumed:
        assumed *= WIDER
    while rounds * rounding * rounding < squares < contradicted_below(rounds) * assumed * assumed:
        assumed /= WIDER
    seen = math.sqrt(squares / max(1, rounds - 1))
    known = known if assumed == known.scale else PriorSpread(assumed)
    return Moderated(rounds, mean, known, moderated_scale(known, seen, max(1, rounds)))
