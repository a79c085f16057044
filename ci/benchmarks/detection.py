"""Show by simulation what the sequential verdict promises and finds, beside the methods that it replaced.

    python ci/benchmarks/detection.py [--quick] [--rounds DIR]

Prints tables: false failures and false passes under nine kinds of noise; the smallest slowdown that is found in 95 of
100 within so many rounds; how many pass without overhead, after how many rounds, and how many seconds a pass takes; and
of a check that fails, how many of the figures that are too slow it names; and what the confirmation in the same job
keeps of failures. ``--rounds DIR`` adds the same for real
rounds of a program against itself (JSON files: a list of runs with ``round``, ``side`` and ``figures``), drawn with
replacement.

The verdict takes the spread of a figure as known beforehand (:data:`PRIORS`): as it is, half of it, twice of it, or not
at all (the default, which is wide). Beside it, on the same samples: **ranks** is the rule before, which counted signs
only; **fixed** is four rounds and Student's paired interval, a failure at 1 - 0.05 / figures, the rule before that; and
**plain** is ReFrame's practice, one run that must be within 5 % of a stored reference, which is taken to be perfect.
"""

import argparse
import json
import math
import statistics
import time
from pathlib import Path

import numpy as np
from containercheck.node.job.confirmation import FEWEST
from simulation import (
    BOUND,
    DEFAULT,
    HORIZON,
    NOISES,
    checks,
    counted,
    judge,
    normal,
    plain,
    sequential,
    student,
)

#: Standard deviations of the difference of two runs, in log scale.
SPREADS = (0.01, 0.015, 0.03, 0.06, 0.12)
#: Without overhead, the worst case for a false failure is a spread beside which any tolerance is nothing.
ENORMOUS = 0.5
#: How often a slowdown must be found.
FOUND = 0.95
#: Known spreads, as a part of the true one; None where nothing is known and the default counts.
PRIORS = {"known": 1.0, "half": 0.5, "double": 2.0, "absent": None}
#: Rounds within which slowdowns are found and figures pass.
WITHIN = (2, 3, 4, 6, 8, 12, 20, 40)
FIGURES = (1, 4, 14)
#: Figures of a check, how many of them are slower, and by which factors.
OF_HPCC, SLOW, FACTORS = 14, 3, (1.5, 2.0, 4.0)


def known_as(prior, spread):
    """Return the spread that is known, in log scale."""
    return DEFAULT if PRIORS[prior] is None else PRIORS[prior] * spread


def percent(which):
    """Return the share of true values, in percent."""
    return 100 * float(np.mean(which))


def rules():
    """Yield the name of each rule that looks after every round, and the arguments that ``judge`` takes for a spread."""
    yield "ranks", lambda spread: {"alone": True}
    for prior in PRIORS:
        yield prior, lambda spread, prior=prior: {"known": known_as(prior, spread)}


