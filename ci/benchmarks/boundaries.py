"""Make checks/containercheck/job/stats/boundaries.json, the boundaries of the sequential verdict.

    python ci/benchmarks/boundaries.py    # about five minutes on one core; git shows what differs

Two tests decide, each with a part of the error probabilities (:data:`SHARES`): the counts of ranks and the moderated
t. The parts add up to more than 1, because it is mostly
the same rounds that would mislead both: detection.py shows what both together come to.

After n rounds the statistic is T(n), the number of pairs of rounds i <= j <= n whose mean (a Walsh average) lies above
a bound: Wilcoxon's signed-rank statistic (Wilcoxon 1945; that it counts Walsh averages is Tukey's, 1949). If the
differences of the rounds lie symmetrically about the bound, their signs are fair coins. An error probability alpha is
spent over the rounds after Lan and DeMets (1983): the boundary at n is the smallest integer for which T has reached a
boundary in one of the rounds up to n with probability at most alpha sqrt(n / 40). It is never smaller than that of a
larger alpha, which error probability that earlier rounds left unspent would sometimes allow.

**Up to round 22 exactly.** T is no Markov chain, but the signs in the order of their sizes are one: the state is a word
of n bits, and the next round inserts a fair bit at a place that is uniform among the n + 1, independent of all before.
The chain has 2^n states, and inserting at place r is an addition of reshaped arrays, so 22 rounds (74 % of alpha is
spent by then) take half a second per row; states that reach the boundary are removed.

**From round 23 on by simulation**, with the exact boundaries before: only what crosses later has a sampling error. It
takes integers from PCG64's raw stream, which NumPy guarantees never to change, so every machine makes the same table.
Each sequence counts as itself and as its mirror image. Rows are filled from as many sequences as their tail needs
(:data:`STAGES`), and the boundary leaves room for twice the standard error.

What is assumed: rounds are independent, symmetric, and **the sizes of the differences come in no order** (they are
exchangeable). A spread that grows from round to round makes T less correlated with what it was and crosses more often:
ci/benchmarks/detection.py has how much.

**The moderated t** is how far the mean lies from a bound, in standard errors of known and seen spread together
(job/stats/boundaries.py). If the variance of a session's rounds is itself drawn about the known one (scaled inverse
chi-square with d0 degrees of freedom), t is Student's with d0 + n - 1. The boundary of a round is at the same tail
probability as that of normal rounds with a known variance, which spends alpha sqrt(n / 40) over the looks from round 2
on (the crossing probabilities by numerical integration after Armitage, McPherson and Rowe 1969). For rounds whose
spread is exactly the known one, less is spent: t has lighter tails then.
"""

import json
import math

import numpy as np
from containercheck.job.contract import PACKAGE
from scipy import special

TABLE = PACKAGE / "job" / "stats" / "boundaries.json"

#: The last round in which a verdict can fall.
HORIZON = 40
#: Error probabilities: of a pass for a metric; of a failure at the tolerance, and at no overhead, for a whole check.
PASS, FAIL, ZERO = 0.05, 0.05, 0.01
#: Parts of each that the two tests may spend. Of all simulated shares (t and ranks 0.3 and 0.7, 0.5 and 0.5, 0.5 and
#: 0.7) these close most: t on quiet nodes, ranks on noisy ones. Together they spend 0.8 of a failure at no overhead
#: and 0.9 of a pass at most, as long as rounds spread no more than is known.
SHARES = {"ranks": 0.82, "t": 0.5}
#: Numbers of metrics that have a row; a number in between takes the next larger row. Above 32: metrics with an expected
#: range count twice.
METRICS = [*range(1, 33), 36, 40, 48, 64, 96, 128]
#: The last round whose boundary is exact.
EXACT = 22
#: (smallest alpha, sequences drawn): rows with at least this alpha are filled from these sequences and their mirrors.
STAGES = ((0.005, 1 << 22), (0.0005, 1 << 25), (0.0, 3 << 25))
SEED = 20831
#: Sequences drawn at once; small enough for the processor's cache.
BLOCK = 1 << 14
#: Degrees of freedom of the known spread.
DEGREES = (4, 8)
#: The first round with a look by t.
FIRST = 2
#: Probability by chance below which a larger spread of the rounds contradicts the known one.
CONTRADICTION, CONTRADICTION_BELOW = 0.01, 0.001
#: Step of the integration, and its width, in standard deviations of a round and of the sum.
STEP, WIDTH = 0.1, 9.0


def spent(alpha, rounds):
    """Return the part of ``alpha`` that may be spent by the round ``rounds``."""
    return alpha * math.sqrt(rounds / HORIZON)


