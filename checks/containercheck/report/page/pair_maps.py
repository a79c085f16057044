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

from containercheck.node import contract
from containercheck.report.page import drawing, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.shapes import PairMap
from containercheck.report.page.wording import Table
from containercheck.results.cases import Case
from containercheck.results.formatting import number

#: Name of the file in the directory of a run, and of its directories of the first round.
FILE, FIRST_ROUND = "pairs.csv", f"{contract.RUNS}/01-*"
#: Columns of the file with the pair, and those with its values: quantity and unit of each.
PAIR = ("first", "second", "class")
VALUES = {"latency_us": ("latency", "us"), "bandwidth_MB_s": ("bandwidth", "MB/s")}
#: Largest file that is read, in bytes, and largest number of ranks that is drawn: more are finer than a pixel.
MOST_BYTES, MOST_RANKS = 4 << 20, 512
#: Most pairs in the table of a map.
MOST_ROWS = 60
#: Seconds by which the clocks of a node and of this machine may differ.
CLOCKS = 300.0


class MapError(Exception):
    """A file has no map of pairs."""


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

    :raises MapError: it cannot be read, is too large to be drawn, or is no map of pairs.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise MapError(getattr(error, "strerror", None) or "it is no text") from None
    if len(text) > MOST_BYTES:
        raise MapError(f"it has more than {MOST_BYTES >> 20} MiB")
    lines = csv.DictReader(io.StringIO(text))
    if tuple(lines.fieldnames or ()) != (*PAIR, *VALUES):
        raise MapError(f"its columns are not {', '.join((*PAIR, *VALUES))}")
    pairs = [_pair(line, lines.line_num) for line in lines]
    if not pairs:
        raise MapError("it has no pairs")
    ranks = _ranks(pairs)
    if ranks > MOST_RANKS:
        raise MapError(f"it has {ranks} ranks, and {MOST_RANKS} can be drawn")
    return pairs


def _pair(line: Mapping[str, str], place: int) -> Pair:
    try:
        pair = Pair(
            int(line["first"]), int(line["second"]), line["class"], {name: float(line[name]) for name in VALUES}
        )
    except (TypeError, ValueError):
        raise MapError(f"its line {place} is not whole") from None
    if pair.first < 0 or pair.second < 0 or not all(math.isfinite(x) and x > 0 for x in pair.values.values()):
        raise MapError(f"its line {place} has a rank below 0, or a value that is not above 0")
    return pair


def _ranks(pairs: Sequence[Pair]) -> int:
    return 1 + max(max(pair.first, pair.second) for pair in pairs)


def maps(prefix: str, cases: Sequence[Case], most: int) -> tuple[list[Chart], list[str]]:
    """Return the maps of cases, and a line for each file that is there and cannot be drawn.

    A bare case has its map only where no container ran: the job of a container runs the bare program too.

    :param prefix: beginning of the names of the plots.
    :param most: most plots; cases on most nodes come first.
    """
    contained = {case.identity_as("") for case in cases if case.variant != "bare"}
    chosen = [case for case in cases if case.variant != "bare" or case.identity_as("") not in contained]
    charts: list[Chart] = []
    problems: list[str] = []
    for place, case in enumerate(sorted(chosen, key=lambda case: -case.nodes), 1):
        sides: dict[str, list[Pair]] = {}
        for path in _files(case):
            try:
                sides[_label(case, path.parent.name)] = read(path)
            except MapError as error:
                problems.append(f"{wording.name(case, where=True)}: the map of its pairs is not drawn: {path}: {error}")
        if sides and len(charts) < most:
            charts += _charts(f"{prefix}-{place}", case, sides)
    return charts[:most], problems


def _files(case: Case) -> Iterator[Path]:
    """Yield the files of a case's own job: a later session writes into the same directory, and may have no such side.

    What failed has its files in the directory that it ran in.
    """
    directory = case.output or case.stage
    if not directory or not case.when:
        return
    earliest, latest = case.when - case.job_seconds - CLOCKS, case.when + CLOCKS
    for path in sorted(Path(directory).glob(f"{FIRST_ROUND}/{FILE}"), key=lambda path: _order(path.parent.name)):
        try:
            written = path.stat().st_mtime
        except OSError:
            written = latest
        if earliest <= written <= latest:
            yield path


def _order(directory: str) -> tuple[bool, str]:
    """Return the key that sorts the directories of a round: the bare program first."""
    return not directory.endswith(contract.BASELINE), directory


def _label(case: Case, directory: str) -> str:
    """Return the name of the side whose run has a directory, as the other plots have it."""
    name = directory.partition("-")[2]
    row = case.rows[0] if case.rows else None
    if name == contract.BASELINE:
        return row.baseline_label if row and row.baseline_label else "bare"
    if name == contract.SUBJECT:
        return row.subject_label if row and row.subject_label else case.variant
    return name


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
