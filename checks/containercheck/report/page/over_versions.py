"""Bars over the versions of the runtime that ran in the nights, with bare beside them, as in D12.6 section 9.

Its figures 9.1 to 9.4 have what a container adds to a job of RAMP, in seconds and in percent, with the image in memory
and on a shared file system; 9.5 the time of the job, 9.6 its memory, 9.7 the score of DB12.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from containercheck.history.nights import Night
from containercheck.report.page import drawing, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.shapes import Curve
from containercheck.report.page.wording import Table, finite
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import Row

#: Figures of each application that are drawn over versions, and those that are drawn in percent more than bare too.
FIGURES = {"StartUp": ("start",), "RAMP": ("outside", "seconds_unet", "compute", "memory"), "DB12": ("DB12",)}
IN_PERCENT = ("outside", "seconds_unet")
BARE = "bare"

#: Values of the nights by variant and version; those of bare by ``bare`` twice.
Values = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Drawn:
    """A figure of cases that differ in variant only.

    :ivar values, percent: values, and by how many percent they are more than bare in the same job.
    """

    heading: str
    figure: str
    unit: str
    values: Values
    percent: Values


def charts(prefix: str, application: str, nights: Sequence[Night]) -> Iterator[Chart]:
    """Yield the plots of an application, of partitions where several versions ran.

    :param prefix: beginning of the names of the plots.
    """
    for place, drawn in enumerate(_drawn(application, nights)):
        versions = dict.fromkeys(version for variant, version in drawn.values if variant != BARE)
        if len(versions) < 2:
            continue
        name = f"{drawn.heading}: {drawn.figure}"
        order = [BARE, *versions] if (BARE, BARE) in drawn.values else [*versions]
        title = f"{name} under each version of the runtime"
        yield _chart(f"{prefix}-{place + 1}", title, drawn.unit, order, drawn.values)
        if drawn.figure in IN_PERCENT and drawn.percent:
            title = f"{name} under each version of the runtime, more than bare"
            yield _chart(f"{prefix}-{place + 1}-percent", title, "%", [*versions], drawn.percent)


def _drawn(application: str, nights: Sequence[Night]) -> list[Drawn]:
    """Return the figures of an application with their values of all nights, a figure of all axes after the other."""
    figures = FIGURES.get(application, ())
    cases = [case for night in nights for case in night.cases if case.application == application]
    axes = dict.fromkeys(name for case in cases for name in case.axes)
    differing = [name for name in axes if len({case.axes.get(name) for case in cases}) > 1]
    groups: dict[tuple[str, str], Drawn] = {}
    for case in cases:
        chosen = wording.axes({name: case.axes[name] for name in differing if name in case.axes})
        heading = f"{' '.join(filter(None, (application, chosen)))}, {wording.partition(case)}"
        for row in (row for row in case.rows if row.figure in figures):
            drawn = groups.setdefault((row.figure, heading), Drawn(heading, row.figure, row.unit, {}, {}))
            _add(drawn, case, row)
    return sorted(groups.values(), key=lambda drawn: figures.index(drawn.figure))


def _add(drawn: Drawn, case: Case, row: Row) -> None:
    """Add the values of a row's sides: of bare, and of those in a container whose version is known."""
    runtimes = case.provenance.get("runtimes") or {}
    for side in ("baseline", "subject"):
        value, label = finite(getattr(row, side)), getattr(row, f"{side}_label")
        runtime = runtimes.get(side) or runtimes.get(label) or {}
        if value is None:
            continue
        if side == "baseline" and label == BARE:
            drawn.values.setdefault((BARE, BARE), []).append(value)
        elif runtime.get("version"):
            key = (case.variant, runtime["version"])
            drawn.values.setdefault(key, []).append(value)
            if row.baseline and row.baseline_label == BARE:
                drawn.percent.setdefault(key, []).append(100 * (value / row.baseline - 1))


def _chart(name: str, title: str, unit: str, order: Sequence[str], values: Values) -> Chart:
    """Return the plot of the median over the nights of each version, with the smallest and the largest value."""
    curves = []
    for variant in sorted({variant for variant, _ in values}, key=shapes.style_of):
        of_variant = {version: values[variant, version] for version in order if (variant, version) in values}
        points = tuple(
            (float(order.index(version)), statistics.median(known), min(known), max(known))
            for version, known in of_variant.items()
        )
        curves.append(Curve(variant, shapes.style_of(variant), points))
    rows = tuple(_row(version, variant, values, unit) for version in order for variant in _variants(version, values))
    text = "The median over the nights; bars are the smallest and the largest value. "
    text += "; ".join(f"{row[0]}, {row[1]}: {row[3]}" for row in rows) + "."
    data = Table(
        f"Data of the plot: {title}", ("runtime", "variant", "nights", "median", "smallest", "largest"), rows, 2
    )
    return Chart.of(name, title, text, drawing.over_names(curves, order, unit), data)


def _variants(version: str, values: Mapping[tuple[str, str], object]) -> list[str]:
    return sorted((variant for variant, known in values if known == version), key=shapes.style_of)


def _row(version: str, variant: str, values: Values, unit: str) -> tuple[str, ...]:
    known = values[variant, version]
    return (version, variant, str(len(known)), *(f"{number(f(known))} {unit}" for f in (statistics.median, min, max)))
