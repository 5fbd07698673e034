"""Samples far out in a stream: drawn in, so that a fault of a sensor does not outweigh what a short memory holds.

No sample counts as more than twice as far out as the farthest of late. It is
drawn in towards the mean as a whole, so its direction stays: a source's large
values still point along its column of the mixing matrix, and as turning the
sign of one source changes no distance, symmetric sources are separated by the
same matrix. Samples that stay far out raise the variances, the unit of
distances, many times over with each mini-batch, and are soon near.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import pinvh

from majorica.sources.base import Array
from majorica.statistics import F64

#: How many times as far out as the farthest of late a sample may be.
REACH = 2.0
#: Memories of the surrogate that are of late.
RECENT = 30.0
#: Where no farthest is known yet: the squared distance that samples may have, so much a component and in shares of
#: the number of samples.
BULK, SHARE = 10.0, 0.25
#: Least variance that a source counts with, whitened samples having one of 1.
LEAST = 1e-150


def first_reach(p: int, n: float) -> float:
    """How far out samples of `p` components may be, of `n` remembered: one makes up about a quarter of a variance."""
    return float(np.sqrt(BULK * p + SHARE * n))


def distances(Z: Array, W: F64, covariance: F64) -> F64:
    """How far out samples ``(b, k)`` are: the root of the sum of their sources' squares, in units of the variances."""
    variances = np.einsum("ij,ij->i", W @ covariance, W)
    Y = Z @ (W / np.sqrt(np.maximum(variances, LEAST))[:, None]).T.astype(Z.dtype)
    return np.sqrt(np.einsum("ij,ij->i", Y, Y, dtype=np.float64))


def draw_in(Z: Array, mean: F64, shares: F64) -> Array:
    """Samples at these `shares` of their way from the `mean`; a copy, where the share is 1 to the bit."""
    drawn, far = Z.copy(), shares < 1
    drawn[far] = mean + shares[far, None] * (Z[far] - mean)
    return drawn


def draw_in_all(X: Array) -> tuple[Array, float]:
    """Samples ``(n, f)`` none of which makes up over a quarter of a variance, and the most that one was divided by.

    What lies far out makes up most of the covariance itself: it is drawn in
    and the covariance taken again, until none is. `X` itself and 1 if none is.
    n f^2 operations and a copy of the samples a round, f^2 memory.
    """
    n, f = X.shape
    reach, shares = first_reach(f, n), np.ones(n)
    given = X
    while reach**2 < n:  # in its own covariance none can be farther out
        mean, far = _own_distances(X)
        if far.max() <= 1.1 * reach:
            break
        shares *= reach / np.maximum(far, reach)
        X = draw_in(given, mean, shares)
    return X, float(1 / shares.min(initial=1.0))


def _own_distances(X: Array) -> tuple[F64, F64]:
    """The samples' mean and how far out they are in their own covariance; directions without variance do not count."""
    mean = X.mean(axis=0, dtype=np.float64)
    Z = X - mean
    deviations = np.sqrt(np.einsum("ij,ij->j", Z, Z) / len(Z))
    Z /= np.where(deviations > 0, deviations, 1.0)
    precision = pinvh(Z.T @ Z / len(Z))
    return mean, np.sqrt(np.maximum(np.einsum("ij,ij->i", Z @ precision, Z), 0.0))