def exact(alpha, floor=(0,) * HORIZON, last=EXACT, spend=spent):
    """Return the boundaries of the rounds 1 to ``last`` and the probability of crossing one of them.

    :param alpha: the error probability to be spent by round 40.
    :param floor: boundaries that must not be undercut.
    :param spend: function of alpha and the round.
    :returns: a list with None where no count is rare enough, and the probability, exact but for rounding.
    """
    alive, crossed, row = np.array([1.0]), 0.0, []
    ranks = np.zeros(1, dtype=np.int32)
    for count in range(1, last + 1):
        grown = np.zeros(1 << count)
        for place in range(count):
            grown.reshape(-1, 2, 1 << place)[...] += alive.reshape(-1, 1, 1 << place)
        grown /= 2 * count
        ranks = np.concatenate([ranks, ranks + count])
        at_least = np.cumsum(np.bincount(ranks, weights=grown)[::-1])[::-1]
        bound = _smallest(crossed + at_least, spend(alpha, count), floor[count - 1])
        row.append(bound)
        if bound is not None:
            crossed += at_least[bound]
            grown[ranks >= bound] = 0.0
        alive = grown
    return row, float(crossed)


def _smallest(crossing, allowed, floor=0):
    """Return the first index from ``floor`` on whose crossing probability is allowed, or None (as where floor is None).

    Room for rounding errors is left.
    """
    places = np.nonzero(crossing <= allowed * (1 - 1e-9))[0]
    return max(int(places[0]), floor) if len(places) and floor is not None else None


