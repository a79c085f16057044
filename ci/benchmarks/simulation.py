"""Noise, and the verdicts on many figures at once: what ci/benchmarks/detection.py and the tests simulate with.

:func:`judge` and :func:`checks` are ``sequential.Pairs`` and ``sequential.more_would_tell`` for many figures;
ci/tests/test_sequential_promises.py proves that they agree.
"""

import math
import sys
import types
from collections import namedtuple
from pathlib import Path

import numpy as np

if "containercheck" not in sys.modules:
    # As containercheck.__main__ does it: the package without its __init__, which needs a running ReFrame.
    _package = types.ModuleType("containercheck")
    _package.__path__ = [str(Path(__file__).resolve().parents[2] / "checks" / "containercheck")]
    sys.modules["containercheck"] = _package

from containercheck.verdict import prospects, sequential  # noqa: E402
from containercheck.verdict.boundaries import HORIZON, boundary  # noqa: E402

#: Accepted overhead in percent, as most checks have it, and in log scale.
TOLERANCE = 5.0
BOUND = math.log1p(TOLERANCE / 100)
#: Rounds of the method with a fixed number.
FIXED = 4

#: Verdicts of many figures: ``verdict`` is 1 (pass), -1 (fail) or 0 (open), ``after`` the rounds it took or 41; both
#: (figures,). ``hopeless``, (rounds, figures), is the property of ``sequential.Pairs`` after each round; None where
#: nobody asked.
Judged = namedtuple("Judged", "verdict after hopeless")
#: Verdicts of many checks, (checks,), the rounds that they ran, (checks,), and the verdicts that their figures had by
#: then, (checks, figures).
Checked = namedtuple("Checked", "verdict rounds figures")


# Noise: symmetric differences of two runs in log scale, (rounds, figures).


def normal(draw, shape):
    """Return normal noise."""
    return draw.standard_normal(shape)


def heavy(draw, shape):
    """Return Student's t with three degrees of freedom, its standard deviation brought to 1."""
    return draw.standard_t(3, shape) / math.sqrt(3)


def two_modes(draw, shape):
    """Return noise of programs whose runs are either fast or slow: their difference has three narrow humps."""
    modes = draw.integers(0, 2, shape) - draw.integers(0, 2, shape)
    return 1.37 * modes + 0.24 * draw.standard_normal(shape)


def wild(draw, shape):
    """Return normal noise with one round in twenty ten times as noisy."""
    return draw.standard_normal(shape) * np.where(draw.random(shape) < 0.05, 10, 1)


def drift(draw, shape):
    """Return normal noise on a machine that gets slower from run to run; who goes first in a round is a coin's."""
    return (draw.standard_normal(shape) + draw.choice([-1.0, 1.0], shape)) / math.sqrt(2)


def growing(draw, shape):
    """Return normal noise whose spread becomes three times as large."""
    return draw.standard_normal(shape) * np.linspace(0.5, 1.5, shape[0])[:, None]


def correlated(draw, shape):
    """Return normal noise of which each round is correlated with the next by 0.3."""
    noise = draw.standard_normal(shape)
    for one in range(1, shape[0]):
        noise[one] = 0.3 * noise[one - 1] + math.sqrt(1 - 0.09) * noise[one]
    return noise


#: Under the first five, all promises must hold; the last two show where they end.
NOISES = {
    "normal": normal,
    "t3": heavy,
    "two modes": two_modes,
    "wild 1 in 20": wild,
    "drift": drift,
    "growing x3 *": growing,
    "correlated .3 *": correlated,
}


# The methods.


def counts(changes, bound):
    """Return how many Walsh averages lie above and below ``bound`` after each round: two arrays like ``changes``.

    :param changes: (rounds, figures), in log scale.
    """
    rounds, figures = changes.shape
    above, below = (np.zeros((rounds, figures), dtype=np.int16) for _ in range(2))
    # As many figures at once as the processor's cache has room for.
    for start in range(0, figures, 4096):
        part = np.ascontiguousarray(changes[:, start : start + 4096]) - bound
        totals = [np.zeros(part.shape[1], dtype=np.int16) for _ in range(2)]
        for new in range(rounds):
            for old in range(new + 1):
                twice = part[old] + part[new]
                totals[0] += twice > 2 * sequential.ROUNDING
                totals[1] += twice < -2 * sequential.ROUNDING
            above[new, start : start + 4096], below[new, start : start + 4096] = totals
    return above, below


