"""Simulate noise, and judge many metrics at once; for ci/benchmarks/detection.py and the tests.

:func:`judge` is ``Pairs`` of job/stats/pairs.py for many metrics; ci/tests/unit/test_sequential_promises.py proves that
they agree.
"""

import math
from collections import namedtuple

import numpy as np
from containercheck.job.outputs.evaluation import FAR_OFF, REPLACED_OF
from containercheck.job.stats import boundaries, forecasts
from containercheck.job.stats.boundaries import HORIZON, PRIOR_DEGREES, ROUNDING, rank_boundary, t_boundary
from containercheck.job.stats.pairs import FAIL, INCONCLUSIVE, PASS, TOGETHER, Pairs, Prior

#: Accepted overhead in percent, as most checks have it, and in log scale.
TOLERANCE = 5.0
BOUND = math.log1p(TOLERANCE / 100)
#: Assumed spread of a metric that was never measured, in log scale (earlier_sessions.UNKNOWN_SPREAD).
DEFAULT = 0.20
#: Numbers of the verdicts.
NUMBERS = {PASS: 1, FAIL: -1, INCONCLUSIVE: 0}

#: Verdicts of many metrics: ``verdict`` is 1 (pass), -1 (fail) or 0 (open), ``after`` the rounds it took or 41; both
#: (metrics,). ``asks``, (metrics,), tells which are open because they gain too much.
Judged = namedtuple("Judged", "verdict after asks")
#: The same with replaced rounds: ``after`` counts these too, and is the horizon where a metric is open; ``replaced`` is
#: their number.
Replacing = namedtuple("Replacing", "verdict after replaced")


# Noise: symmetric differences of two runs in log scale, (rounds, metrics).


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


# The verdicts.


def counts(changes, bound):
    """Return the numbers of Walsh averages above and below ``bound`` after each round: two arrays like ``changes``.

    :param changes: (rounds, metrics), in log scale.
    """
    rounds, metrics = changes.shape
    above, below = (np.zeros((rounds, metrics), dtype=np.int16) for _ in range(2))
    # As many metrics at once as fit into the processor's cache.
    for start in range(0, metrics, 4096):
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
    """Return the counts about the tolerance and about no overhead, which are the same for every known spread."""
    return counts(changes, BOUND), counts(changes, 0.0)


def column(boundary, kind, rounds, *facts):
    """Return the boundaries of a test after each round as a column.

    :param facts: number of metrics, and for t the degrees of freedom.
    """
    return np.array([boundary(kind, number, *facts) for number in range(1, rounds + 1)])[:, None]


class Moments:
    """The mean and the moderated spread after each round, (rounds, metrics).

    :param changes: (rounds, metrics), in log scale.
    :param known: the known spread, in log scale, of all or of each.
    :param degrees: its degrees of freedom.
    :ivar assumed: the spread that counts as known after each round.
    """

    def __init__(self, changes, known, degrees=PRIOR_DEGREES):
        """Add them up."""
        number = np.arange(1, len(changes) + 1)[:, None]
        self.mean, squares = np.zeros_like(changes), np.zeros_like(changes)
        mean, total = np.zeros(changes.shape[1]), np.zeros(changes.shape[1])
        for place, change in enumerate(changes):
            # Welford's sums: sums of squares would lose what rounds differ by.
            old, mean = mean, mean + (change - mean) / (place + 1)
            total = total + (change - old) * (change - mean)
            self.mean[place], squares[place] = mean, total
        agrees = squares <= number * (ROUNDING * np.maximum(known, np.abs(self.mean))) ** 2
        limits, least = (
            np.array([limit(rounds) for rounds in range(1, len(changes) + 1)])[:, None]
            for limit in (boundaries.contradicted, boundaries.contradicted_below)
        )
        self.assumed = np.array(np.broadcast_to(known, changes.shape), dtype=float)
        while (wider := squares > limits * self.assumed**2).any():
            self.assumed[wider] *= boundaries.WIDER
        while (closer := ~agrees & (squares < least * self.assumed**2)).any():
            self.assumed[closer] /= boundaries.WIDER
        self._is_known = self.assumed == known
        self._degrees, own = degrees, np.where(self._is_known, degrees, PRIOR_DEGREES)
        scale = np.sqrt((own * self.assumed**2 + squares) / (own + number - 1))
        self._error = scale / np.sqrt(number)

    def margin(self, kind, metrics=1):
        """Return by how much the mean must be off a bound."""
        known, contradicted = (
            column(t_boundary, kind, len(self.mean), metrics, degrees) for degrees in (self._degrees, PRIOR_DEGREES)
        )
        return np.where(self._is_known, known, contradicted) * self._error


