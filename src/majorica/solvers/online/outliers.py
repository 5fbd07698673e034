"""Samples far out in a stream: drawn in, so that a fault of a sensor does not outweigh what a short memory holds.

No sample counts as more than twice as far out as the farthest of late. It is
drawn in towards the mean as a whole, so its direction stays: a source's large
values still point along its column of the mixing matrix, and as turning the
sign of one source changes no distance, symmetric sources are separated by the
same matrix. Samples that stay far out raise the variances, the unit of
distances, many times over with each mini-batch, and are soon near.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import pinvh

from majorica.sources.base import Array
from majorica.statistics import F64, source_variances
from majorica.whitening import covariance_block

#: How many times as far out as the farthest of late a sample may be.
REACH = 2.0
#: Memories of the surrogate that are of late.
RECENT = 30.0
#: Where no farthest is known yet: the squared distance that samples may have, so much a component and in shares of
#: the number of samples.
BULK, SHARE = 10.0, 0.25
#: Of samples at hand: the share that others are measured by, times they are looked at again, and samples at once.
INNER, ROUNDS, AT_ONCE = 0.99, 10, 4096
#: Least variance that a source counts with, whitened samples having one of 1.
LEAST = 1e-150


def first_reach(p: int, n: float) -> float:
    """How far out samples of `p` components may be, of `n` remembered: one makes up about a quarter of a variance."""
    return float(np.sqrt(BULK * p + SHARE * n))


def variances(W: F64, covariance: F64) -> F64:
    """The variances of sources ``W z``, none smaller than `LEAST`."""
    return np.maximum(source_variances(W, covariance), LEAST)


def distances(Z: Array, W: F64, covariance: F64) -> F64:
    """How far out samples ``(b, k)`` are: the root of the sum of their sources' squares, in units of the variances."""
    Y = Z @ (W / np.sqrt(variances(W, covariance))[:, None]).T.astype(Z.dtype)
    return np.sqrt(np.einsum("ij,ij->i", Y, Y, dtype=np.float64))


def draw_in(Z: Array, mean: F64, shares: F64) -> Array:
    """Samples at these `shares` of their way from the `mean`; a copy, where the share is 1 to the bit."""
    drawn, far = Z.copy(), shares < 1
    drawn[far] = mean + shares[far, None] * (Z[far] - mean)
    return drawn


def draw_in_all(X: Array) -> tuple[Array, float]:
    """Samples ``(n, f)`` of which none lies far out, and the most that one's distance was divided by.

    A sample far out in the covariance of all is measured again in that of the
    inner 99 %, and drawn in to where it makes up a quarter of their variance
    (up to a half with many features). `X` itself and 1 if there is none, or
    where samples are too few to tell. n f^2 operations; copies of the samples only if one is drawn in.
    """
    n, f = X.shape
    reach = min(first_reach(f, n), float(np.sqrt(n / 2)))
    divided = np.ones(n)
    enough = reach**2 >= 2 * f and np.isfinite(np.einsum("ij,ij->", X, X, dtype=np.float64))
    for _ in range(ROUNDS if enough else 0):
        found = _Spread.of(X).distances(X)
        far = found > reach
        if not far.any():
            break
        others = _Spread.of(X[found <= np.quantile(found, INNER)])
        beyond = np.maximum(others.distances(X[far]) / reach, 1.0)
        if beyond.max() == 1:  # alone in their direction: no telling how far out
            break
        divided[far] *= beyond
        shares = np.ones(n)
        shares[far] = 1 / beyond
        X = draw_in(X, others.mean, shares)
    return X, float(divided.max(initial=1.0))


@dataclass(frozen=True)
class _Spread:
    """Mean and covariance of samples, to measure distances in; directions without variance do not count."""

    mean: F64
    scales: F64
    precision: F64  #: of the samples divided by `scales`

    @classmethod
    def of(cls, X: Array) -> _Spread:
        covariance = covariance_block(np.ascontiguousarray(X))
        deviations = np.sqrt(covariance.matrix.diagonal())
        scales = np.where(deviations > 0, deviations, np.inf)
        return cls(covariance.mean, scales, pinvh(covariance.matrix / (scales[:, None] * scales)))

    def distances(self, X: Array) -> F64:
        found = np.empty(len(X))
        for start in range(0, len(X), AT_ONCE):
            Z = (X[start : start + AT_ONCE] - self.mean) / self.scales
            found[start : start + AT_ONCE] = np.einsum("ij,ij->i", Z @ self.precision, Z)
        return np.sqrt(np.maximum(found, 0.0))
