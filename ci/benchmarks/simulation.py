"""Simulate noise, and judge many figures at once; for ci/benchmarks/detection.py and the tests.

:func:`judge` and :func:`checks` are ``sequential.Pairs`` and ``together.more_would_tell`` for many figures;
ci/tests/unit/test_sequential_promises.py proves that they agree.
"""

import json
import math
from collections import namedtuple
from pathlib import Path

import numpy as np
from containercheck.node.stats import boundaries, moderated, openness, prospects, sequential, together
from containercheck.node.stats.boundaries import HORIZON, PRIOR_DEGREES, boundary, critical
from containercheck.node.stats.prior import Prior
from containercheck.node.stats.scale import ROUNDING

#: Accepted overhead in percent, as most checks have it, and in log scale.
TOLERANCE = 5.0
BOUND = math.log1p(TOLERANCE / 100)
#: Assumed spread of a figure that was never measured, in log scale (priors.UNKNOWN_SPREAD, which needs ReFrame).
DEFAULT = 0.20
#: Number of rounds of the method with a fixed number.
FIXED = 4

#: The boundaries of the rule before the moderated t: ranks with the whole error probability, for 1, 4 and 14 figures.
RANKS_ALONE = json.loads(Path(__file__).with_name("ranks_alone.json").read_text())

#: Verdicts of many figures: ``verdict`` is 1 (pass), -1 (fail) or 0 (open), ``after`` the rounds it took or 41; both
#: (figures,). ``hopeless``, (rounds, figures), is the property of ``sequential.Pairs`` after each round; None where
#: it was not asked for. ``asks``, (figures,), tells which are open because they gain too much.
Judged = namedtuple("Judged", "verdict after hopeless asks")
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
    """Return normal noise on a machine that gets slower from run to run; the order of the sides is random."""
    return (draw.standard_normal(shape) + draw.choice([-1.0, 1.0], shape)) / math.sqrt(2)


def sticky_modes(draw, shape):
    """Return noise of programs that are fast or slow for some runs on end; the order of the sides is random."""
    changed = (draw.random(shape) < 0.2) * draw.choice([-1.0, 1.0], shape)
    return (1.37 * changed + 0.24 * draw.standard_normal(shape)) / math.sqrt(0.2 * 1.37**2 + 0.24**2)


def two_points(draw, shape):
    """Return noise that is always as large: the first rounds say nothing of their spread where they agree."""
    return draw.choice([-1.0, 1.0], shape)


def growing(draw, shape):
    """Return normal noise whose spread becomes three times as large."""
    return draw.standard_normal(shape) * np.linspace(0.5, 1.5, shape[0])[:, None]


def correlated(draw, shape):
    """Return normal noise of which each round is correlated with the next by 0.3."""
    noise = draw.standard_normal(shape)
    for rounds in range(1, shape[0]):
        noise[rounds] = 0.3 * noise[rounds - 1] + math.sqrt(1 - 0.09) * noise[rounds]
    return noise


