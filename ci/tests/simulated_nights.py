"""Simulate sites of many series, and follow them night by night as the nightly command does.

Values are overheads in percent. Arrays have the axes series and nights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from containercheck.history.change_points import standing
from containercheck.history.series import Point
from made_nights import made_series, night

#: Nights that are followed after the history.
FOLLOWED = 14
#: Nights whose correlation with the night before is 0.7.
ALIKE = 0.7


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
    """Return nights, each of which resembles the night before."""
    noise = draw.standard_normal(shape)
    for place in range(1, shape[-1]):
        noise[:, place] = ALIKE * noise[:, place - 1] + math.sqrt(1 - ALIKE**2) * noise[:, place]
    return noise


def drifting(draw, shape):
    """Return normal nights of series that get faster or slower by 2 % of the spread each night."""
    return draw.standard_normal(shape) + 0.02 * draw.choice([-1.0, 1.0], (shape[0], 1)) * np.arange(shape[-1])


NOISES = {"normal": normal, "heavy": heavy, "two modes": two_modes, "wandering": wandering, "drifting": drifting}


@dataclass(frozen=True)
class Site:
    """The measurements of a site.

    :ivar values: the first measurements.
    :ivar again: reruns in the same nights.
    :ivar errors: their reported standard errors, one for each series.
    :ivar steps: by how much each series changes for the worse; 0 for not at all.
    :ivar changed: the first night of the changes.
    """

    values: np.ndarray
    again: np.ndarray
    errors: np.ndarray
    steps: np.ndarray
    changed: int


def site(noise, history, spread, steps=(), seed=0, count=100):
    """Return the measurements of a site, whose last :data:`FOLLOWED` nights have the changes.

    :param spread: standard deviation of a night; that of a series is larger or smaller by a factor, whose logarithm has
        a standard deviation of 0.3. A fifth of its variance comes from the rounds.
    :param steps: the changes, of the first series.
    """
    draw = np.random.default_rng(seed)
    shape = (count, history + FOLLOWED)
    own_nights, own_rounds, reported = (np.exp(0.3 * draw.standard_normal((count, 1))) for _ in range(3))
    planted = np.zeros(count)
    planted[: len(steps)] = steps
    levels = math.sqrt(0.8) * spread * own_nights * noise(draw, shape)
    levels += planted[:, None] * (np.arange(shape[-1]) >= history)
    errors = math.sqrt(0.2) * spread * own_rounds
    values = levels + errors * draw.standard_normal(shape)
    again = levels + errors / math.sqrt(2) * draw.standard_normal(shape)
    # The reported errors are estimates from few rounds.
    return Site(values, again, (errors * reported ** (2 / 3))[:, 0], planted, history)


def followed(measured):
    """Return the alarms and the reruns of a site: 1 for the worse, -1 for the better, for each series and night."""
    nights = [night(number) for number in range(measured.values.shape[1])]
    points = [
        [Point(nights[number], float(value), float(error), False, {}) for number, value in enumerate(own)]
        for own, error in zip(measured.values, measured.errors)
    ]
    alarms, reruns = np.zeros(measured.values.shape), np.zeros(measured.values.shape)
    for tonight in range(measured.changed, len(nights)):
        for change in _standing(points, tonight):
            if not change.confirmed:
                place = int(change.series.metric), tonight
                reruns[place] = 1 if change.worse else -1
                point, again = points[place[0]][tonight], float(measured.again[place])
                points[place[0]][tonight] = replace(point, value=again, confirmation=True, unconfirmed=point.value)
        if reruns[:, tonight].any():
            for change in _standing(points, tonight):
                number = int(change.series.metric)
                if change.confirmed and reruns[number, tonight] == (1 if change.worse else -1):
                    alarms[number, tonight] = reruns[number, tonight]
    return alarms, reruns


def _standing(points, tonight):
    return standing(
        [replace(_EMPTY, metric=str(number), points=tuple(own[: tonight + 1])) for number, own in enumerate(points)]
    )


_EMPTY = made_series([])


def false_alarms(measured, alarms):
    """Return the false alarms of each 100 series and night."""
    return 100 * float(np.mean(alarms[measured.steps == 0, measured.changed :] != 0))
