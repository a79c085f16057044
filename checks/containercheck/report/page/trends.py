"""Trends of a figure over the nights: the overhead above the bare value; both together show the cause of a change."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import BARE, OVERHEAD, Point, Series
from containercheck.report.page import charts, drawing, shapes
from containercheck.report.page.charts import Chart
from containercheck.report.page.palette import VARIANTS
from containercheck.report.page.shapes import Curve, Level, Panel
from containercheck.report.page.wording import Table, axes, finite, measured, shown_count
from containercheck.results.formatting import count, number

#: Most nights in a plot, and in the table of trends without a change.
DRAWN, TOLD = 60, 5
#: Most series of an application in that table; all are in the CSV.
MOST_ROWS = 60

Group = tuple[Any, ...]


@dataclass(frozen=True)
class Trend:
    """The series of a figure on a partition, for all variants.

    :ivar anchor: identifies it on the page.
    :ivar title: application, with its axes, nodes, figure and partition.
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


def group(series: Series) -> Group:
    """Return the properties that the series of one trend share."""
    place = (series.system, series.partition, series.environ)
    return (*place, series.application, tuple(series.axes.items()), series.nodes, series.figure)


def trends(all_series: Iterable[Series], changes: Sequence[Change], nights: Sequence[Night], most: int) -> list[Trend]:
    """Return all trends of two nights or more, those that changed first; the first ones are drawn.

    :param most: most trends that are drawn.
    """
    groups: dict[Group, list[Series]] = {}
    for series in all_series:
        if len((*series.earlier, *series.points)) > 1:
            groups.setdefault(group(series), []).append(series)
    changed: dict[Group, list[Change]] = {}
    for change in changes:
        changed.setdefault(group(change.series), []).append(change)
    counts: collections.Counter[Group] = collections.Counter()
    order: dict[Group, int] = {}
    for key in groups:
        order[key] = counts[key[:-1]]
        counts[key[:-1]] += 1
    # The first figure of each application comes before the second ones.
    ordered = sorted(groups, key=lambda key: (key not in changed, order[key], key[3]))
    titles = _titles([groups[key][0] for key in ordered])
    all_trends = []
    for place, key in enumerate(ordered):
        facts = (tuple(groups[key]), tuple(changed.get(key, ())))
        trend = Trend(f"trend-{place + 1}", key[3], titles[place], *facts)
        limit = min(most, charts.MOST_CHANGED) if trend.changes else most
        all_trends.append(_drawn(trend, nights) if place < limit else trend)
    return all_trends


def _titles(first: Sequence[Series]) -> list[str]:
    """Return a title for each trend; with all axes where the label is ambiguous.

    A check may have got another axis in one of the nights.

    :param first: the first series of each trend.
    """
    titles = [f"{series.label}, {where(series)}: {series.figure}" for series in first]
    counts = collections.Counter(titles)
    return [
        title if counts[title] == 1 else f"{title} ({axes(series.axes) or 'no axes'})"
        for title, series in zip(titles, first)
    ]


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
    names = [night.name for night in nights[-TOLD:]]
    pairs = [(trend, series) for trend in trends for series in trend.series]
    rows = tuple(_row(*pair, names) for pair in pairs[:MOST_ROWS])
    caption = f"{application}: {shown_count(len(rows), len(pairs), 'trend')} without a change"
    return Table(caption, ("figure", "series", "nights", "median", "spread", *names), rows, left=2)


def _row(trend: Trend, series: Series, names: Sequence[str]) -> tuple[str, ...]:
    values = [point.value for point in series.points]
    by_night = {point.night.name: point for point in (*series.earlier, *series.points)}
    sign = "+" if series.kind == OVERHEAD else ""
    points = (by_night.get(name) for name in names)
    cells = (measured(point.value, point.error, "", 3, sign) if point else "" for point in points)
    spread = number(statistics.stdev(values), 2) if len(values) > 1 else ""
    middle = f"{number(statistics.median(values), 3, sign)} {series.unit}"
    return (trend.title, label(series), str(len(values)), middle, spread, *cells)


def label(series: Series) -> str:
    """Return the label of a series within its trend."""
    return f"overhead of {series.variant}" if series.kind == OVERHEAD else "bare"


def where(series: Series) -> str:
    """Return nodes and partition of a series."""
    partition = f"{series.system}:{series.partition}" if series.system else series.partition
    return f"{count(series.nodes, 'node')}, {partition}" + (f" {series.environ}" if series.environ != "builtin" else "")


