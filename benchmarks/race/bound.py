"""The Cramer-Rao bound of a separation, as an Amari distance: what no unbiased method is below when samples are many.

For independent sources of variance one and score ``psi = -(log density)'``, write ``kappa = E[psi^2]`` (one for a
Gaussian, larger for all others). Off the diagonal of ``W A``, the entries of a pair i, j have the Fisher information
``n [[kappa_i, 1], [1, kappa_j]]``, apart from all other pairs, so their covariance is at least its inverse:
variances ``kappa_j / (kappa_i kappa_j - 1) / n`` and ``kappa_i / (kappa_i kappa_j - 1) / n``, covariance
``-1 / (kappa_i kappa_j - 1) / n``. The bound's median Amari distance is that of Gaussian entries with this covariance.

Densities with jumps or poles (uniform, sine) have infinite kappa: errors between two of them fall faster than any
``1 / n``, and nothing is said of such a pair. Beside a source of finite kappa they are the limit: ``1 / (kappa_i n)``.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from benchmarks.race.kinds import HUMP

DRAWS = 40_000  #: of the bound's Gaussian: its median is within about 1 %


@cache
def kappa(kind: str) -> float:
    """``E[psi^2]`` of a source of variance one; infinite if its density has jumps or poles."""
    if kind.startswith("normal"):
        shape = float(kind.removeprefix("normal"))
        if shape <= 0.5:
            return math.inf
        return shape**2 * math.gamma(2 - 1 / shape) * math.gamma(3 / shape) / math.gamma(1 / shape) ** 2
    if kind.startswith("student"):
        freedom = float(kind.removeprefix("student"))
        return freedom * (freedom + 1) / ((freedom - 2) * (freedom + 3))
    return _two_humps(HUMP) if kind == "bimodal" else math.inf


def _two_humps(deviation: float) -> float:
    """Of two normals at -1 and 1: the score is ``(x - tanh(x / deviation^2)) / deviation^2``."""
    x, step = np.linspace(-1 - 12 * deviation, 1 + 12 * deviation, 20_001, retstep=True)
    humps = sum(np.exp(-0.5 * ((x - at) / deviation) ** 2) for at in (-1.0, 1.0))
    density = humps / (2 * deviation * math.sqrt(2 * math.pi))
    score = (x - np.tanh(x / deviation**2)) / deviation**2
    return float((density * score**2).sum() * step * (1 + deviation**2))


def pair_covariance(one: float, other: float) -> np.ndarray:
    """Bound on the covariance of the two entries of a pair, for one sample; zeros where nothing is said."""
    if math.isinf(one) or math.isinf(other):
        return np.diag([0.0 if math.isinf(one) else 1 / one, 0.0 if math.isinf(other) else 1 / other])
    return np.array([[other, -1.0], [-1.0, one]]) / (one * other - 1)


def amari_of(R: np.ndarray) -> np.ndarray:
    """Amari distances of a stack ``(m, p, p)`` of ``W A``, as :func:`benchmarks.race.quality.amari` has them.

    Sources are independent and of variance one, so rows of unit length are those of unit variance.
    """
    squares = R**2 / (R**2).sum(axis=2, keepdims=True)
    rows, columns = squares.max(axis=2, keepdims=True), squares.max(axis=1, keepdims=True)
    return (squares / rows).sum(axis=(1, 2)) + (squares / columns).sum(axis=(1, 2)) - 2 * R.shape[1]


@cache
def median_amari(kinds: tuple[str, ...], n: int, draws: int = DRAWS) -> float | None:
    """Median Amari distance of errors as small as the bound allows; None where it says nothing."""
    p, rng = len(kinds), np.random.default_rng(0)
    values = [kappa(kind) for kind in kinds]
    if all(math.isinf(value) for value in values):
        return None
    R = np.zeros((draws, p, p)) + np.eye(p)
    for i in range(p):
        for j in range(i):
            variances, directions = np.linalg.eigh(pair_covariance(values[i], values[j]) / n)
            errors = rng.normal(size=(draws, 2)) * np.sqrt(np.maximum(variances, 0)) @ directions.T
            R[:, i, j], R[:, j, i] = errors.T
    return float(np.median(amari_of(R)))
