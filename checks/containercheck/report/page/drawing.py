"""Draw plots with matplotlib: curves over nodes, intervals of overheads, trends over nights, maps of pairs; as SVG.

The functions get values only; plots.py and trends.py give them their titles, descriptions and tables.
"""

from __future__ import annotations

import io
import itertools
import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import FuncFormatter

from containercheck.report.page.palette import SCALE, SERIES, light
from containercheck.report.page.shapes import Curve, Interval, PairMap, Panel, RankTimes
from containercheck.report.page.wording import plain, shortened
from containercheck.results.formatting import number

#: Size in pixels; a phone shows the plot at three quarters of it.
WIDTH, HEIGHT = 540, 300
#: Pixels of an inch in matplotlib's SVG.
INCH = 72
#: Pixels of a letter, of a line of text, and around everything.
LETTER, LINE, MARGIN = 6.0, 22, 12
#: Width of a mark of the legend with the blanks around it, and height of a line of it or of a name, in pixels.
LEGEND_MARK, LEGEND_LINE = 46, 17
#: Part of the room of a name that its bars take; letters of all names in a line below, and lines of a name.
GROUP, LETTERS, NAME_LINES = 0.8, 72, 5
#: Most ticks of an axis of numbers.
MOST_TICKS = 12
#: Most names of nights that fit below a trend.
NIGHT_NAMES = 6
#: Most letters of a label beside a row of intervals.
LONGEST = 34
#: Most ticks of an axis of ranks, and numbers beside a scale of colors.
RANK_TICKS, SCALE_TICKS = 8, 4
#: Height of a scale of colors, in pixels.
SCALE_HEIGHT = 14
#: Names in the legend for marks that are no series.
ACCEPTED, CONFIRMATION = "accepted", "confirmation"
STYLE: Any = {
    "svg.fonttype": "none",
    # The same data give the same file.
    "svg.hashsalt": "containercheck",
    # A dollar sign is text, and does not begin a formula.
    "text.parse_math": False,
    "font.size": 11,
    "text.color": light("text"),
    "axes.labelcolor": light("text"),
    "axes.edgecolor": light("edge"),
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": light("line"),
    "grid.linewidth": 0.6,
    "xtick.color": light("edge"),
    "xtick.labelcolor": light("text"),
    "ytick.color": light("edge"),
    "ytick.labelcolor": light("text"),
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
}