#: Kinds of noise. For those without a star all promises must hold; the others show where the promises end.
NOISES = {
    "normal": normal,
    "t3": heavy,
    "two modes": two_modes,
    "wild 1 in 20": wild,
    "drift": drift,
    "sticky modes": sticky_modes,
    "two points": two_points,
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
    # As many figures at once as fit into the processor's cache.
    for start in range(0, figures, 4096):
        part = np.ascontiguousarray(changes[:, start : start + 4096]) - bound
        totals = [np.zeros(part.shape[1], dtype=np.int16) for _ in range(2)]
        for new in range(rounds):
            for old in range(new + 1):
                twice = part[old] + part[new]
                totals[0] += twice > 2 * ROUNDING
                totals[1] += twice < -2 * ROUNDING
            above[new, start : start + 4096], below[new, start : start + 4096] = totals
    return above, below


def counted(changes):
    """Return the counts about the tolerance and about no overhead, which are the same for every rule."""
    return counts(changes, BOUND), counts(changes, 0.0)


def row(kind, rounds, figures=1, alone=False):
    """Return the boundaries of the rounds as a column; where there is none, a number that no count reaches.

    :param alone: those of the rule before the moderated t.
    """
    if alone:
        bounds = (RANKS_ALONE[kind] if kind == "pass" else RANKS_ALONE[kind][str(figures)])[:rounds]
    else:
        bounds = [boundary(kind, number, figures) for number in range(1, rounds + 1)]
    return np.array([30000 if bound is None else bound for bound in bounds])[:, None]


class Moments:
    """The mean and the moderated spread after each round, (rounds, figures).

    :param changes: (rounds, figures), in log scale.
    :param known: the known spread, in log scale, of all or of each.
    :ivar assumed: what counts as known after each round.
    """

    def __init__(self, changes, known):
        """Add them up."""
        number = np.arange(1, len(changes) + 1)[:, None]
        self.mean = np.cumsum(changes, axis=0) / number
        squares = np.maximum(np.cumsum(changes**2, axis=0) - number * self.mean**2, 0)
        limits = np.array([boundaries.contradicted(rounds) for rounds in range(1, len(changes) + 1)])[:, None]
        self.assumed = np.array(np.broadcast_to(known, changes.shape), dtype=float)
        while (wider := squares > limits * self.assumed**2).any():
            self.assumed[wider] *= moderated.WIDER
        self.scale = np.sqrt((PRIOR_DEGREES * self.assumed**2 + squares) / (PRIOR_DEGREES + number - 1))
        self._error = self.scale / np.sqrt(number)

    def margin(self, kind, figures=1):
        """Return by how much the mean must be off a bound."""
        bounds = [critical(kind, rounds, figures) for rounds in range(1, len(self.mean) + 1)]
        return np.array([math.inf if bound is None else bound for bound in bounds])[:, None] * self._error


def judge(changes, figures, give_up=False, known=None, alone=False, averages=None):
    """Return the first verdict of each figure, with the tolerance of 5 %, as :data:`Judged`.

    :param changes: (rounds, figures), in log scale.
    :param figures: how many of them are in one check.
    :param give_up: tell which figures are hopeless, too.
    :param known: the known spread, in log scale, of all or of each; None where none is known.
    :param alone: by the rule before the moderated t: ranks with the whole error probability.
    :param averages: what :func:`counted` returns for the changes, where the caller has it.
    """
    rounds = len(changes)
    (above, below), (clear, _) = averages or counted(changes)
    passes = below >= row("pass", rounds, alone=alone)
    too_slow, not_zero = (above >= row("fail", rounds, figures, alone)), (clear >= row("zero", rounds, figures, alone))
    moments = None if known is None or alone else Moments(changes, known)
    if moments:
        passes |= BOUND - moments.mean >= moments.margin("pass")
        too_slow |= moments.mean - BOUND >= moments.margin("fail", figures)
        not_zero |= moments.mean >= moments.margin("zero", figures)
    fails = too_slow & not_zero
    decided = passes | fails
    first = decided.argmax(axis=0)
    each = np.arange(changes.shape[1])
    open_ = ~decided.any(axis=0)
    verdict = np.where(open_, 0, np.where(passes[first, each], 1, -1))
    after = np.where(open_, HORIZON + 1, first + 1)
    asked = np.full(changes.shape[1], HORIZON + 1)
    if not alone:
        _ask(changes, figures, known, verdict, after, asked)
    hopeless = _hopeless(changes, figures, after, moments, alone) if give_up else None
    if give_up:
        hopeless |= np.arange(1, rounds + 1)[:, None] >= asked
    return Judged(verdict, after, hopeless, asked <= HORIZON)


def _ask(changes, figures, known, verdict, after, asked):
    """Judge figures that may gain too much as the job does: they wait, and may be a question in the end."""
    known = None if known is None else np.broadcast_to(known, changes.shape[1])
    for figure in np.nonzero((verdict > 0) & (changes.min(axis=0) < -openness.MOST_GAIN * BOUND))[0]:
        if np.median(changes[: after[figure], figure]) >= -BOUND:
            continue
        prior = None if known is None else Prior(100 * known[figure], "simulated")
        pairs = sequential.Pairs("lower", "ratio", -math.inf, TOLERANCE, figures, prior=prior)
        for change in changes[:, figure]:
            pairs.add(1.0, math.exp(change))
        verdict[figure] = {"pass": 1, "fail": -1}.get(pairs.verdict, 0)
        after[figure] = HORIZON + 1 if pairs.verdict == sequential.INCONCLUSIVE else pairs.decided_after
        asked[figure] = pairs.decided_after if pairs.open_kind and pairs.decided_after else HORIZON + 1


def _hopeless(changes, figures, after, moments, alone):
    """Return :attr:`Judged.hopeless`."""
    hopeless = np.zeros(changes.shape, dtype=bool)
    kinds = ("pass", "fail", "zero")
    reach = {kind: _gap(int(row(kind, HORIZON, 1 if kind == "pass" else figures, alone)[-1, 0])) for kind in kinds}
    for rounds in range(prospects.PATIENCE, len(changes) + 1):
        asked = np.nonzero(after > rounds)[0]
        seen = np.sort(changes[:rounds, asked].T, axis=1)
        centre = (seen[:, (rounds - 1) // 2] + seen[:, rounds // 2]) / 2
        sizes = np.sort(abs(seen - centre[:, None]), axis=1)
        scale = 1.4826 * (sizes[:, (rounds - 1) // 2] + sizes[:, rounds // 2]) / 2
        favour = prospects.FAVOUR * 1.2533 * scale / math.sqrt(rounds)
        gaps = {"pass": BOUND - centre + favour, "fail": centre - BOUND + favour, "zero": centre + favour}
        reached = {kind: gaps[kind] >= reach[kind] * scale for kind in kinds}
        if moments:
            known = moments.assumed[rounds - 1, asked]
            both = np.sqrt((PRIOR_DEGREES * known**2 + (HORIZON - 1) * scale**2) / (PRIOR_DEGREES + HORIZON - 1))
            error = both / math.sqrt(HORIZON)
            for kind in kinds:
                reached[kind] |= gaps[kind] >= critical(kind, HORIZON, figures) * error
        hopeless[rounds - 1, asked] = ~(reached["pass"] | (reached["fail"] & reached["zero"])) | (rounds == HORIZON)
    return hopeless


def _gap(bound):
    """Return by how many standard deviations the centre must be off for the expected count to reach ``bound``."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if prospects.expected_count(middle, 1.0, HORIZON) >= bound else (middle, high)
    return high


def checks(judged, figures, changes=None, known=None):
    """Return the verdicts of whole checks of ``figures`` figures each, as :data:`Checked`.

    A check ends as ``together.more_would_tell`` says.

    :param changes: what was judged, (rounds, figures), in log scale. Without it a check ends with its first failure,
        as it did by the rules before; with it, its other figures are named, too.
    :param known: the known spread, as in :func:`judge`.
    """
    verdict, after = (values.reshape(-1, figures) for values in judged[:2])
    hopeless = judged.hopeless.reshape(len(judged.hopeless), -1, figures)
    ended = after.min(axis=1, initial=len(hopeless), where=verdict < 0)
    for rounds in range(len(hopeless), 0, -1):
        ended[(hopeless[rounds - 1] | (after <= rounds)).all(axis=1) & (ended > rounds)] = rounds
    seen = np.where(after <= ended[:, None], verdict, 0)
    failed = (seen < 0).any(axis=1)
    if changes is not None:
        known = None if known is None else np.broadcast_to(known, changes.shape[1]).reshape(-1, figures)
        for check in np.nonzero(failed)[0]:
            its_changes = changes.reshape(len(changes), -1, figures)[:, check]
            seen[check], ended[check] = _as_the_job_does(its_changes, None if known is None else known[check])
    return Checked(np.where(failed, -1, np.where((seen > 0).all(axis=1), 1, 0)), ended, seen)


def _as_the_job_does(changes, known):
    """Return the verdicts of a check's figures, and its rounds.

    :param changes: of its figures, (rounds, figures).
    :param known: of each, the known spread; None for none.
    """
    figures = changes.shape[1]
    priors = [None] * figures if known is None else [Prior(100 * spread, "simulated") for spread in known]
    pairs = [sequential.Pairs("lower", "ratio", -math.inf, TOLERANCE, figures, prior=prior) for prior in priors]
    rounds = 0
    while rounds < len(changes) and together.more_would_tell(pairs, rounds):
        for figure, change in zip(pairs, changes[rounds]):
            figure.add(1.0, math.exp(change))
        together.step_down(pairs)
        rounds += 1
    numbers = {sequential.PASS: 1, sequential.FAIL: -1}
    return [numbers.get(figure.verdict, 0) for figure in pairs], rounds


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
