"""What changed over the nights: the changes by cause, and the trends of metrics with a plot of those that changed.

A trend is the overhead of each variant above the bare value; both together show the cause of a change.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.axes import Axes

from containercheck.history.causes import ChangeCause
from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import BARE, OVERHEAD, Point, Series
from containercheck.report.page import drawing
from containercheck.report.page.drawing import Chart, light
from containercheck.report.page.wording import Table, axes, finite, plain, shortened, shown_count
from containercheck.results.formatting import count, number

#: Most nights in a plot, names of nights below it, and nights in the table of trends without a change.
DRAWN, NAMED, LISTED = 60, 6, 5
#: Most series of an application in that table; all are in the CSV.
MOST_ROWS = 60


@dataclass(frozen=True)
class Trend:
    """The series of a metric on a partition, for all variants.

    :ivar anchor: identifies it on the page.
    :ivar title: application, with its axes, nodes, metric and partition.
    :ivar changes: changes that stand.
    :ivar chart: None where it is not drawn.
    """

    anchor: str
    application: str
    title: str
    series: tuple[Series, ...]
    changes: tuple[Change, ...]
    chart: Chart | None = None


@dataclass(frozen=True)
class Unchanged:
    """The trends of an application in which nothing changed.

    :ivar drawn: those with a plot.
    :ivar table: all of them.
    """

    application: str
    drawn: tuple[Trend, ...]
    table: Table


def group(series: Series) -> Hashable:
    """Return the properties that the series of one trend share."""
    place = (series.system, series.partition, series.environ)
    return (*place, series.application, tuple(series.axes.items()), series.nodes, series.metric)


def alarms_first(causes: Iterable[ChangeCause]) -> list[ChangeCause]:
    """Return the causes of changes: confirmed regressions first, then proposed ones, then improvements."""
    return sorted(causes, key=lambda cause: (not is_alarm(cause), not any(change.worse for change in cause.changes)))


def is_alarm(cause: ChangeCause) -> bool:
    """Return whether one of the changes is confirmed and for the worse."""
    return any(change.worse and change.confirmed for change in cause.changes)


def by_place(cause: ChangeCause) -> list[list[Change]]:
    """Return the changes of a cause by their place and certainty, the worst first."""
    places: dict[tuple[Any, ...], list[Change]] = {}
    for change in sorted(cause.changes, key=lambda change: (not change.worse, not change.confirmed, -abs(change.size))):
        key = (name(change.series), change.first.night.name, change.worse, change.confirmed)
        places.setdefault(key, []).append(change)
    return list(places.values())


def name(series: Series) -> str:
    """Return application, variant, nodes and partition of a series."""
    return f"{series.label} {series.variant or BARE}, {_where(series)}"


def moved(change: Change) -> str:
    """Return the series of a change within its trend, with the levels before and after it."""
    label, unit = _label(change.series), change.series.unit
    if change.series.kind == OVERHEAD:
        return f"{label} {number(change.before, 2, '+')} {unit} → {number(change.after, 2, '+')} {unit}"
    by = f" ({number(change.size, 2, '+')} %)"
    return f"{label} {number(change.before, 4)} {unit} → {number(change.after, 4)} {unit}{by}"


def _label(series: Series) -> str:
    """Return the label of a series within its trend."""
    return f"overhead of {series.variant}" if series.kind == OVERHEAD else "bare"


def _where(series: Series) -> str:
    """Return nodes and partition of a series."""
    partition = f"{series.system}:{series.partition}" if series.system else series.partition
    return f"{count(series.nodes, 'node')}, {partition}" + (f" {series.environ}" if series.environ != "builtin" else "")


def trends(all_series: Iterable[Series], changes: Sequence[Change], nights: Sequence[Night], most: int) -> list[Trend]:
    """Return all trends of two nights or more, those that changed first; the first ones are drawn.

    :param most: most trends that are drawn.
    """
    groups: dict[Any, list[Series]] = {}
    for series in all_series:
        if len((*series.earlier, *series.points)) > 1:
            groups.setdefault(group(series), []).append(series)
    changes_of: dict[Hashable, list[Change]] = {}
    for change in changes:
        changes_of.setdefault(group(change.series), []).append(change)
    # The first metric of each case comes before the second ones.
    counts: collections.Counter[Hashable] = collections.Counter()
    order: dict[Hashable, int] = {}
    for key in groups:
        order[key] = counts[key[:-1]]
        counts[key[:-1]] += 1
    ordered = sorted(groups, key=lambda key: (key not in changes_of, order[key], key[3]))
    return [
        _trend(f"trend-{place}", groups[key], changes_of.get(key, ()), nights[-DRAWN:] if place <= most else ())
        for place, key in enumerate(ordered, 1)
    ]


def _trend(anchor: str, members: Sequence[Series], changes: Sequence[Change], nights: Sequence[Night]) -> Trend:
    """Return the trend of series, which is drawn over the nights where there are any."""
    first = members[0]
    # All axes are named: a check may have got another one in one of the nights.
    label = f"{first.application} {axes(first.axes)}".strip()
    title = f"{label}, {_where(first)}: {first.metric}"
    trend = Trend(anchor, first.application, title, tuple(members), tuple(changes))
    return replace(trend, chart=_chart(trend, nights)) if nights else trend


def unchanged(all_trends: Sequence[Trend], nights: Sequence[Night]) -> list[Unchanged]:
    """Return the trends in which nothing changed, by application."""
    groups: dict[str, list[Trend]] = {}
    for trend in all_trends:
        if not trend.changes:
            groups.setdefault(trend.application, []).append(trend)
    return [
        Unchanged(application, tuple(trend for trend in group if trend.chart), _levels_of(application, group, nights))
        for application, group in sorted(groups.items())
    ]


def _levels_of(application: str, trends: Sequence[Trend], nights: Sequence[Night]) -> Table:
    """Return the median, spread and last values of each series of some trends."""
    names = [night.name for night in nights[-LISTED:]]
    pairs = [(trend, series) for trend in trends for series in trend.series]
    rows = []
    for trend, series in pairs[:MOST_ROWS]:
        values = [point.value for point in series.points]
        middle = f"{number(statistics.median(values), 3, _sign(series))} {series.unit}"
        spread = number(statistics.stdev(values), 2) if len(values) > 1 else ""
        points = _by_night(series)
        cells = (_cell(points.get(name), series, 3) for name in names)
        rows.append((trend.title, _label(series), str(len(values)), middle, spread, *cells))
    caption = f"{application}: {shown_count(len(rows), len(pairs), 'trend')} without a change"
    return Table(caption, ("metric", "series", "nights", "median", "spread", *names), tuple(rows), left=2)


def _by_night(series: Series) -> dict[str, Point]:
    return {point.night.name: point for point in (*series.earlier, *series.points)}


def _cell(point: Point | None, series: Series, digits: int = 4) -> str:
    """Return the value of a night with twice its standard error; empty without one."""
    if point is None:
        return ""
    half = "" if point.error is None else f" ± {number(2 * point.error, 2)}"
    return f"{number(point.value, digits, _sign(series))}{half}"


def _sign(series: Series) -> str:
    return "+" if series.kind == OVERHEAD else ""


def _chart(trend: Trend, nights: Sequence[Night]) -> Chart:
    """Return the plot of a trend: the overheads of each unit, and the bare value below them."""
    names = [night.name for night in nights]
    # Overheads of several units have a panel each.
    panels: dict[tuple[str, str], list[Series]] = {}
    for series in sorted(trend.series, key=lambda series: series.kind == BARE):
        panels.setdefault((series.kind, series.unit), []).append(series)
    breaks = _breaks(trend.series)
    broken = [place for place, name in enumerate(names) if name in breaks]
    figure = drawing.panels(len(panels))
    for plot, members in zip(figure.axes, panels.values()):
        _draw(plot, members, trend.changes, names)
        for place in broken:
            plot.axvline(place - 0.5, color=light("muted"), linestyle=(0, (2, 2)), linewidth=1.2)
    # The last night is always named.
    every = -(-len(names) // NAMED)
    places = range((len(names) - 1) % every, len(names), every)
    figure.axes[-1].set_xticks(places, labels=[shortened(plain(names[place]), 12) for place in places])
    figure.axes[-1].set_xlim(-0.5, len(names) - 0.5)
    drawing.finished(figure, [f"{kind}, {unit}" for kind, unit in panels])
    changes = [f"{moved(change)} since {change.first.night.name}" for change in trend.changes]
    text = f"Above the overhead of each variant, below the bare value, over {count(len(names), 'night')}; bars are two "
    text += "standard errors, thick lines the levels before and after a change, dotted lines intended breaks. "
    text += f"{'; '.join(changes) or 'No change stands'}."
    headings = ("night", *(f"{_label(series)}, {series.unit}" for series in trend.series), "remark")
    return Chart.of(f"{trend.title} over the nights", text, figure, headings, _rows(trend, names, breaks))


def _draw(plot: Axes, members: Sequence[Series], changes: Sequence[Change], names: Sequence[str]) -> None:
    """Draw series over nights, with the levels before and after a change.

    The axis has at least four times the height of the smallest change, so that noise does not look like one.
    """
    looks = drawing.looks(series.variant or BARE for series in members)
    for place, series in enumerate(members):
        # Two curves, so that no line crosses a break.
        for part in (series.earlier, series.points):
            points = [point for point in part if point.night.name in names]
            if points:
                at = [names.index(point.night.name) + 0.06 * place for point in points]
                errors = [2 * (finite(point.error) or 0.0) for point in points]
                look = {**looks[series.variant or BARE], "elinewidth": 1.2, "label": plain(_label(series))}
                plot.errorbar(at, [point.value for point in points], errors, **look)
                rings = [(x, point.value) for x, point in zip(at, points) if point.confirmation]
                if rings:
                    drawing.mark(plot, *zip(*rings))
        for change in changes:
            if _identity(change.series) == _identity(series):
                _draw_levels(plot, change, names)
    low, high = plot.get_ylim()
    span = max(map(_span, members))
    if high - low < span:
        plot.set_ylim((low + high - span) / 2, (low + high + span) / 2)


def _draw_levels(plot: Axes, change: Change, names: Sequence[str]) -> None:
    points = change.series.points
    for part, level in ((points[: change.at], change.before), (points[change.at :], change.after)):
        shown = [names.index(point.night.name) for point in part if point.night.name in names]
        if shown:
            plot.hlines(level, shown[0] - 0.3, shown[-1] + 0.3, color=light("bad"), linewidth=3, alpha=0.6)


def _identity(series: Series) -> tuple[Hashable, ...]:
    return (series.kind, series.variant, series.unit, group(series))


def _span(series: Series) -> float:
    """Return four times the smallest change that is reported, in the series' unit."""
    whole = statistics.median(abs(point.value) for point in series.points) / 100 if series.kind == BARE else 1.0
    return 4 * series.least * whole


def _breaks(members: Iterable[Series]) -> dict[str, str]:
    """Return the reasons for which series begin anew, by the names of the nights."""
    breaks = {}
    for series in members:
        for point in (*series.earlier, *series.points):
            if point.night.changed:
                breaks[point.night.name] = point.night.changed
        if series.earlier and series.points:
            breaks.setdefault(series.points[0].night.name, "another input, amount of work, or unit")
    return breaks


def _rows(trend: Trend, names: Sequence[str], breaks: Mapping[str, str]) -> Iterable[tuple[str, ...]]:
    """Yield the rows of the table of a trend: the values of each night that has one."""
    columns = [_by_night(series) for series in trend.series]
    for name in names:
        points = [column.get(name) for column in columns]
        if any(points):
            remarks = [f"series begin anew: {breaks[name]}"] if name in breaks else []
            remarks += ["confirmation"] if any(point and point.confirmation for point in points) else []
            cells = (_cell(point, series) for series, point in zip(trend.series, points))
            yield (name, *cells, "; ".join(remarks))
