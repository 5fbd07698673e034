"""How good an unmixing is, the same for every method: rows at their own best scale, samples nobody fitted."""

from __future__ import annotations

import numpy as np


def unit_rows(W: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unmixing with sources of variance one on `X`, and these sources as rows ``(p, n)``."""
    Y = W @ X.T
    Y -= Y.mean(axis=1, keepdims=True)
    deviation = Y.std(axis=1, keepdims=True)
    Y /= deviation
    return W / deviation, Y


def huber_row(y: np.ndarray) -> float:
    """Smallest ``E[G(s y)] - log s`` over scales s, Huber's G with its normaliser; y of variance one.

    The score ``E[min(|s y|, 1) |s y|]`` rises with s, and is one at the best
    scale: bisection on sorted sizes, where it is a sum of two prefixes.
    """
    from majorica.densities import Huber

    size = np.sort(np.abs(y))
    squares, sums, n = np.cumsum(size * size), np.cumsum(size), len(size)

    def parts(s: float) -> tuple[float, float, int]:
        inside = int(np.searchsorted(size, 1 / s))
        inner = squares[inside - 1] if inside else 0.0
        return inner, sums[-1] - (sums[inside - 1] if inside else 0.0), inside

    low, high = 1e-3, 1e3
    for _ in range(60):
        s = (low * high) ** 0.5
        inner, outer, _ = parts(s)
        low, high = (low, s) if s * s * inner + s * outer > n else (s, high)
    s = (low * high) ** 0.5
    inner, outer, inside = parts(s)
    loss = (0.5 * s * s * inner + s * outer - 0.5 * (n - inside)) / n
    return float(loss + Huber().log_normaliser - np.log(s))


def adaptive_row(y: np.ndarray) -> float:
    """Smallest loss of y, of variance one, over the shapes of the adaptive family."""
    from majorica.kernels.partition import basis
    from majorica.kernels.shapes import best_shape

    means = basis(np.abs(y)).mean(axis=1)
    return float(best_shape(means, np.ones(5), False, True, float(len(y)), 1e-9)[1])


def losses(W: np.ndarray, X: np.ndarray) -> dict[str, float]:
    """Left-out loss in nats a component, Huber and adaptive; X centred as the fitted samples were."""
    unit, Y = unit_rows(W, X)
    log_det = np.linalg.slogdet(unit)[1]
    p = len(W)
    return {
        "huber": float((sum(huber_row(y) for y in Y) - log_det) / p),
        "adaptive": float((sum(adaptive_row(y) for y in Y) - log_det) / p),
    }


def amari(W: np.ndarray, A: np.ndarray, X: np.ndarray) -> float:
    """Amari distance with rows scaled to unit variance on `X`; the mixing's columns already are."""
    from majorica import amari_distance

    return amari_distance(unit_rows(W, X)[0], A)
