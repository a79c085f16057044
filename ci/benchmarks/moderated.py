"""Compute the boundaries of the moderated t: how far the mean must lie from a bound, in standard errors.

The standard error is that of known and seen spread together (Smyth 2004, "moderated t"):

    s2 = (d0 s0^2 + (n - 1) s^2) / (d0 + n - 1)        s0 the known spread, s that of the n rounds, d0 = 4
    t  = (mean(d) - bound) / sqrt(s2 / n)

If the variance of a session's rounds is itself drawn about the known one (scaled inverse chi-square with d0 degrees of
freedom), t is Student's with d0 + n - 1. The boundary of a round is at the same tail probability as that of normal
rounds with a known variance, which spends alpha sqrt(n / horizon) over the looks from round 2 on (Lan and DeMets 1983;
the crossing probabilities by numerical integration after Armitage, McPherson and Rowe 1969). For rounds whose spread is
exactly the known one, less is spent: t has lighter tails then.
"""

import math

import numpy as np
from scipy import special

#: Degrees of freedom of the known spread.
PRIOR_DEGREES = 4
#: The first round with a look.
FIRST = 2
#: Probability by chance below which a larger spread of the rounds contradicts the known one.
CONTRADICTION = 0.01
#: Step of the integration, and its width, in standard deviations of a round and of the sum.
STEP, WIDTH = 0.1, 9.0


def normal_boundaries(alpha, horizon):
    """Return the boundaries of normal rounds with a known variance, in standard errors, from round FIRST on."""
    bounds, spent = [], 0.0
    grid = weighted = np.empty(0)
    for rounds in range(FIRST, horizon + 1):
        allowed = alpha * math.sqrt(rounds / horizon)
        first = rounds == FIRST
        bound = -special.ndtri(allowed) * math.sqrt(rounds) if first else _solve(grid, weighted, allowed - spent)
        spent = allowed
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


def boundaries(alpha, horizon):
    """Return the boundaries of t after round 1, 2, ..., rounded up; None where there is no look."""
    row = [None] * (FIRST - 1)
    for rounds, bound in enumerate(normal_boundaries(alpha, horizon), FIRST):
        quantile = -special.stdtrit(PRIOR_DEGREES + rounds - 1, special.ndtr(-bound))
        row.append(math.ceil(1000 * quantile) / 1000)
    return row


def contradicted(horizon):
    """Return the sums of squares, in known variances, that contradict the known spread, after round 1, 2, ..."""
    return [None] + [round(float(special.chdtri(rounds - 1, CONTRADICTION)), 3) for rounds in range(2, horizon + 1)]
