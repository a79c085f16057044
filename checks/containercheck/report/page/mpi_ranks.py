"""Time in MPI of each rank, as bars, and of each function, as a table: bare beside the container.

D12.5 figure 22 has the ranks of Amber, CHPCE tables 8 to 12 the functions of HPCC. They are drawn from the file that
``mpi_times`` leaves of the first round of each side (application/declare.py); a case without it has none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from containercheck.node import contract
from containercheck.report.page import drawing, kept_files, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.kept_files import FileError
from containercheck.report.page.shapes import RankTimes
from containercheck.report.page.wording import Table
from containercheck.results.cases import Case
from containercheck.results.formatting import number

#: Lines of a rank: seconds in MPI and in all; and of a function: mean seconds and calls of a rank.
RANK = re.compile(r"^rank (\d+): (\S+) s of (\S+) s, ", re.MULTILINE)
FUNCTION = re.compile(r"^function (\w+) (\S+) s (\S+)$", re.MULTILINE)
#: First line of the report of a program; a run of several programs has several.
BEGIN = re.compile(r"^ranks \d+$", re.MULTILINE)
#: Largest number of ranks that is drawn; most ranks and functions in a table.
MOST_RANKS, MOST_ROWS, MOST_FUNCTIONS = 512, 60, 12


@dataclass(frozen=True)
class Times:
    """The times of a side.

    :ivar ranks: seconds in MPI and in all, of each rank.
    :ivar functions: mean seconds and mean calls of a rank, by function.
    """

    ranks: tuple[tuple[float, float], ...]
    functions: Mapping[str, tuple[float, float]]

    @property
    def seconds(self) -> float:
        """Mean seconds of a rank, in MPI and outside."""
        return sum(total for _, total in self.ranks) / len(self.ranks)


def read(path: Path) -> Times:
    """Return the times in a file, of the last program that left them.

    :raises FileError: it cannot be read, is too large to be drawn, or has no times of ranks.
    """
    text = kept_files.text(path)
    begins = [match.start() for match in BEGIN.finditer(text)]
    last = text[begins[-1] :] if begins else ""
    try:
        ranks = {int(rank): (float(inside), float(total)) for rank, inside, total in RANK.findall(last)}
        functions = {name: (float(seconds), float(calls)) for name, seconds, calls in FUNCTION.findall(last)}
    except ValueError:
        raise FileError("a time is no number") from None
    if not ranks or sorted(ranks) != list(range(len(ranks))) or not all(total > 0 for _, total in ranks.values()):
        raise FileError("it has no times of ranks")
    if len(ranks) > MOST_RANKS:
        raise FileError(f"it has {len(ranks)} ranks, and {MOST_RANKS} can be drawn")
    return Times(tuple(ranks[rank] for rank in range(len(ranks))), functions)


def charts(prefix: str, cases: Sequence[Case], most: int) -> tuple[list[Chart], list[Table], list[str]]:
    """Return the plots of cases, a table of functions of each, and a line for each file that cannot be drawn.

    :param prefix: beginning of the names of the plots.
    :param most: most plots; cases on most nodes come first.
    """
    drawn: list[Chart] = []
    tables: list[Table] = []
    problems: list[str] = []
    for place, case in enumerate(kept_files.drawn_cases(cases), 1):
        sides: dict[str, Times] = {}
        for label, path in kept_files.of_case(case, contract.MPI_TIMES):
            try:
                sides[label] = read(path)
            except FileError as error:
                problems.append(f"{wording.name(case, where=True)}: its time in MPI is not drawn: {path}: {error}")
        if sides and len(drawn) < most:
            drawn.append(_chart(f"{prefix}-{place}", case, sides))
            tables.append(_functions(case, sides))
    return drawn, tables, problems


def _chart(name: str, case: Case, sides: Mapping[str, Times]) -> Chart:
    title = f"{wording.name(case, where=True)}: time in MPI of each rank"
    text = "Seconds of each rank in MPI, with those outside above them, in the first round. "
    text += "; ".join(f"{label}: {_extremes(times)}" for label, times in sides.items()) + "."
    svg = drawing.rank_times([RankTimes(label, times.ranks) for label, times in sides.items()])
    count = max(len(times.ranks) for times in sides.values())
    rows = tuple(
        (str(rank), *(cell for times in sides.values() for cell in _cells(times, rank)))
        for rank in range(min(count, MOST_ROWS))
    )
    which = "" if count <= MOST_ROWS else f" (the first {MOST_ROWS} of {count} ranks)"
    headings = [f"{label}: {what}" for label in sides for what in ("in MPI, s", "share, %")]
    return Chart.of(name, title, text, svg, Table(f"Data of the plot: {title}{which}", ("rank", *headings), rows))


def _cells(times: Times, rank: int) -> tuple[str, str]:
    if rank >= len(times.ranks):
        return "", ""
    inside, total = times.ranks[rank]
    return number(inside), number(100 * inside / total, 3)


def _extremes(times: Times) -> str:
    """Return in words which ranks spend least and most time in MPI."""
    order = sorted(range(len(times.ranks)), key=lambda rank: times.ranks[rank])
    least, most = (f"{number(times.ranks[rank][0], 3)} s on rank {rank}" for rank in (order[0], order[-1]))
    return f"{least} to {most}" if len(order) > 1 else least


def _functions(case: Case, sides: Mapping[str, Times]) -> Table:
    """Return the table of the functions with most time on any side: means of a rank."""
    longest: dict[str, float] = {}
    for times in sides.values():
        for name, (seconds, _) in times.functions.items():
            longest[name] = max(seconds, longest.get(name, 0.0))
    shown = sorted(longest, key=lambda name: -longest[name])[:MOST_FUNCTIONS]
    rows = tuple((name, *(cell for times in sides.values() for cell in _function(times, name))) for name in shown)
    headings = [f"{label}: {what}" for label in sides for what in ("time, s", "share, %", "calls")]
    more = "" if len(shown) == len(longest) else f", the {len(shown)} longest of {len(longest)}"
    caption = f"{wording.name(case, where=True)}: time in functions of MPI, mean of the ranks{more}"
    return Table(caption, ("function", *headings), rows)


def _function(times: Times, name: str) -> tuple[str, str, str]:
    if name not in times.functions:
        return "", "", ""
    seconds, calls = times.functions[name]
    return number(seconds, 3), number(100 * seconds / times.seconds, 3), number(calls, 6)