def marginal(rounds):
    """Return P(T >= t) for t = 0, 1, ... after ``rounds`` rounds: Wilcoxon's distribution, exact but for rounding."""
    share = np.zeros(rounds * (rounds + 1) // 2 + 1)
    share[0] = 1.0
    for rank in range(1, rounds + 1):
        share[rank:] = (share[rank:] + share[:-rank]) / 2
        share[:rank] /= 2
    return np.cumsum(share[::-1])[::-1]


def sequences(number, seed):
    """Yield the counts T of random sequences, in blocks: arrays of unsigned integers, (HORIZON, BLOCK)."""
    stream = np.random.PCG64(seed)
    above = np.empty(BLOCK, dtype=bool)
    for _ in range(number // BLOCK):
        # Halved, so that sums do not overflow. Two of 40 sizes are equal once in a million sequences.
        signed = stream.random_raw(BLOCK * HORIZON // 2).view(np.int32).reshape(HORIZON, BLOCK) >> 1
        counts = np.zeros((HORIZON, BLOCK), dtype=np.uint16)
        running = np.zeros(BLOCK, dtype=np.uint16)
        for new in range(HORIZON):
            mirrored = -signed[new]
            added = np.zeros(BLOCK, dtype=np.uint8)
            for old in range(new + 1):
                np.greater(signed[old], mirrored, out=above)
                added += above.view(np.uint8)
            running += added
            counts[new] = running
        yield counts


def tails(number, alpha, seed=SEED):
    """Return the counts of all sequences that could cross a boundary of an error probability up to ``alpha``.

    A boundary's own tail is at most what is spent by then, so sequences that never reach such a tail are dropped.

    :returns: unsigned integers, (HORIZON, sequences kept).
    """
    most = [rounds * (rounds + 1) // 2 for rounds in range(1, HORIZON + 1)]
    reach = [_smallest(marginal(rounds), spent(alpha, rounds) * 1.001) for rounds in range(1, HORIZON + 1)]
    limits = np.array([most[i] + 1 if reach[i] is None else reach[i] for i in range(HORIZON)], dtype=np.uint16)
    kept = []
    for counts in sequences(number, seed):
        for drawn in (counts, np.array(most, dtype=np.uint16)[:, None] - counts):
            kept.append(drawn[:, (drawn >= limits[:, None]).any(axis=0)])
    return np.concatenate(kept, axis=1)


def complete(alpha, counts, number, floor=(0,) * HORIZON, last=EXACT, spend=spent):
    """Return the boundaries of all rounds for ``alpha``: exact first, then from the simulated ``counts``.

    :param counts: of the sequences that :func:`tails` kept, out of ``number`` and their mirrors.
    """
    row, before = exact(alpha, floor, last, spend)
    alive = np.ones(counts.shape[1], dtype=bool)
    for index, bound in enumerate(row):
        if bound is not None:
            alive &= counts[index] < bound
    rest = counts[:, alive]
    total, later = 2 * number, 0.0
    for index in range(last, HORIZON):
        size = (index + 1) * (index + 2) // 2 + 1
        at_least = np.cumsum(np.bincount(rest[index], minlength=size)[::-1])[::-1] / total
        crossing = later + at_least
        # Twice the standard error of what was simulated, so that chance does not make the row too bold.
        bound = _smallest(before + crossing + 2 * np.sqrt(crossing / total), spend(alpha, index + 1), floor[index])
        row.append(bound)
        later += at_least[bound]
        rest = rest[:, rest[index] < bound]
    return row


def normal_boundaries(alpha):
    """Return the boundaries of normal rounds with a known variance, in standard errors, from round FIRST on."""
    bounds, before = [], 0.0
    grid = weighted = np.empty(0)
    for rounds in range(FIRST, HORIZON + 1):
        allowed = spent(alpha, rounds)
        first = rounds == FIRST
        bound = -special.ndtri(allowed) * math.sqrt(rounds) if first else _solve(grid, weighted, allowed - before)
        before = allowed
        # The boundary is a point of the grid, where the density of what has not crossed ends.
        cells = int((bound + WIDTH * math.sqrt(rounds)) / STEP) // 2 * 2
        new = bound - STEP * np.arange(cells, -1, -1)
        if first:
            density = np.exp(-(new**2) / 2 / rounds) / math.sqrt(2 * math.pi * rounds)
        else:
            density = np.exp(-((new[:, None] - grid) ** 2) / 2) @ weighted / math.sqrt(2 * math.pi)
        # Simpson's rule.
        simpson = np.full(cells + 1, 2.0)
        simpson[1::2] = 4
        simpson[[0, -1]] = 1
        grid, weighted = new, density * simpson * STEP / 3
        bounds.append(bound / math.sqrt(rounds))
    return bounds


def _solve(grid, weighted, probability):
    """Return the bound that the next sum exceeds with this probability."""
    low, high = grid[-1] - 8, grid[-1] + 12
    for _ in range(60):
        middle = (low + high) / 2
        exceeded = (weighted * special.ndtr(grid - middle)).sum()
        low, high = (middle, high) if exceeded > probability else (low, middle)
    return high


def t_boundaries(alpha, degrees):
    """Return the boundaries of t after round 1, 2, ..., rounded up; None where there is no look.

    :param degrees: of freedom of the known spread.
    """
    row = [None] * (FIRST - 1)
    for rounds, bound in enumerate(normal_boundaries(alpha), FIRST):
        quantile = -special.stdtrit(degrees + rounds - 1, special.ndtr(-bound))
        row.append(math.ceil(1000 * quantile) / 1000)
    return row


def contradicted(chance, digits):
    """Return the sums of squares, in known variances, that exceed this chance, after round 1, 2, ..."""
    return [None] + [round(float(special.chdtri(rounds - 1, chance)), digits) for rounds in range(2, HORIZON + 1)]


def levels(share):
    """Return the error probabilities of the rows for a share of them: of ``pass``, and by metrics of the others."""
    kinds = {"fail": FAIL, "zero": ZERO}
    return share * PASS, {kind: {count: share * alpha / count for count in METRICS} for kind, alpha in kinds.items()}


def make():
    """Return the table that the file holds."""
    passing, failing = levels(SHARES["ranks"])
    needed = sorted({passing, *failing["fail"].values(), *failing["zero"].values()}, reverse=True)
    rows, floor = {}, (0,) * HORIZON
    for stage, (smallest, number) in enumerate(STAGES):
        alphas = [alpha for alpha in needed if alpha >= smallest and alpha not in rows]
        counts = tails(number, max(alphas), SEED + stage)
        for alpha in alphas:
            rows[alpha] = floor = complete(alpha, counts, number, floor)
    return {
        "made_by": "python ci/benchmarks/boundaries.py",
        "meaning": "smallest count of Walsh averages after round 1, 2, ...; null: none is rare enough",
        "horizon": HORIZON,
        "alpha": {"pass": PASS, "fail": FAIL, "zero": ZERO},
        "shares": SHARES,
        "spending": "share alpha sqrt(n / horizon), alpha of fail and zero divided by the number of metrics",
        "exact_to": EXACT,
        "sequences": [2 * number for _, number in STAGES],
        "seed": SEED,
        "pass": rows[passing],
        **{kind: {str(metrics): rows[alpha] for metrics, alpha in row.items()} for kind, row in failing.items()},
        "t_meaning": "smallest moderated t after round 1, 2, ..., by degrees of freedom; null: no look",
        "contradiction": "smallest (n - 1) s^2 / s0^2 with which the known spread s0 is contradicted, after each round",
        "contradicted": contradicted(CONTRADICTION, 3),
        "contradicted_below": [0.0, *contradicted(1 - CONTRADICTION_BELOW, 4)[1:]],
        "t": {str(degrees): t_rows(degrees) for degrees in DEGREES},
    }


def t_rows(degrees):
    """Return the boundaries of t for a known spread with these degrees of freedom, by kind."""
    passing, failing = levels(SHARES["t"])
    return {
        "pass": t_boundaries(passing, degrees),
        **{
            kind: {str(metrics): t_boundaries(alpha, degrees) for metrics, alpha in row.items()}
            for kind, row in failing.items()
        },
    }


def text(table):
    """Return the table as JSON, one line per row."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict) and key not in ("alpha", "shares"):
            lines.append(f"{json.dumps(key)}: {text(value).strip()}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n".join(lines) + "}\n"


def main():
    """Write the table."""
    TABLE.write_text(text(make()))


if __name__ == "__main__":
    main()
