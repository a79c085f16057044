"""Files that a run keeps of the first round of each side: the map of pairs of ranks, and the time of ranks in MPI.

The map has latency and bandwidth of each pair, bare and container (D12.6, figures 8.4 and 8.5); it is a plot. The
time in MPI is of each rank (D12.5, figure 22) and of each function (CHPCE, tables 8 to 12), as tables.
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from containercheck.job import contract
from containercheck.report.page import drawing, wording
from containercheck.report.page.drawing import Chart
from containercheck.report.page.wording import Table, variant_order
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row

#: Name of the file of a map, and its columns of values: quantity and unit of each.
PAIRS = "pairs.csv"
VALUES = {"latency_us": ("latency", "us"), "bandwidth_MB_s": ("bandwidth", "MB/s")}
#: Lines of a rank: seconds in MPI and in all; and of a function: mean seconds and calls of a rank.
RANK = re.compile(r"^rank (\d+): (\S+) s of (\S+) s, ", re.MULTILINE)
FUNCTION = re.compile(r"^function (\w+) (\S+) s (\S+)$", re.MULTILINE)
#: First line of the report of a program; a run of several programs has several.
BEGIN = re.compile(r"^(?=ranks \d+$)", re.MULTILINE)
#: Most bytes of a file that is read, and most ranks: more are finer than a pixel.
MOST_BYTES, MOST_RANKS = 4 << 20, 512
#: Most rows of a table.
MOST_ROWS = 60
#: Headings of the times of a side.
RANK_COLUMNS, FUNCTION_COLUMNS = ("in MPI, s", "share, %"), ("time, s", "share, %", "calls")
#: Seconds by which the clocks of a node and of this machine may differ.
CLOCKS = 300.0

Content = TypeVar("Content")


@dataclass(frozen=True)
class PairMap:
    """A map of pairs of ranks.

    :ivar matrices: by column of :data:`VALUES`, the values by both ranks; not a number for pairs without one.
    :ivar classes: by column and position of two ranks, such as ``within socket``, the values of its pairs.
    """

    matrices: Mapping[str, np.ndarray]
    classes: Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True)
class MpiTimes:
    """The times in MPI of a side, by number of a rank, and by name of a function.

    :ivar ranks: seconds in MPI, and their share in percent of all seconds.
    :ivar functions: mean seconds of a rank, their share in percent, and mean number of calls.
    """

    ranks: Mapping[str, tuple[float, ...]]
    functions: Mapping[str, tuple[float, ...]]


def read_pairs(text: str) -> PairMap:
    """Return the map of pairs in a file.

    :raises ValueError: it is too large to be drawn, or not a map of pairs.
    """
    try:
        lines = list(csv.DictReader(text.splitlines()))
        pairs = [(int(line["first"]), int(line["second"]), line["class"].replace("_", " ")) for line in lines]
        columns = {column: [float(line[column]) for line in lines] for column in VALUES}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("it is not a map of pairs of ranks") from None
    ranks = [rank for first, second, _ in pairs for rank in (first, second)]
    are_positive = all(0 < value < math.inf for column in columns.values() for value in column)
    if not ranks or min(ranks) < 0 or not are_positive:
        raise ValueError("it has no pairs, a rank below 0, or a value that is not above 0")
    size = _few(1 + max(ranks))
    matrices = {column: np.full((size, size), np.nan) for column in VALUES}
    classes: dict[tuple[str, str], list[float]] = {}
    for column, of_column in columns.items():
        for (first, second, position), value in zip(pairs, of_column):
            matrices[column][first, second] = matrices[column][second, first] = value
            classes.setdefault((column, position), []).append(value)
    return PairMap(matrices, classes)


def read_mpi_times(text: str) -> MpiTimes:
    """Return the times in a file, of the last program that left them.

    :raises ValueError: it is too large to be shown, or has no times of ranks.
    """
    last = BEGIN.split(text)[-1]
    try:
        ranks = {int(rank): (float(inside), float(total)) for rank, inside, total in RANK.findall(last)}
        functions = {name: (float(seconds), float(calls)) for name, seconds, calls in FUNCTION.findall(last)}
    except ValueError:
        raise ValueError("a time is not a number") from None
    if not ranks or sorted(ranks) != list(range(len(ranks))) or not all(total > 0 for _, total in ranks.values()):
        raise ValueError("it has no times of ranks")
    _few(len(ranks))
    whole = statistics.fmean(total for _, total in ranks.values())
    return MpiTimes(
        {str(rank): (inside, 100 * inside / total) for rank, (inside, total) in sorted(ranks.items())},
        {name: (seconds, 100 * seconds / whole, calls) for name, (seconds, calls) in functions.items()},
    )


def _few(ranks: int) -> int:
    if ranks > MOST_RANKS:
        raise ValueError(f"it has {ranks} ranks, and {MOST_RANKS} can be shown")
    return ranks


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    return content


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
        case_name, sides = wording.name(case, where=True), {}
        for label, path in _files(case, name):
            try:
                # A later session writes into the same directory, and may lack this side.
                if abs(path.stat().st_mtime - case.when + case.job_seconds / 2) <= case.job_seconds / 2 + CLOCKS:
                    sides[label] = read(_text(path))
            except (ValueError, OSError) as error:
                problems.append(f"{case_name}: cannot show {path}: {getattr(error, 'strerror', None) or error}")
        if sides:
            yield case_name, dict(sorted(sides.items(), key=lambda side: variant_order(side[0])))


def _files(case: Case, name: str) -> Iterator[tuple[str, Path]]:
    """Yield label and path of each side's file, of a case that failed in the directory that it ran in."""
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    row = case.rows[0] if case.rows else Row("")
    labels = {contract.BASELINE: row.baseline_label or "bare", contract.SUBJECT: row.subject_label or case.variant}
    for path in sorted(Path(directory).glob(f"{contract.FIRST_ROUND}/{name}")):
        side = path.parent.name.partition("-")[2]
        yield labels.get(side, side), path


