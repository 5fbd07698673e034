"""Flat stretches of a stream: a sensor that came off, railed or became the copy of another teaches nothing.

Samples without variance along some direction lie in a hyperplane. As many
sources as before cannot be told apart in there, and their likelihood has no
bound: rows would be scaled up along that direction for as long as it lasts.
So such samples are not learnt from. Variances are measured about the samples'
own mean, in units of those that are known.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

from majorica.sources.base import Array
from majorica.statistics import F64

#: Least variance along every direction of samples to learn from, in units of the one that is known or of the first
#: samples', whichever is less: what was loud for a while may become as it was.
LEAST = 1e-8
#: The same in units of the first samples: rows may grow this far, whatever comes.
LEAST_EVER = 1e-20
#: What is above this share of the known variance along every direction needs no closer look, if no variance is above
#: the other number: then even products of float32 tell.
PLAIN, MOST = 1e-4, 100.0
#: Samples a component to judge by, at least.
SAMPLES = 2
#: How many times as many may go by without a verdict, each far from those before.
PATIENCE = 4
#: Standard deviations from which on samples are left out, those before a jump to the rail say; if they are most, there
#: is no telling.
FAR = 50.0


def enough(p: int) -> int:
    """Samples of `p` components whose variances can be judged."""
    return SAMPLES * p + 2


def is_alive(scatter: F64, mean: F64, known: F64) -> bool:
    """Whether samples are plainly not flat: their mean squares, products alike, and mean are about the mean so far."""
    if scatter.diagonal().max() > MOST:
        return False
    covariance = scatter - PLAIN * known
    covariance -= mean[:, None] * mean
    return _is_positive(covariance)


def spread(Y: Array) -> tuple[int, F64, F64]:
    """Number, mean and scatter about it of samples ``(b, p)``, but for those far out; none if most are."""
    mean = Y.mean(axis=0, dtype=np.float64)
    D = Y - mean
    scatter = D.T @ D
    if np.trace(scatter) < FAR * FAR:
        return len(Y), mean, scatter
    middle = np.median(Y, axis=0)
    near = Y[np.einsum("ij,ij->i", Y - middle, Y - middle) < FAR * FAR]
    if 2 * len(near) < len(Y):
        return 0, mean, scatter
    D = near - near.mean(axis=0)
    return len(near), near.mean(axis=0), D.T @ D


def join(n: int, mean: F64, scatter: F64, m: int, other: F64, more: F64) -> tuple[int, F64, F64]:
    """Number, mean and scatter of `n` and `m` samples together; of the latter alone if they are far from the former."""
    apart = other - mean
    if apart @ apart > FAR * FAR:
        return m, other, more
    return n + m, mean + m / (n + m) * apart, scatter + more + n * m / (n + m) * np.outer(apart, apart)


def directions(covariance: F64, units: F64, digits: float) -> F64:
    """Directions ``(r, p)`` in which samples of this covariance are flat, seen by rows `units` of unit variance.

    Usually none. `digits` is what rounding leaves of sources that do not change.
    """
    p = len(covariance)
    first = units @ units.T  # the first samples were white
    rounding = LEAST_EVER * first + digits * digits * np.eye(p)
    if _is_positive(covariance - LEAST * np.eye(p) - rounding):
        return np.empty((0, p))
    sizes, axes = eigh(first)
    sizes = np.maximum(sizes, LEAST_EVER)
    least = LEAST * (axes * (sizes / (1 + sizes))) @ axes.T + rounding
    if _is_positive(covariance - least):
        return np.empty((0, p))
    ratios, vectors = eigh(covariance, least)
    return np.ascontiguousarray(vectors[:, ratios <= max(1.0, ratios[0])].T)


def _is_positive(matrix: F64) -> bool:
    """Whether a symmetric matrix, which is written over, has positive eigenvalues only."""
    return bool(dpotrf(matrix.T, clean=False, overwrite_a=True)[1] == 0)
