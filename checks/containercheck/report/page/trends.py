"""Show the changes over the nights by cause, and plots of the metrics that changed.

A trend is the overhead of each variant above the bare value. Both together show the cause of a change.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from containercheck.history.causes import ChangeCause
from containercheck.history.change_points import LevelChange
from containercheck.history.nights import Night
from containercheck.history.series import BARE, OVERHEAD, Point, Series
from containercheck.report.page import cases as page_cases
from containercheck.report.page.cases import finite
from containercheck.report.page.plots import Chart, Panel, PlotValue
from containercheck.results.formatting import by_key, count, number

#: Most nights in a plot.
DRAWN = 60


@dataclass(frozen=True)
class Trend:
    """The series of a metric on a partition, for all variants.

    :ivar anchor: identifies it on the page.
    :ivar title: application, with its axes, nodes, metric and partition.
    :ivar changes: changes that stand.
    :ivar chart: None if it is not drawn.
    """

    anchor: str
    title: str
    series: tuple[Series, ...]
    changes: tuple[LevelChange, ...]
    chart: Chart | None = None


def alarms_first(causes: Iterable[ChangeCause]) -> list[ChangeCause]:
    """Return the causes of changes: confirmed regressions, then proposed ones, then improvements."""
    return sorted(causes, key=lambda cause: (not is_alarm(cause), not any(change.worse for change in cause.changes)))


def is_alarm(cause: ChangeCause) -> bool:
    """Return whether one of the changes is confirmed and for the worse."""
    return any(change.worse and change.confirmed for change in cause.changes)


def by_place(cause: ChangeCause) -> list[list[LevelChange]]:
    """Return the changes of a cause by their place and certainty, the worst first."""
    ordered = sorted(cause.changes, key=lambda change: (not change.worse, not change.confirmed, -abs(change.size)))
    places = by_key(
        ordered, lambda change: (name(change.series), change.first.night.name, change.worse, change.confirmed)
    )
    return list(places.values())


def name(series: Series) -> str:
    """Return application, variant, nodes and partition of a series."""
    return f"{series.label} {series.variant or BARE}, {_where(series)}"


def moved(change: LevelChange) -> str:
    """Return the series of a change within its trend, with the levels before and after it."""
    label, unit = _label(change.series), change.series.unit
    if change.series.kind == OVERHEAD:
        return f"{label} {number(change.before, 2, '+')} {unit} → {number(change.after, 2, '+')} {unit}"
    by = f" ({number(change.size, 2, '+')} %)"
    return f"{label} {number(change.before, 4)} {unit} → {number(change.after, 4)} {unit}{by}"


def _label(series: Series) -> str:
    """Return the label of a series within its trend."""
    return f"overhead of {series.variant}" if series.kind == OVERHEAD else BARE


def _where(series: Series) -> str:
    """Return nodes and partition of a series."""
    partition = f"{series.system}:{series.partition}" if series.system else series.partition
    return f"{count(series.nodes, 'node')}, {partition}" + (f" {series.environ}" if series.environ != "builtin" else "")


def trends(
    changes: Sequence[LevelChange], all_series: Iterable[Series], nights: Sequence[Night], most: int
) -> list[Trend]:
    """Return the trends with a change; the first ones are drawn.

    :param most: most trends that are drawn.
    """
    members = by_key(all_series, lambda series: series.of_metric)
    changes_of = by_key(changes, lambda change: change.series.of_metric)
    return [
        _trend(f"trend-{place}", members[key], of_trend, nights[-DRAWN:] if place <= most else ())
        for place, (key, of_trend) in enumerate(changes_of.items(), 1)
    ]


def _trend(anchor: str, members: Sequence[Series], changes: Sequence[LevelChange], nights: Sequence[Night]) -> Trend:
    """Return the trend of series, with a plot over the nights if there are any."""
    first = members[0]
    # All axes are named, because the check may have another axis since one of the nights.
    label = f"{first.application} {page_cases.axes(first.axes)}".strip()
    title = f"{label}, {_where(first)}: {first.metric}"
    trend = Trend(anchor, title, tuple(members), tuple(changes))
    return replace(trend, chart=_chart(trend, nights)) if nights else trend


def _by_night(series: Series) -> dict[str, Point]:
    return {point.night.name: point for point in (*series.earlier, *series.points)}


def _chart(trend: Trend, nights: Sequence[Night]) -> Chart:
    """Return the plot of a trend: the overheads of each unit, and the bare value below them."""
    names = [night.name for night in nights]
    # Each unit of overheads has a panel.
    ordered = sorted(trend.series, key=lambda series: series.kind == BARE)
    members = by_key(ordered, lambda series: (series.kind, series.unit))
    panels = [_panel(f"{kind}, {unit}", group, trend.changes, names) for (kind, unit), group in members.items()]
    breaks = _breaks(trend.series)
    changes = [f"{moved(change)} since {change.first.night.name}" for change in trend.changes]
    text = f"Above the overhead of each variant, below the bare value, over {count(len(names), 'night')}; bars are two "
    text += "standard errors, thick lines the levels before and after a change, dotted lines intended breaks. "
    text += f"{'; '.join(changes) or 'No change stands'}."
    shown = [name for name in names if name in breaks]
    return Chart.of(f"{trend.title} over the nights", text, panels, "night", names, shown)


def _panel(unit: str, members: Sequence[Series], changes: Sequence[LevelChange], names: Sequence[str]) -> Panel:
    """Return the values of series, with the levels before and after a change.

    The axis has at least four times the height of the smallest change, so that noise does not look like one.
    """
    values = []
    for series in members:
        for night, point in _by_night(series).items():
            if night in names:
                half = 2 * (finite(point.error) or 0.0)
                side = series.variant or BARE
                values.append(PlotValue(side, night, point.value, point.value - half, point.value + half))
    levels = []
    for change in (change for change in changes if change.series in members):
        points = change.series.points
        for part, level in ((points[: change.at], change.before), (points[change.at :], change.after)):
            shown = [point.night.name for point in part if point.night.name in names]
            levels += [(shown[0], shown[-1], level)] if shown else []
    return Panel(unit, values, levels, max(map(_span, members)))


def _span(series: Series) -> float:
    """Return four times the smallest change that is reported, in the series' unit."""
    whole = statistics.median(abs(point.value) for point in series.points) / 100 if series.kind == BARE else 1.0
    return 4 * series.least * whole


def _breaks(members: Iterable[Series]) -> set[str]:
    """Return the names of the nights at which series break."""
    breaks: set[str] = set()
    for series in members:
        breaks.update(point.night.name for point in (*series.earlier, *series.points) if point.night.changed)
        if series.earlier:
            breaks.update(point.night.name for point in series.points[:1])
    return breaks