def row(kind, rounds, figures=1):
    """Return the boundaries of the rounds as a column; where there is none, a number that no count reaches."""
    found = [boundary(kind, one, figures) for one in range(1, rounds + 1)]
    return np.array([30000 if one is None else one for one in found])[:, None]


def judge(changes, figures, give_up=False):
    """Return the first verdict of each figure, with the tolerance of 5 %, as :data:`Judged`.

    :param changes: (rounds, figures), in log scale.
    :param figures: how many of them are in one check.
    :param give_up: tell which figures are hopeless, too.
    """
    rounds = len(changes)
    above, below = counts(changes, BOUND)
    clear, _ = counts(changes, 0.0)
    passes = below >= row("pass", rounds)
    fails = (above >= row("fail", rounds, figures)) & (clear >= row("zero", rounds, figures))
    decided = passes | fails
    first = decided.argmax(axis=0)
    each = np.arange(changes.shape[1])
    open_ = ~decided.any(axis=0)
    verdict = np.where(open_, 0, np.where(passes[first, each], 1, -1))
    after = np.where(open_, HORIZON + 1, first + 1)
    return Judged(verdict, after, _hopeless(changes, figures, after) if give_up else None)


def _hopeless(changes, figures, after):
    """Return :attr:`Judged.hopeless`."""
    hopeless = np.zeros(changes.shape, dtype=bool)
    reach = {kind: _gap(boundary(kind, HORIZON, figures)) for kind in ("pass", "fail", "zero")}
    for rounds in range(prospects.PATIENCE, len(changes) + 1):
        asked = np.nonzero(after > rounds)[0]
        seen = np.sort(changes[:rounds, asked].T, axis=1)
        centre = (seen[:, (rounds - 1) // 2] + seen[:, rounds // 2]) / 2
        sizes = np.sort(abs(seen - centre[:, None]), axis=1)
        scale = 1.4826 * (sizes[:, (rounds - 1) // 2] + sizes[:, rounds // 2]) / 2
        favour = prospects.FAVOUR * 1.2533 * scale / math.sqrt(rounds)
        passes = BOUND - centre + favour >= reach["pass"] * scale
        fails = (centre - BOUND + favour >= reach["fail"] * scale) & (centre + favour >= reach["zero"] * scale)
        hopeless[rounds - 1, asked] = ~(passes | fails) | (rounds == HORIZON)
    return hopeless


def _gap(bound):
    """Return by how many standard deviations the centre must be off for the expected count to reach ``bound``."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if prospects.expected_count(middle, 1.0, HORIZON) >= bound else (middle, high)
    return high


def checks(judged, figures):
    """Return what comes of whole checks of so many figures each, as :data:`Checked`.

    A check ends as ``sequential.more_would_tell`` says.
    """
    verdict, after = (one.reshape(-1, figures) for one in judged[:2])
    hopeless = judged.hopeless.reshape(len(judged.hopeless), -1, figures)
    ended = after.min(axis=1, initial=len(hopeless), where=verdict < 0)
    for rounds in range(len(hopeless), 0, -1):
        ended[(hopeless[rounds - 1] | (after <= rounds)).all(axis=1) & (ended > rounds)] = rounds
    seen = np.where(after <= ended[:, None], verdict, 0)
    return Checked(np.where((seen < 0).any(axis=1), -1, np.where((seen > 0).all(axis=1), 1, 0)), ended, seen)


def student(changes, figures):
    """Return the verdicts of the method with four rounds: 1, -1 or 0, (figures,)."""
    seen = changes[:FIXED]
    mean, error = seen.mean(axis=0), seen.std(axis=0, ddof=1) / math.sqrt(FIXED)
    low = mean - quantile(1 - 0.025 / figures, FIXED - 1) * error
    return np.where(mean + quantile(0.975, FIXED - 1) * error <= BOUND, 1, np.where(low > BOUND, -1, 0))


def quantile(probability, degrees):
    """Return the quantile of Student's t, by integrating its density after t = sqrt(degrees) tan(angle)."""
    angles = np.linspace(0.0, math.pi / 2, 20001)
    area = np.cumsum(np.cos(angles) ** (degrees - 1))
    return math.sqrt(degrees) * math.tan(np.interp((probability - 0.5) * 2, area / area[-1], angles))


def plain(changes):
    """Return the verdicts of one run of the subject against a perfect reference: 1 or -1, (figures,).

    Half of the variance of the difference is the subject's.
    """
    return np.where(changes[0] > -math.log1p(-TOLERANCE / 100), -1, 1)
