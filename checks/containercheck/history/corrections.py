"""Correct p-values for the number of tests, over the last axis of an array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from containercheck.history.pooled import Array


def false_discoveries(p: Array) -> Array:
    """Return p-values corrected for the false discovery rate.

    Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995): of the discoveries up to a
    limit, at most that part is false on average; where no effect is real, that is how often there is any.
    """
    order = np.argsort(p, axis=-1)
    count = p.shape[-1]
    ranked = np.take_along_axis(p, order, -1) * count / np.arange(1, count + 1)
    ranked = np.minimum.accumulate(ranked[..., ::-1], -1)[..., ::-1]
    return _unsorted(np.minimum(ranked, 1.0), order)


def any_false(p: Array) -> Array:
    """Return p-values corrected for the probability that any discovery is false (family-wise error rate).

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979). NaN
    does not count as a test.
    """
    order = np.argsort(p, axis=-1)
    left = np.isfinite(p).sum(-1, keepdims=True) - np.arange(p.shape[-1])
    ranked = np.maximum.accumulate(np.take_along_axis(p, order, -1) * np.maximum(left, 1), -1)
    return _unsorted(np.minimum(ranked, 1.0), order)


def _unsorted(ranked: Array, order: NDArray[np.int_]) -> Array:
    values = np.empty_like(ranked)
    np.put_along_axis(values, order, ranked, -1)
    return values
