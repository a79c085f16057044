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

#: Name of the file of a map, its columns of a pair, and those of values: quantity and unit of each.
PAIRS = "pairs.csv"
VALUES = {"latency_us": ("latency", "us"), "bandwidth_MB_s": ("bandwidth", "MB/s")}
COLUMNS = ("first", "second", "class", *VALUES)
#: Lines of a rank: seconds in MPI and in all; and of a function: mean seconds and calls of a rank.
RANK = re.compile(r"^rank (\d+): (\S+) s of (\S+) s, ", re.MULTILINE)
FUNCTION = re.compile(r"^function (\w+) (\S+) s (\S+)$", re.MULTILINE)
#: First line of the report of a program; a run of several programs has several.
BEGIN = re.compile(r"^ranks \d+$", re.MULTILINE)
#: Most bytes of a file that is read, and most ranks: more are finer than a pixel.
MOST_BYTES, MOST_RANKS = 4 << 20, 512
#: Most rows of a table.
MOST_ROWS = 60
#: Headings of the times of a side.
RANK_COLUMNS, FUNCTION_COLUMNS = ("in MPI, s", "share, %"), ("time, s", "share, %", "calls")
#: Seconds by which the clocks of a node and of this machine may differ.
CLOCKS = 300.0

Content = TypeVar("Content")
Pair = tuple[int, int]


class FileError(Exception):
    """A file cannot be shown; the message is the reason."""


@dataclass(frozen=True)
class Pairs:
    """A map of pairs of ranks.

    :ivar classes: position of the two ranks of each pair, such as ``within_socket``.
    :ivar values: of each pair, by column of :data:`VALUES`.
    """

    classes: Mapping[Pair, str]
    values: Mapping[str, Mapping[Pair, float]]

    def matrix(self, column: str) -> np.ndarray:
        """Return the values by both ranks; not a number for pairs that were not measured."""
        ranks = 1 + max(map(max, self.classes))
        matrix = np.full((ranks, ranks), np.nan)
        for (first, second), value in self.values[column].items():
            matrix[first, second] = matrix[second, first] = value
        return matrix


@dataclass(frozen=True)
class MpiTimes:
    """The times in MPI of a side, by number of a rank, and by name of a function.

    :ivar ranks: seconds in MPI, and their share in percent of all seconds.
    :ivar functions: mean seconds of a rank, their share in percent, and mean number of calls.
    """

    ranks: Mapping[str, tuple[float, ...]]
    functions: Mapping[str, tuple[float, ...]]


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise FileError(f"it has more than {MOST_BYTES >> 20} MiB")
    return content


def read_pairs(path: Path) -> Pairs:
    """Return the map of pairs in a file.

    :raises FileError: it is too large to be drawn, or is not a map of pairs.
    :raises OSError: it cannot be read.
    """
    lines = csv.DictReader(_text(path).splitlines())
    if tuple(lines.fieldnames or ()) != COLUMNS:
        raise FileError(f"its columns are not {', '.join(COLUMNS)}")
    classes: dict[Pair, str] = {}
    values: dict[str, dict[Pair, float]] = {column: {} for column in VALUES}
    for line in lines:
        try:
            pair = (int(line["first"]), int(line["second"]))
            classes[pair] = line["class"].replace("_", " ")
            for column in VALUES:
                values[column][pair] = float(line[column])
        except (TypeError, ValueError):
            raise FileError(f"its line {lines.line_num} is not complete") from None
        if min(pair) < 0 or not all(0 < values[column][pair] < math.inf for column in VALUES):
            raise FileError(f"its line {lines.line_num} has a rank below 0, or a value that is not above 0")
    if not classes:
        raise FileError("it has no pairs")
    _require_few(1 + max(map(max, classes)))
    return Pairs(classes, values)


def read_mpi_times(path: Path) -> MpiTimes:
    """Return the times in a file, of the last program that left them.

    :raises FileError: it is too large to be shown, or has no times of ranks.
    :raises OSError: it cannot be read.
    """
    text = _text(path)
    begins = [match.start() for match in BEGIN.finditer(text)]
    last = text[begins[-1] :] if begins else ""
    try:
        ranks = {int(rank): (float(inside), float(total)) for rank, inside, total in RANK.findall(last)}
        functions = {name: (float(seconds), float(calls)) for name, seconds, calls in FUNCTION.findall(last)}
    except ValueError:
        raise FileError("a time is not a number") from None
    if not ranks or sorted(ranks) != list(range(len(ranks))) or not all(total > 0 for _, total in ranks.values()):
        raise FileError("it has no times of ranks")
    _require_few(len(ranks))
    whole = statistics.fmean(total for _, total in ranks.values())
    return MpiTimes(
        {str(rank): (inside, 100 * inside / total) for rank, (inside, total) in sorted(ranks.items())},
        {name: (seconds, 100 * seconds / whole, calls) for name, (seconds, calls) in functions.items()},
    )


def _require_few(ranks: int) -> None:
    if ranks > MOST_RANKS:
        raise FileError(f"it has {ranks} ranks, and {MOST_RANKS} can be shown")


