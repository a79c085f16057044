"""How far the rounds of each case spread, from its own nights or from another variant of the same session.

A check takes it as known before its first round (``known_spreads``): rather too large than too small, as the promises
of the verdict hold for a spread that is at most what is known (ci/benchmarks/detection.py).

A check ends when its verdict is there, so that nights with few rounds are those whose rounds happened to agree. The sum
of squares over rounds is a martingale: whatever ends them, all squares together over all degrees of freedom have the
right mean. The mean or the median of the nights' own spreads would be too small, and smaller every night.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import chdtri

from containercheck.history.nights import name_of
from containercheck.results.database import StoredSession
from containercheck.results.row import Row, rows_of

#: By partition, name of the case and figure: what is known, as the file for the checks has it.
Known = dict[str, dict[str, dict[str, dict[str, Any]]]]

#: Nights of a case that count: the latest. A machine may have become quieter, or noisier.
LATEST = 30
#: Fewer nights, or fewer degrees of freedom, say nothing.
FEWEST_NIGHTS, FEWEST_DEGREES = 3, 8
#: A night's squares count for at most so many times what is typical, so that one wild night does not rule a month.
CAP = 10.0
#: The spread is taken as so much larger than it was seen: nights differ, and too small a spread breaks promises.
MARGIN, MARGIN_OF_VARIANT = 1.25, 1.5
#: Rounds of another variant of the same session from which on it says something.
FEWEST_ROUNDS = 6
#: No spread is smaller than this part of what is accepted: figures that are the same in all digits will not always be.
LEAST_PART = 0.02
#: Verdicts that stay, and the kind of an open one that stays too: a gain that is a question.
CLOSED, FASTER = ("pass", "fail"), "faster"
#: What decides which side a value belongs to; a session of several runtimes or images has others.
BASELINE, SUBJECT = "baseline", "subject"


@dataclass(frozen=True)
class Sample:
    """The squares of one case's rounds about their mean, in the square of the overhead's unit.

    :ivar degrees: one less than the number of rounds.
    :ivar least: the smallest spread that is taken for known.
    """

    unit: str
    squares: float
    degrees: int
    least: float


def from_nights(sessions: Iterable[StoredSession]) -> Known:
    """Return what the nights of each case say of its figures.

    :param sessions: in the order in which they were stored; read once.
    """
    found: dict[tuple[str, str, str], dict[str, list[Sample]]] = {}
    for session in sessions:
        for raw in session.testcases:
            if raw.get("runtimes") or raw.get("compared_images"):
                continue
            for figure, sample in samples(raw).items():
                nights = found.setdefault((*_place(raw), figure), {})
                nights.setdefault(name_of(session), []).append(sample)
                if len(nights) > LATEST:
                    del nights[next(iter(nights))]
    known: Known = {}
    for (partition, name, figure), nights in found.items():
        # What the figure is compared by now counts.
        unit = list(nights.values())[-1][-1].unit
        own = [sample for night in nights.values() for sample in night if sample.unit == unit]
        count = sum(any(sample.unit == unit for sample in night) for night in nights.values())
        if count >= FEWEST_NIGHTS and sum(sample.degrees for sample in own) >= FEWEST_DEGREES:
            told = {"spread": MARGIN * fitted(own), "source": f"{count} nights", "unit": unit}
            known.setdefault(partition, {}).setdefault(name, {})[figure] = told
    return known


def from_variants(testcases: Iterable[Mapping[str, Any]]) -> Known:
    """Return what the cases of a session say of the other variants of the same check."""
    by_check: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for raw in testcases:
        partition, name = _place(raw)
        by_check.setdefault((partition, re.sub(r"%variant=\S+", "", name)), []).append(raw)
    known: Known = {}
    for (partition, _), cases in by_check.items():
        for raw, other in ((one, other) for one in cases for other in cases if _variant(one) != _variant(other)):
            for figure, sample in samples(other).items():
                if sample.degrees + 1 < FEWEST_ROUNDS:
                    continue
                spread = MARGIN_OF_VARIANT * fitted([sample])
                told = {"spread": spread, "source": f"the {_variant(other)} variant", "unit": sample.unit}
                figures = known.setdefault(partition, {}).setdefault(_place(raw)[1], {})
                if figure not in figures or figures[figure]["spread"] < spread:
                    figures[figure] = told
    return known


def kept(testcases: Iterable[Mapping[str, Any]]) -> Known:
    """Return what was known of the figures that have their verdict in this session.

    Later passes judge all rounds from the first one on. With another known spread a verdict that fell could be taken
    back, or fall the other way.
    """
    known: Known = {}
    for raw in testcases:
        partition, name = _place(raw)
        for row in rows_of(raw):
            figures = known.setdefault(partition, {}).setdefault(name, {})
            # Of several runs the last one counts.
            figures.pop(row.figure, None)
            is_closed = row.verdict in CLOSED or row.open_kind == FASTER
            if is_closed and row.spread_source:
                told = {"spread": row.known_spread, "source": row.spread_source, "unit": row.overhead_unit}
                figures[row.figure] = told
    return merged(known, {})


def merged(first: Known, second: Known) -> Known:
    """Return both, figure by figure; the first counts where both say something."""
    found: Known = {}
    for known in (second, first):
        for partition, cases in known.items():
            for name, figures in cases.items():
                if figures:
                    found.setdefault(partition, {}).setdefault(name, {}).update(figures)
    return found


def fitted(own: Sequence[Sample]) -> float:
    """Return the spread that samples of one unit say: all squares over all degrees of freedom, without wild ones."""
    typical = _weighted_median([(one.squares / float(chdtri(one.degrees, 0.5)), one.degrees) for one in own])
    limits = (CAP * typical * one.degrees if typical > 0 else math.inf for one in own)
    squares = sum(min(one.squares, limit) for one, limit in zip(own, limits))
    return max(math.sqrt(squares / sum(one.degrees for one in own)), own[-1].least)


def _weighted_median(values: Iterable[tuple[float, int]]) -> float:
    ordered = sorted(values)
    half, seen = sum(weight for _, weight in ordered) / 2, 0
    for value, weight in ordered:
        seen += weight
        if seen >= half:
            return value
    return 0.0


def samples(raw: Mapping[str, Any]) -> dict[str, Sample]:
    """Return the samples of a test case as ReFrame stored it, by figure; none of a figure that was not compared."""
    found = {}
    for row in (row for row in rows_of(raw) if row.is_comparison):
        changes = list(_changes(row, raw.get("measured") or ()))
        if len(changes) < 2:
            continue
        mean = math.fsum(changes) / len(changes)
        squares = math.fsum((change - mean) ** 2 for change in changes)
        high = abs(row.accepted[1] or 0.0)
        least = max(LEAST_PART * high, 1e-9)
        found[row.figure] = Sample(row.overhead_unit, squares, len(changes) - 1, least)
    return found


def _changes(row: Row, rounds: Iterable[Mapping[str, Mapping[str, float]]]) -> Iterator[float]:
    """Yield d of each round in the unit of the overhead: 100 times the logarithm of the ratio, or the difference."""
    for values in rounds:
        pair = [(values.get(side) or {}).get(row.figure) for side in (BASELINE, SUBJECT)]
        if None in pair:
            continue
        baseline, subject = pair
        if row.overhead_unit != "%":
            yield subject - baseline
        elif baseline > 0 and subject > 0:
            yield 100 * (math.log(subject) - math.log(baseline))


def _place(raw: Mapping[str, Any]) -> tuple[str, str]:
    return f"{raw['system']}:{raw['partition']}", raw.get("display_name") or raw["name"]


def _variant(raw: Mapping[str, Any]) -> str:
    return str(raw.get("variant") or "")
