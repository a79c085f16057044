"""Measure where the noise of each check comes from, and how long its runs should be; called by ci/benchmark.

    noise.py [--rounds N] [-S NAME=VALUE]... [CHECK ...]

Each check compares its bare program with itself, with runs of two lengths (:data:`LENGTHS`), N rounds each. From the
median seconds of a run at both lengths follow the cost of a start and that of an iteration; from the variances of a
metric at both, how much runs differ from one another and how much what is inside a run does:

    seconds(L) = start + iteration L         variance(L) = between + within / L

The length that closes verdicts soonest is then, in iterations, with costs in seconds (Kalibera and Jones, Rigorous
benchmarking in reasonable time, ISMM 2013, section 6):

    sqrt(start / iteration x within / between)

The variance is that of one run: half the mean square of what two runs of a round differ by, as the true difference is
none. What both have in common, such as a slow minute, is not in it, and does not matter to the verdict. From N rounds a
standard deviation is known to 70 / sqrt(N) %, so 12 rounds give a length that is good to a factor of two or so.

*Spread* (of pairs: 1.4826 times the median absolute deviation) is that of the results, at the long length; it,
*between* and *within* (both as standard deviations of a run, the second at the short length) are in percent, or in the
metric's unit where it is compared by difference. ``shortest`` says that longer
runs did not spread less, ``longest`` that runs differ by nothing but what is inside them. The star marks the metric
whose spread is the greatest part of what is accepted: it closes last, and the check's length should be its.

The spread, rounded up, is what a metric states as ``spread`` (application/declare.py): what is known of it before the
first round.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from containercheck.results.formatting import columns
from containercheck.results.row import Row
from twice import Case, SessionError, Sessions, Stopped, applications, chosen


@dataclass(frozen=True)
class Length:
    """The variable that sets the length of a check's runs, with its two values.

    :ivar variable: of the check; its value is the number of iterations, in ``unit``.
    :ivar also: other variables that grow with it, and their value as a part of it.
    """

    variable: str
    unit: str
    short: float
    long: float
    also: dict[str, float] = field(default_factory=dict)

    def options(self, check: str, iterations: float) -> list[str]:
        """Return ReFrame's options for runs of this length."""
        values = {self.variable: iterations, **{name: part * iterations for name, part in self.also.items()}}
        return [f"--setvar={check}.{name}={value:g}" for name, value in values.items()]


#: Lengths of the checks: one below and one above that of a default run, far enough apart to separate start and work.
LENGTHS = {
    "GROMACS": Length("timesteps", "steps", 100, 400),
    # RandomAccess, the largest part of a run, grows with the matrix's memory.
    "HPCC": Length("memory_fraction", "shares of the memory", 0.00125, 0.005),
    "HPL": Length("repeats", "solutions", 2, 8),
    # Trials of all messages, and megabytes that the large ones move.
    "IMB": Length("trials", "trials", 2000, 8000, {"volume": 0.1}),
    "Palabos": Length("timesteps", "steps", 15, 60),
    # The three trials of a pair have no upper limit.
    "PingPong": Length("seconds_of_pairs", "s", 1, 4),
    # With one epoch the loss cannot fall.
    "RAMP": Length("epochs", "epochs", 2, 6),
    "SemanticSpaces": Length("megabytes", "MB", 1, 4),
    "StartUp": Length("repeats", "starts", 3, 12),
    "TensorFlowCNN": Length("batches", "batches", 1, 4),
    # The text is a multiple of one of 64 MB.
    "WordCount": Length("megabytes", "MB", 128, 512),
}


@dataclass(frozen=True)
class Cost:
    """The cost of a run: that of its start, and that of an iteration, in seconds."""

    start: float
    iteration: float


def cost(short: float, long: float, seconds_short: float, seconds_long: float) -> Cost:
    """Return the line through two lengths and the seconds of a run at each; neither part is below 0.

    >>> cost(100, 400, 2.0, 5.0)
    Cost(start=1.0, iteration=0.01)
    """
    iteration = max(0.0, (seconds_long - seconds_short) / (long - short))
    return Cost(max(0.0, seconds_short - iteration * short), iteration)


def parts(short: float, long: float, variance_short: float, variance_long: float) -> tuple[float, float]:
    """Return the variance between runs, and that of one iteration within them; neither is below 0.

    Where longer runs do not spread less, all of it is between them; where they spread less than iterations that are
    independent can explain, all of it is within.

    >>> parts(1, 4, 5.0, 2.0)
    (1.0, 4.0)
    """
    within = (variance_short - variance_long) / (1 / short - 1 / long)
    if within <= 0:
        return (variance_short + variance_long) / 2, 0.0
    between = variance_long - within / long
    return (between, within) if between > 0 else (0.0, (variance_short * short + variance_long * long) / 2)


def soonest(costs: Cost, between: float, within: float) -> float:
    """Return the iterations of a run that close verdicts soonest: 0 for as few, infinite for as many as there can be.

    >>> soonest(Cost(start=1.0, iteration=0.01), between=1.0, within=4.0)
    20.0
    """
    if within == 0 or costs.start == 0:
        return 0.0
    if between == 0 or costs.iteration == 0:
        return math.inf
    return math.sqrt(costs.start / costs.iteration * within / between)