def _read(
    cases: Sequence[Case], name: str, read: Callable[[Path], Content], problems: list[str]
) -> Iterator[tuple[Case, dict[str, Content]]]:
    """Yield each case, those on most nodes first, with the content of each side's file.

    A bare case counts only where no container ran: the job of a container runs the bare program too.

    :param problems: gets a line for each file that cannot be shown.
    """
    contained = {case.identity_as("") for case in cases if case.variant != "bare"}
    chosen = [case for case in cases if case.variant != "bare" or case.identity_as("") not in contained]
    for case in sorted(chosen, key=lambda case: -case.nodes):
        sides: dict[str, Content] = {}
        for label, path in _files(case, name):
            try:
                # A later session writes into the same directory, and may lack this side.
                if abs(path.stat().st_mtime - case.when + case.job_seconds / 2) <= case.job_seconds / 2 + CLOCKS:
                    sides[label] = read(path)
            except (FileError, OSError) as error:
                reason = getattr(error, "strerror", None) or error
                problems.append(f"{wording.name(case, where=True)}: cannot show {path}: {reason}")
        if sides:
            yield case, dict(sorted(sides.items(), key=lambda side: variant_order(side[0])))


def _files(case: Case, name: str) -> Iterator[tuple[str, Path]]:
    """Yield label and path of each side's file, of a case that failed in the directory that it ran in."""
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    row = case.rows[0] if case.rows else None
    labels = {
        contract.BASELINE: (row.baseline_label if row else "") or "bare",
        contract.SUBJECT: (row.subject_label if row else "") or case.variant,
    }
    for path in sorted(Path(directory).glob(f"{contract.FIRST_ROUND}/{name}")):
        side = path.parent.name.partition("-")[2]
        yield labels.get(side, side), path


def maps(cases: Sequence[Case], most: int) -> tuple[list[Chart], list[str]]:
    """Return the maps of pairs of cases, and a line for each file that cannot be drawn.

    :param most: most plots.
    """
    charts: list[Chart] = []
    problems: list[str] = []
    for case, sides in _read(cases, PAIRS, read_pairs, problems):
        if len(charts) < most:
            charts += [_map(case, sides, column) for column in VALUES]
    return charts[:most], problems


def _map(case: Case, sides: Mapping[str, Pairs], column: str) -> Chart:
    quantity, unit = VALUES[column]
    text = f"Median {quantity} of each pair of ranks in the first round, in {unit}, on one logarithmic scale; pairs "
    text += f"without a color were not measured. {'; '.join(_of_classes(sides, column))}."
    metric = drawing.pair_maps({side: pairs.matrix(column) for side, pairs in sides.items()}, f"{quantity}, {unit}")
    everything = {pair: kind for pairs in sides.values() for pair, kind in pairs.classes.items()}
    values = {pair: [pairs.values[column].get(pair) for pairs in sides.values()] for pair in everything}
    # Of many pairs, the table has those whose sides differ most.
    different = sorted(values, key=lambda pair: -_ratio(values[pair]))[:MOST_ROWS]
    rows = (
        (f"{pair[0]} - {pair[1]}", everything[pair], *("" if x is None else number(x) for x in values[pair]))
        for pair in sorted(different)
    )
    if len(different) < len(values):
        text += f" The table has {len(different)} of {len(values)} pairs: those whose sides differ most."
    title = f"{wording.name(case, where=True)}: {quantity} of the pairs of ranks"
    return Chart.of(title, text, metric, ("pair", "class", *(f"{side}, {unit}" for side in sides)), rows)


def _ratio(values: Sequence[float | None]) -> float:
    measured = [value for value in values if value is not None]
    return max(measured) / min(measured)


def _of_classes(sides: Mapping[str, Pairs], column: str) -> Iterator[str]:
    """Yield for each side and class its median, and its smallest and largest value."""
    for side, pairs in sides.items():
        for kind in dict.fromkeys(pairs.classes.values()):
            values = [value for pair, value in pairs.values[column].items() if pairs.classes[pair] == kind]
            middle, low, high = (number(f(values), 3) for f in (statistics.median, min, max))
            yield f"{side}, {kind}: {middle} ({low} to {high})"


def mpi_times(cases: Sequence[Case], most: int) -> tuple[list[Table], list[str]]:
    """Return two tables of each case: the time in MPI of each rank, and of each function; and lines as :func:`maps`.

    :param most: most cases.
    """
    tables: list[Table] = []
    problems: list[str] = []
    for case, sides in _read(cases, contract.MPI_TIMES, read_mpi_times, problems):
        if len(tables) < 2 * most:
            name = wording.name(case, where=True)
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
    empty = ("",) * len(columns)
    rows = tuple(
        (name, *(cell for values in sides.values() for cell in map(_cell, values.get(name, empty)))) for name in shown
    )
    caption = f"{title} of all {count(len(rows), noun)}"
    if len(rows) < len(seconds):
        caption = f"{title} of the {len(rows)} of {count(len(seconds), noun)} with most of it"
    return Table(caption, (noun, *(f"{side}: {column}" for side in sides for column in columns)), rows)


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else number(value, 4)
