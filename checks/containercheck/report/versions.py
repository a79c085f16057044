"""Table of the overheads of several versions of a runtime or of an image, as in D12.6 section 9."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from containercheck.results.cases import Case
from containercheck.results.formatting import columns, number
from containercheck.results.row import Row


def lines(cases: Sequence[Case], titles: Mapping[str, str]) -> list[str]:
    """Return the table: for each figure, the medians of bare and of each version, with the difference from bare.

    One that was not measured, as its runs failed, has a dash.

    :param titles: the compared runtimes or images, by the name of their side.
    """
    text = [("application", "variant", "nodes", "figure", "bare", *titles)]
    for case in cases:
        for row in {row.figure: row for row in case.rows}.values():
            sides = [_median(case, side, row.figure) for side in ("baseline", *titles)]
            bare, *others = sides
            if bare is not None and others.count(None) < len(others):
                head = (case.label, case.variant, str(case.nodes), row.figure)
                cells = ("-" if value is None else f"{number(value)} ({_more(row, bare, value)})" for value in others)
                text.append((*head, f"{number(bare)} {row.unit}", *cells))
        sizes = [_image_size(case, side) for side in titles]
        if case.rows and None not in sizes:
            text.append((case.label, case.variant, str(case.nodes), "image", "", *map(str, sizes)))
    if len(text) == 1:
        return []
    legend = [f"{name}: {title}" for name, title in titles.items()]
    return [*columns(text), *legend]


def _median(case: Case, side: str, figure: str) -> float | None:
    values = [sides[side][figure] for sides in case.measured if figure in sides.get(side, ())]
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
