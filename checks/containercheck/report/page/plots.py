"""Draw plots with matplotlib as images of the page: values over an axis or over nights.

Sides have the colors of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any kind of color
vision can distinguish. Each side has another marker and line style too.
"""

from __future__ import annotations

import base64
import io
import math
import textwrap
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from containercheck.report.page.cases import VARIANTS, Table, plain, variant_order
from containercheck.results.formatting import by_key, number

#: Color, marker and line style of each side of a plot.
LOOKS: tuple[tuple[str, str, Any], ...] = (
    ("#1b1e21", "o", "-"),
    ("#0072b2", "s", "--"),
    ("#d55e00", "^", "-."),
    ("#009e73", "D", ":"),
    ("#cc79a7", "v", (0, (6, 1))),
)
#: Color of limits and changes, and of lines that only help to read.
BAD, EDGE = "#a23b00", "#7d868e"
#: Width of a plot in inches of 72 pixels; a phone shows it at three quarters of this width.
WIDTH = 7.5
#: Most ticks of an axis, and most letters of all its names together.
MOST_TICKS, LETTERS = 12, 84

STYLE: Any = {
    "svg.fonttype": "none",
    # The same data give the same file.
    "svg.hashsalt": "page",
    # A dollar sign is text and does not begin a formula.
    "text.parse_math": False,
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
}
styled = matplotlib.rc_context(STYLE)


@dataclass(frozen=True)
class PlotValue:
    """A value of a side at a place on an axis.

    :ivar side: bare, a variant, or another label.
    :ivar at: number or name on the axis.
    :ivar low, high: ends of its interval; None if there is none.
    """

    side: str
    at: float | str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def text(self) -> str:
        """The value with its interval."""
        ends = "" if self.low is None or self.high is None else f" ({number(self.low)} to {number(self.high)})"
        return f"{number(self.value)}{ends}"


@dataclass(frozen=True)
class Panel:
    """A part of a plot with its own axis of values.

    :ivar levels: horizontal lines from one place to another.
    :ivar height: least height of its axis, so that noise does not look like a change; 0 for an axis that begins at 0.
    """

    unit: str
    values: Sequence[PlotValue]
    levels: Sequence[tuple[str, str, float]] = ()
    height: float = 0.0


@dataclass(frozen=True)
class Chart:
    """A plot of the page with a description in words, and its data as a table.

    :ivar image: the SVG as a data URL; so identifiers of two plots do not collide.
    """

    title: str
    description: str
    image: str
    table: Table

    @classmethod
    @styled
    def of(
        cls,
        title: str,
        description: str,
        panels: Sequence[Panel],
        axis: str,
        order: Sequence[float | str],
        breaks: Iterable[str] = (),
    ) -> Chart:
        """Draw the values of panels, and list them; see :func:`over`.

        :param title: title, unique on the page.
        """
        figure, file = over(panels, axis, order, breaks), io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure.savefig(file, format="svg", metadata={"Date": None})
        image = f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"
        rows = (
            (side, short(value.at), value.text, panel.unit)
            for panel in panels
            for side, values in by_side(panel.values).items()
            for value in sorted(values, key=lambda value: order.index(value.at))
        )
        table = Table(f"Data of the plot: {title}", ("side", axis, "value", "unit"), tuple(rows))
        return cls(title, description, image, table)