def over_nodes(curves: Sequence[Curve], label: str, ideal: bool = False, axis: str = "nodes") -> str:
    """Draw curves over numbers of nodes or cores on a binary logarithmic axis, optionally with the ideal speed-up."""
    nodes = sorted({point[0] for curve in curves for point in curve.points})
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, HEIGHT)
        axes.set_xscale("log", base=2)
        if ideal:
            axes.plot(nodes, [node / nodes[0] for node in nodes], color=light("edge"), linewidth=1, label="ideal")
        for place, curve in enumerate(curves):
            # Shifted, so that equal points lie beside each other.
            _draw(axes, curve, factor=1.02**place)
        axes.set_xticks(nodes, labels=[f"{node:g}" for node in nodes])
        axes.minorticks_off()
        axes.set_xlim(nodes[0] * 0.85, nodes[-1] * 1.2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(axis)
        return _finished(figure, [axes], [label])


def over_numbers(curves: Sequence[Curve], label: str, axis: str) -> str:
    """Draw curves over the numbers of an axis, which is binary logarithmic; of many numbers every second has its tick.

    :param label: unit of the values.
    :param axis: name of the axis.
    """
    numbers = sorted({point[0] for curve in curves for point in curve.points})
    ticks = numbers[:: math.ceil(len(numbers) / MOST_TICKS)]
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, HEIGHT)
        axes.set_xscale("log", base=2)
        for place, curve in enumerate(curves):
            # Shifted, so that equal points lie beside each other.
            _draw(axes, curve, factor=1.02**place)
        axes.set_xticks(ticks, labels=[short(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(numbers[0] * 0.85, numbers[-1] * 1.2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(plain(axis))
        return _finished(figure, [axes], [label])


def short(value: float) -> str:
    """Return a number for a tick: powers of 1024 as letters.

    >>> [short(value) for value in (8, 65536, 1 << 22, 96000, 1.5)]
    ['8', '64Ki', '4Mi', '96000', '1.5']
    """
    for letter, factor in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{letter}"
    return f"{value:.12g}"


def over_names(curves: Sequence[Curve], names: Sequence[str], label: str) -> str:
    """Draw bars over names, such as versions, beside each other; the x of a point is the index of its name.

    Each bar has its series' mark on top, which tells them apart without color; hollow series are outlines.
    """
    at = {x: [curve for curve in curves if x in curve.places] for curve in curves for x in curve.places}
    width = GROUP / max(1, *map(len, at.values()))
    with matplotlib.rc_context({**STYLE, "axes.grid.axis": "y"}):
        short = [_in_lines(plain(name), max(4, LETTERS // len(names))) for name in names]
        more = max(name.count("\n") for name in short) * LEGEND_LINE
        figure, (axes,) = _figure(1, HEIGHT + more, bottom=LINE + more + MARGIN / 2)
        for curve in curves:
            # In the middle of the bars that are there.
            places = [x + (at[x].index(curve) - (len(at[x]) - 1) / 2) * width for x, *_ in curve.points]
            points = tuple((place, *point[1:]) for place, point in zip(places, curve.points))
            color = light(SERIES[curve.style][0])
            look: dict[str, Any] = {"facecolor": "none", "linestyle": (0, (3, 2))} if curve.hollow else {"alpha": 0.45}
            heights = [point[1] for point in points]
            axes.bar(places, heights, 0.9 * width, **{"facecolor": color, "edgecolor": color, **look})
            _draw(axes, replace(curve, points=points), line=False)
        axes.set_xticks(range(len(names)), labels=short)
        axes.set_xlim(-0.5, len(names) - 0.5)
        if all(point[1] >= 0 for curve in curves for point in curve.points):
            axes.set_ylim(bottom=0)
        return _finished(figure, [axes], [label])


def _in_lines(name: str, letters: int) -> str:
    """Return a name in lines for a tick, each with so many letters at most; what does not fit in is cut."""
    lines = textwrap.wrap(name, letters, max_lines=NAME_LINES, placeholder="…") or [""]
    return "\n".join(shortened(line, letters) for line in lines)


def intervals(drawn: Sequence[Interval], label: str) -> str:
    """Draw intervals on rows, the first one on top, and the limits of the accepted overhead as lines across them.

    An interval that is open on one side reaches the edge; without both ends only its point is drawn.
    """
    rows = list(dict.fromkeys(interval.row for interval in drawn))
    slots = 1 + max(sum(interval.row == row for interval in drawn) for row in rows)
    height = 4 * LINE + MARGIN + len(rows) * max(LINE, 9 * slots)
    names = [shortened(plain(row), LONGEST) for row in rows]
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, height, left=2 * MARGIN + LETTER * max(map(len, names)))
        low, high = _span(drawn)
        done: dict[str, int] = {}
        for interval in drawn:
            done[interval.row] = done.get(interval.row, 0) + 1
            y = rows.index(interval.row) - 0.5 + done[interval.row] / slots
            _draw_interval(axes, interval, y, 0.9 / slots, (low, high))
        axes.axvline(0, color=light("edge"), linewidth=1)
        axes.set_yticks(range(len(rows)), labels=names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_formatter(FuncFormatter(_tick))
        axes.set_xlabel(plain(label))
        return _finished(figure, [axes], [""])


def _draw_interval(axes: Axes, interval: Interval, y: float, half: float, edges: tuple[float, float]) -> None:
    """Draw an interval with its point and its limits.

    :param half: half the height of the lines of the limits.
    :param edges: ends of the axis, where an open interval ends.
    """
    color, marker, _ = SERIES[interval.style]
    low = edges[0] if interval.low is None else max(edges[0], interval.low)
    high = edges[1] if interval.high is None else min(edges[1], interval.high)
    if (interval.low, interval.high) != (None, None):
        axes.plot((low, high), (y, y), color=light(color))
    axes.plot([interval.value], [y], color=light(color), marker=marker, linestyle="none", label=plain(interval.label))
    limits = [end for end in interval.accepted if end is not None]
    if limits:
        axes.vlines(limits, y - half, y + half, color=light("bad"), linewidth=2.5, label=ACCEPTED)


def over_nights(panels: Sequence[Panel], nights: Sequence[str], breaks: Sequence[int]) -> str:
    """Draw panels above each other over the same nights.

    :param nights: names of the nights; the x of a point is an index into them.
    :param breaks: indices of the nights with which series begin anew.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(len(panels), 44 + 150 * len(panels), bottom=LINE + MARGIN / 2)
        for panel, plot in zip(panels, axes):
            _draw_panel(plot, panel)
            for place in breaks:
                plot.axvline(place - 0.5, color=light("muted"), linestyle=(0, (2, 2)), linewidth=1.2)
            every = max(1, math.ceil(len(nights) / NIGHT_NAMES))
            # The last night is always named.
            places = range((len(nights) - 1) % every, len(nights), every)
            plot.set_xticks(places, labels=[shortened(plain(nights[place]), 72 // NIGHT_NAMES) for place in places])
            plot.set_xlim(-0.5, len(nights) - 0.5)
            if plot is not axes[-1]:
                plot.tick_params(labelbottom=False)
        return _finished(figure, axes, [panel.label for panel in panels])


def _draw_panel(plot: Axes, panel: Panel) -> None:
    for curve in panel.curves:
        _draw(plot, curve, shift=0.06 * curve.style)
    low, high = plot.get_ylim()
    if high - low < panel.span:
        middle = (low + high) / 2
        plot.set_ylim(middle - panel.span / 2, middle + panel.span / 2)
    for level in panel.levels:
        ends = (level.first - 0.3, level.last + 0.3)
        plot.hlines(level.value, *ends, color=light("bad"), linewidth=3, alpha=0.6)


def rank_times(sides: Sequence[RankTimes]) -> str:
    """Draw a bar for each rank, of its seconds in MPI and those outside above them; the sides above each other."""
    with matplotlib.rc_context({**STYLE, "axes.grid.axis": "y"}):
        figure, panels = _figure(len(sides), 66 + 140 * len(sides))
        highest = max(total for side in sides for _, total in side.ranks)
        for side, axes in zip(sides, panels):
            inside = [(rank - 0.4, 0.0, rank + 0.4, seconds) for rank, (seconds, _) in enumerate(side.ranks)]
            outside = [(rank - 0.4, low, rank + 0.4, high) for rank, (low, high) in enumerate(side.ranks)]
            _draw_boxes(axes, "series-1", inside, label="in MPI")
            _draw_boxes(axes, "line", outside, label="outside")
            ticks = range(0, len(side.ranks), math.ceil(len(side.ranks) / MOST_TICKS))
            axes.set_xticks(ticks, labels=[str(rank) for rank in ticks])
            axes.set_xlim(-0.6, len(side.ranks) - 0.4)
            axes.set_ylim(0, 1.05 * highest)
            axes.tick_params(labelbottom=axes is panels[-1])
        panels[-1].set_xlabel("rank")
        return _finished(figure, panels, [f"{side.label}, s" for side in sides])


def pair_maps(maps: Sequence[PairMap], label: str) -> str:
    """Draw a matrix of ranks for each side, two beside each other, with one logarithmic scale of colors below all.

    A pair has the color of its value, in both of its cells; pairs that were not measured have none.

    :param label: what the values are, with their unit.
    """
    values = [value for shown in maps for _, _, value in shown.cells]
    low, high = min(values), max(values)
    # On the right there is room for half of the largest number of the scale.
    left, gap, right = 3 * LINE, 2 * LINE, 1.2 * LINE
    side = (WIDTH - left - gap - right) / 2
    row_height = side + 3 * LINE
    height = math.ceil(len(maps) / 2) * row_height + SCALE_HEIGHT + 3 * LINE
    with matplotlib.rc_context({**STYLE, "axes.grid": False, "axes.spines.top": True, "axes.spines.right": True}):
        figure = Figure((WIDTH / INCH, height / INCH))
        for place, shown in enumerate(maps):
            x, y = left + place % 2 * (side + gap), height - place // 2 * row_height - 1.3 * LINE - side
            axes = figure.add_axes((x / WIDTH, y / height, side / WIDTH, side / height))
            _draw_map(axes, shown, low, high)
        box = (left / WIDTH, 2 * LINE / height, (2 * side + gap) / WIDTH, SCALE_HEIGHT / height)
        _draw_scale(figure.add_axes(box), label, low, high)
        return _svg(figure)


def _draw_map(axes: Axes, shown: PairMap, low: float, high: float) -> None:
    levels: dict[int, list[tuple[int, int]]] = {}
    for first, second, value in shown.cells:
        levels.setdefault(_level(value, low, high), []).extend([(first, second), (second, first)])
    for level, cells in levels.items():
        _draw_cells(axes, level, [(x - 0.5, y - 0.5, x + 0.5, y + 0.5) for y, x in cells])
    ticks = range(0, shown.ranks, math.ceil(shown.ranks / RANK_TICKS))
    axes.set_xticks(ticks, labels=[str(rank) for rank in ticks])
    axes.set_yticks(ticks, labels=[str(rank) for rank in ticks])
    axes.set_xlim(-0.5, shown.ranks - 0.5)
    axes.set_ylim(shown.ranks - 0.5, -0.5)
    axes.set_xlabel("rank")
    axes.set_title(plain(shown.label), loc="left", fontsize=11, y=1.0)


def _level(value: float, low: float, high: float) -> int:
    """Return the index of a value's color: the logarithms from the lowest to the highest in equal parts."""
    part = math.log(value / low) / math.log(high / low) if high > low else 0.0
    return min(int(part * len(SCALE)), len(SCALE) - 1)


def _draw_cells(axes: Axes, level: int, boxes: Sequence[tuple[float, float, float, float]]) -> None:
    """Draw boxes in a color of the scale."""
    _draw_boxes(axes, SCALE[level], boxes, clip_on=False)


def _draw_boxes(axes: Axes, color: str, boxes: Sequence[tuple[float, float, float, float]], **facts: Any) -> None:
    """Draw boxes in a color of the page, as one shape: hundreds of them would make the page large."""
    corners = [corner for x, y, to_x, to_y in boxes for corner in ((x, y), (to_x, y), (to_x, to_y), (x, to_y), (x, y))]
    codes = [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY] * len(boxes)
    axes.add_patch(PathPatch(Outline(corners, codes), facecolor=light(color), linewidth=0, **facts))


def _draw_scale(axes: Axes, label: str, low: float, high: float) -> None:
    """Draw the scale of colors, with numbers from its lowest to its highest value."""
    for level in range(len(SCALE)):
        _draw_cells(axes, level, [(level, 0, level + 1, 1)])
    places = [place / (SCALE_TICKS - 1) for place in range(SCALE_TICKS)]
    labels = [number(low * (high / low) ** place, 3) for place in places]
    axes.set_xticks([place * len(SCALE) for place in places], labels=labels)
    axes.set_yticks([])
    axes.set_xlim(0, len(SCALE))
    axes.set_ylim(0, 1)
    axes.set_xlabel(plain(label))


def _figure(
    panels: int, height: float, left: float = 64, bottom: float = 2 * LINE + MARGIN / 2
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with room for a legend and labels; sizes are in pixels."""
    figure = Figure((WIDTH / INCH, height / INCH))
    top = 2 * LINE
    panel_height = (height - bottom - top - (panels - 1) * LINE * 1.4) / panels
    axes = []
    for place in range(panels):
        low = height - top - (place + 1) * panel_height - place * LINE * 1.4
        box = (left / WIDTH, low / height, (WIDTH - left - MARGIN) / WIDTH, panel_height / height)
        axes.append(figure.add_axes(box))
    return figure, axes


def _draw(axes: Axes, curve: Curve, factor: float = 1.0, shift: float = 0.0, line: bool = True) -> None:
    """Draw a curve with its intervals.

    :param factor: factor of each x, so that equal points do not hide each other.
    :param shift: offset of each x, for the same reason.
    :param line: whether a line connects its marks, unless these are hollow.
    """

    def place(x: float) -> float:
        return x * factor + shift

    color, marker, dashes = SERIES[curve.style]
    x, y = [place(point[0]) for point in curve.points], [point[1] for point in curve.points]
    fill: dict[str, Any] = {"markerfacecolor": "none", "markersize": 9} if curve.hollow else {}
    style = dashes if line and not curve.hollow else "none"
    axes.plot(x, y, color=light(color), marker=marker, linestyle=style, label=plain(curve.label), **fill)
    ends = [point[2:] for point in curve.points]
    bars = [(at, low, high) for at, (low, high) in zip(x, ends) if low is not None and high is not None]
    if bars:
        at, low, high = zip(*bars)
        axes.vlines(at, low, high, color=light(color), linewidth=1.2)
    rings = [(place(at), value) for at, value, *_ in curve.points if at in curve.rings]
    if rings:
        ring: dict[str, Any] = {"markersize": 12, "markerfacecolor": "none", "color": light("bad"), "linestyle": "none"}
        axes.plot(*zip(*rings), marker="o", **ring, label=CONFIRMATION)


def _finished(figure: Figure, axes: Sequence[Axes], labels: Sequence[str]) -> str:
    """Give the plots their labels and the legend of all, and return the SVG."""
    named: dict[str, Any] = {}
    for plot, label in zip(axes, labels):
        if label:
            # Above the axis there is room for a long label; a fixed y saves matplotlib the search for one.
            plot.set_title(plain(label), loc="left", fontsize=11, y=1.0)
            plot.yaxis.set_major_formatter(FuncFormatter(_tick))
        for handle, name in zip(*plot.get_legend_handles_labels()):
            named.setdefault(name, handle)
    # Marks that are no series come last.
    names = sorted(named, key=(ACCEPTED, CONFIRMATION).count)
    columns = _columns(names)
    _heighten(figure, (math.ceil(len(names) / columns) - 1) * LEGEND_LINE)
    figure.legend(
        [named[name] for name in names], names, loc="upper left", ncols=columns, borderaxespad=0.2, columnspacing=1.2
    )
    return _svg(figure)


def _columns(names: Sequence[str]) -> int:
    """Return the most columns of a legend that fit into the width of a plot; matplotlib fills the first ones first."""
    for columns in range(min(5, len(names)), 1, -1):
        whole, more = divmod(len(names), columns)
        starts = [place * whole + min(place, more) for place in range(columns + 1)]
        widest = [max(map(len, names[first:end])) for first, end in itertools.pairwise(starts)]
        if sum(LEGEND_MARK + LETTER * letters for letters in widest) < WIDTH:
            return columns
    return 1


def _heighten(figure: Figure, more: float) -> None:
    """Add room above the plots, in pixels, for the legend's further lines; the plots keep their size."""
    width, height = figure.get_size_inches()
    factor = height / (height + more / INCH)
    figure.set_size_inches(width, height / factor)
    for axes in figure.axes:
        left, bottom, across, up = axes.get_position().bounds
        axes.set_position((left, bottom * factor, across, up * factor))


def _svg(figure: Figure) -> str:
    """Return a drawing as the text of an SVG file."""
    text = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # The page has other fonts; matplotlib's only serves to estimate the width of a text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(text, format="svg", metadata=no_metadata)
    return text.getvalue()


def _tick(value: float, _: object) -> str:
    return number(value, 6)


def _span(drawn: Iterable[Interval]) -> tuple[float, float]:
    """Return the ends of the axis, with all estimates and limits, and at most as much again for the intervals."""
    drawn = list(drawn)
    values = [0.0]
    for interval in drawn:
        values += [interval.value, *(end for end in interval.accepted if end is not None)]
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    ends = [end for interval in drawn for end in (interval.low, interval.high) if end is not None]
    ends = [min(max(end, low - width), high + width) for end in ends]
    low, high = min([low, *ends]), max([high, *ends])
    edge = 0.04 * (high - low)
    return low - edge, high + edge
