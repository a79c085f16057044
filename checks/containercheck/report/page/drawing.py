"""Draw plots with matplotlib, as SVG that is part of the page: values over an axis, overheads, maps of pairs.

The functions take values and return a matplotlib figure; :meth:`Chart.of` makes that a plot of the page.

Series have the colors of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of color
vision tell apart; each also has its own marker, line style and hatching. Text has a contrast of 4.5:1 to its ground and
drawings 3:1 (WCAG 2.1, 1.4.3 and 1.4.11).
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from containercheck.report.page.wording import VARIANTS, Table, finite, plain, shortened, variant_order
from containercheck.results.formatting import number
from containercheck.results.row import Row, is_finite

#: Light and dark color by name. The light ones differ from each other: a plot is drawn in them, and they are then
#: replaced with the names.
COLORS = {
    "ground": ("#ffffff", "#14181b"),
    "raised": ("#f1f4f6", "#20262b"),
    "text": ("#1b1e21", "#e9ecee"),
    "muted": ("#555c63", "#aab2b9"),
    "line": ("#c8ced4", "#4a525a"),
    "edge": ("#7d868e", "#818a92"),
    "link": ("#00548a", "#86c8f7"),
    "bad": ("#a23b00", "#ffa366"),
    "good": ("#00694d", "#45cda5"),
    "doubt": ("#6a5000", "#e8c45f"),
    "series-1": ("#0072b2", "#56b4e9"),
    "series-2": ("#d55e00", "#e69f00"),
    "series-3": ("#009e73", "#009e73"),
    "series-4": ("#cc79a7", "#cc79a7"),
}
#: Color, marker and line style of each series of a plot, and hatching of its bars by the marker.
LOOKS = (
    ("text", "o", "-"),
    ("series-1", "s", "--"),
    ("series-2", "^", "-."),
    ("series-3", "D", ":"),
    ("series-4", "v", (0, (6, 1))),
)
HATCHES = {"s": "///", "^": "\\\\\\", "D": "xxx", "v": "---"}
#: Markers of published values, a series each.
PUBLISHED = "osD^vP*"
#: Labels in the legend for marks that are not a series; they come last.
ACCEPTED, CONFIRMATION, IDEAL = "accepted", "confirmation", "ideal"
#: Width and height of a plot, in inches of 72 pixels; a phone shows it at three quarters of that.
WIDTH, HEIGHT = 7.5, 4.2
#: Most ticks of an axis of numbers, and letters that fit below or above a plot.
MOST_TICKS, LETTERS = 12, 78
#: Most letters of a label to the left of a row of intervals.
LONGEST = 34


def light(name: str) -> str:
    """Return a color in its light form, in which plots are drawn."""
    return COLORS[name][0]


STYLE: Any = {
    "svg.fonttype": "none",
    # A dollar sign is text, and does not begin a formula.
    "text.parse_math": False,
    # The page has a font of its own; matplotlib only estimates the width of texts.
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
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
    "xtick.color": light("text"),
    "ytick.color": light("text"),
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
    "hatch.linewidth": 0.7,
}
styled = matplotlib.rc_context(STYLE)


@dataclass(frozen=True)
class PlotValue:
    """A value of a side at a place on an axis.

    :ivar side: bare, a variant, or another label.
    :ivar at: number or name on the axis.
    :ivar low, high: ends of its interval; None where there is none.
    :ivar place: text of the place; empty for ``at`` itself.
    :ivar note: remark on the value.
    :ivar published: whether it is a published value, which is drawn hollow.
    """

    side: str
    at: float | str
    value: float
    low: float | None = None
    high: float | None = None
    place: str = ""
    note: str = ""
    published: bool = False

    @property
    def where(self) -> str:
        """Text of its place on the axis."""
        return self.place or (f"{self.at:.12g}" if isinstance(self.at, (int, float)) else self.at)


@dataclass(frozen=True)
class Chart:
    """A plot of a page with a description in words, and its data as a table.

    :ivar name: identifies it on the page.
    """

    name: str
    title: str
    description: str
    svg: Markup
    table: Table

    @classmethod
    def of(
        cls, title: str, description: str, figure: Figure, headings: Sequence[str], rows: Iterable[tuple[str, ...]]
    ) -> Chart:
        """Make a plot of a figure that a function of this module returned.

        :param title: no two plots of a page have the same one.
        :param headings, rows: of the table of its data.
        """
        title, description = plain(title), plain(description)
        name = f"plot-{zlib.crc32(title.encode()):08x}"
        table = Table(f"Data of the plot: {title}", tuple(headings), tuple(rows))
        return cls(name, title, description, _svg(figure, name, title, description), table)


def _svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """Return a figure as an SVG element: with title and description, the page's colors, and identifiers of its own."""
    text = io.StringIO()
    # The same data give the same file.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        # ``savefig`` would draw the figure twice.
        FigureCanvasSVG(figure).print_svg(text, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    width, height = (72 * inches for inches in figure.get_size_inches())
    inside = re.split(r"<svg [^>]*>|</svg>", text.getvalue())[1]
    inside = re.sub(r'(?<= id=")|(?<=url\(#)|(?<=href="#)', f"{name}-", inside)
    inside = re.sub("|".join(values[0] for values in COLORS.values()), lambda match: NAMES[match[0]], inside)
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" aria-labelledby="{name}-title {name}-description">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-description">{escape(description)}</desc>'
        f"{plain(inside)}</svg>"
    )


