"""Paired rounds for the tests of the sequential verdict, and the scripts that simulate it."""

from __future__ import annotations

import math
import random

from containercheck.job.stats.pairs import HORIZON, Pairs

NONE = -math.inf


def judged(rounds, better="lower", compare="ratio", lowest=NONE, highest=5.0, metrics=1, **more) -> Pairs:
    """Return the verdict on these rounds, a baseline and a subject each."""
    pairs = Pairs(better, compare, lowest, highest, metrics, **more)
    for baseline, subject in rounds:
        pairs.add(baseline, subject)
    return pairs


def ratios(*values):
    """Return rounds whose subject takes so many times what the baseline takes."""
    return [(100.0, 100.0 * value) for value in values]


#: Rounds that spread so much that no number of them gives a verdict.
WILD = ratios(*[1.0, 4.0, 0.26, 1.1, 5.0, 0.2] * 5)


def noisy(overhead, spread, rounds=HORIZON, seed=1):
    """Return rounds of an overhead in percent, with normal noise of that spread in log scale."""
    source = random.Random(seed)
    return ratios(*((1 + overhead / 100) * math.exp(source.gauss(0, spread)) for _ in range(rounds)))
