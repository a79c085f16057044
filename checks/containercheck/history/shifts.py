"""Compare the last nights of many series with their levels before, and propose changes.

The test is Student's t, with three additions for few nights and many series:

* Few nights give a poor estimate of their scatter. So the typical scatter of all series counts for a few more nights.
* Outlying nights are common, and so are nights that resemble the night before. So the mean of few nights has few
  degrees of freedom, and correlated nights count for fewer.
* The false discovery rate over all series limits the proposals.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.special import stdtr
from scipy.stats import false_discovery_control

from containercheck.results.formatting import by_key

#: Accepted share of false proposals among all.
PROPOSED = 0.02
#: Fewest nights of a level before a change.
BEFORE = 3
#: Most nights for the level before a change: machines drift, and older nights have another level.
RECENT = 14
#: Numbers of nights since a change that are tested. Other numbers give nearly the same result; they only date a change.
LOOKS = (1, 2, 4, 8, 16)
#: Degrees of freedom of a Student's t with the tails of one night. A mean of n nights has n times as many, because its
#: excess kurtosis is n times smaller.
TAILS = 5.0
#: Fewest series that are pooled, and the weight of their typical variance in nights.
POOLED, POOLED_NIGHTS = 8, 6.0
#: Values for fewer series: the variance of a night in squared standard errors, and its weight in nights. 349 series of
#: two virtual machines, four to twelve nights each, had variances of 1.7 to 4.5, with weights of 1.1 to 3.6 nights.
ELSEWHERE, ELSEWHERE_NIGHTS = 4.0, 2.0
#: Smallest standard deviation of a night, as a part of the smallest change to report. Some metrics (memory) have so far
#: the same digits every night, which may change.
QUIET = 0.1
#: Upper limit for the correlation of neighboring nights.
LIKEST = 0.9


@dataclass(frozen=True)
class Level:
    """The nights of a series since its last change, up to tonight.

    :ivar kind: kind of the series; kinds differ in their scatter.
    :ivar values: values in any unit.
    :ivar errors: standard errors in the same unit; None if they are not known.
    :ivar reruns: for each value, whether it comes from a rerun.
    :ivar least: the smallest change to report, in the same unit.
    """

    kind: str
    values: Sequence[float]
    errors: Sequence[float | None]
    reruns: Sequence[bool]
    least: float

    def parts(self, nights: int) -> tuple[Sequence[float], Sequence[float]]:
        """Return the nights before a change that count, and the nights since then."""
        return self.values[-nights - RECENT : -nights], self.values[-nights:]

    def can_split(self, nights: int) -> bool:
        """Return whether enough nights remain before the last ones."""
        return len(self.values) - nights >= BEFORE

    @functools.cached_property
    def has_errors(self) -> bool:
        """Whether any standard error is known."""
        return any(error is not None for error in self.errors)

    @functools.cached_property
    def unit(self) -> float:
        """The typical standard error of a night: the unit in which the scatter of series is compared."""
        errors = [error for error in self.errors if error is not None]
        return max(statistics.median(errors or [self.least]), QUIET * self.least, 1e-300)

    @functools.cached_property
    def floor(self) -> float:
        """The smallest variance of a night."""
        return (self.unit if self.has_errors else max(QUIET * self.least, 1e-300)) ** 2


@dataclass(frozen=True)
class Scatter:
    """The common scatter of many series: nights about their level.

    :ivar variance: typical variance of a night, in squared units of its series.
    :ivar nights: its weight in nights.
    :ivar likeness: correlation of neighboring nights.
    """

    variance: float = ELSEWHERE
    nights: float = ELSEWHERE_NIGHTS
    likeness: float = 0.0

    def of_mean(self, count: int) -> float:
        """Return the variance of a mean as a part of one night's variance, for a first-order autoregression."""
        rho = self.likeness
        return ((1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)) / count


@dataclass(frozen=True)
class Proposal:
    """The most likely change of a level.

    :ivar nights: number of nights since then; 0 without a change to report.
    :ivar higher: whether the values are higher since then.
    :ivar p: probability of such a shift without a change.
    :ivar scatter: the scatter that was used.
    """

    nights: int
    higher: bool
    p: float
    scatter: Scatter

    def p_of_reruns(self, level: Level) -> float:
        """Return the probability of such a shift of the reruns alone, in the same direction, without a change."""
        p_higher = _shift(level, self.scatter, self.nights, only_reruns=True).p_higher
        return p_higher if self.higher else 1 - p_higher


def proposals(levels: Sequence[Level]) -> list[Proposal | None]:
    """Return the proposed change of each level; None for none.

    :param levels: levels of all series with a value tonight.
    """
    scatters = zip(*(_scatters(levels, nights) for nights in LOOKS))
    likeliest = [_likeliest(level, of_looks) for level, of_looks in zip(levels, scatters)]
    corrected = false_discoveries([proposal.p for proposal in likeliest])
    return [replace(proposal, p=p) if p <= PROPOSED else None for proposal, p in zip(likeliest, corrected)]


