"""Quality measures (paper, section 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities import Density, Huber, LogCosh, Student
from majorica.errors import DataError, ParameterError
from majorica.statistics import F64

__all__ = ["amari_distance", "left_out_loss", "mutual_information_reduction", "relative_gradient"]


def amari_distance(W: npt.ArrayLike, A: npt.ArrayLike) -> float:
    """Amari distance between an unmixing matrix and the true mixing matrix; 0 if ``W A`` is a scaled permutation.

    With ``R = W A``: ``sum_i (sum_j R_ij^2 / max_l R_il^2 - 1) + sum_i (sum_j
    R_ji^2 / max_l R_li^2 - 1)``. The second term divides by the largest entry
    of the *column*; the paper's printed formula does not, and would not score
    0 for a scaled permutation.

    The second term depends on the scale of W's rows (the first on that of
    A's columns): scale both to unit-variance sources before comparing
    methods. Not a true distance; between 0 and ``2 p (p - 1)``.

    Parameters
    ----------
    W : array-like (p, f)
        Unmixing matrix.
    A : array-like (f, p)
        True mixing matrix.
    """
    W, A = _matrix(W, "W"), _matrix(A, "A")
    if W.shape != A.T.shape:
        raise DataError(f"W is {W.shape} and A is {A.shape}; A must be {W.T.shape}")
    squares = (W @ A) ** 2
    rows, columns = squares.max(axis=1, keepdims=True), squares.max(axis=0, keepdims=True)
    if not (np.isfinite(squares).all() and rows.min() > 0 and columns.min() > 0):
        raise DataError("W A has a row or column of zeros, or is not finite: the Amari distance is not defined")
    return float((squares / rows).sum() + (squares / columns).sum() - 2 * len(squares))


def left_out_loss(W: npt.ArrayLike, X: npt.ArrayLike, density: str | Density = "huber") -> float:
    """Mean negative log-likelihood of samples that were not fitted, Eq. (emp_risk), normaliser included.

    Parameters
    ----------
    W : array-like (p, f)
        Unmixing matrix, square; at the density's own scale.
    X : array-like (n, f)
        Centred samples.
    density : str or Density
        ``"huber"``, ``"logcosh"``, ``"student"`` or an object.
    """
    W, X = _matrix(W, "W"), _matrix(X, "X")
    chosen = _density(density)
    Y = X @ W.T
    sign, log_det = np.linalg.slogdet(W)
    if sign == 0:
        raise DataError("W is singular: the loss is infinite")
    return float(chosen.loss(Y).sum(axis=1).mean() + len(W) * chosen.log_normaliser - log_det)


def relative_gradient(W: npt.ArrayLike, X: npt.ArrayLike, density: str | Density = "huber") -> F64:
    """Relative gradient ``E[G'(y) y^T] - I`` of the loss at `W`, a ``(p, p)`` matrix; zero at a minimum.

    The paper prints it without ``- I``. Its norm is
    ``numpy.linalg.norm(relative_gradient(W, X))``.
    """
    W, X = _matrix(W, "W"), _matrix(X, "X")
    Y = X @ W.T
    return _density(density).score(Y).T @ Y / len(Y) - np.eye(len(W))


def mutual_information_reduction(W: npt.ArrayLike, X: npt.ArrayLike, *, bins: int | None = None) -> float:
    """How many nats of mutual information the unmixing removes from the samples; larger is better.

    ``sum_i h(x_i) - sum_i h(y_i) + log|det W|`` with marginal entropies from
    histograms; the joint entropy cancels. Invariant to the scale and order
    of W's rows.

    Parameters
    ----------
    W : array-like (p, p)
        Unmixing matrix.
    X : array-like (n, p)
        Samples.
    bins : int, optional
        Histogram bins; the cube-root rule of the sample size by default.
    """
    W, X = _matrix(W, "W"), _matrix(X, "X")
    if len(X) < 2:
        raise DataError(f"n_samples={len(X)}: entropies need at least 2 samples")
    count = bins or max(8, round(2 * len(X) ** (1 / 3)))
    before = sum(_entropy(x, count) for x in X.T)
    after = sum(_entropy(y, count) for y in (X @ W.T).T)
    return float(before - after + np.linalg.slogdet(W)[1])


def _entropy(y: F64, bins: int) -> float:
    """Differential entropy from a histogram of quantile range, with the Miller-Madow correction."""
    counts, edges = np.histogram(y, bins=bins)
    filled = counts[counts > 0] / len(y)
    width = edges[1] - edges[0]
    return float(-(filled * np.log(filled)).sum() + np.log(width) + (filled.size - 1) / (2 * len(y)))


def _density(density: str | Density) -> Density:
    named: dict[str, Any] = {"huber": Huber, "logcosh": LogCosh, "student": Student}
    if isinstance(density, str):
        if density not in named:
            raise ParameterError(f"density={density!r} must be one of {sorted(named)} or a Density object")
        return named[density]()
    return density


def _matrix(x: npt.ArrayLike, name: str) -> F64:
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 2:
        raise DataError(f"{name} must be a matrix, got an array of shape {array.shape}")
    return array