def maps(cases: Sequence[Case], most: int) -> tuple[list[Chart], list[str]]:
    """Return the maps of pairs of cases, and a line for each file that cannot be drawn.

    :param most: most plots.
    """
    problems: list[str] = []
    found = list(_read(cases, PAIRS, read_pairs, problems))
    return [_map(case, sides, column) for case, sides in found[: most // len(VALUES)] for column in VALUES], problems


def _map(case: str, sides: Mapping[str, PairMap], column: str) -> Chart:
    quantity, unit = VALUES[column]
    text = f"Median {quantity} of each pair of ranks in the first round, in {unit}, on one logarithmic scale; pairs "
    text += "without a color were not measured. The table has each position of two ranks."
    figure = drawing.pair_maps({side: pairs.matrices[column] for side, pairs in sides.items()}, f"{quantity}, {unit}")
    rows = (
        (side, position, str(len(values)), *(number(of(values), 4) for of in (statistics.median, min, max)))
        for side, pairs in sides.items()
        for (of_column, position), values in pairs.classes.items()
        if of_column == column
    )
    headings = ("side", "position", "pairs", f"median, {unit}", f"smallest, {unit}", f"largest, {unit}")
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


def _longest(
    title: str, noun: str, columns: Sequence[str], sides: Mapping[str, Mapping[str, tuple[float, ...]]]
) -> Table:
    """Return a table of the ranks or functions with most seconds on any side, these first.

    :param noun: rank, or function.
    :param columns: headings of the values of each side.
    """
    seconds: dict[str, float] = {}
    for values in sides.values():
        for name, (first, *_) in values.items():
            seconds[name] = max(first, seconds.get(name, 0.0))
    shown = sorted(seconds, key=lambda name: -seconds[name])[:MOST_ROWS]
    rows = []
    for name in shown:
        of_sides = [values.get(name) for values in sides.values()]
        cells = [[number(value, 4) for value in values] if values else [""] * len(columns) for values in of_sides]
        rows.append((name, *(cell for of_side in cells for cell in of_side)))
    caption = f"{title} of all {count(len(rows), noun)}"
    if len(rows) < len(seconds):
        caption = f"{title} of the {len(rows)} of {count(len(seconds), noun)} with most of it"
    headings = (noun, *(f"{side}: {column}" for side in sides for column in columns))
    return Table(caption, headings, tuple(rows))
