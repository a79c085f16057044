"""Tell how far rounds must lie from a bound: the boundaries of both tests, and the moderated t.

``boundaries.json`` has the boundaries after each round; ci/benchmarks/boundaries.py makes it. The moderated t is by how
much the mean of the rounds lies from a bound, with what is known of their spread beforehand:

    s2 = (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1)        s0 the known spread, s that of the n rounds, d0 = 4
    t  = (mean(d) - bound) / sqrt(s2 / n)

(G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments", SAGMB 3, 2004.) It is used from round 2 on. Where the rounds spread so much more than is known that
chance would do it in one of a hundred, three times as much counts as known, or nine times, and so on. Simulated, with
(without) that: where rounds spread ten times as much as is known, 8.5 (11.7) % fail falsely without overhead, and 15
(20) % at the tolerance; twice as much, 7.2 (7.8) % at the tolerance.

Standard library only, Python 3.6 or newer.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 has no list[float]

import json
import math
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "boundaries.json")) as _file:
    _TABLE: Dict[str, Any] = json.load(_file)

#: The first and the last round in which a verdict can fall.
FEWEST = 2
HORIZON: int = _TABLE["horizon"]
#: Degrees of freedom of a known spread.
PRIOR_DEGREES: int = _TABLE["prior_degrees"]
#: The numbers of metrics that have a row in the table.
_ROWS: List[int] = sorted(int(metrics) for metrics in _TABLE["fail"])
#: Factor for a known spread that the rounds contradict. Simulated (ci/benchmark detection): with 4, false verdicts
#: are as rare as by ranks alone where rounds spread up to twice as much as is known; with 2, more fail falsely.
WIDER = 3.0


def rank_boundary(kind: str, rounds: int, metrics: int = 1) -> float:
    """Return the count of Walsh averages that must be reached after ``rounds`` rounds; infinite where none is enough.

    Beyond the table, where there are no verdicts, it is the same part of all Walsh averages as in the last round: more
    than is needed.

    :param kind: ``pass``, ``fail`` or ``zero``.
    :param metrics: number of metrics that are judged together; ``pass`` does not depend on it.
    :raises ValueError: more metrics than the table has.
    """
    bound = _at(_row(kind, metrics), min(rounds, HORIZON))
    return bound if rounds <= HORIZON else math.ceil(bound * averages(rounds) / averages(HORIZON))


def t_boundary(kind: str, rounds: int, metrics: int = 1) -> float:
    """Return the moderated t that must be reached after ``rounds`` rounds; infinite where none is enough.

    :param kind, metrics: see :func:`rank_boundary`.
    :raises ValueError: more metrics than the table has.
    """
    return _at(_row("t_" + kind, metrics), rounds)


def contradicted(rounds: int) -> float:
    """Return the sum of squared deviations, in known variances, from which on the known spread is contradicted."""
    return _at(_TABLE["contradicted"], min(rounds, HORIZON))


def averages(rounds: int) -> int:
    """Return the number of Walsh averages of this many rounds."""
    return rounds * (rounds + 1) // 2


def _row(kind: str, metrics: int) -> List[Optional[float]]:
    if kind.endswith("pass"):
        return _TABLE[kind]
    rows = [row for row in _ROWS if row >= metrics]
    if metrics < 1 or not rows:
        raise ValueError(f"{metrics} metrics: the table has rows for 1 to {_ROWS[-1]}")
    return _TABLE[kind][str(rows[0])]


def _at(row: List[Optional[float]], rounds: int) -> float:
    bound = row[rounds - 1] if 0 < rounds <= len(row) else None
    return math.inf if bound is None else bound


def moderated_scale(known_spread: float, scale: float, rounds: int) -> float:
    """Return the standard deviation that follows from known and seen spread after this many rounds."""
    degrees = PRIOR_DEGREES + rounds - 1
    return math.sqrt((PRIOR_DEGREES * known_spread * known_spread + (rounds - 1) * scale * scale) / degrees)


class Moderated(NamedTuple):
    """The mean and the moderated spread of rounds.

    :ivar rounds: their number.
    :ivar mean: of d.
    :ivar assumed: the known spread of d, or the next multiple of it that the rounds do not contradict; None where
        nothing is known.
    :ivar scale: standard deviation of d that follows from known and seen spread; None where nothing is known.
    """

    rounds: int
    mean: float
    assumed: Optional[float]
    scale: Optional[float]

    def margin(self, kind: str, metrics: int) -> float:
        """Return by how much the mean must be off a bound for t to reach a boundary; infinite where none is enough.

        :param kind, metrics: see :func:`rank_boundary`.
        """
        critical = t_boundary(kind, self.rounds, metrics)
        if self.scale is None or math.isinf(critical):
            return math.inf
        return critical * self.scale / math.sqrt(self.rounds)


def moderate(changes: Sequence[float], known_spread: Optional[float]) -> Moderated:
    """Return mean and moderated spread of rounds.

    :param changes: d of each round.
    :param known_spread: known standard deviation of d; None where none is known.
    """
    rounds = len(changes)
    mean = math.fsum(changes) / max(1, rounds)
    squares = sum((change - mean) * (change - mean) for change in changes)
    if known_spread is None or not squares < math.inf:
        return Moderated(rounds, mean, None, None)
    assumed = known_spread
    while squares > contradicted(rounds) * assumed * assumed:
        assumed *= WIDER
    seen = math.sqrt(squares / max(1, rounds - 1))
    return Moderated(rounds, mean, assumed, moderated_scale(assumed, seen, max(1, rounds)))
