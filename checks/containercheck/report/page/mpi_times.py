"""Show the time in MPI of each rank (D12.5, figure 22) and function (CHPCE, tables 8 to 12) in first rounds."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from containercheck.job import contract
from containercheck.report.page import cases as page_cases
from containercheck.report.page.cases import Table, variant_order
from containercheck.results.cases import Case
from containercheck.results.formatting import count, number
from containercheck.results.row import Row

#: Line of a rank: seconds in MPI, and seconds in total. Line of a function: mean seconds and calls of a rank.
RANK = re.compile(r"^rank (\d+): ([\d.]+) s of ([\d.]+) s, ", re.MULTILINE)
FUNCTION = re.compile(r"^function (\w+) ([\d.]+) s ([\d.]+)$", re.MULTILINE)
#: First line of the report of a program; a run of several programs has several reports.
BEGIN = re.compile(r"^(?=ranks \d+$)", re.MULTILINE)
#: Most bytes of a file that is read, and most rows of a table.
MOST_BYTES, MOST_ROWS = 4 << 20, 60
#: Headings of the times of a side.
RANK_COLUMNS, FUNCTION_COLUMNS = ("in MPI, s", "share, %"), ("time, s", "share, %", "calls")
#: Accepted difference in seconds between the clocks of a node and of this machine.
CLOCKS = 300.0

#: Values of a side by the number of a rank, or the name of a function.
Times = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class MpiTimes:
    """The times in MPI of a side.

    :ivar ranks: seconds in MPI, and their share of all seconds in percent.
    :ivar functions: mean seconds of a rank, their share in percent, and mean number of calls.
    """

    ranks: Times
    functions: Times


def read_mpi_times(text: str) -> MpiTimes:
    """Return the times of the last program in a file.

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


def _read(cases: Sequence[Case], problems: list[str]) -> Iterator[tuple[str, dict[str, MpiTimes]]]:
    """Yield the name of each case with the times of each side; cases on most nodes come first.

    A bare case counts only if no container ran, because the job of a container runs the bare program too.

    :param problems: gets a line for each file that cannot be shown.
    """
    contained = {case.identity_as("") for case in cases if case.variant != "bare"}
    chosen = [case for case in cases if case.variant != "bare" or case.identity_as("") not in contained]
    for case in sorted(chosen, key=lambda case: -case.nodes):
        case_name, sides = page_cases.name(case, where=True), {}
        for label, path in _files(case):
            try:
                if path.stat().st_size > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
                sides[label] = read_mpi_times(path.read_text(encoding="utf-8", errors="replace"))
            except (ValueError, OSError) as error:
                problems.append(f"{case_name}: cannot show {path}: {getattr(error, 'strerror', None) or error}")
        if sides:
            yield case_name, dict(sorted(sides.items(), key=lambda side: variant_order(side[0])))


def _files(case: Case) -> Iterator[tuple[str, Path]]:
    """Yield label and path of each side's file; for a failed case, from the stage directory of its job.

    A later session writes into the same directory and may not have this side. So files of another time are left out.
    """
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    row = case.rows[0] if case.rows else Row("")
    labels = {contract.BASELINE: row.baseline_label or "bare", contract.SUBJECT: row.subject_label or case.variant}
    for path in sorted(Path(directory).glob(f"{contract.FIRST_ROUND}/{contract.MPI_TIMES}")):
        if case.when - case.job_seconds - CLOCKS <= path.stat().st_mtime <= case.when + CLOCKS:
            side = path.parent.name.partition("-")[2]
            yield labels.get(side, side), path


def tables(cases: Sequence[Case], most: int) -> tuple[list[Table], list[str]]:
    """Return two tables of each case, of ranks and of functions, and a line for each file that cannot be shown.

    :param most: most cases.
    """
    found: list[Table] = []
    problems: list[str] = []
    for name, sides in list(_read(cases, problems))[:most]:
        ranks = {side: times.ranks for side, times in sides.items()}
        functions = {side: times.functions for side, times in sides.items()}
        found.append(_longest(f"{name}: time in MPI", "rank", RANK_COLUMNS, ranks))
        found.append(_longest(f"{name}: mean time of a rank in MPI", "function", FUNCTION_COLUMNS, functions))
    return found, problems


def _longest(title: str, noun: str, columns: Sequence[str], sides: Mapping[str, Times]) -> Table:
    """Return a table of the ranks or functions with the most seconds on any side, the most first.

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
