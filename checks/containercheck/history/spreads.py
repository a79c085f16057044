"""Estimate the spread of the rounds of each case from its nights.

Checks use it as the known spread before their first round (``known_spreads``). The estimate has a margin upwards: the
error probabilities of verdicts hold if the true spread is at most the known one (ci/benchmarks/detection.py).

A check ends with its verdict, so in nights with few rounds the rounds agree by chance. The mean or median of the
nights' spreads would be too small, and smaller every night. But the sum of squares over rounds is a martingale: all
squares divided by all degrees of freedom have the right mean, independent of the rule that ended the rounds.

The degrees of freedom of a known spread follow from how much the spread differs from night to night (limma's estimate:
G. K. Smyth, SAGMB 3, 2004, section 6.2). With more of them, fewer rounds decide.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.nights import name_of
from containercheck.job.contract import BASELINE, SUBJECT
from containercheck.job.stats.boundaries import DEGREES, PRIOR_DEGREES
from containercheck.results.database import StoredSession
from containercheck.results.row import Row, rows_of

#: Known spreads by partition, name of the case and metric, as in the file for the checks.
Known = dict[str, dict[str, dict[str, dict[str, Any]]]]

#: Number of latest nights of a case that count, as the noise of a machine may change.
LATEST = 30
#: Fewest nights, and fewest degrees of freedom, for a known spread.
FEWEST_NIGHTS, FEWEST_DEGREES = 3, 8
#: Limit of a night's squares, as a multiple of the typical ones, so that one outlying night does not dominate a month.
CAP = 10.0
#: Factor on the measured spread: nights differ, and too small a spread gives too many wrong verdicts.
MARGIN = 1.25
#: Smallest spread, as a part of the accepted overhead: metrics with equal digits so far may differ later.
LEAST_PART = 0.02
#: Fewest samples for more degrees of freedom than the usual ones, and the standard errors by which their variance is
#: taken larger. Simulated, nights of five rounds: of spreads with 4 degrees of freedom, 7 of 100 count as 8 after 15
#: nights, and 2 after 30; of spreads that are always the same, 48 and 60.
FEWEST_SAMPLES, SURE = 10, 1.5
#: Verdicts that are final, and the kind of an open verdict that is final too: an unexplained gain.
CLOSED, FASTER = ("pass", "fail"), "faster"


@dataclass(frozen=True)
class Sample:
    """The squares of one case's rounds about their mean, in the square of the overhead's unit.

    :ivar degrees: one less than the number of rounds.
    :ivar least: the smallest known spread.
    """

    unit: str
    squares: float
    degrees: int
    least: float


def from_nights(sessions: Iterable[StoredSession]) -> Known:
    """Return the known spreads from the nights of each case.

    :param sessions: sessions in the order of storage; read once.
    """
    by_metric: dict[tuple[str, str, str], dict[str, list[Sample]]] = {}
    for session in sessions:
        for raw in session.testcases:
            if any(map(raw.get, ("runtimes", "compared_images", "ready_image"))):
                continue
            for metric, sample in samples(raw).items():
                nights = by_metric.setdefault((*_place(raw), metric), {})
                nights.setdefault(name_of(session), []).append(sample)
                if len(nights) > LATEST:
                    del nights[next(iter(nights))]
    known: Known = {}
    for (partition, name, metric), nights in by_metric.items():
        # Only nights in the unit of the last one count.
        unit = list(nights.values())[-1][-1].unit
        usable = [sample for night in nights.values() for sample in night if sample.unit == unit]
        count = sum(any(sample.unit == unit for sample in night) for night in nights.values())
        if count >= FEWEST_NIGHTS and sum(sample.degrees for sample in usable) >= FEWEST_DEGREES:
            entry = {"spread": MARGIN * fitted(usable), "source": f"{count} nights", "unit": unit}
            entry["degrees"] = degrees(usable)
            known.setdefault(partition, {}).setdefault(name, {})[metric] = entry
    return known


def kept(testcases: Iterable[Mapping[str, Any]]) -> Known:
    """Return the known spreads of the metrics with a final verdict in this session.

    Later passes judge all rounds again: with another known spread, a verdict could be lost or reversed.
    """
    known: Known = {}
    for raw in testcases:
        partition, name = _place(raw)
        for row in rows_of(raw):
            metrics = known.setdefault(partition, {}).setdefault(name, {})
            # The last of several runs counts.
            metrics.pop(row.metric, None)
            is_closed = row.verdict in CLOSED or row.open_kind == FASTER
            if is_closed and row.spread_source:
                entry = {"spread": row.known_spread, "source": row.spread_source, "unit": row.overhead_unit}
                metrics[row.metric] = {**entry, "degrees": row.known_degrees}
    return merged(known, {})


def merged(first: Known, second: Known) -> Known:
    """Return both together; for metrics in both, the first counts."""
    both: Known = {}
    for known in (second, first):
        for partition, cases in known.items():
            for name, metrics in cases.items():
                if metrics:
                    both.setdefault(partition, {}).setdefault(name, {}).update(metrics)
    return both


def fitted(group: Sequence[Sample]) -> float:
    """Return the spread of samples of one unit: all squares, with a limit, over all degrees of freedom."""
    typical = statistics.median(sample.squares / sample.degrees for sample in group)
    limits = (CAP * typical * sample.degrees if typical > 0 else math.inf for sample in group)
    squares = sum(min(sample.squares, limit) for sample, limit in zip(group, limits))
    return max(math.sqrt(squares / sum(sample.degrees for sample in group)), group[-1].least)


def degrees(group: Sequence[Sample]) -> int:
    """Return the degrees of freedom of the spread of samples, one of ``boundaries.DEGREES``; in doubt the fewest.

    The logarithm of a sample's variance varies by trigamma(d / 2) for its own d degrees of freedom, and by
    trigamma(d0 / 2) as the true variance differs.
    """
    # SciPy takes a fifth of a second to load.
    from scipy.special import digamma, polygamma

    varied = [sample for sample in group if sample.squares > 0]
    if len(varied) < FEWEST_SAMPLES:
        return PRIOR_DEGREES
    logs = [math.log(each.squares / each.degrees) + math.log(each.degrees / 2) for each in varied]
    centred = [value - float(digamma(each.degrees / 2)) for value, each in zip(logs, varied)]
    observed = statistics.variance(centred) * (1 + SURE * math.sqrt(2 / (len(varied) - 1)))
    excess = observed - statistics.fmean(float(polygamma(1, each.degrees / 2)) for each in varied)
    return max((known for known in DEGREES if polygamma(1, known / 2) >= excess), default=PRIOR_DEGREES)


def samples(raw: Mapping[str, Any]) -> dict[str, Sample]:
    """Return the samples of a stored test case by metric; metrics without a comparison have none."""
    by_metric = {}
    for row in (row for row in rows_of(raw) if row.is_comparison):
        changes = list(_changes(row, raw.get("measured") or ()))
        if len(changes) < 2:
            continue
        mean = math.fsum(changes) / len(changes)
        squares = math.fsum((change - mean) ** 2 for change in changes)
        high = abs(row.accepted[1] or 0.0)
        least = max(LEAST_PART * high, 1e-9)
        by_metric[row.metric] = Sample(row.overhead_unit, squares, len(changes) - 1, least)
    return by_metric


def _changes(row: Row, rounds: Iterable[Mapping[str, Mapping[str, float]]]) -> Iterator[float]:
    """Yield d of each round in the unit of the overhead: 100 times the logarithm of the ratio, or the difference.

    Nothing is yielded for sessions that compare runtimes or images, as their sides have other names.
    """
    for values in rounds:
        baseline, subject = ((values.get(side) or {}).get(row.metric) for side in (BASELINE, SUBJECT))
        if baseline is None or subject is None:
            continue
        if row.overhead_unit != "%":
            yield subject - baseline
        elif baseline > 0 and subject > 0:
            yield 100 * (math.log(subject) - math.log(baseline))


def _place(raw: Mapping[str, Any]) -> tuple[str, str]:
    return f"{raw['system']}:{raw['partition']}", raw.get("display_name") or raw["name"]