def variance(changes: Iterable[float], is_ratio: bool) -> float:
    """Return the variance of one run, in percent squared (of a ratio) or the unit squared, from changes of pairs."""
    scale = 100 if is_ratio else 1
    return statistics.fmean((scale * change) ** 2 for change in changes) / 2


def shown(value: float | None, digits: int = 2) -> str:
    """Return a number as text; a dash for none."""
    return "-" if value is None else f"{value:.{digits}g}"


def of_length(iterations: float, length: Length) -> str:
    """Return a length as text."""
    if iterations == 0 or math.isinf(iterations):
        return "longest" if iterations else "shortest"
    return f"{iterations:.2g} {length.unit}" if iterations < 100 else f"{round(iterations, -1):.0f} {length.unit}"


HEADER = ("metric", "accepted", "spread", "between", "within", "length")


def row_of(metric: Row, more: Sequence[str]) -> tuple[str, ...]:
    """Return the row of a metric, with these last columns."""
    accepted = f"{metric.accepted[1]:g} {metric.overhead_unit}"
    return (metric.metric, accepted, shown(metric.spread), *more)


def closes_last(rows: Sequence[Row]) -> str:
    """Return the metric whose spread is the greatest part of what is accepted."""
    return max(rows, key=lambda row: (row.spread or 0.0) / (abs(row.accepted[1]) or math.inf)).metric


def compared(length: Length, short: Case, long: Case) -> list[str]:
    """Return the lines about two sessions of a check: one about its runs, and a table of its metrics."""
    seconds = [statistics.median(case.noise_facts["seconds"]) for case in (short, long)]
    costs = cost(length.short, length.long, *seconds)
    first = (
        f"{long.check}: a start costs {costs.start:.2g} s, each of the {length.unit} ({length.variable}) "
        f"{costs.iteration:.2g} s: runs of {length.short:g} and {length.long:g} take {seconds[0]:.3g} and "
        f"{seconds[1]:.3g} s; {short.rounds} and {long.rounds} rounds"
    )
    rows = [HEADER]
    last = closes_last(long.rows)
    for metric in long.rows:
        name = metric.metric
        changes = [case.noise_facts["changes"].get(name) for case in (short, long)]
        if None in changes:
            continue
        variances = [variance(each, metric.overhead_unit == "%") for each in changes]
        between, within = parts(length.short, length.long, *variances)
        best = of_length(soonest(costs, between, within), length) + (" *" if name == last else "  ")
        deviations = (shown(math.sqrt(between)), shown(math.sqrt(within / length.short)))
        rows.append(row_of(metric, (*deviations, best)))
    return [first, *columns(rows, 2)]


def of_one_length(case: Case) -> list[str]:
    """Return the lines about one session of a check without a variable for its length."""
    seconds = statistics.median(case.noise_facts["seconds"])
    first = f"{case.check}: no variable sets its length; a run takes {seconds:.3g} s ({case.rounds} rounds)"
    last = closes_last(case.rows)
    rows = [row_of(row, ("-", "-", "*" if row.metric == last else " ")) for row in case.rows]
    return [first, *columns([HEADER, *rows], 2)]


def measure(sessions: Sessions, check: str, rounds: int, options: Sequence[str]) -> list[str]:
    """Run the sessions of one check, and return the lines about it."""
    length = LENGTHS.get(check)
    settings = [length.options(check, value) for value in (length.short, length.long)] if length else [[]]
    cases_of: dict[str, list[Case]] = {}
    for setting in settings:
        for case in sessions.run(f"--setvar=rounds={rounds}", *options, *setting, check=check):
            cases_of.setdefault(case.check, []).append(case)
    lines = []
    for name, cases in cases_of.items():
        bad = next((case for case in cases if case.skipped or case.broken), None)
        if bad:
            lines.append(f"{name}: {f'skipped: {bad.skipped}' if bad.skipped else f'BROKEN: {bad.broken}'}")
        elif all(case.rows for case in cases) and len(cases) == len(settings):
            lines += compared(length, *cases) if length else of_one_length(*cases)
        else:
            lines.append(f"{name}: it has no metrics here")
    return lines


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="at each length; default 12")
    parser.add_argument("-S", dest="options", action="append", default=[], metavar="NAME=VALUE", help="for ReFrame")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default all, which takes an hour or so")
    arguments = parser.parse_args(words)
    if arguments.rounds < 2:
        parser.error("--rounds takes 2 or more")
    arguments.checks = chosen(arguments.checks, applications())
    return arguments


def main() -> None:
    """Measure one check after the other, and print."""
    arguments = parse(sys.argv[1:])
    options = [f"--setvar={option}" for option in arguments.options]
    failed = False
    with Sessions.begin(arguments.checks) as sessions:
        for check in arguments.checks:
            try:
                lines = measure(sessions, check, arguments.rounds, options)
            except SessionError as error:
                lines = [f"{check}: BROKEN: {error}"]
            except Stopped as signal:
                sys.exit(f"noise: stopped by {signal}")
            failed = failed or any(": BROKEN: " in line for line in lines)
            print("\n".join([*lines, ""]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
