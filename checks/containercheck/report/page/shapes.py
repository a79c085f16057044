"""What is drawn, as values: curves, intervals, and panels of curves over nights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from containercheck.report.page.palette import SERIES, VARIANTS


@dataclass(frozen=True)
class Curve:
    """Values over something.

    :ivar style: its place in ``palette.SERIES``.
    :ivar points: x, y, and the ends of the interval of y; None where there is none.
    :ivar rings: the x of points to mark: confirmations.
    """

    label: str
    style: int
    points: tuple[tuple[float, float, float | None, float | None], ...]
    rings: tuple[float, ...] = ()


@dataclass(frozen=True)
class Interval:
    """An estimate on a row.

    :ivar accepted: the ends of what is accepted; None where there is none.
    """

    row: str
    label: str
    style: int
    value: float
    low: float | None
    high: float | None
    accepted: tuple[float | None, float | None]


@dataclass(frozen=True)
class Level:
    """A value that stood from a night to another, before or after a change; by their places."""

    first: int
    last: int
    value: float


@dataclass(frozen=True)
class Panel:
    """One of the plots above each other over the same nights.

    :ivar levels: before and after changes.
    :ivar span: it shows so much at least, so that what is no change does not look like one; 0 for what there is.
    """

    label: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    span: float = 0.0


def style_of(variant: str, others: Sequence[str] = ()) -> int:
    """Return the place of a variant among the styles: the same in all plots.

    :param others: what is drawn besides the usual variants.
    """
    if variant in VARIANTS:
        return VARIANTS.index(variant)
    place = len(VARIANTS) + (list(others).index(variant) if variant in others else 0)
    return place % len(SERIES)
