"""Files that a run keeps of the first round of each side: the map of pairs of ranks, and the time of ranks in MPI.

The map has latency and bandwidth of each pair, bare and container (D12.6, figures 8.4 and 8.5); it is a plot. The
time in MPI is of each rank (D12.5, figure 22) and of each function (CHPCE, tables 8 to 12), as tables.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from containercheck.job import contract
from containercheck.report.page import cases as page_cases
from containercheck.report.page import plots
from containercheck.report.page.cases import Table, variant_order
from containercheck.report.page.plots import Chart
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row

#: Name of the file of a map, and its columns of values: quantity and unit of each.
PAIRS = "pairs.csv"
VALUES = {"latency_us": ("latency", "us"), "bandwidth_MB_s": ("bandwidth", "MB/s")}
#: Lines of a rank: seconds in MPI and in all; and of a function: mean seconds and calls of a rank.
RANK = re.compile(r"^rank (\d+): ([\d.]+) s of ([\d.]+) s, ", re.MULTILINE)
FUNCTION = re.compile(r"^function (\w+) ([\d.]+) s ([\d.]+)$", re.MULTILINE)
#: First line of the report of a program; a run of several programs has several.
BEGIN = re.compile(r"^(?=ranks \d+$)", re.MULTILINE)
#: Most bytes of a file that is read, most ranks of a map (more are finer than a pixel), and most rows of a table.
MOST_BYTES, MOST_RANKS, MOST_ROWS = 4 << 20, 512, 60
#: Headings of the times of a side.
RANK_COLUMNS, FUNCTION_COLUMNS = ("in MPI, s", "share, %"), ("time, s", "share, %", "calls")
#: Seconds by which the clocks of a node and of this machine may differ.
CLOCKS = 300.0

Content = TypeVar("Content")
#: Values of a side by the number of a rank, or the name of a function.
Times = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class MpiTimes:
    """The times in MPI of a side.

    :ivar ranks: seconds in MPI, and their share in percent of all seconds.
    :ivar functions: mean seconds of a rank, their share in percent, and mean number of calls.
    """

    ranks: Times
    functions: Times


def read_pairs(text: str) -> dict[str, np.ndarray]:
    """Return the values by both ranks for each column of :data:`VALUES`; not a number for pairs without one.

    :raises ValueError: it is too large to be drawn, or not a map of pairs.
    """
    try:
        lines = list(csv.DictReader(text.splitlines()))
        pairs = [(int(line["first"]), int(line["second"])) for line in lines]
        values = [[float(line[column]) for column in VALUES] for line in lines]
    except (KeyError, TypeError, ValueError):
        raise ValueError("it is not a map of pairs of ranks") from None
    if not pairs or min(map(min, pairs)) < 0 or not np.isfinite(values).all() or np.min(values) <= 0:
        raise ValueError("it has no pairs, a rank below 0, or a value that is not above 0")
    size = 1 + max(map(max, pairs))
    if size > MOST_RANKS:
        raise ValueError(f"it has {size} ranks, and {MOST_RANKS} can be shown")
    matrices = {column: np.full((size, size), np.nan) for column in VALUES}
    for (first, second), of_pair in zip(pairs, values):
        for matrix, value in zip(matrices.values(), of_pair):
            matrix[first, second] = matrix[second, first] = value
    return matrices


def read_mpi_times(text: str) -> MpiTimes:
    """Return the times in a file, of the last program that left them.

    :raises ValueError: it has no times of ranks.
    """
    last = BEGIN.split(text)[-1]
    ranks = {rank: (float(inside), float(total)) for rank, inside, total in RANK.findall(last)}
    if not ranks or not all(total > 0 for _, total in ranks.values()):
        raise ValueError("it has no times of ranks")
    whole = statistics.fmean(total for _, total in ranks.values())
    functions = {name: (float(seconds), float(calls)) for name, seconds, calls in FUNCTION.findall(last)}
    return MpiTimes(
        {rank: (inside, 100 * inside / total) for rank, (inside, total) in ranks.items()},
        {name: (seconds, 100 * seconds / whole, calls) for name, (seconds, calls) in functions.items()},
    )


def _read(
    cases: Sequence[Case], name: str, read: Callable[[str], Content], problems: list[str]
) -> Iterator[tuple[str, dict[str, Content]]]:
    """Yield the name of each case, those on most nodes first, with the content of each side's file.

    A bare case counts only where no container ran: the job of a container runs the bare program too.

    :param problems: gets a line for each file that cannot be shown.
    """
    contained = {case.identity_as("") for case in cases if case.variant != "bare"}
    chosen = [case for case in cases if case.variant != "bare" or case.identity_as("") not in contained]
    for case in sorted(chosen, key=lambda case: -case.nodes):
        case_name, sides = page_cases.name(case, where=True), {}
        for label, path in _files(case, name):
            try:
                if path.stat().st_size > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
                sides[label] = read(path.read_text(encoding="utf-8", errors="replace"))
            except (ValueError, OSError) as error:
                problems.append(f"{case_name}: cannot show {path}: {getattr(error, 'strerror', None) or error}")
        if sides:
            yield case_name, dict(sorted(sides.items(), key=lambda side: variant_order(side[0])))


def _files(case: Case, name: str) -> Iterator[tuple[str, Path]]:
    """Yield label and path of each side's file, of a case that failed in the directory that it ran in.

    A later session writes into the same directory, and may lack this side: files of another time are left out.
    """
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    row = case.rows[0] if case.rows else Row("")
    labels = {contract.BASELINE: row.baseline_label or "bare", contract.SUBJECT: row.subject_label or case.variant}
    for path in sorted(Path(directory).glob(f"{contract.FIRST_ROUND}/{name}")):
        if case.when - case.job_seconds - CLOCKS <= path.stat().st_mtime <= case.when + CLOCKS:
            side = path.parent.name.partition("-")[2]
            yield labels.get(side, side), path


def maps(cases: Sequence[Case], most: int) -> tuple[list[Chart], list[str]]:
    """Return the maps of pairs of cases, and a line for each file that cannot be drawn.

    :param most: most plots.
    """
    problems: list[str] = []
    found = list(_read(cases, PAIRS, read_pairs, problems))
    return [_map(case, sides, column) for case, sides in found[: most // len(VALUES)] for column in VALUES], problems


def _map(case: str, sides: Mapping[str, Mapping[str, np.ndarray]], column: str) -> Chart:
    quantity, unit = VALUES[column]
    matrices = {side: values[column] for side, values in sides.items()}
    text = f"Median {quantity} of each pair of ranks in the first round, in {unit}, on one logarithmic scale; pairs "
    text += "without a color were not measured."
    rows = (
        (side, *(number(float(of(matrix)), 4) for of in (np.nanmedian, np.nanmin, np.nanmax)))
        for side, matrix in matrices.items()
    )
    headings = ("side", f"median, {unit}", f"smallest, {unit}", f"largest, {unit}")
    figure = plots.pair_maps(matrices, f"{quantity}, {unit}")
    return Chart.of(f"{case}: {quantity} of the pairs of ranks", text, figure, headings, rows)


def mpi_times(cases: Sequence[Case], most: int) -> tuple[list[Table], list[str]]:
    """Return two tables of each case: the time in MPI of each rank, and of each function; and lines as :func:`maps`.

    :param most: most cases.
    """
    tables: list[Table] = []
    problems: list[str] = []
    for name, sides in list(_read(cases, contract.MPI_TIMES, read_mpi_times, problems))[:most]:
        ranks = {side: times.ranks for side, times in sides.items()}
        functions = {side: times.functions for side, times in sides.items()}
        tables.append(_longest(f"{name}: time in MPI", "rank", RANK_COLUMNS, ranks))
        tables.append(_longest(f"{name}: mean time of a rank in MPI", "function", FUNCTION_COLUMNS, functions))
    return tables, problems


def _longest(title: str, noun: str, columns: Sequence[str], sides: Mapping[str, Times]) -> Table:
    """Return a table of the ranks or functions with most seconds on any side, these first.

    :param noun: rank, or function.
    :param columns: headings of the values of each side.
    """
    names = dict.fromkeys(name for times in sides.values() for name in times)
    order = sorted(names, key=lambda name: -max(times[name][0] for times in sides.values() if name in times))
    rows = []
    for name in order[:MOST_ROWS]:
        cells = [map(number, times[name]) if name in times else [""] * len(columns) for times in sides.values()]
        rows.append((name, *(cell for of_side in cells for cell in of_side)))
    caption = f"{title} of all {count(len(rows), noun)}"
    if len(rows) < len(order):
        caption = f"{title} of the {len(rows)} of {count(len(order), noun)} with most of it"
    headings = (noun, *(f"{side}: {column}" for side in sides for column in columns))
    return Table(caption, headings, tuple(rows))