#: Names of the page's colors by their light form.
NAMES = {values[0]: f"var(--{name})" for name, values in COLORS.items()}


def looks(sides: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return color, marker and line style of each side: a variant has the same ones in all plots."""
    others = [side for side in dict.fromkeys(sides) if side not in VARIANTS]
    order = [*VARIANTS, *others]
    chosen = {side: LOOKS[place % len(LOOKS)] for place, side in enumerate(order)}
    return {side: {"color": light(look[0]), "marker": look[1], "linestyle": look[2]} for side, look in chosen.items()}


def by_side(values: Iterable[PlotValue]) -> dict[str, list[PlotValue]]:
    """Return the values of each side: variants first, in their order, and published ones last."""
    order = sorted(values, key=lambda value: (value.published, variant_order(value.side), value.side))
    sides: dict[str, list[PlotValue]] = {}
    for value in order:
        sides.setdefault(value.side, []).append(value)
    return {
        side: sorted(of_side, key=lambda value: value.at) if is_numeric(of_side) else of_side
        for side, of_side in sides.items()
    }


def is_numeric(values: Iterable[PlotValue]) -> bool:
    """Return whether all values stand at numbers."""
    return all(isinstance(value.at, (int, float)) for value in values)


def _looks_of(sides: Mapping[str, Sequence[PlotValue]]) -> dict[str, dict[str, Any]]:
    """Return the look of each side; a published one has the color of its variant, and hollow marks without a line."""
    measured = [side for side, values in sides.items() if not values[0].published]
    chosen = looks([*measured, *VARIANTS])
    for place, side in enumerate(side for side in sides if side not in measured):
        color = chosen.get(side.rpartition(", ")[2], chosen["bare"])["color"]
        hollow = {"markerfacecolor": "none", "markersize": 9, "linestyle": "none"}
        chosen[side] = {"color": color, "marker": PUBLISHED[place % len(PUBLISHED)], **hollow}
    return chosen


def _errors(values: Sequence[PlotValue]) -> list[list[float]]:
    """Return the lengths of the intervals below and above values; not a number where there is none."""
    low = [math.nan if value.low is None else max(0.0, value.value - value.low) for value in values]
    high = [math.nan if value.high is None else max(0.0, value.high - value.value) for value in values]
    return [low, high]


@styled
def over_numbers(values: Sequence[PlotValue], axis: str, unit: str, ideal: bool = False) -> Figure:
    """Draw a curve of each side over the numbers of an axis, which is binary logarithmic.

    :param ideal: whether to draw the ideal speed-up.
    """
    figure = Figure((WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    sides = by_side(values)
    chosen = _looks_of(sides)
    numbers = sorted({float(value.at) for value in values})
    axes.set_xscale("log", base=2)
    if ideal:
        axes.plot(numbers, [at / numbers[0] for at in numbers], color=light("edge"), linewidth=1, label=IDEAL)
    for place, (side, of_side) in enumerate(sides.items()):
        # Shifted, so that equal values do not hide each other.
        at = [float(value.at) * 1.02**place for value in of_side]
        axes.errorbar(
            at, [value.value for value in of_side], _errors(of_side), **chosen[side], elinewidth=1.2, label=plain(side)
        )
    ticks = numbers[:: math.ceil(len(numbers) / MOST_TICKS)]
    axes.set_xticks(ticks, labels=[short(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(numbers[0] * 0.85, numbers[-1] * 1.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(plain(axis))
    return finished(figure, [unit])


def short(value: float) -> str:
    """Return a number for a tick: powers of 1024 as letters.

    >>> [short(value) for value in (8, 65536, 1 << 22, 96000, 1.5)]
    ['8', '64Ki', '4Mi', '96000', '1.5']
    """
    for letter, factor in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{letter}"
    return f"{value:.12g}"


@styled
def over_names(values: Sequence[PlotValue], unit: str) -> Figure:
    """Draw a bar of each side over each name, such as a version; published values are outlines."""
    figure = Figure((WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(axis="x", visible=False)
    sides = by_side(values)
    names = list(dict.fromkeys(value.where for value in values))
    chosen = _looks_of(sides)
    there = {name: [side for side, of_side in sides.items() if any(v.where == name for v in of_side)] for name in names}
    width = 0.8 / max(map(len, there.values()))
    for side, of_side in sides.items():
        color, hatch = chosen[side]["color"], HATCHES.get(chosen[side]["marker"], "")
        face: dict[str, Any] = {"facecolor": "none", "hatch": hatch} if hatch else {"facecolor": (color, 0.4)}
        if of_side[0].published:
            face = {"facecolor": "none", "linestyle": "--"}
        # In the middle of the bars that are there.
        offsets = [there[value.where].index(side) - (len(there[value.where]) - 1) / 2 for value in of_side]
        at = [names.index(value.where) + offset * width for value, offset in zip(of_side, offsets)]
        heights = [value.value for value in of_side]
        axes.bar(at, heights, 0.9 * width, edgecolor=color, label=plain(side), **face)
        axes.errorbar(at, heights, _errors(of_side), color=light("text"), linestyle="none", elinewidth=1.2)
    size = 11 if len(names) <= 6 else 9
    letters = max(5, LETTERS * 11 // size // len(names))
    lines = [textwrap.fill(plain(name), letters, max_lines=5, placeholder="…") for name in names]
    axes.set_xticks(range(len(names)), labels=lines, fontsize=size)
    axes.set_xlim(-0.5, len(names) - 0.5)
    return finished(figure, [unit])


@styled
def overheads(rows: Sequence[tuple[str, str, Row]], unit: str) -> Figure:
    """Draw the overheads of rows as intervals, the first one on top, with lines at the ends of the accepted range.

    The axis has all estimates and accepted ranges; an interval that is longer, or has no end, is cut at its edge. Of a
    row without an interval only the point is drawn.

    :param rows: label of its line, label of the side, and row.
    """
    lines = list(dict.fromkeys(line for line, _, _ in rows))
    most = max(sum(other == line for other, _, _ in rows) for line in lines)
    figure = Figure((WIDTH, 1.3 + len(lines) * max(0.28, 0.14 * (most + 1))), layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=light("edge"), linewidth=1)
    inside = [0.0, *(row.overhead or 0.0 for _, _, row in rows), *(end for _, _, row in rows for end in limits(row))]
    margin = 0.4 * ((max(inside) - min(inside)) or 1.0)
    edges = (min(inside) - margin, max(inside) + margin)
    axes.set_xlim(edges)
    chosen, drawn = looks(side for _, side, _ in rows), dict.fromkeys(lines, 0)
    for line, side, row in rows:
        drawn[line] += 1
        y = lines.index(line) - 0.5 + drawn[line] / (most + 1)
        axes.plot([row.overhead or 0.0], [y], **{**chosen[side], "linestyle": "none", "label": plain(side)})
        if limits(row):
            half = 0.45 / (most + 1)
            axes.vlines(limits(row), y - half, y + half, color=light("bad"), linewidth=2.5, label=ACCEPTED)
        ends = (finite(row.low), finite(row.high))
        if ends != (None, None):
            left, right = (edge if end is None else end for end, edge in zip(ends, edges))
            axes.hlines(y, left, right, color=chosen[side]["color"])
    axes.set_yticks(range(len(lines)), labels=[shortened(plain(line), LONGEST) for line in lines])
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(_tick)
    axes.set_xlabel(f"overhead in {plain(unit)}; larger is worse")
    return finished(figure, [])


def limits(row: Row) -> list[float]:
    """Return the finite ends of the accepted range of a row."""
    return [end for end in row.accepted if is_finite(end)]


@styled
def panels(count: int) -> Figure:
    """Return plots without data above each other, which share their axis."""
    figure = Figure((WIDTH, 0.8 + 2 * count), layout="constrained")
    figure.subplots(count, sharex=True)
    return figure


@styled
def pair_maps(maps: Mapping[str, np.ndarray], label: str) -> Figure:
    """Draw the matrix of ranks of each side, with one logarithmic scale of colors.

    A pair has the color of its value; pairs that were not measured, which are not a number, have none.

    :param label: quantity with its unit.
    """
    figure = Figure((WIDTH, 1.2 + 3.4 * math.ceil(len(maps) / 2)), layout="constrained")
    low, high = (float(f([f(matrix) for matrix in maps.values()])) for f in (np.nanmin, np.nanmax))
    high = max(high, 1.01 * low)
    norm = LogNorm(low, high)
    plots = figure.subplots(math.ceil(len(maps) / 2), 2, squeeze=False).ravel()
    for axes, (side, matrix) in zip(plots, maps.items()):
        image = axes.imshow(matrix, norm=norm, cmap="cividis", interpolation="none", aspect="auto")
        axes.grid(False)
        axes.set_title(plain(side))
        axes.set_xlabel("rank")
        axes.set_ylabel("rank")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.get_major_locator().set_params(integer=True)
    for axes in plots[len(maps) :]:
        axes.remove()
    ticks = [low * (high / low) ** (part / 3) for part in range(4)]
    scale = figure.colorbar(image, ax=list(plots[: len(maps)]), location="bottom", shrink=0.8, aspect=40, label=label)
    scale.set_ticks(ticks, labels=[number(tick, 3) for tick in ticks])
    scale.minorticks_off()
    return figure


@styled
def finished(figure: Figure, labels: Sequence[str]) -> Figure:
    """Give the plots of a figure their labels, and one legend for all.

    :param labels: unit of each plot; above its axis there is room for a long one.
    """
    handles: dict[str, Any] = {}
    for axes, label in zip(figure.axes, labels):
        axes.set_title(plain(label))
        axes.yaxis.set_major_formatter(_tick)
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(name, handle)
    names = sorted(handles, key=lambda name: (name in (ACCEPTED, CONFIRMATION, IDEAL), variant_order(name)))
    columns = max(1, LETTERS // (8 + max(map(len, names), default=0)))
    figure.legend([handles[name] for name in names], names, loc="outside upper left", ncols=min(columns, len(names)))
    return figure


def _tick(value: float, _: object) -> str:
    return number(value, 6)


def mark(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """Mark points as confirmations."""
    axes.plot(x, y, "o", markersize=12, markerfacecolor="none", color=light("bad"), label=CONFIRMATION)
