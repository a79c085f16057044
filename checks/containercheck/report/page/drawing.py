"""Plots, by matplotlib: curves over nodes, intervals of overheads, and trends over nights; as SVG in the page's colors.

Whoever draws is told values only; what they mean, and the table that goes with a plot, say plots.py and trends.py.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from containercheck.report.page.palette import SERIES, light
from containercheck.report.page.shapes import Curve, Interval, Panel
from containercheck.report.page.wording import plain, shortened
from containercheck.results.formatting import number

#: Pixels; a phone shows it at three quarters.
WIDTH, HEIGHT = 540, 300
#: SVG has 72 to the inch.
INCH = 72
#: Pixels of a letter, of a line of text, and around everything.
LETTER, LINE, MARGIN = 6.0, 22, 12
#: So many names of nights fit below each other's trend.
NIGHT_NAMES = 6
#: Letters of a label beside a row of intervals.
LONGEST = 34
#: What the legend calls what is no series.
ACCEPTED, CONFIRMATION = "accepted", "confirmation"
STYLE: Any = {
    "svg.fonttype": "none",
    # The same page twice is the same file.
    "svg.hashsalt": "containercheck",
    # A dollar is a dollar.
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


def over_nodes(curves: Sequence[Curve], label: str, ideal: bool = False) -> str:
    """Draw curves over numbers of nodes, which double; with the ideal speed-up, where that is asked for."""
    nodes = sorted({point[0] for curve in curves for point in curve.points})
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, HEIGHT)
        axes.set_xscale("log", base=2)
        if ideal:
            axes.plot(nodes, [node / nodes[0] for node in nodes], color=light("edge"), linewidth=1, label="ideal")
        for place, curve in enumerate(curves):
            # Beside each other, where they are equal.
            _draw(axes, curve, factor=1.02**place)
        axes.set_xticks(nodes, labels=[f"{node:g}" for node in nodes])
        axes.minorticks_off()
        axes.set_xlim(nodes[0] * 0.85, nodes[-1] * 1.2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("nodes")
        return _finished(figure, [axes], [label])


def over_names(curves: Sequence[Curve], names: Sequence[str], label: str) -> str:
    """Draw points over names, as of versions; the x of a point is the place of its name."""
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, HEIGHT)
        for place, curve in enumerate(curves):
            _draw(axes, curve, shift=0.04 * place)
        short = [shortened(plain(name), 72 // len(names)) for name in names]
        axes.set_xticks(range(len(names)), labels=short)
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.set_ylim(bottom=0)
        return _finished(figure, [axes], [label])


def intervals(found: Sequence[Interval], label: str) -> str:
    """Draw intervals on rows, the first one on top, and the ends of what is accepted as lines across them.

    An interval without an end reaches the edge; without both there is none yet.
    """
    rows = list(dict.fromkeys(one.row for one in found))
    each = 1 + max(sum(one.row == row for one in found) for row in rows)
    height = 4 * LINE + MARGIN + len(rows) * max(LINE, 9 * each)
    names = [shortened(plain(row), LONGEST) for row in rows]
    with matplotlib.rc_context(STYLE):
        figure, (axes,) = _figure(1, height, left=2 * MARGIN + LETTER * max(map(len, names)))
        low, high = _span(found)
        done: dict[str, int] = {}
        for one in found:
            done[one.row] = done.get(one.row, 0) + 1
            _draw_interval(axes, one, rows.index(one.row) - 0.5 + done[one.row] / each, 0.9 / each, (low, high))
        axes.axvline(0, color=light("edge"), linewidth=1)
        axes.set_yticks(range(len(rows)), labels=names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(low, high)
        axes.xaxis.set_major_formatter(FuncFormatter(_tick))
        axes.set_xlabel(plain(label))
        return _finished(figure, [axes], [""])


def _draw_interval(axes: Axes, one: Interval, y: float, half: float, edges: tuple[float, float]) -> None:
    """Draw an interval.

    :param half: half the height of the lines of what is accepted.
    :param edges: where an interval without an end goes to.
    """
    color, marker, _ = SERIES[one.style]
    low, high = edges
    ends = (low if one.low is None else max(low, one.low), high if one.high is None else min(high, one.high))
    if (one.low, one.high) != (None, None):
        axes.plot(ends, (y, y), color=light(color))
    axes.plot([one.value], [y], color=light(color), marker=marker, linestyle="none", label=plain(one.label))
    limits = [end for end in one.accepted if end is not None]
    if limits:
        axes.vlines(limits, y - half, y + half, color=light("bad"), linewidth=2.5, label=ACCEPTED)


def over_nights(panels: Sequence[Panel], nights: Sequence[str], breaks: Sequence[int]) -> str:
    """Draw panels above each other over the same nights.

    :param nights: their names; the x of a point is its place among them.
    :param breaks: the nights with which series begin anew.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = _figure(len(panels), 44 + 150 * len(panels), bottom=LINE + MARGIN / 2)
        for panel, plot in zip(panels, axes):
            _draw_panel(plot, panel)
            for at in breaks:
                plot.axvline(at - 0.5, color=light("muted"), linestyle=(0, (2, 2)), linewidth=1.2)
            every = max(1, math.ceil(len(nights) / NIGHT_NAMES))
            # Of all nights, the last one has its name.
            places = range((len(nights) - 1) % every, len(nights), every)
            plot.set_xticks(places, labels=[shortened(plain(nights[at]), 72 // NIGHT_NAMES) for at in places])
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


def _figure(
    panels: int, height: float, left: float = 64, bottom: float = 2 * LINE + MARGIN / 2
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with room for a legend and labels; sizes are in pixels."""
    figure = Figure((WIDTH / INCH, height / INCH))
    top = 2 * LINE
    each = (height - bottom - top - (panels - 1) * LINE * 1.4) / panels
    axes = []
    for place in range(panels):
        low = height - top - (place + 1) * each - place * LINE * 1.4
        box = (left / WIDTH, low / height, (WIDTH - left - MARGIN) / WIDTH, each / height)
        axes.append(figure.add_axes(box))
    return figure, axes


def _draw(axes: Axes, curve: Curve, factor: float = 1.0, shift: float = 0.0) -> None:
    """Draw a curve with its intervals.

    :param factor: by which each x is multiplied, so that equal points do not hide each other.
    :param shift: what is added to it.
    """

    def place(x: float) -> float:
        return x * factor + shift

    color, marker, line = SERIES[curve.style]
    x, y = [place(point[0]) for point in curve.points], [point[1] for point in curve.points]
    axes.plot(x, y, color=light(color), marker=marker, linestyle=line, label=plain(curve.label))
    bars = [(at, low, high) for at, (_, _, low, high) in zip(x, curve.points) if low is not None and high is not None]
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
            # Above the axis, where a long one has room; with a place of its own, which matplotlib need not look for.
            plot.set_title(plain(label), loc="left", fontsize=11, y=1.0)
            plot.yaxis.set_major_formatter(FuncFormatter(_tick))
        for handle, name in zip(*plot.get_legend_handles_labels()):
            named.setdefault(name, handle)
    # What is no series comes last.
    names = sorted(named, key=(ACCEPTED, CONFIRMATION).count)
    figure.legend(
        [named[name] for name in names], names, loc="upper left", ncols=5, borderaxespad=0.2, columnspacing=1.2
    )
    text = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings():
        # The page has fonts of its own; matplotlib's only says how wide a text is, about.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(text, format="svg", metadata=nothing)
    return text.getvalue()


def _tick(value: float, _: object) -> str:
    return number(value, 6)


def _span(found: Iterable[Interval]) -> tuple[float, float]:
    """Return from where to where it is drawn: all estimates and limits, and of the intervals as much again at most."""
    found = list(found)
    sure = [0.0]
    for one in found:
        sure += [one.value, *(end for end in one.accepted if end is not None)]
    low, high = min(sure), max(sure)
    more = (high - low) or 1.0
    ends = [min(max(end, low - more), high + more) for one in found for end in (one.low, one.high) if end is not None]
    low, high = min([low, *ends]), max([high, *ends])
    edge = 0.04 * (high - low)
    return low - edge, high + edge
