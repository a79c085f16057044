"""Look up how far the rounds of each figure spread, as known before a job begins, with the source of that."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError

from containercheck.application.declare import Figure
from containercheck.node.stats.pairs import Pairs, Prior

#: Source of a spread that neither earlier nights nor the other variant give.
OF_CHECK, DEFAULT = "the check", "default"
#: Assumed spread of a ratio that was never measured, in percent. Most programs spread less on a shared virtual machine:
#: small slowdowns are then left to the rank test, and a factor of two is still found in two or three rounds.
UNKNOWN_SPREAD = 20.0
#: Assumed spread of a difference, as a part of the tolerance: measured ones are a tenth of it (start-up, memory) to
#: two fifths (files that are read cold).
UNKNOWN_PART = 0.5


class KnownSpread(NamedTuple):
    """The spread of a figure in earlier sessions.

    :ivar unit: of the spread: percent, or the figure's unit, by how it was compared then.
    """

    prior: Prior
    unit: str


def known(path: str, name: str, partition: str) -> dict[str, KnownSpread]:
    """Return the spreads of a case's figures in earlier sessions, by figure.

    :param path: file that ``ci/run`` wrote (history/spreads.py); empty for none.
    :param name: of the case, with all its parameters, as ReFrame shows it: ReFrame's numbers move when a check changes.
    :raises ReframeError: the file cannot be read.
    """
    if not path:
        return {}
    figures = _spreads(path).get(partition, {}).get(name, {})
    return {
        name: KnownSpread(Prior(stored["spread"], stored["source"]), stored["unit"]) for name, stored in figures.items()
    }


@functools.lru_cache(maxsize=1)
def _spreads(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise ReframeError(f"cannot read the known spreads {path}: {error}") from None


def figure_priors(figures: Iterable[Figure], sessions: Mapping[str, KnownSpread]) -> dict[str, Prior]:
    """Return the known spread of figures, by name: from earlier sessions, else the check's own, else a default."""
    priors = {figure.name: _prior(figure, sessions.get(figure.name)) for figure in figures}
    return {name: prior for name, prior in priors.items() if prior}


def _prior(figure: Figure, earlier: KnownSpread | None) -> Prior | None:
    if earlier and earlier.unit == figure.overhead_unit:
        return earlier.prior
    if figure.spread is not None:
        return Prior(figure.spread, OF_CHECK)
    if figure.compare == "ratio":
        return Prior(UNKNOWN_SPREAD, DEFAULT)
    # A tolerance of 0 says nothing of the spread: the rank test alone decides then.
    return Prior(UNKNOWN_PART * abs(figure.tolerance), DEFAULT) if figure.tolerance else None


def rounds_expected(figures: Iterable[Figure], usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    """Return after about how many rounds a check without overhead has its verdict, by its known spreads.

    That is the horizon where one of its figures is expected to stay open.

    :param usual: the tolerance of figures that have none of their own, in percent.
    """
    figures = list(figures)
    return max([1, *(_rounds_expected(figure, len(figures), usual, sessions) for figure in figures)])


def closing(figures: Iterable[Figure], usual: float, sessions: Mapping[str, KnownSpread]) -> list[int]:
    """Return the rounds that each figure with a measured spread is expected to need, the fewest first."""
    figures = list(figures)
    priors = [(figure, _prior(figure, sessions.get(figure.name))) for figure in figures]
    measured = [figure for figure, prior in priors if prior and prior.source != DEFAULT]
    return sorted(_rounds_expected(figure, len(figures), usual, sessions) for figure in measured)


def _rounds_expected(figure: Figure, together: int, usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    highest = usual if figure.tolerance is None else figure.tolerance
    prior = _prior(figure, sessions.get(figure.name))
    return Pairs(figure.better, figure.compare, -math.inf, highest, together, prior=prior).rounds_expected
