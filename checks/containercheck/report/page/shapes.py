"""The shapes of plots as values: curves, intervals, and panels of curves over nights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from containercheck.report.page.palette import SERIES, VARIANTS


@dataclass(frozen=True)
class Curve:
    """A curve of values with intervals.

    :ivar style: index in ``palette.SERIES``.
    :ivar points: x, y, and the ends of the interval of y; None where there is none.
    :ivar rings: x of the points to mark as confirmations.
    :ivar hollow: whether its marks are hollow, without a line: published values.
    """

    label: str
    style: int
    points: tuple[tuple[float, float, float | None, float | None], ...]
    rings: tuple[float, ...] = ()
    hollow: bool = False

    @property
    def places(self) -> tuple[float, ...]:
        """The x of its points."""
        return tuple(point[0] for point in self.points)


@dataclass(frozen=True)
class Interval:
    """An estimate on a row, with its interval.

    :ivar accepted: ends of the accepted range; None where there is none.
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
    """The level of a series before or after a change, with the indices of its first and last night."""

    first: int
    last: int
    value: float


@dataclass(frozen=True)
class Panel:
    """One of several plots above each other over the same nights.

    :ivar levels: levels before and after changes.
    :ivar span: least height of the axis, so that noise does not look like a change; 0 for the height of the data.
    """

    label: str
    curves: tuple[Curve, ...]
    levels: tuple[Level, ...] = ()
    span: float = 0.0


@dataclass(frozen=True)
class PairMap:
    """The values of pairs of ranks on a side.

    :ivar ranks: number of ranks.
    :ivar cells: each pair with its value, which is above 0; pairs that were not measured are left out.
    """

    label: str
    ranks: int
    cells: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class RankTimes:
    """The times of the ranks of a side.

    :ivar ranks: seconds in MPI and in all, of each rank.
    """

    label: str
    ranks: tuple[tuple[float, float], ...]


def style_of(variant: str, others: Sequence[str] = ()) -> int:
    """Return the index of a variant's style, which is the same in all plots.

    :param others: labels that are drawn besides the usual variants.
    """
    if variant in VARIANTS:
        return VARIANTS.index(variant)
    place = len(VARIANTS) + (list(others).index(variant) if variant in others else 0)
    return place % len(SERIES)