def judge(changes, metrics, known=None, averages=None, since=1, together=1, degrees=PRIOR_DEGREES):
    """Return the first verdict of each metric, with the tolerance of 5 %, as :data:`Judged`.

    :param changes: (rounds, metrics), in log scale.
    :param metrics: number of them in one check.
    :param known: the known spread, in log scale, of all or of each; None where none is known.
    :param averages: result of :func:`counted` for the changes, where the caller has it.
    :param since: number of rounds before which there is no verdict, of all or of each.
    :param together: number of metrics for which each one counts.
    :param degrees: degrees of freedom of the known spread.
    """
    rounds = len(changes)
    (above, below), (clear, _) = averages or counted(changes)
    passes = below >= column(rank_boundary, "fail", rounds, together)
    too_slow, not_zero = (
        count >= column(rank_boundary, kind, rounds, metrics * together)
        for count, kind in ((above, "fail"), (clear, "zero"))
    )
    moments = None if known is None else Moments(changes, known, degrees)
    if moments:
        passes |= BOUND - moments.mean >= moments.margin("fail", together)
        too_slow |= moments.mean - BOUND >= moments.margin("fail", metrics * together)
        not_zero |= moments.mean >= moments.margin("zero", metrics * together)
    decided = (passes | (too_slow & not_zero)) & (np.arange(1, rounds + 1)[:, None] >= since)
    first = decided.argmax(axis=0)
    open_ = ~decided.any(axis=0)
    verdict = np.where(open_, 0, np.where(passes[first, np.arange(changes.shape[1])], 1, -1))
    after = np.where(open_, HORIZON + 1, first + 1)
    asks = _ask(changes, metrics, known, verdict, after, degrees)
    return Judged(verdict, after, asks)


def judge_replacing(changes, disturbed, known=None):
    """Return the verdict of each metric by itself, where far-off rounds are replaced, as :data:`Replacing`.

    As ``Evaluation.end_round`` of job/outputs/evaluation.py does it: a metric keeps the verdict that it had before.

    :param changes: (rounds, metrics), in log scale; more than the horizon, as some are replaced.
    :param disturbed: which of them somebody disturbed, (rounds, metrics).
    :param known: the known spread, in log scale; None where none is known.
    """
    events = _replacements(changes, disturbed, known)
    metrics = np.arange(changes.shape[1])
    verdict, ran, replaced = np.zeros(len(metrics), dtype=int), np.full(len(metrics), HORIZON), np.zeros(len(metrics))
    left, since = changes, np.ones(len(metrics))
    while len(metrics):
        already = len(changes) - len(left)
        following = [events[metric][already] if already < len(events[metric]) else None for metric in metrics]
        last = np.array([HORIZON if event is None else event[0] - already for event in following])
        judged = judge(left[:HORIZON], 1, known=known, since=since, together=TOGETHER if already else 1)
        falls = (verdict[metrics] == 0) & (judged.after <= last)
        verdict[metrics[falls]], ran[metrics[falls]] = judged.verdict[falls], judged.after[falls] + already
        goes_on = np.array([event is not None for event in following]) & (verdict[metrics] == 0)
        replaced[metrics[goes_on]] += 1
        columns = [
            np.delete(left[:, place], event[1]) for place, event in enumerate(following) if event and goes_on[place]
        ]
        metrics, left, since = metrics[goes_on], np.array(columns).T, last[goes_on] - 1
    return Replacing(verdict, ran, replaced)


def _replacements(changes, disturbed, known):
    """Return for each metric the replacements: after how many rounds, and which of those that were left."""
    events = [[] for _ in range(changes.shape[1])]
    left = np.zeros(changes.shape, dtype=bool)
    for rounds in range(1, len(changes) + 1):
        left[rounds - 1] = True
        may = disturbed[:rounds] & left[:rounds]
        few = np.array([REPLACED_OF * (len(past) + 1) <= rounds for past in events])
        asked = np.nonzero(may.any(axis=0) & few)[0]
        values = np.where(left[:rounds, asked], changes[:rounds, asked], np.inf)
        distances = abs(values - _medians(values))
        widest = np.maximum(1.4826 * _medians(distances), known or 0.0)
        distances = np.where(may[:, asked], distances, -1.0)
        farthest = distances.argmax(axis=0)
        for place in np.nonzero(distances.max(axis=0, initial=-1.0) > FAR_OFF * widest)[0]:
            metric, index = asked[place], farthest[place]
            events[metric].append((rounds, int(left[:index, metric].sum())))
            left[index, metric] = False
    return events


def _medians(values):
    """Return the median of the finite values of each column."""
    count, ordered = np.isfinite(values).sum(axis=0), np.sort(values, axis=0)
    columns = np.arange(values.shape[1])
    return (ordered[(count - 1) // 2, columns] + ordered[count // 2, columns]) / 2


def _pairs(metrics, spread, degrees):
    """Return the pairs of one metric as the job has them; ``spread`` is the known one, in log scale, or None."""
    prior = None if spread is None else Prior(100 * spread, "simulated", degrees)
    return Pairs("lower", "ratio", -math.inf, TOLERANCE, metrics, prior=prior)


def _ask(changes, metrics, known, verdict, after, degrees):
    """Judge metrics that may gain too much as the job does: they wait. Return which are a question in the end."""
    asks = np.zeros(changes.shape[1], dtype=bool)
    known = None if known is None else np.broadcast_to(known, changes.shape[1])
    for metric in np.nonzero((verdict > 0) & (changes.min(axis=0) < -forecasts.MOST_GAIN * BOUND))[0]:
        if np.median(changes[: after[metric], metric]) >= -BOUND:
            continue
        pairs = _pairs(metrics, None if known is None else known[metric], degrees)
        for change in changes[:, metric]:
            pairs.add(1.0, math.exp(change))
            if pairs.decided_after:
                break
        verdict[metric] = NUMBERS[pairs.verdict]
        after[metric] = HORIZON + 1 if pairs.verdict == INCONCLUSIVE else pairs.decided_after
        asks[metric] = bool(pairs.open_kind and pairs.decided_after)
    return asks
