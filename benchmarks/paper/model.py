"""The model every compared algorithm minimises: Huber density, the package's kernels, one sample a row."""

from __future__ import annotations

import numpy as np

from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.kernels import kernels_for
from majorica.statistics import Statistics

HUBER = Huber()
#: Samples handed to a kernel at once.
CHUNK = 16384


def huber(p: int) -> Densities:
    """The Huber density for each of `p` components."""
    return Densities.same(HUBER, p)


def statistics(X: np.ndarray, W: np.ndarray) -> Statistics:
    """Sums of loss, relative gradient and Hessian entries of the samples `X` (n, p) at `W`; one pass."""
    densities = huber(len(W))
    kernel = kernels_for(densities).statistics
    mean = np.zeros(X.shape[1])
    parts = (kernel(X[start : start + CHUNK], mean, W, densities) for start in range(0, len(X), CHUNK))
    total = next(parts)
    for part in parts:
        total += part
    return total


def relative_gradient(sums: Statistics) -> np.ndarray:
    """``E[G'(y) y^T] - I``, the paper's relative gradient with the identity it leaves out."""
    return sums.gradient / sums.n - np.eye(len(sums.gradient))


def loss(W: np.ndarray, sums: Statistics) -> float:
    """Mean negative log-likelihood, Eq. (emp_risk), normalisers included."""
    sign, log_det = np.linalg.slogdet(W)
    if sign == 0 or not np.isfinite(log_det):
        return np.inf
    return float(sums.loss.sum() / sums.n + len(W) * HUBER.log_normaliser - log_det)


def whitening_start(X: np.ndarray) -> np.ndarray:
    """The start of every algorithm: the symmetric inverse square root of the covariance of `X` (paper, 4.3)."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return (vectors / np.sqrt(values)) @ vectors.T