def looks(sides: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return color, marker and line style of each side; for a variant, they are the same in all plots."""
    order = dict.fromkeys([*VARIANTS, *sides])
    chosen = {side: LOOKS[place % len(LOOKS)] for place, side in enumerate(order)}
    return {side: {"color": look[0], "marker": look[1], "linestyle": look[2]} for side, look in chosen.items()}


def by_side(values: Iterable[PlotValue]) -> dict[str, list[PlotValue]]:
    """Return the values of each side: variants first, in their order."""
    order = sorted(values, key=lambda value: (variant_order(value.side), value.side))
    return by_key(order, lambda value: value.side)


@styled
def over(panels: Sequence[Panel], axis: str, order: Sequence[float | str], breaks: Iterable[str] = ()) -> Figure:
    """Draw the values of each side over an axis, with their intervals.

    For numbers, the axis is binary logarithmic, and lines connect the values of a side.

    :param order: the places on the axis, all numbers or all names.
    :param breaks: names before which a vertical line is drawn.
    """
    numeric = all(isinstance(place, (int, float)) for place in order)
    at = {place: float(place) if numeric else float(position) for position, place in enumerate(order)}
    figure = Figure((WIDTH, 1.2 + 2.5 * len(panels)), layout="constrained")
    plots = list(np.ravel(figure.subplots(len(panels), sharex=True)))
    for plot, panel in zip(plots, panels):
        sides = by_side(panel.values)
        chosen = looks(sides)
        for place, (side, values) in enumerate(sides.items()):
            look = chosen[side] if numeric else {**chosen[side], "linestyle": "none"}
            values = sorted(values, key=lambda value: at[value.at])
            # Shifted, so that equal values do not hide each other.
            x = [at[value.at] * 1.02**place if numeric else at[value.at] + 0.06 * place for value in values]
            y, errors = [value.value for value in values], _errors(values)
            plot.errorbar(x, y, errors, **look, elinewidth=1.2, label=plain(side))
        for first, last, level in panel.levels:
            plot.hlines(level, at[first] - 0.3, at[last] + 0.3, color=BAD, linewidth=3, alpha=0.6)
        for name in breaks:
            plot.axvline(at[name] - 0.5, color=EDGE, linestyle=(0, (2, 2)))
        _scale(plot, panel)
    if numeric:
        plots[-1].set_xscale("log", base=2)
        plots[-1].minorticks_off()
    # The last place always has a label.
    shown = list(reversed(order[:: -math.ceil(len(order) / MOST_TICKS)]))
    letters = max(5, LETTERS // len(shown) - 1)
    labels = [textwrap.fill(plain(short(place)), letters, max_lines=4, placeholder="…") for place in shown]
    plots[-1].set_xticks([at[place] for place in shown], labels=labels)
    plots[-1].set_xlabel(plain(axis))
    _add_legend(figure)
    return figure


def _errors(values: Sequence[PlotValue]) -> list[list[float]]:
    """Return the lengths of the intervals below and above values; NaN for no interval."""
    low = [math.nan if value.low is None else max(0.0, value.value - value.low) for value in values]
    high = [math.nan if value.high is None else max(0.0, value.high - value.value) for value in values]
    return [low, high]


def _scale(plot: Any, panel: Panel) -> None:
    plot.set_title(plain(panel.unit))
    plot.yaxis.set_major_formatter(_tick)
    low, high = plot.get_ylim()
    if not panel.height:
        plot.set_ylim(bottom=min(0.0, low))
    elif high - low < panel.height:
        plot.set_ylim((low + high - panel.height) / 2, (low + high + panel.height) / 2)


def short(value: float | str) -> str:
    """Return the text of a tick: a number with letters for powers of 1024, or a name unchanged.

    >>> [short(value) for value in (8, 65536, 1 << 22, 96000, 1.5, "SSE2")]
    ['8', '64Ki', '4Mi', '96000', '1.5', 'SSE2']
    """
    if isinstance(value, str):
        return value
    for letter, factor in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if value >= factor and value % factor == 0:
            return f"{value / factor:g}{letter}"
    return f"{value:.12g}"


def _add_legend(figure: Figure) -> None:
    """Add one legend for all plots of a figure above them."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(name, handle)
    names = sorted(handles, key=variant_order)
    columns = max(1, LETTERS // (8 + max(map(len, names), default=0)))
    figure.legend([handles[name] for name in names], names, loc="outside upper left", ncols=min(columns, len(names)))


def _tick(value: float, _: object) -> str:
    return number(value, 6)
