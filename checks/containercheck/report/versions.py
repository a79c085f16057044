"""Table of the overheads of several runtimes, or versions of a runtime or of an image, as in D12.6 section 9."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from containercheck.results.cases import Case
from containercheck.results.formatting import columns, number
from containercheck.results.row import Row

#: Parts of the table, in their order.
START, MEMORY, SIZE, MESSAGES, FILES, APPLICATIONS = PARTS = (
    "start-up",
    "memory",
    "size",
    "messages",
    "files",
    "applications",
)


def part_of(row: Row) -> str:
    """Return the part of the table that a metric belongs to, by what it measures.

    >>> part_of(Row("start", "s", measures=("start",))), part_of(Row("memory", "MB", measures=("start",)))
    ('start-up', 'memory')
    >>> part_of(Row("latency", "us", measures=("network",))), part_of(Row("rate", "ns/day"))
    ('messages', 'applications')
    """
    measures = {*row.measures}
    if "files" in measures:
        return FILES
    if measures == {"start"}:
        return MEMORY if row.unit.endswith("B") else START
    return MESSAGES if measures and measures <= {"messages", "network"} else APPLICATIONS


def lines(cases: Sequence[Case], titles: Mapping[str, str]) -> list[str]:
    """Return the table: for each metric, the medians of bare and of each version, with the difference from bare.

    Metrics of one part stand together, whatever they are of. One that was not measured, as its runs failed, has a dash.

    :param titles: the compared runtimes or images, by the name of their side.
    """
    text = []
    for case in cases:
        head = (case.label, case.variant, str(case.nodes))
        for row in {row.metric: row for row in case.rows}.values():
            sides = [_median(case, side, row.metric) for side in ("baseline", *titles)]
            bare, *others = sides
            if bare is not None and others.count(None) < len(others):
                cells = ("-" if value is None else f"{number(value)} ({_more(row, bare, value)})" for value in others)
                text.append((part_of(row), *head, row.metric, f"{number(bare)} {row.unit}", *cells))
        sizes = [_image_size(case, side) for side in titles]
        if case.rows and None not in sizes:
            text.append((SIZE, *head, "image", "", *map(str, sizes)))
    if not text:
        return []
    text.sort(key=lambda cells: PARTS.index(cells[0]))
    # Each part is named once.
    places = range(len(text))
    named = [("" if place and text[place - 1][0] == text[place][0] else text[place][0]) for place in places]
    rows = [(name, *cells[1:]) for name, cells in zip(named, text)]
    legend = [f"{name}: {title}" for name, title in titles.items()]
    return [*columns([("", "application", "variant", "nodes", "metric", "bare", *titles), *rows]), *legend]


def _median(case: Case, side: str, metric: str) -> float | None:
    values = [sides[side][metric] for sides in case.measured if metric in sides.get(side, ())]
    return statistics.median(values) if values else None


def _image_size(case: Case, side: str) -> str | None:
    """Return the size of a side's own image, a file, an archive or a directory, with that of its files if known."""
    image = case.provenance.get("images", {}).get(side, {})
    size, content = image.get("image_bytes"), image.get("image_content_bytes")
    return f"{size >> 20} MiB" + (f" ({content >> 20} of files)" if content else "") if size else None


def _more(row: Row, bare: float, value: float) -> str:
    """Return by how much a version exceeds bare: in percent, or as a difference, as the verdict takes it."""
    if row.overhead_unit == "%" and bare:
        return f"{number(100 * (value / bare - 1), 2, '+')} %"
    return number(value - bare, 2, "+")