def false_discoveries(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for the false discovery rate (Y. Benjamini and Y. Hochberg, JRSS B 57, 1995)."""
    return [float(p) for p in false_discovery_control(p_values)] if p_values else []


def _likeliest(level: Level, scatters: Sequence[Scatter]) -> Proposal:
    """Return the most likely change, with its p-value corrected for the number of looks.

    :param scatters: one for each of the looks.
    """
    looks = [(nights, scatter) for nights, scatter in zip(LOOKS, scatters) if level.can_split(nights)]
    shifts = [(_shift(level, scatter, nights), scatter) for nights, scatter in looks]
    reported = [(shift, scatter) for shift, scatter in shifts if abs(shift.size) >= level.least]
    if not reported:
        return Proposal(0, False, 1.0, Scatter())
    shift, scatter = min(reported, key=lambda pair: pair[0].p)
    splits = filter(level.can_split, range(1, LOOKS[-1] + 1))
    nights = min(splits, key=lambda count: _shift(level, scatter, count).p)
    return Proposal(nights, shift.size > 0, min(len(looks) * shift.p, 1.0), scatter)


def _scatters(levels: Sequence[Level], nights: int) -> list[Scatter]:
    """Return the scatter for each level if all of them may have changed before the last nights."""
    groups = by_key(levels, lambda level: (level.kind, level.has_errors))
    scatters = {key: _scatter(group, nights) for key, group in groups.items()}
    return [scatters[level.kind, level.has_errors] for level in levels]


def _scatter(levels: Sequence[Level], nights: int) -> Scatter:
    ratios, products, pairs, expected = [], 0.0, 0, 0.0
    for level in filter(lambda level: level.can_split(nights), levels):
        parts = [_residuals(part) for part in level.parts(nights)]
        degrees = sum(len(part) - 1 for part in parts)
        variance = sum(value**2 for part in parts for value in part) / degrees
        # Metrics with the same value every night have no information about others.
        if variance > 1e-6 * level.floor:
            ratios.append(variance / level.unit**2)
            products += sum(night * following for part in parts for night, following in zip(part, part[1:])) / variance
            pairs += degrees
            # Without correlation, the common mean gives neighbors a negative one.
            expected -= sum(1 - 1 / len(part) for part in parts)
    if len(ratios) < POOLED:
        return Scatter()
    neighbors = (products - expected) / pairs
    # A correlation that may be chance is ignored. The scatter of the rounds is independent and hides a part of the
    # correlation of the nights, hence the square root.
    likeness = min(math.sqrt(max(neighbors - 1 / math.sqrt(pairs), 0.0)), LIKEST)
    return Scatter(statistics.median(ratios), POOLED_NIGHTS, likeness)


@dataclass(frozen=True)
class _Shift:
    """The shift of the last nights from the level before them.

    :ivar size: shift in the unit of the values.
    :ivar error: its standard error.
    :ivar degrees: degrees of freedom of the error.
    """

    size: float
    error: float
    degrees: float

    @property
    def p_higher(self) -> float:
        """The probability of such a shift or a higher one without a change."""
        return float(stdtr(self.degrees, -self.size / self.error))

    @property
    def p(self) -> float:
        """The probability of such a shift or a larger one, in any direction, without a change."""
        return 2 * float(stdtr(self.degrees, -abs(self.size) / self.error))


def _shift(level: Level, scatter: Scatter, nights: int, only_reruns: bool = False) -> _Shift:
    """Return the shift of the last nights from the level before them.

    :param only_reruns: whether only the values of reruns give the shift; other values count only for the scatter.
    """
    before, after = level.parts(nights)
    tested = [is_rerun or not only_reruns for is_rerun in level.reruns[-nights:]]
    count = sum(tested)
    squares = sum(value**2 for part in (before, after) for value in _residuals(part))
    degrees = len(before) + nights - 2 + scatter.nights
    variance = max((squares + scatter.nights * scatter.variance * level.unit**2) / degrees, level.floor)
    # Nights with few rounds have larger errors.
    rounds = statistics.fmean((error or 0.0) ** 2 for error in itertools.compress(level.errors[-nights:], tested))
    more = max(rounds - level.unit**2, 0.0) / count
    error = math.sqrt(variance * (scatter.of_mean(len(before)) + scatter.of_mean(count)) + more)
    size = statistics.fmean(itertools.compress(after, tested)) - statistics.fmean(before)
    return _Shift(size, error, min(degrees, TAILS * count))


def _residuals(values: Sequence[float]) -> list[float]:
    mean = statistics.fmean(values)
    return [value - mean for value in values]
