"""The paper's three measures (section 4.2), computed after a run from the iterates it recorded."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.datasets import Endless, Finite
from benchmarks.paper.model import loss, relative_gradient, statistics
from benchmarks.paper.recorder import Recorder
from majorica.metrics import amari_distance


def left_out_loss(W: np.ndarray, X: np.ndarray) -> float:
    """Mean negative log-likelihood of `X`; infinite where an algorithm has blown up."""
    if not np.isfinite(W).all():
        return np.inf
    value = loss(W, statistics(X, W))
    return value if np.isfinite(value) else np.inf


def gradient_norm(W: np.ndarray, X: np.ndarray) -> float:
    """Frobenius norm of the relative gradient over `X`."""
    if not np.isfinite(W).all():
        return np.inf
    return float(np.linalg.norm(relative_gradient(statistics(X, W))))


def amari(W: np.ndarray, A: np.ndarray, X: np.ndarray) -> float:
    """Amari distance with rows scaled to unit-variance sources, so that scale plays no part."""
    if not np.isfinite(W).all():
        return np.inf
    return amari_distance(W / (X @ W.T).std(axis=0)[:, None], A)


def measure(recorder: Recorder, data: Finite | Endless, *, gradient: bool, loss_counts: bool) -> dict[str, np.ndarray]:
    """Curves of one run: passes, seconds, loss, amari, gradient (NaN where they do not apply)."""
    nothing = np.full(len(recorder.iterates), np.nan)
    curves = {
        "passes": np.array(recorder.passes),
        "seconds": np.array(recorder.seconds),
        "loss": nothing.copy(),
        "amari": nothing.copy(),
        "gradient": nothing.copy(),
    }
    for k, W in enumerate(recorder.iterates):
        if loss_counts:
            curves["loss"][k] = left_out_loss(W, data.left_out)
        if data.A is not None:
            curves["amari"][k] = amari(W, data.A, data.left_out[:20_000])
        if gradient and loss_counts and isinstance(data, Finite):
            curves["gradient"][k] = gradient_norm(W, data.X)
    return curves