def _drawn(trend: Trend, nights: Sequence[Night]) -> Trend:
    shown = list(nights)[-DRAWN:]
    places = {night.name: place for place, night in enumerate(shown)}
    panels, words = [], []
    for kind in (OVERHEAD, BARE):
        # Overheads of several units have a panel each.
        units = dict.fromkeys(series.unit for series in trend.series if series.kind == kind)
        for unit in units:
            members = [series for series in trend.series if (series.kind, series.unit) == (kind, unit)]
            panels.append(_panel(f"{kind}, {unit}", members, trend.changes, places))
    for change in trend.changes:
        words.append(f"{label(change.series)} {levels(change)} since {since(change)}")
    broken = {place: reason for place, reason in _breaks(trend.series, places).items() if place in range(len(shown))}
    text = f"Above the overhead of each variant, below the bare value, over {count(len(shown), 'night')}; "
    text += "bars are two standard errors, thick lines the levels before and after a change, dotted lines breaks on "
    text += f"purpose. {'; '.join(words) or 'No change stands'}."
    names = [night.name for night in shown]
    title = f"{trend.title} over the nights"
    svg = drawing.over_nights(panels, names, sorted(broken))
    table = _table(f"Data of the plot: {title}", trend, shown, broken)
    chart = Chart.of(f"{trend.anchor}-plot", title, text, svg, table)
    return replace(trend, chart=chart)


def since(change: Change) -> str:
    """Return the first night of the new level."""
    return change.series.points[change.at].night.name


def levels(change: Change) -> str:
    """Return the levels before and after a change."""
    unit = change.series.unit
    if change.series.kind == OVERHEAD:
        return f"{number(change.before, 2, '+')} {unit} → {number(change.after, 2, '+')} {unit}"
    by = f" ({number(change.size, 2, '+')} %)"
    return f"{number(change.before, 4)} {unit} → {number(change.after, 4)} {unit}{by}"


def _panel(name: str, members: Sequence[Series], changes: Sequence[Change], places: dict[str, int]) -> Panel:
    others = [series.variant for series in members if series.variant not in VARIANTS]
    curves, drawn_levels = [], []
    for series in members:
        style = 0 if series.kind == BARE else shapes.style_of(series.variant, others)
        # Two curves, so that no line crosses a break.
        for part in (series.earlier, series.points):
            points = [point for point in part if point.night.name in places]
            if points:
                rings = tuple(places[point.night.name] for point in points if point.confirmation)
                curves.append(Curve(label(series), style, tuple(_point(point, places) for point in points), rings))
        for change in changes:
            if change.series is series or identity(change.series) == identity(series):
                drawn_levels += _levels(change, places)
    return Panel(name, tuple(curves), tuple(drawn_levels), max(map(_span, members)))


def _span(series: Series) -> float:
    """Return four times the smallest change that is reported, in the series' unit."""
    whole = statistics.median(abs(point.value) for point in series.points) / 100 if series.kind == BARE else 1.0
    return 4 * series.least * whole


def identity(series: Series) -> tuple[Any, ...]:
    """Return the properties that distinguish a series from all others."""
    return (series.kind, series.variant, series.unit, *group(series))


def _point(point: Point, places: dict[str, int]) -> tuple[float, float, float | None, float | None]:
    error = finite(point.error)
    ends = (None, None) if error is None else (point.value - 2 * error, point.value + 2 * error)
    return (places[point.night.name], point.value, *ends)


def _levels(change: Change, places: dict[str, int]) -> list[Level]:
    names = [point.night.name for point in change.series.points]
    drawn_levels = []
    for part, value in ((names[: change.at], change.before), (names[change.at :], change.after)):
        shown = [places[name] for name in part if name in places]
        if shown:
            drawn_levels.append(Level(shown[0], shown[-1], value))
    return drawn_levels


def _breaks(members: Iterable[Series], places: dict[str, int]) -> dict[int, str]:
    """Return the reasons for which series begin anew, by the indices of the nights."""
    breaks = {}
    for series in members:
        for point in (*series.earlier, *series.points):
            if point.night.changed and point.night.name in places:
                breaks[places[point.night.name]] = point.night.changed
        if series.earlier and series.points and series.points[0].night.name in places:
            night = series.points[0].night
            breaks.setdefault(places[night.name], night.changed or "another input, amount of work, or unit")
    return breaks


def _table(caption: str, trend: Trend, shown: Sequence[Night], broken: dict[int, str]) -> Table:
    columns = [{point.night.name: point for point in (*series.earlier, *series.points)} for series in trend.series]
    rows = []
    for place, night in enumerate(shown):
        points = [column.get(night.name) for column in columns]
        if not any(points):
            continue
        cells = [
            measured(point.value, point.error, "", sign="+" if series.kind == OVERHEAD else "") if point else ""
            for series, point in zip(trend.series, points)
        ]
        remarks = [f"series begin anew: {broken[place]}"] if place in broken else []
        remarks += ["confirmation"] if any(point and point.confirmation for point in points) else []
        rows.append((night.name, *cells, "; ".join(remarks)))
    headings = (f"{label(series)}, {series.unit}" for series in trend.series)
    return Table(caption, ("night", *headings, "remark"), tuple(rows))
