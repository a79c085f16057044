"""Simulate sites of many series, night by night, and follow their changes; for ci/benchmarks/trends.py.

Arrays are (sites, series, nights), in percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from containercheck.history.series import LEAST
from containercheck.history.watch import CONFIRMED, Measured, Watch
from scipy.special import stdtr

#: Number of nights that are followed after the history.
FOLLOWED = 14
#: Changes in percent.
SIZES = (3.0, 5.0, 10.0)
#: The published method's limit.
PUBLISHED = 0.001


# Noise of nights, in standard deviations.


def normal(draw, shape):
    """Return normal nights."""
    return draw.standard_normal(shape)


def heavy(draw, shape):
    """Return Student's t with three degrees of freedom, its standard deviation brought to 1."""
    return draw.standard_t(3, shape) / math.sqrt(3)


def two_modes(draw, shape):
    """Return nights that are either fast or slow."""
    return 0.97 * draw.choice([-1.0, 1.0], shape) + 0.24 * draw.standard_normal(shape)


def wandering(draw, shape):
    """Return nights, each of which correlates with the next by 0.7."""
    noise = draw.standard_normal(shape)
    for night in range(1, shape[-1]):
        noise[..., night] = 0.7 * noise[..., night - 1] + math.sqrt(1 - 0.49) * noise[..., night]
    return noise


def drifting(draw, shape, each=0.02):
    """Return normal nights of series that get faster or slower by a part of the spread each night."""
    direction = draw.choice([-1.0, 1.0], (*shape[:-1], 1))
    return draw.standard_normal(shape) + each * direction * np.arange(shape[-1])


def drifting_fast(draw, shape):
    """Return nights that drift by a twentieth of the spread each night: in a month, by one spread and a half."""
    return drifting(draw, shape, 0.05)


#: Kinds of noise. With the first five no alarm is true; a fast drift is a change.
NOISES = {
    "normal": normal,
    "heavy (t3)": heavy,
    "two modes": two_modes,
    "wandering": wandering,
    "drifting": drifting,
    "drift x2.5 *": drifting_fast,
}


@dataclass(frozen=True)
class Site:
    """The measurements of simulated or real sites.

    :ivar values: the first measurements.
    :ivar again: confirmations in the same nights.
    :ivar errors: their reported standard errors.
    :ivar sizes: by how much each series changes for the worse, (series,); 0 for not at all.
    :ivar changed: the first night of the changes.
    :ivar groups: the group of each series, (series,).
    """

    values: np.ndarray
    again: np.ndarray
    errors: np.ndarray
    sizes: np.ndarray
    changed: int
    groups: np.ndarray


def drawn(
    draw: np.random.Generator, noise: Callable, shape: tuple[int, int, int], spread: float, each: int = 4
) -> Site:
    """Return simulated sites, whose last :data:`FOLLOWED` nights have the changes.

    :param spread: standard deviation of a night in percent; that of a series is larger or smaller by a factor, whose
        logarithm has a standard deviation of 0.3. A fifth of its variance comes from the rounds.
    :param each: number of series that change by each of the sizes.
    """
    nightly, rounds, reported = (np.exp(0.3 * draw.standard_normal((*shape[:2], 1))) for _ in range(3))
    changed, sizes = shape[-1] - FOLLOWED, planted(shape[1], each)
    levels = math.sqrt(0.8) * spread * nightly * noise(draw, shape) + sizes[:, None] * (np.arange(shape[-1]) >= changed)
    errors = np.broadcast_to(math.sqrt(0.2) * spread * rounds, shape)
    values = levels + errors * draw.standard_normal(shape)
    again = levels + errors / math.sqrt(2) * draw.standard_normal(shape)
    # The reported errors are estimates from few rounds.
    return Site(values, again, errors * reported ** (2 / 3), sizes, changed, np.zeros(shape[1], dtype=int))


def planted(series: int, each: int) -> np.ndarray:
    """Return by how much each series changes: the first ones do."""
    sizes = np.zeros(series)
    for place, size in enumerate(SIZES):
        sizes[place * each : (place + 1) * each] = size
    return sizes


@dataclass(frozen=True)
class Seen:
    """The alarms and reruns of sites that were followed.

    :ivar alarms, reruns: per 100 series and night without a change.
    :ivar found: for each size, the nights after which half of the changes were found; infinite for never.
    """

    alarms: float
    reruns: float
    found: tuple[float, ...]

    def __str__(self) -> str:
        """Return them as the cells of a table."""
        found = "".join(f"{'-' if math.isinf(nights) else f'{nights:.0f}':>4}" for nights in self.found)
        return f"{self.alarms:8.2f}{self.reruns:7.2f}  {found}"


