"""What all series together say of how nights scatter: by how much, how wildly, and how like the night before.

A few nights of one series say little of their own scatter; those of a hundred series do. Everything here is for arrays
whose last axes are series and nights. Axes before those are families, each of which is pooled by itself (simulations
have many, a site has one).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Fewer series have nothing to say of each other's scatter.
FEWEST = 8
#: What the other series say of one counts for so many nights of its own, at most: estimated from few nights, it often
#: comes out as endless, and a series that is noisier than the others would pay for that.
MOST_DEGREES = 30.0
#: Degrees of freedom of Student's t that are told apart.
DEGREES = np.array([3, 3.5, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100])
#: Before there are values, nights are taken to scatter like Student's t with so many degrees of freedom, as if so many
#: values had said so.
USUAL, USUAL_VALUES = 10.0, 50.0


def prior(variances: Array, degrees: Array) -> tuple[Array, Array]:
    """Return the variance that series have, and for how many nights (degrees of freedom) that knowledge counts.

    G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
    experiments", SAGMB 3 (2004), section 6.2: the logarithms of the sample variances scatter by what their degrees of
    freedom explain; what they scatter by more is that of the true variances.

    :param variances: (..., series); NaN or 0 for a series that says nothing.
    :param degrees: of each.
    :returns: two arrays (...), the first in the unit of the variances. The second is 0 where too few series say
        something.
    """
    tells = np.nan_to_num(variances) > 0
    degrees = np.where(tells, degrees, 2.0)
    logs = np.log(np.where(tells, variances, 1.0)) - digamma(degrees / 2) + np.log(degrees / 2)
    series = tells.sum(-1)
    mean = _mean(logs, tells)
    more = np.where(tells, (logs - mean[..., None]) ** 2, 0).sum(-1) / np.maximum(series - 1, 1)
    more -= _mean(polygamma(1, degrees / 2), tells)
    most = polygamma(1, MOST_DEGREES / 2)
    freedom = 2 * _trigamma_inverse(np.maximum(more, most))
    variance = np.exp(mean + digamma(freedom / 2) - np.log(freedom / 2))
    enough = series >= FEWEST
    return np.where(enough, variance, 1.0), np.where(enough, freedom, 0.0)


def _mean(values: Array, mask: Mask) -> Array:
    """Return the mean over the last axis, of what the mask has; 0 where it has nothing."""
    return np.where(mask, values, 0).sum(-1) / np.maximum(mask.sum(-1), 1)


def _trigamma_inverse(values: Array) -> Array:
    """Solve trigamma(y) = value for y by Newton's method, on 1 / trigamma, which is convex (Smyth's appendix)."""
    found = 0.5 + 1 / values
    for _ in range(8):
        trigamma = polygamma(1, found)
        found = found + trigamma * (1 - trigamma / values) / polygamma(2, found)
    return found


def tails(residuals: Array, mask: Mask) -> Array:
    """Return with how many degrees of freedom Student's t scatters as wildly as these residuals.

    R. C. Geary, "The ratio of the mean deviation to the standard deviation as a test of normality", Biometrika 27
    (1935): that ratio is 0.798 for normal values, and smaller where some are far off. Of a few hundred values it is
    known to a few percent, unlike the kurtosis.

    :param residuals: in standard deviations, or any other unit, (..., series, nights).
    :param mask: which of them there are.
    :returns: an array (...), from 3 to 100.
    """
    size = np.where(mask, abs(residuals), 0)
    count = mask.sum((-2, -1))
    mean, square = size.sum((-2, -1)), (size**2).sum((-2, -1))
    known = np.maximum(count, 1)
    ratio = mean / known / np.sqrt(np.maximum(square / known, 1e-300))
    (usual,) = geary(np.array([USUAL]))
    ratio = (count * ratio + USUAL_VALUES * usual) / (count + USUAL_VALUES)
    return np.interp(ratio, geary(DEGREES), DEGREES)


def geary(degrees: Array) -> Array:
    """Return the mean deviation of Student's t over its standard deviation; from three degrees of freedom on."""
    gammas = gammaln((degrees + 1) / 2) - gammaln(degrees / 2)
    mean = 2 * np.sqrt(degrees / np.pi) * np.exp(gammas) / (degrees - 1)
    return mean / np.sqrt(degrees / (degrees - 2))


