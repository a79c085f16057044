"""Estimate from all series together how nights scatter: variance, tails, and correlation with the night before.

A few nights of one series say little about their scatter; those of a hundred series do. The last axes of all arrays are
series and nights. Axes before those are families, each of which is pooled by itself (simulations have many, a site has
one).
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln, polygamma

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Fewest series that are pooled.
FEWEST = 8
#: Most nights (degrees of freedom) that the pooled variance counts for: estimated from few nights, this is often
#: infinite, and then a series that is noisier than the others would be misjudged.
MOST_DEGREES = 30.0
#: Degrees of freedom of Student's t that are distinguished.
DEGREES = np.array([3, 3.5, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100])
#: Prior for the tails of nights: the degrees of freedom of Student's t, and the number of values that it counts for.
USUAL, USUAL_VALUES = 10.0, 50.0


def prior(variances: Array, degrees: Array) -> tuple[Array, Array]:
    """Return the pooled variance of series, and the number of nights (degrees of freedom) that it counts for.

    G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
    experiments", SAGMB 3 (2004), section 6.2: the logarithms of the sample variances scatter by what their degrees of
    freedom explain; the rest is the scatter of the true variances.

    :param variances: (..., series); NaN or 0 for a series without information.
    :param degrees: degrees of freedom of each.
    :returns: two arrays (...), the first in the unit of the variances. The second is 0 where too few series have
        information.
    """
    informative = np.nan_to_num(variances) > 0
    degrees = np.where(informative, degrees, 2.0)
    logs = np.log(np.where(informative, variances, 1.0)) - digamma(degrees / 2) + np.log(degrees / 2)
    series = informative.sum(-1)
    mean = _mean(logs, informative)
    excess = np.where(informative, (logs - mean[..., None]) ** 2, 0).sum(-1) / np.maximum(series - 1, 1)
    excess -= _mean(polygamma(1, degrees / 2), informative)
    most = polygamma(1, MOST_DEGREES / 2)
    freedom = 2 * _trigamma_inverse(np.maximum(excess, most))
    variance = np.exp(mean + digamma(freedom / 2) - np.log(freedom / 2))
    enough = series >= FEWEST
    return np.where(enough, variance, 1.0), np.where(enough, freedom, 0.0)


def _mean(values: Array, mask: Mask) -> Array:
    """Return the mean over the last axis within the mask; 0 where the mask is empty."""
    return np.where(mask, values, 0).sum(-1) / np.maximum(mask.sum(-1), 1)


def _trigamma_inverse(values: Array) -> Array:
    """Return y with trigamma(y) = value, by Newton's method, on 1 / trigamma, which is convex (Smyth's appendix)."""
    y = 0.5 + 1 / values
    for _ in range(8):
        trigamma = polygamma(1, y)
        y = y + trigamma * (1 - trigamma / values) / polygamma(2, y)
    return y


def tails(residuals: Array, mask: Mask) -> Array:
    """Return the degrees of freedom of the Student's t whose tails are as heavy as those of the residuals.

    R. C. Geary, "The ratio of the mean deviation to the standard deviation as a test of normality", Biometrika 27
    (1935): that ratio is 0.798 for normal values, and smaller where some are far off. A few hundred values give it to a
    few percent, unlike the kurtosis.

    :param residuals: in standard deviations, or any other unit, (..., series, nights).
    :param mask: which residuals exist.
    :returns: an array (...), from 3 to 100.
    """
    size = np.where(mask, abs(residuals), 0)
    count = mask.sum((-2, -1))
    mean, square = size.sum((-2, -1)), (size**2).sum((-2, -1))
    at_least_one = np.maximum(count, 1)
    ratio = mean / at_least_one / np.sqrt(np.maximum(square / at_least_one, 1e-300))
    (usual,) = geary(np.array([USUAL]))
    ratio = (count * ratio + USUAL_VALUES * usual) / (count + USUAL_VALUES)
    return np.interp(ratio, geary(DEGREES), DEGREES)


def geary(degrees: Array) -> Array:
    """Return the ratio of the mean deviation of Student's t to its standard deviation, for ``degrees`` of 3 or more."""
    gammas = gammaln((degrees + 1) / 2) - gammaln(degrees / 2)
    mean = 2 * np.sqrt(degrees / np.pi) * np.exp(gammas) / (degrees - 1)
    return mean / np.sqrt(degrees / (degrees - 2))