def seen(site: Site, alarms: np.ndarray, reruns: np.ndarray) -> Seen:
    """Sum up alarms and reruns, both (sites, series, nights): 1, or -1 for a change for the better."""
    after = slice(site.changed, None)
    unchanged = site.sizes == 0
    rates = [100 * float(np.mean(events[:, unchanged, after] != 0)) for events in (alarms, reruns)]
    found = []
    for size in SIZES:
        is_found = alarms[:, site.sizes == size, after] > 0
        first = np.where(is_found.any(-1), is_found.argmax(-1) + 1.0, math.inf)
        found.append(float(np.sort(first.ravel())[first.size // 2]))
    return Seen(rates[0], rates[1], tuple(found))


def followed(site: Site, is_renewed: bool = False) -> Seen:
    """Follow sites as ci/nightly does.

    :param is_renewed: whether a recorded fact, such as the runtime, is new in the night of the changes.
    """
    renewed = np.broadcast_to(is_renewed & (np.arange(site.values.shape[-1]) == site.changed), site.values.shape[1:])
    nothing = np.full(site.values.shape, np.nan)
    least = np.full(site.values.shape[1], LEAST)
    values, unconfirmed, confirmations = site.values.copy(), nothing, np.zeros(nothing.shape, dtype=bool)
    watch = Watch(Measured(values, site.errors, confirmations, unconfirmed, least, renewed, site.groups))
    alarms, reruns = np.zeros(values.shape), np.zeros(values.shape)
    for night in range(site.changed, values.shape[-1]):
        watch.settle(night)
        proposed = watch.propose(night)
        run = (proposed.at >= 0) & np.isfinite(values[..., night])
        reruns[..., night] = confirmations[..., night] = run
        # The watch looks at these arrays: a night's own values are there before it asks for them.
        unconfirmed[..., night] = np.where(run, values[..., night], np.nan)
        values[..., night] = np.where(run, site.again[..., night], values[..., night])
        alarms[..., night] = np.where(watch.confirm(night, proposed) <= CONFIRMED, proposed.sign, 0)
    return seen(site, alarms, reruns)


def published(site: Site) -> Seen:
    """Follow them by the published method: an alarm when a series has one change point more."""
    alarms = np.zeros(site.values.shape)
    starts = np.zeros(alarms.shape[:-1], dtype=int)
    for night in range(site.changed, alarms.shape[-1]):
        at, shift, p = best_split(site.values[..., : night + 1], starts)
        is_change = (p < PUBLISHED) & (abs(shift) >= LEAST)
        starts = np.where(is_change, at, starts)
        alarms[..., night] = np.where(is_change, np.sign(shift), 0)
    return seen(site, alarms, np.zeros(alarms.shape))


def best_split(values: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best split by the energy statistic, the shift of the mean, and Student's p of it.

    :param starts: where each series begins.
    """
    nights = values.shape[-1]
    inside = (np.arange(nights) >= starts[..., None]) & np.isfinite(values)
    values = np.where(inside, values, 0)
    pairs = inside[..., :, None] & inside[..., None, :]
    distances = np.where(pairs, abs(values[..., :, None] - values[..., None, :]), 0)
    # Sums over the first nights, against all nights.
    sums = distances.cumsum(-1).cumsum(-2)
    within = np.diagonal(sums, axis1=-2, axis2=-1)[..., :-1]
    rows = sums[..., -1][..., :-1]
    between, total = rows - within, sums[..., -1, -1][..., None]
    left = inside.cumsum(-1)[..., :-1]
    right = inside.sum(-1)[..., None] - left
    possible = (left >= 1) & (right >= 1) & (left + right >= 3)
    m, n = np.maximum(left, 1), np.maximum(right, 1)
    later = total - within - 2 * between
    energy = 2 * between / (m * n) - within / np.maximum(m * (m - 1), 1) - later / np.maximum(n * (n - 1), 1)
    statistic = np.where(possible, m * n / (m + n) * energy, -np.inf)
    best = statistic.argmax(-1)
    counts = [np.take_along_axis(sizes, best[..., None], -1)[..., 0] for sizes in (m, n)]
    night = np.arange(nights)
    parts = [inside & (night <= best[..., None]), inside & (night > best[..., None])]
    means = [np.where(part, values, 0).sum(-1) / count for part, count in zip(parts, counts)]
    squares = sum(np.where(part, (values - mean[..., None]) ** 2, 0).sum(-1) for part, mean in zip(parts, means))
    degrees = np.maximum(counts[0] + counts[1] - 2, 1)
    error = np.sqrt(squares / degrees * (1 / counts[0] + 1 / counts[1]))
    shift = means[1] - means[0]
    p = 2 * stdtr(degrees, -abs(shift) / np.maximum(error, 1e-300))
    return best + 1, shift, np.where(possible.any(-1), p, 1.0)