def false_verdicts(number, seed):
    """Print false failures per check and false passes per figure.

    :param number: figures per cell.
    """
    print(f"\nFalse verdicts in percent, {number} figures per cell (* shown, not promised; so is `half`)")
    print("Promised: a check fails in 1 % without overhead, in 5 % at the tolerance; a figure passes there in 5 %.")
    print(f"Without overhead the spread is {100 * ENORMOUS:g} %, at the tolerance 6 %; F figures in a check.")
    header = f"{'':16}{'rule':8}{'fail, no overhead':>18}{'fail at tolerance':>18}{'pass':>6}"
    print(f"{header}\n{'F =':24}" + 2 * "".join(f"{figures:6}" for figures in FIGURES))
    for name, noise in NOISES.items():
        sample = noise(np.random.default_rng(seed), (HORIZON, number))
        lines = {rule: [] for rule, _ in rules()}
        for centre, spread in ((0.0, ENORMOUS), (BOUND, 0.06)):
            for together in FIGURES:
                changes = centre + spread * sample[:, : number // together * together]
                averages = counted(changes)
                for rule, facts in rules():
                    verdict = judge(changes, together, averages=averages, **facts(spread)).verdict
                    lines[rule].append(percent((verdict.reshape(-1, together) < 0).any(axis=1)))
                    if (centre, together) == (BOUND, 1):
                        passed = percent(verdict > 0)
                        lines[rule].append(passed)
        for number_of_line, (rule, cells) in enumerate(lines.items()):
            # The passes stand last.
            cells = [*cells[:4], *cells[5:], cells[4]]
            line = "".join(f"{cell:6.2f}" for cell in cells)
            print(f"{'' if number_of_line else name:16}{rule:8}{line}", flush=True)


def slowdown_found(noise, fails, most=20.0):
    """Return the smallest slowdown in percent for which ``fails`` is true for 95 in 100; infinite if there is none.

    :param noise: changes without overhead, in log scale.
    :param fails: function of the changes, to (figures,) of bool.
    :param most: the largest factor - 1 that is tried.
    """
    low, high = 0.0, math.log1p(most)
    if np.mean(fails(noise + high)) < FOUND:
        return math.inf
    while high - low > 0.0005 + 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if np.mean(fails(noise + middle)) >= FOUND else (middle, high)
    return 100 * math.expm1(high)


def failing(figures, facts):
    """Return a function that tells which figures fail.

    :param facts: further arguments of ``judge``.
    """
    return lambda changes: judge(changes, figures, **facts).verdict < 0


def shown(value, width=8):
    """Return a slowdown to read; a dash where none is found."""
    return f"{'-':>{width}}" if math.isinf(value) else f"{value:{width}.{1 if value < 100 else 0}f}"


def two_phases(number, seed):
    """Print how many checks fail in the first phase of a job, and how many of these failures its second phase keeps.

    The second phase has fresh rounds, as many as the first took but two at least; it keeps what it does not refute
    (node/job/confirmation.py). Of a slowdown that is sure, none may be refuted.

    :param number: figures per cell.
    """
    print(f"\nBoth phases, F = 1, the spread known, {number} figures per cell, percent: failed at first, and kept")
    cases = {
        "no overhead, 50 %": (0.0, ENORMOUS),
        "at tolerance, 6 %": (BOUND, 0.06),
        "+10 %, 3 %": (math.log(1.1), 0.03),
        "+20 %, 6 %": (math.log(1.2), 0.06),
        "+75 %, 20 %": (math.log(1.75), 0.2),
    }
    print(f"{'noise':16}" + "".join(f"{case:>22}" for case in cases))
    for name, noise in NOISES.items():
        draw, cells = np.random.default_rng(seed), []
        for centre, spread in cases.values():
            first = judge(centre + spread * noise(draw, (HORIZON, number)), 1, known=spread)
            failed = first.verdict < 0
            fresh = centre + spread * noise(draw, (HORIZON, number))[:, failed]
            kept = ~refuted(fresh, np.maximum(2, first.after[failed]), spread)
            cells.append(f"{percent(failed):7.2f} {percent(failed) * float(np.mean(kept)) if len(kept) else 0.0:7.2f}")
        print(f"{name:16}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


def refuted(fresh, rounds, spread):
    """Return which failures fresh rounds speak against.

    :param fresh: (rounds, figures), in log scale.
    :param rounds: how many of them there is time for, (figures,).
    :param spread: the known spread.
    """
    judged = judge(fresh, 1, known=spread)
    in_time = judged.after <= rounds
    centres = np.array(
        [sequential.robust.median(sequential.robust.walsh(list(each[:n]))) for each, n in zip(fresh.T, rounds)]
    )
    is_within = (rounds >= FEWEST) & (centres <= BOUND) if len(centres) else np.zeros(0, dtype=bool)
    return np.where(in_time & (judged.verdict != 0), judged.verdict > 0, is_within)


def found(number, seed):
    """Print the smallest slowdowns that are found within numbers of rounds."""
    print(f"\nSmallest slowdown (%) found in 95 of 100, tolerance 5 %, normal noise, {number} figures per cell")
    print(f"{'spread':8}{'F':>4} {'rule':10}" + "".join(f"{f'n={rounds}':>8}" for rounds in WITHIN) + f"{'fixed':>8}")
    for spread in SPREADS:
        noise = spread * normal(np.random.default_rng(seed), (HORIZON, number))
        for figures in (1, 14):
            for rule, facts in rules():
                cells = [slowdown_found(noise[:rounds], failing(figures, facts(spread))) for rounds in WITHIN]
                if rule == "ranks":
                    cells.append(slowdown_found(noise, lambda changes, figures=figures: student(changes, figures) < 0))
                line = f"{100 * spread:<8g}{figures:4} {rule:10}"
                print(line + "".join(shown(cell) for cell in cells), flush=True)


def passed(number, seed):
    """Print how many checks without overhead pass within numbers of rounds, and how many rounds they take."""
    print(f"\nWithout overhead: checks passed within n rounds (%), failed, rounds used; {number} figures per cell")
    within = "".join(f"{f'n={rounds}':>7}" for rounds in WITHIN)
    print(f"{'spread':8}{'F':>4} {'rule':10}{within}   failed  rounds")
    for spread in SPREADS:
        noise = spread * normal(np.random.default_rng(seed), (HORIZON, number))
        for figures in FIGURES:
            changes = noise[:, : number // figures * figures]
            averages = counted(changes)
            for rule, facts in rules():
                line = f"{100 * spread:<8g}{figures:4} {rule:10}"
                judged = judge(changes, figures, True, averages=averages, **facts(spread))
                checked = checks(judged, figures, *([] if rule == "ranks" else [changes, facts(spread)["known"]]))
                print(line + _passes(checked), flush=True)
            verdicts = student(changes, figures).reshape(-1, figures)
            fixed = f"{percent((verdicts > 0).all(axis=1)):7.1f}{percent((verdicts < 0).any(axis=1)):7.2f} failed"
            one_run = plain(changes / math.sqrt(2)).reshape(-1, figures).min(axis=1)
            print(f"{'':13}fixed, n=4: {fixed};  plain, one run: {percent(one_run < 0):.2f} failed")


def _passes(checked):
    cells = [percent((checked.verdict > 0) & (checked.rounds <= rounds)) for rounds in WITHIN]
    line = "".join(f"{cell:7.1f}" for cell in cells)
    return f"{line}{percent(checked.verdict < 0):9.2f}{np.mean(checked.rounds):8.1f}"


def named(number, seed):
    """Print how many of the too slow figures a check names, and how many rounds that takes.

    :param number: checks per cell.
    """
    print(f"\n{SLOW} of {OF_HPCC} figures slower by a factor, normal noise, {number} checks a cell: rounds on average,")
    print("and until 95 of 100 checks have ended; all that are slow named, and any that is not (percent of checks).")
    print("`first`: a check ends with its first failure, and its figures share the error probability to the end.")
    header = f"{'spread':8}{'factor':>7} {'rule':8}{'rounds':>8}{'95 %':>6}{'all named':>11}{'falsely':>9}"
    print(f"{header}   first:{'rounds':>8}{'all named':>11}")
    for spread in (0.03, 0.06, 0.15, 0.20):
        noise = spread * normal(np.random.default_rng(seed), (HORIZON, OF_HPCC * number))
        for factor in FACTORS:
            changes = noise.reshape(HORIZON, number, OF_HPCC).copy()
            changes[:, :, :SLOW] += math.log(factor)
            changes = changes.reshape(HORIZON, -1)
            averages = counted(changes)
            for prior in PRIORS:
                known = known_as(prior, spread)
                judged = judge(changes, OF_HPCC, True, known=known, averages=averages)
                first, now = checks(judged, OF_HPCC), checks(judged, OF_HPCC, changes, known)
                every, every_first = (percent((each.figures[:, :SLOW] < 0).all(axis=1)) for each in (now, first))
                falsely = percent((now.figures[:, SLOW:] < 0).any(axis=1))
                cells = f"{now.rounds.mean():8.1f}{np.quantile(now.rounds, 0.95):6.0f}{every:11.1f}{falsely:9.2f}"
                line = f"{100 * spread:<8g}{factor:7g} {prior:8}{cells}"
                print(f"{line}         {first.rounds.mean():8.1f}{every_first:11.1f}", flush=True)


def real_pairs(path):
    """Return the differences of the rounds in a file, by figure, in log scale, and the seconds of a round.

    More than two figures are repetitions of one, of which the median counts, as in the check of HPL.

    :returns: a list of (name, (rounds,)), and the seconds; None where the runs do not say.
    :raises ValueError: a round has not both sides.
    """
    sides, seconds = {}, []
    for run in json.loads(path.read_text()):
        values = run["figures"] if len(run["figures"]) <= 2 else [statistics.median(run["figures"])]
        sides.setdefault(run["round"], {})[run["side"]] = np.log(values)
        seconds += [run["seconds"]] if "seconds" in run else []
    if any(len(both) != 2 for both in sides.values()):
        raise ValueError(f"{path}: a round without both sides")
    changes = np.array([both["B"] - both["A"] for both in sides.values()])
    count = changes.shape[1]
    names = [path.stem] if count == 1 else [f"{path.stem} {number}" for number in range(1, count + 1)]
    return list(zip(names, changes.T)), (2 * statistics.fmean(seconds) if seconds else None)


def real(directory, number, seed):
    """Print the same on real rounds of a program against itself, drawn with replacement, sides swapped at random."""
    print(f"\nReal rounds of a program against itself, F = 1, {number} figures per cell; known: their robust spread")
    header = f"{'':14}{'rule':8}{'spread':>8}{'pass':>7}{'open':>7}{'fail':>7}{'rounds':>8}{'seconds':>9}"
    print(header + "".join(f"{f'n={rounds}':>7}" for rounds in (3, 8, 40)) + "  (slowdown found within)")
    for path in sorted(Path(directory).glob("*.json")):
        figures, seconds = real_pairs(path)
        for name, seen in figures:
            draw = np.random.default_rng(seed)
            noise = draw.choice(seen, (HORIZON, number)) * draw.choice([-1.0, 1.0], (HORIZON, number))
            spread = sequential.robust.scale(list(seen))
            for rule, facts in rules():
                checked = checks(judge(noise, 1, True, **facts(spread)), 1)
                slow = [slowdown_found(noise[:n], failing(1, facts(spread))) for n in (3, 8, 40)]
                cells = "".join(f"{percent(checked.verdict == verdict):7.1f}" for verdict in (1, 0, -1))
                rounds = np.mean(checked.rounds)
                took = "-" if seconds is None else f"{rounds * seconds:.0f}"
                line = f"{name if rule == 'ranks' else '':14}{rule:8}{100 * spread:8.1f}{cells}{rounds:8.1f}{took:>9}"
                print(line + "".join(shown(slowdown, 7) for slowdown in slow), flush=True)
            before = student(noise, 1)
            print(f"{'':14}fixed   {'':8}{percent(before > 0):7.1f}{'':7}{percent(before < 0):7.2f}")


def main():
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples: some minutes")
    parser.add_argument("--rounds", metavar="DIR", help="directory of JSON files with real rounds")
    parser.add_argument("--seed", type=int, default=1, help="of all samples (default: 1)")
    options = parser.parse_args()
    began = time.monotonic()
    false_verdicts(14_000 if options.quick else 140_000, options.seed)
    two_phases(14_000 if options.quick else 140_000, options.seed)
    passed(2800 if options.quick else 14_000, options.seed)
    found(700 if options.quick else 5600, options.seed)
    named(100 if options.quick else 1000, options.seed)
    if options.rounds:
        real(options.rounds, 700 if options.quick else 7000, options.seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
