"""How far the rounds of each figure are known to spread before the first of them, and from where that is known."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError

from containercheck.application.facts import Figure
from containercheck.node.stats.prior import Prior
from containercheck.node.stats.sequential import Pairs

#: Where a spread is known from that no night and no other variant tells.
OF_CHECK, DEFAULT = "the check", "default"
#: The spread of rounds of a ratio that nobody has measured, in percent. Wider than most programs spread on a shared
#: virtual machine: a small slowdown is then left to the ranks, and a factor of two still found in two or three rounds.
UNKNOWN_SPREAD = 20.0
#: The same of a difference, as a part of the tolerance: those that were measured spread by a tenth of it (start-up,
#: memory) to two fifths (files that are read cold).
UNKNOWN_PART = 0.5


class Told(NamedTuple):
    """What earlier sessions say of a figure.

    :ivar unit: of the spread: percent, or the figure's, by how it was compared then.
    """

    prior: Prior
    unit: str


def known(path: str, name: str, partition: str) -> dict[str, Told]:
    """Return what earlier sessions say of the figures of a case, by their names.

    :param path: of a file that ``ci/run`` wrote (history/spreads.py); empty for none.
    :param name: of the case, with all its parameters, as ReFrame shows it: its own numbers move when a check changes.
    :raises ReframeError: it cannot be read.
    """
    if not path:
        return {}
    figures = _spreads(path).get(partition, {}).get(name, {})
    return {name: Told(Prior(one["spread"], one["source"]), one["unit"]) for name, one in figures.items()}


@functools.lru_cache(maxsize=1)
def _spreads(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise ReframeError(f"cannot read the known spreads {path}: {error}") from None


def figure_priors(figures: Iterable[Figure], told: Mapping[str, Told]) -> dict[str, Prior]:
    """Return the known spread of figures by their names: what sessions told, else the check's own, else a default."""
    found = {one.name: _of_figure(one, told.get(one.name)) for one in figures}
    return {name: prior for name, prior in found.items() if prior}


def _of_figure(figure: Figure, told: Told | None) -> Prior | None:
    if told and told.unit == figure.overhead_unit:
        return told.prior
    if figure.spread is not None:
        return Prior(figure.spread, OF_CHECK)
    if figure.compare == "ratio":
        return Prior(UNKNOWN_SPREAD, DEFAULT)
    # A tolerance of nothing says nothing of the spread: the ranks alone decide then.
    return Prior(UNKNOWN_PART * abs(figure.tolerance), DEFAULT) if figure.tolerance else None


def rounds_expected(figures: Iterable[Figure], usual: float, told: Mapping[str, Told]) -> int:
    """Return after about how many rounds a check without overhead has its verdict, by its known spreads.

    The horizon where one of its figures is expected to stay open.

    :param usual: the tolerance of figures that have none of their own, in percent.
    """
    figures = list(figures)
    return max([1, *(_rounds_expected(one, len(figures), usual, told) for one in figures)])


def closing(figures: Iterable[Figure], usual: float, told: Mapping[str, Told]) -> list[int]:
    """Return the same of each figure whose spread was measured, the fewest first; of the others nobody knows."""
    figures = list(figures)
    measured = [one for one in figures if (prior := _of_figure(one, told.get(one.name))) and prior.source != DEFAULT]
    return sorted(_rounds_expected(one, len(figures), usual, told) for one in measured)


def _rounds_expected(figure: Figure, together: int, usual: float, told: Mapping[str, Told]) -> int:
    highest = usual if figure.tolerance is None else figure.tolerance
    prior = _of_figure(figure, told.get(figure.name))
    return Pairs(figure.better, figure.compare, -math.inf, highest, together, prior=prior).rounds_expected
