"""The racers, each a function from samples to an unmixing matrix, at its own defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Fit:
    """What a racer hands in."""

    W: np.ndarray  #: unmixing of centred samples, (p, f)
    passes: float  #: passes over the data, its own iterations for peers


@dataclass(frozen=True)
class Method:
    """One racer."""

    name: str
    title: str
    fit: Callable[..., Fit]
    ours: bool = False
    dtype: str = "float64"


def majorica(X: np.ndarray, seed: int, max_iter: int | None = None, callback: Any = None, **options: Any) -> Fit:
    """This package."""
    from majorica import ICA

    model = ICA(random_state=seed, max_iter=max_iter, callbacks=callback, **options).fit(X)
    passes = float(model.trace_["passes"][-1]) if len(model.trace_) else 0.0
    return Fit(model.components_, passes)


def fastica(X: np.ndarray, seed: int, max_iter: int | None = None) -> Fit:
    """scikit-learn's FastICA."""
    from sklearn.decomposition import FastICA

    model = FastICA(whiten="unit-variance", random_state=seed, max_iter=max_iter or 1000).fit(X)
    return Fit(model.components_, model.n_iter_)


class PicardHuber:
    """The Huber density as picard asks for one."""

    def log_lik(self, Y: np.ndarray) -> np.ndarray:
        """The loss, up to a constant."""
        size = np.abs(Y)
        inside = np.minimum(size, 1.0)
        return inside * (size - 0.5 * inside)

    def score_and_der(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first two derivatives."""
        return np.clip(Y, -1.0, 1.0), (np.abs(Y) < 1.0).astype(Y.dtype)


def picard(X: np.ndarray, seed: int, max_iter: int | None = None, *, huber: bool = False, **options: Any) -> Fit:
    """python-picard."""
    from picard import picard as run

    if huber:
        options.update(fun=PicardHuber(), check_fun=False)  # its check trips over the kink
    K, W, _, n_iter = run(X.T, random_state=seed, max_iter=max_iter or 500, return_n_iter=True, **options)
    return Fit(W @ K, n_iter)


def infomax(X: np.ndarray, seed: int, max_iter: int | None = None) -> Fit:
    """MNE's extended Infomax, on whitened samples as MNE itself gives it."""
    from mne.preprocessing import infomax as run

    mean = X.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    K = (vectors / np.sqrt(values)).T
    Z = (X - mean) @ K.T
    W, n_iter = run(Z, extended=True, max_iter=max_iter or 200, random_state=seed, return_n_iter=True, verbose="ERROR")
    return Fit(W @ K, n_iter)


def _ours(name: str, title: str, *, dtype: str = "float64", **options: Any) -> Method:
    return Method(
        name, title, lambda X, seed, max_iter=None, **more: majorica(X, seed, max_iter, **options, **more), True, dtype
    )


METHODS = [
    _ours("majorica", "majorica"),
    _ours("majorica-float32", "majorica, float32", dtype="float32"),
    _ours("majorica-huber", "majorica, Huber", density="huber"),
    _ours("majorica-incremental", "majorica, incremental", solver="incremental"),
    _ours("majorica-online", "majorica, online", solver="online"),
    _ours("majorica-batch", "majorica, batch", solver="batch"),
    Method("fastica", "FastICA", fastica),
    Method("picard", "Picard", lambda X, seed, m=None: picard(X, seed, m, ortho=False, extended=False)),
    Method("picard-o", "Picard-O", lambda X, seed, m=None: picard(X, seed, m, ortho=True, extended=True)),
    Method(
        "picard-huber",
        "Picard, Huber",
        lambda X, seed, m=None: picard(X, seed, m, huber=True, ortho=False, extended=False),
    ),
    Method("infomax", "Infomax, extended", infomax),
]
BY_NAME = {method.name: method for method in METHODS}