def normal_scores(values: Array, degrees: Array) -> Array:
    """Return the normal values that are as improbable as these of Student's t.

    D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of
    Mathematical Statistics 30 (1959): within 1 % from three degrees of freedom on. One night far off then counts for
    little more than one that is off by half as much, where nights are wild; and for all it is, where they are not.
    """
    size = np.sqrt(degrees * np.log1p(values**2 / degrees))
    return np.sign(values) * size * (8 * degrees + 1) / (8 * degrees + 3)


def likeness(residuals: Array, segments: NDArray[np.int_]) -> Array:
    """Return by how much the scatter of a night correlates with that of the night before; 0 where that may be chance.

    It is from the correlation of the first-order autoregression whose residuals would have the products and squares
    that these have. Of few nights the mean takes away much of what they have in common: three that are all alike have
    residuals that correlate by less than nothing, which is why the sample correlation itself does not do.

    :param residuals: from the mean of their segment, in standard deviations, (..., series, nights).
    :param segments: to which segment each belongs, the same shape; negative for none.
    :returns: an array (...).
    """
    pairs = (segments[..., 1:] == segments[..., :-1]) & (segments[..., 1:] >= 0)
    count = np.maximum(pairs.sum((-2, -1)), 1)
    products = np.where(pairs, residuals[..., 1:] * residuals[..., :-1], 0).sum((-2, -1))
    squares = np.where(segments >= 0, residuals**2, 0).sum((-2, -1))
    seen = products / np.maximum(squares, 1e-300) - 1 / np.sqrt(count)
    own = lengths(segments)
    moments = np.zeros((2, *count.shape, len(_GRID)))
    for length in np.unique(own[own > 1]):
        number = (own == length).sum((-2, -1)) / length
        moments += number[..., None] * _moments(int(length)).reshape(2, *(1,) * count.ndim, -1)
    expected = moments[0] / np.maximum(moments[1], 1e-300)
    found = [np.interp(one, those, _GRID) for one, those in zip(seen.ravel(), expected.reshape(-1, len(_GRID)))]
    # Part of the scatter is the rounds', which no two nights share; what they do share lasts longer than the
    # correlation of neighbors says. Where its part is as large as its own correlation, the square root is that.
    return np.where(squares > 0, np.minimum(np.sqrt(np.reshape(found, count.shape)), _GRID[-1]), 0.0)


def lengths(segments: NDArray[np.int_]) -> Array:
    """Return for each value how many belong to its segment; 0 where it belongs to none."""
    found = np.zeros(segments.shape)
    for number in range(segments.max(initial=-1) + 1):
        own = segments == number
        found = np.where(own, own.sum(-1, keepdims=True), found)
    return found


#: Correlations of neighboring nights that are told apart. Beyond the last, neighboring nights are one.
_GRID = np.linspace(0, 0.9, 19)


@functools.cache
def _moments(length: int) -> Array:
    """Return what products and squares of the residuals of a segment add up to on average, for each of the grid."""
    apart = abs(np.subtract.outer(np.arange(length), np.arange(length)))
    centred = np.eye(length) - 1 / length
    covariances = centred @ _GRID[:, None, None] ** apart @ centred
    sums = [np.trace(covariances, offset, axis1=-2, axis2=-1) for offset in (1, 0)]
    return np.array(sums)


def inflation(count: Array, likeness: Array) -> Array:
    """Return by what the variance of a mean of so many nights is larger than if they were independent.

    For nights of which each correlates with the next, as a first-order autoregression has it.
    """
    rho, count = likeness, np.maximum(count, 1)
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
