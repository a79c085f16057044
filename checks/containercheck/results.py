"""The rows of a check's results: what the reports read."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from containercheck.facts import Figure
from containercheck.outcome import BASELINE, SUBJECT, Comparison, Outcome


def rows(figures: Sequence[Figure], outcome: Outcome, comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return a row for each figure: figure, unit, bare, and for containers container, overhead, interval, verdict.

    ``bare`` and ``container`` are medians; ``bare_error`` and ``container_error`` the mean errors, in the figure's unit
    (absent where there was one run). ``overhead`` and ``interval`` (half its width) are in ``overhead_unit``.

    :param comparisons: none for the bare variant.
    """
    compared = {one.figure.name: _comparison(one) for one in comparisons}
    found = []
    for figure in figures:
        sides = outcome.figures.get(figure.name)
        if sides:
            row = {"figure": figure.name, "unit": figure.unit, "bare": statistics.median(sides[BASELINE])}
            for column, side in (("bare_error", BASELINE), ("container_error", SUBJECT)):
                if len(sides.get(side, ())) > 1:
                    row[column] = mean_error(sides[side])
            found.append({**row, **compared.get(figure.name, {})})
    return found


def mean_error(values: Sequence[float]) -> float:
    """Return sigma / sqrt(n), the seed's mean error (D12.6 section 9.2.1), of two values or more."""
    return statistics.stdev(values) / math.sqrt(len(values))


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "container": one.subject,
        "overhead": one.overhead.estimate,
        "interval": one.overhead.half_width,
        "overhead_unit": one.unit,
        "accepted": one.accepted,
        "expected": one.expected,
        "verdict": one.verdict,
    }
