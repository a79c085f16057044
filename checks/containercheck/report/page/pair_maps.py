"""Maps of the pairs of ranks: latency and bandwidth of each pair, bare beside the container (D12.6, figures 8.4, 8.5).

They are drawn from the file that a check keeps of the first round of each side (:data:`FILE`): a line for each pair
that was measured. A case without such a file has no map.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from containercheck.report.page import drawing, kept_files, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.kept_files import FileError
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.shapes import PairMap
from containercheck.report.page.wording import Table
from containercheck.results.cases import Case
from containercheck.results.formatting import number

#: Name of the file.
FILE = "pairs.csv"
#: Columns of the file with the pair, and those with its values: quantity and unit of each.
PAIR = ("first", "second", "class")
VALUES = {"latency_us": ("latency", "us"), "bandwidth_MB_s": ("bandwidth", "MB/s")}
#: Largest number of ranks that is drawn: more are finer than a pixel.
MOST_RANKS = 512
#: Most pairs in the table of a map.
MOST_ROWS = 60


@dataclass(frozen=True)
class Pair:
    """A pair of ranks.

    :ivar kind: its class: what lies between its ranks.
    :ivar values: by column of :data:`VALUES`, in the unit there.
    """

    first: int
    second: int
    kind: str
    values: Mapping[str, float]


def read(path: Path) -> list[Pair]:
    """Return the pairs in a file.

    :raises FileError: it cannot be read, is too large to be drawn, or is no map of pairs.
    """
    lines = csv.DictReader(io.StringIO(kept_files.text(path)))
    if tuple(lines.fieldnames or ()) != (*PAIR, *VALUES):
        raise FileError(f"its columns are not {', '.join((*PAIR, *VALUES))}")
    pairs = [_pair(line, lines.line_num) for line in lines]
    if not pairs:
        raise FileError("it has no pairs")
    ranks = _ranks(pairs)
    if ranks > MOST_RANKS:
        raise FileError(f"it has {ranks} ranks, and {MOST_RANKS} can be drawn")
    return pairs


def _pair(line: Mapping[str, str], place: int) -> Pair:
    try:
        pair = Pair(
            int(line["first"]), int(line["second"]), line["class"], {name: float(line[name]) for name in VALUES}
        )
    except (TypeError, ValueError):
        raise FileError(f"its line {place} is not whole") from None
    if pair.first < 0 or pair.second < 0 or not all(math.isfinite(x) and x > 0 for x in pair.values.values()):
        raise FileError(f"its line {place} has a rank below 0, or a value that is not above 0")
    return pair


def _ranks(pairs: Sequence[Pair]) -> int:
    return 1 + max(max(pair.first, pair.second) for pair in pairs)


def maps(prefix: str, cases: Sequence[Case], most: int) -> tuple[list[Chart], list[str]]:
    """Return the maps of cases, and a line for each file that is there and cannot be drawn.

    :param prefix: beginning of the names of the plots.
    :param most: most plots; cases on most nodes come first.
    """
    charts: list[Chart] = []
    problems: list[str] = []
    for place, case in enumerate(kept_files.drawn_cases(cases), 1):
        sides: dict[str, list[Pair]] = {}
        for label, path in kept_files.of_case(case, FILE):
            try:
                sides[label] = read(path)
            except FileError as error:
                problems.append(f"{wording.name(case, where=True)}: the map of its pairs is not drawn: {path}: {error}")
        if sides and len(charts) < most:
            charts += _charts(f"{prefix}-{place}", case, sides)
    return charts[:most], problems


def _charts(prefix: str, case: Case, sides: Mapping[str, Sequence[Pair]]) -> Iterator[Chart]:
    ranks = max(map(_ranks, sides.values()))
    labels = sorted(sides, key=lambda label: (label not in VARIANTS, shapes.style_of(label)))
    for column, (quantity, unit) in VALUES.items():
        title = f"{wording.name(case, where=True)}: {quantity} of the pairs of ranks"
        drawn = [
            PairMap(label, ranks, tuple((pair.first, pair.second, pair.values[column]) for pair in sides[label]))
            for label in labels
        ]
        text = (
            f"Median {quantity} of each pair of ranks in the first round, in {unit}, on one logarithmic scale; pairs "
            f"without a color were not measured. {'; '.join(_classes(column, labels, sides))}."
        )
        svg = drawing.pair_maps(drawn, f"{quantity}, {unit}")
        yield Chart.of(f"{prefix}-{quantity}", title, text, svg, _table(title, column, unit, labels, sides))


def _classes(column: str, labels: Sequence[str], sides: Mapping[str, Sequence[Pair]]) -> Iterator[str]:
    """Yield for each side and class its median, and its smallest and largest value."""
    for label in labels:
        values: dict[str, list[float]] = {}
        for pair in sides[label]:
            values.setdefault(pair.kind, []).append(pair.values[column])
        for kind, known in values.items():
            middle, low, high = (number(f(known), 3) for f in (statistics.median, min, max))
            yield f"{label}, {kind.replace('_', ' ')}: {middle} ({low} to {high})"


def _table(title: str, column: str, unit: str, labels: Sequence[str], sides: Mapping[str, Sequence[Pair]]) -> Table:
    """Return the table of the pairs; of many, those whose sides differ most."""
    values: dict[tuple[int, int, str], dict[str, float]] = {}
    for label in labels:
        for pair in sides[label]:
            values.setdefault((pair.first, pair.second, pair.kind), {})[label] = pair.values[column]
    most_different = sorted(values, key=lambda pair: -max(values[pair].values()) / min(values[pair].values()))
    shown = sorted(most_different[:MOST_ROWS])
    rows = tuple(
        (f"{first} - {second}", kind.replace("_", " "))
        + tuple(number(values[first, second, kind][x]) if x in values[first, second, kind] else "" for x in labels)
        for first, second, kind in shown
    )
    which = "" if len(shown) == len(values) else f" ({len(shown)} of {len(values)} pairs: where the sides differ most)"
    headings = ("pair", "class", *(f"{label}, {unit}" for label in labels))
    return Table(f"Data of the plot: {title}{which}", headings, rows, 2)
