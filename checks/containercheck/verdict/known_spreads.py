"""Look up how far the rounds of each metric spread, as known before a job begins, with the source of that."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError

from containercheck.application.declare import Metric
from containercheck.job.stats.pairs import Pairs, Prior

#: Source of a spread that neither earlier nights nor the other variant give.
OF_CHECK, DEFAULT = "the check", "default"
#: Assumed spread of a ratio that was never measured, in percent. Most programs spread less on a shared virtual machine:
#: small slowdowns are then left to the rank test, and a factor of two is still found in two or three rounds.
UNKNOWN_SPREAD = 20.0
#: Assumed spread of a difference, as a part of the tolerance: measured ones are a tenth of it (start-up, memory) to
#: two fifths (files that are read cold).
UNKNOWN_PART = 0.5


class KnownSpread(NamedTuple):
    """The spread of a metric in earlier sessions.

    :ivar unit: of the spread: percent, or the metric's unit, by how it was compared then.
    """

    prior: Prior
    unit: str


def known(path: str, name: str, partition: str) -> dict[str, KnownSpread]:
    """Return the spreads of a case's metrics in earlier sessions, by metric.

    :param path: file that ``ci/run`` wrote (history/spreads.py); empty for none.
    :param name: of the case, with all its parameters, as ReFrame shows it: ReFrame's numbers move when a check changes.
    :raises ReframeError: the file cannot be read.
    """
    if not path:
        return {}
    metrics = _spreads(path).get(partition, {}).get(name, {})
    return {
        name: KnownSpread(Prior(stored["spread"], stored["source"]), stored["unit"]) for name, stored in metrics.items()
    }


@functools.lru_cache(maxsize=1)
def _spreads(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise ReframeError(f"cannot read the known spreads {path}: {error}") from None


def metric_priors(metrics: Iterable[Metric], sessions: Mapping[str, KnownSpread]) -> dict[str, Prior]:
    """Return the known spread of metrics, by name: from earlier sessions, else the check's own, else a default."""
    priors = {metric.name: _prior(metric, sessions.get(metric.name)) for metric in metrics}
    return {name: prior for name, prior in priors.items() if prior}


def _prior(metric: Metric, earlier: KnownSpread | None) -> Prior | None:
    if earlier and earlier.unit == metric.overhead_unit:
        return earlier.prior
    if metric.spread is not None:
        return Prior(metric.spread, OF_CHECK)
    if metric.compare == "ratio":
        return Prior(UNKNOWN_SPREAD, DEFAULT)
    # A tolerance of 0 says nothing of the spread: the rank test alone decides then.
    return Prior(UNKNOWN_PART * abs(metric.tolerance), DEFAULT) if metric.tolerance else None


def rounds_expected(metrics: Iterable[Metric], usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    """Return after about how many rounds a check without overhead has its verdict, by its known spreads.

    That is the horizon where one of its metrics is expected to stay open.

    :param usual: the tolerance of metrics that have none of their own, in percent.
    """
    metrics = list(metrics)
    return max([1, *(_rounds_expected(metric, len(metrics), usual, sessions) for metric in metrics)])


def closing(metrics: Iterable[Metric], usual: float, sessions: Mapping[str, KnownSpread]) -> list[int]:
    """Return the rounds that each metric with a measured spread is expected to need, the fewest first."""
    metrics = list(metrics)
    priors = [(metric, _prior(metric, sessions.get(metric.name))) for metric in metrics]
    measured = [metric for metric, prior in priors if prior and prior.source != DEFAULT]
    return sorted(_rounds_expected(metric, len(metrics), usual, sessions) for metric in measured)


def _rounds_expected(metric: Metric, together: int, usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    highest = usual if metric.tolerance is None else metric.tolerance
    prior = _prior(metric, sessions.get(metric.name))
    return Pairs(metric.better, metric.compare, -math.inf, highest, together, prior=prior).rounds_expected
