"""Show by simulation what the sequential verdict promises and finds.

    python ci/benchmarks/detection.py [--quick]

Prints tables: false failures and false passes under nine kinds of noise; the smallest slowdown that is found in 95 of
100 within so many rounds; and which failures the confirmation in the same job keeps. Tests have the metrics that a
failing check names, and rounds that are replaced.

The verdict takes the spread of a metric as known beforehand (:data:`PRIORS`): as it is, half of it, twice of it, or not
at all (the default, which is wide); and **ranks** is without any known spread, by signed ranks alone.
"""

import argparse
import math
import time

import numpy as np
from containercheck.job.confirmation import FEWEST
from containercheck.job.stats import boundaries
from simulation import BOUND, DEFAULT, HORIZON, NOISES, counted, judge, normal

#: Standard deviations of the difference of two runs, in log scale.
SPREADS = (0.01, 0.015, 0.03, 0.06, 0.12)
#: Without overhead, the worst case for a false failure is a spread beside which any tolerance is nothing.
ENORMOUS = 0.5
#: How often a slowdown must be found.
FOUND = 0.95
#: Known spreads by the name of their rule: a function of the true one, in log scale; None where nothing is known.
PRIORS = {
    "ranks": lambda spread: None,
    "known": lambda spread: spread,
    "half": lambda spread: spread / 2,
    "double": lambda spread: 2 * spread,
    "absent": lambda spread: DEFAULT,
}
#: Rounds within which slowdowns are found.
WITHIN = (2, 3, 4, 6, 8, 12, 20, 40)
METRICS = (1, 4, 14)
#: Of all samples.
SEED = 1


def percent(which):
    """Return the share of true values, in percent."""
    return 100 * float(np.mean(which))


def false_verdicts(number):
    """Print false failures per check and false passes per metric.

    :param number: metrics per cell.
    """
    print(f"\nFalse verdicts in percent, {number} metrics per cell (* shown, not promised; so is `half`)")
    print("Promised: a check fails in 1 % without overhead, in 5 % at the tolerance; a metric passes there in 5 %.")
    print(f"Without overhead the spread is {100 * ENORMOUS:g} %, at the tolerance 6 %; F metrics in a check.")
    header = f"{'':16}{'rule':8}{'fail, no overhead':>18}{'fail at tolerance':>18}{'pass':>6}"
    print(f"{header}\n{'F =':24}" + 2 * "".join(f"{metrics:6}" for metrics in METRICS))
    for name, noise in NOISES.items():
        sample = noise(np.random.default_rng(SEED), (HORIZON, number))
        lines = {rule: [] for rule in PRIORS}
        passes = {}
        for centre, spread in ((0.0, ENORMOUS), (BOUND, 0.06)):
            for together in METRICS:
                changes = centre + spread * sample[:, : number // together * together]
                averages = counted(changes)
                for rule, known in PRIORS.items():
                    verdict = judge(changes, together, known=known(spread), averages=averages).verdict
                    lines[rule].append(percent((verdict.reshape(-1, together) < 0).any(axis=1)))
                    if (centre, together) == (BOUND, 1):
                        passes[rule] = percent(verdict > 0)
        for place, (rule, cells) in enumerate(lines.items()):
            line = "".join(f"{cell:6.2f}" for cell in [*cells, passes[rule]])
            print(f"{'' if place else name:16}{rule:8}{line}", flush=True)


def slowdown_found(noise, metrics, known, most=20.0):
    """Return the smallest slowdown in percent for which 95 of 100 metrics fail; infinite if there is none.

    :param noise: changes without overhead, in log scale.
    :param metrics: number of metrics in a check.
    :param known: the known spread, in log scale.
    :param most: the largest factor - 1 that is tried.
    """

    def is_found(change):
        return np.mean(judge(noise + change, metrics, known=known).verdict < 0) >= FOUND

    low, high = 0.0, math.log1p(most)
    if not is_found(high):
        return math.inf
    while high - low > 0.0005 + 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return 100 * math.expm1(high)


def shown(value, width=8):
    """Return a slowdown to read; a dash where none is found."""
    return f"{'-':>{width}}" if math.isinf(value) else f"{value:{width}.{1 if value < 100 else 0}f}"


def two_phases(number):
    """Print how many checks fail in the first phase of a job, and how many of these failures its second phase keeps.

    The second phase has fresh rounds, as many as the first took but two at least; it keeps what it does not refute
    (job/confirmation.py). Of a slowdown that is sure, none may be refuted.

    :param number: metrics per cell.
    """
    print(f"\nBoth phases, F = 1, the spread known, {number} metrics per cell, percent: failed at first, and kept")
    cases = {
        "no overhead, 50 %": (0.0, ENORMOUS),
        "at tolerance, 6 %": (BOUND, 0.06),
        "+10 %, 3 %": (math.log(1.1), 0.03),
        "+20 %, 6 %": (math.log(1.2), 0.06),
        "+75 %, 20 %": (math.log(1.75), 0.2),
    }
    print(f"{'noise':16}" + "".join(f"{case:>22}" for case in cases))
    for name, noise in NOISES.items():
        draw, cells = np.random.default_rng(SEED), []
        for centre, spread in cases.values():
            first = judge(centre + spread * noise(draw, (HORIZON, number)), 1, known=spread)
            failed = first.verdict < 0
            fresh = centre + spread * noise(draw, (HORIZON, number))[:, failed]
            kept = ~refuted(fresh, np.maximum(2, first.after[failed]), spread)
            cells.append(f"{percent(failed):7.2f} {percent(failed) * float(np.mean(kept)) if len(kept) else 0.0:7.2f}")
        print(f"{name:16}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def refuted(fresh, rounds, spread):
    """Return which failures fresh rounds speak against.

    :param fresh: (rounds, metrics), in log scale.
    :param rounds: number of them for which there is time, (metrics,).
    :param spread: the known spread.
    """
    judged = judge(fresh, 1, known=spread)
    centres = np.array([boundaries.centre(list(each[:count])) for each, count in zip(fresh.T, rounds)])
    is_within = (rounds >= FEWEST) & (centres <= BOUND) if len(centres) else np.zeros(0, dtype=bool)
    return np.where((judged.after <= rounds) & (judged.verdict != 0), judged.verdict > 0, is_within)


def found(number):
    """Print the smallest slowdowns that are found within numbers of rounds."""
    print(f"\nSmallest slowdown (%) found in 95 of 100, tolerance 5 %, normal noise, {number} metrics per cell")
    print(f"{'spread':8}{'F':>4} {'rule':10}" + "".join(f"{f'n={rounds}':>8}" for rounds in WITHIN))
    for spread in SPREADS:
        noise = spread * normal(np.random.default_rng(SEED), (HORIZON, number))
        for metrics in (1, 14):
            for rule, known in PRIORS.items():
                cells = [shown(slowdown_found(noise[:rounds], metrics, known(spread))) for rounds in WITHIN]
                print(f"{100 * spread:<8g}{metrics:4} {rule:10}" + "".join(cells), flush=True)


def main():
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples: some minutes")
    options = parser.parse_args()
    began = time.monotonic()
    false_verdicts(14_000 if options.quick else 140_000)
    two_phases(14_000 if options.quick else 140_000)
    found(700 if options.quick else 5600)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
