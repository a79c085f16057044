"""Shows by simulation what the sequential verdict promises and what it finds, beside the methods that it replaced.

    python ci/benchmarks/detection.py [--quick] [--rounds DIR]

Prints tables: false failures and false passes under seven kinds of noise; the smallest slowdown that is found in 95 of
100 and the rounds that takes; how many pass without overhead. ``--rounds DIR`` adds the same for real rounds of a
program against itself (JSON files: a list of runs with ``round``, ``side`` and ``figures``), drawn with replacement.

Beside it, on the same samples: **fixed** is four rounds and Student's paired interval, a failure at 1 - 0.05 / figures
(what the library did before), and **plain** is ReFrame's practice, one run that must be within 5 % of a stored
reference, which is taken to be perfect.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import numpy as np
from simulation import BOUND, FIXED, HORIZON, NOISES, TOLERANCE, checks, judge, normal, plain, sequential, student

#: Standard deviations of the difference of two runs, in log scale.
SPREADS = (0.015, 0.03, 0.06, 0.12)
#: Without overhead, the worst case for a false failure is a spread beside which any tolerance is nothing.
ENORMOUS = 0.5
#: How often a slowdown must be found.
FOUND = 0.95


def percent(which):
    """Return the share of true values, in percent."""
    return 100 * float(np.mean(which))


def shares(verdicts, rounds=None):
    """Return how many passed, are open, and failed, in percent, and the mean of the rounds, as part of a line."""
    cells = f"{percent(verdicts > 0):8.1f}{percent(verdicts == 0):6.1f}{percent(verdicts < 0):6.2f}"
    return cells + (6 * " " if rounds is None else f"{np.mean(rounds):6.1f}")


def false_verdicts(number, seed):
    """Print false failures per check and false passes per figure.

    :param number: figures per cell.
    """
    print(f"\nFalse verdicts in percent, {number} figures per cell (* shown, not promised)")
    print("Promised: a check fails in 1 % without overhead, in 5 % at the tolerance; a figure passes there in 5 %.")
    print(f"{'':18}{'fail, no overhead':>18}{'fail at tolerance':>18}{'pass':>6}   fixed: the same")
    figures = (1, 4, 14)
    print(f"{'F =':18}{'1':>6}{'4':>6}{'14':>6}{'1':>6}{'4':>6}{'14':>6}{'':6}")
    for name, noise in NOISES.items():
        draw = np.random.default_rng(seed)
        cells, before = [], []
        sample = noise(draw, (HORIZON, number))
        for centre, spread in ((0.0, ENORMOUS), (BOUND, 0.015)):
            for together in figures:
                many = number // together * together
                changes = centre + spread * sample[:, :many]
                for verdicts, target in (
                    (judge(changes, together).verdict, cells),
                    (student(changes, together), before),
                ):
                    target.append(percent((verdicts.reshape(-1, together) < 0).any(axis=1)))
        passed = BOUND + 0.015 * sample
        cells.append(percent(judge(passed, 1).verdict > 0))
        before.append(percent(student(passed, 1) > 0))
        print(f"{name:18}" + "".join(f"{one:6.2f}" for one in cells) + "  " + "".join(f"{one:6.2f}" for one in before))


def slowdown_found(noise, fails, most=20.0):
    """Return the smallest slowdown in percent with which ``fails`` is true for 95 in 100; infinite if none is.

    :param noise: changes without overhead, in log scale.
    :param fails: function of the changes, to (figures,) of bool.
    :param most: the largest factor - 1 that is tried.
    """
    low, high = 0.0, math.log1p(most)
    if np.mean(fails(noise + high)) < FOUND:
        return math.inf
    while high - low > 0.0005 + 0.005 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if np.mean(fails(noise + middle)) >= FOUND else (middle, high)
    return 100 * math.expm1(high)


def fails_within(rounds, figures):
    """Return a function that tells which figures fail within so many rounds, and are not given up before."""

    def fails(changes):
        return checks(judge(changes[:rounds], figures, give_up=True), 1).verdict < 0

    return fails


def found(number, seed):
    """Print the smallest slowdowns that are found, and what no overhead takes."""
    print(f"\nSmallest slowdown (%) found in 95 of 100, tolerance 5 %, normal noise, {number} figures per cell")
    print(f"{'spread of pairs':34}" + "".join(f"{100 * one:>8g}" for one in SPREADS))
    noises = [spread * normal(np.random.default_rng(seed), (HORIZON, number)) for spread in SPREADS]
    for figures in (1, 14):
        results = {f"within {rounds:2} rounds, F = {figures}": [] for rounds in (8, 12, 20, 40)}
        for key, values in results.items():
            values += [slowdown_found(one, fails_within(int(key.split()[1]), figures)) for one in noises]
        for key, values in results.items():
            print(f"{key:34}" + "".join(f"{one:8.1f}" for one in values))
        last = [
            checks(judge(noise + math.log1p(slowdown / 100), figures, True), 1).rounds.mean()
            for noise, slowdown in zip(noises, values)
        ]
        print(f"{'  rounds used at the last':34}" + "".join(f"{one:8.1f}" for one in last))
        before = [slowdown_found(one, lambda d, f=figures: student(d, f) < 0) for one in noises]
        print(f"{f'fixed ({FIXED} rounds), F = {figures}':34}" + "".join(f"{one:8.1f}" for one in before))

    print(f"\nWithout overhead: passes (%), open (%), failures (%), rounds used, {number} figures per cell")
    print(f"{'spread of pairs':18}" + "".join(f"{100 * one:>26g}" for one in SPREADS))
    for figures in (1, 4, 14):
        line, each = f"F = {figures:<14}", f"{'  each figure':18}"
        for noise in noises:
            checked = checks(judge(noise[:, : number // figures * figures], figures, True), figures)
            line += shares(checked.verdict, checked.rounds)
            each += shares(checked.figures)
        print(line + (f"\n{each.rstrip()}" if figures > 1 else ""))
    for figures in (1, 14):
        line = f"fixed, F = {figures:<7}"
        for noise in noises:
            verdicts = student(noise[:, : number // figures * figures], figures).reshape(-1, figures)
            line += shares(np.where((verdicts < 0).any(axis=1), -1, (verdicts > 0).all(axis=1)), FIXED)
        print(line)
    for figures in (1, 14):
        line = f"plain, F = {figures:<7}"
        for noise in noises:
            one_run = noise[:, : number // figures * figures] / math.sqrt(2)
            line += shares(plain(one_run).reshape(-1, figures).min(axis=1), 0.5)
        print(line)


def real_pairs(path):
    """Return the differences of the rounds in a file, by figure, in log scale: a list of (name, (rounds,)).

    More than two figures are repetitions of one, of which the median counts, as in the check of HPL.

    :raises ValueError: a round has not both sides.
    """
    sides = {}
    for run in json.loads(path.read_text()):
        values = run["figures"] if len(run["figures"]) <= 2 else [statistics.median(run["figures"])]
        sides.setdefault(run["round"], {})[run["side"]] = np.log(values)
    if any(len(both) != 2 for both in sides.values()):
        raise ValueError(f"{path}: a round without both sides")
    changes = np.array([both["B"] - both["A"] for both in sides.values()])
    names = [path.stem] if changes.shape[1] == 1 else [f"{path.stem} {one + 1}" for one in range(changes.shape[1])]
    return list(zip(names, changes.T))


def real(directory, number, seed):
    """Print the same on real rounds of a program against itself, drawn with replacement, sides swapped by coin."""
    print(f"\nReal rounds of a program against itself, F = 1, {number} figures per cell")
    print(
        f"{'':16}{'spread':>8}{'corr.':>7}{'pass':>8}{'open':>6}{'fail':>6}{'rnds':>6}{'found':>8}"
        "   fixed: pass, fail, found"
    )
    for path in sorted(Path(directory).glob("*.json")):
        for name, seen in real_pairs(path):
            draw = np.random.default_rng(seed)
            noise = draw.choice(seen, (HORIZON, number)) * draw.choice([-1.0, 1.0], (HORIZON, number))
            pairs = sequential.Pairs("lower", "ratio", -math.inf, TOLERANCE, 1)
            for one in seen:
                pairs.add(1.0, math.exp(one))
            checked = checks(judge(noise, 1, True), 1)
            slowest = slowdown_found(noise, fails_within(HORIZON, 1))
            before = student(noise, 1)
            slowest_before = slowdown_found(noise, lambda changes: student(changes, 1) < 0)
            print(
                f"{name:16}{pairs.spread:8.1f}{pairs.correlation:7.2f}{shares(checked.verdict, checked.rounds)}"
                f"{slowest:8.1f}"
                f"{percent(before > 0):14.1f}{percent(before < 0):7.2f}{slowest_before:7.0f}"
            )


def main():
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples: below a minute")
    parser.add_argument("--rounds", metavar="DIR", help="directory of JSON files with real rounds")
    parser.add_argument("--seed", type=int, default=1, help="of all samples (default: 1)")
    options = parser.parse_args()
    began = time.monotonic()
    false_verdicts(28_000 if options.quick else 280_000, options.seed)
    found(1400 if options.quick else 14_000, options.seed)
    if options.rounds:
        real(options.rounds, 1000 if options.quick else 10_000, options.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