def normal_scores(values: Array, degrees: Array) -> Array:
    """Return the normal values that are as improbable as the given values of Student's t.

    D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Annals of
    Mathematical Statistics 30 (1959): within 1 % from three degrees of freedom on. With heavy tails a night far off
    counts for little more than one that is off by half as much; without them it counts in full.
    """
    size = np.sqrt(degrees * np.log1p(values**2 / degrees))
    return np.sign(values) * size * (8 * degrees + 1) / (8 * degrees + 3)


def likeness(residuals: Array, segments: NDArray[np.int_]) -> Array:
    """Return the correlation of each night with the night before; 0 where it may be chance.

    It follows from the first-order autoregression whose residuals would have the same products and squares. The sample
    correlation itself is no use: the mean of few nights takes away much of what they have in common, so that residuals
    of three nights that are all alike correlate negatively.

    :param residuals: from the mean of their segment, in standard deviations, (..., series, nights).
    :param segments: number of the segment of each, the same shape; negative for none.
    :returns: an array (...).
    """
    pairs = (segments[..., 1:] == segments[..., :-1]) & (segments[..., 1:] >= 0)
    count = np.maximum(pairs.sum((-2, -1)), 1)
    products = np.where(pairs, residuals[..., 1:] * residuals[..., :-1], 0).sum((-2, -1))
    squares = np.where(segments >= 0, residuals**2, 0).sum((-2, -1))
    observed = products / np.maximum(squares, 1e-300) - 1 / np.sqrt(count)
    sizes = lengths(segments)
    moments = np.zeros((2, *count.shape, len(_GRID)))
    for length in np.unique(sizes[sizes > 1]):
        number = (sizes == length).sum((-2, -1)) / length
        moments += number[..., None] * _moments(int(length)).reshape(2, *(1,) * count.ndim, -1)
    expected = moments[0] / np.maximum(moments[1], 1e-300)
    curves = expected.reshape(-1, len(_GRID))
    correlations = [np.interp(ratio, curve, _GRID) for ratio, curve in zip(observed.ravel(), curves)]
    # Part of the scatter is that of rounds, which no two nights share; the shared part correlates more than neighbors
    # do. If the shared part is as large as its own correlation, that correlation is the square root.
    return np.where(squares > 0, np.minimum(np.sqrt(np.reshape(correlations, count.shape)), _GRID[-1]), 0.0)


def lengths(segments: NDArray[np.int_]) -> Array:
    """Return the length of each value's segment; 0 where it belongs to none."""
    sizes = np.zeros(segments.shape)
    for number in range(segments.max(initial=-1) + 1):
        members = segments == number
        sizes = np.where(members, members.sum(-1, keepdims=True), sizes)
    return sizes


#: Correlations of neighboring nights that are distinguished. Beyond the last, neighboring nights count as one.
_GRID = np.linspace(0, 0.9, 19)


@functools.cache
def _moments(length: int) -> Array:
    """Return the expected sums of products and squares of a segment's residuals, for each correlation of the grid."""
    apart = abs(np.subtract.outer(np.arange(length), np.arange(length)))
    centred = np.eye(length) - 1 / length
    covariances = centred @ _GRID[:, None, None] ** apart @ centred
    sums = [np.trace(covariances, offset, axis1=-2, axis2=-1) for offset in (1, 0)]
    return np.array(sums)


def inflation(count: Array, likeness: Array) -> Array:
    """Return the factor by which correlation increases the variance of a mean of nights.

    The nights are a first-order autoregression.
    """
    rho, count = likeness, np.maximum(count, 1)
    return (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
