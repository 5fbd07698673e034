"""The datasets of the experiments: Laplace mixtures, patches of natural images, EEG."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from benchmarks.paper.model import whitening_start

#: Samples the start is computed from (paper, 4.3).
START_SAMPLES = 10_000


@dataclass
class Finite:
    """Samples in memory for the finite-sum problem, centred and in random order."""

    X: np.ndarray  #: (n, p), float64
    left_out: np.ndarray  #: (m, p), measured on, never fitted
    validation: np.ndarray  #: (m, p), step sizes are chosen on it
    A: np.ndarray | None  #: true mixing matrix, where known

    @property
    def start(self) -> np.ndarray:
        """Approximate whitening from the first 10,000 samples."""
        return whitening_start(self.X[:START_SAMPLES])


@dataclass
class Endless:
    """Samples that come once, in mini-batches."""

    n: int  #: samples in one run
    batches: Callable[[], Iterator[np.ndarray]]  #: a fresh iterator over mini-batches of 1,000
    left_out: np.ndarray
    validation: np.ndarray
    A: np.ndarray | None

    def first(self) -> np.ndarray:
        """The samples the start is computed from."""
        parts, have = [], 0
        for batch in self.batches():
            parts.append(batch)
            have += len(batch)
            if have >= START_SAMPLES:
                break
        return np.concatenate(parts)


def split_batches(chunks: Iterator[np.ndarray], size: int = 1000) -> Iterator[np.ndarray]:
    """Mini-batches of `size` from larger chunks."""
    for chunk in chunks:
        for start in range(0, len(chunk), size):
            yield np.ascontiguousarray(chunk[start : start + size])


def laplace(p: int, n: int, *, seed: int, left_out: int) -> Finite:
    """Laplace sources, normal mixing matrix (paper, 4.4)."""
    rng = np.random.default_rng([seed, p])
    A = rng.normal(size=(p, p))
    X, out, validation = (rng.laplace(size=(m, p)) @ A.T for m in (n, left_out, 10_000))
    X -= X.mean(axis=0)
    return Finite(X, out, validation, A)


def laplace_stream(p: int, n: int, *, seed: int, left_out: int) -> Endless:
    """The same, generated as it is read."""
    rng = np.random.default_rng([seed, p])
    A = rng.normal(size=(p, p))
    out, validation = (rng.laplace(size=(m, p)) @ A.T for m in (left_out, 10_000))

    def batches() -> Iterator[np.ndarray]:
        fresh = np.random.default_rng([seed, p, 1])
        chunk = 100_000
        return split_batches(fresh.laplace(size=(min(chunk, n - s), p)) @ A.T for s in range(0, n, chunk))

    return Endless(n, batches, out, validation, A)


def laplace_optimum(A: np.ndarray) -> np.ndarray:
    """The minimiser of the expected Huber loss for Laplace sources mixed by `A`: the inverse at the best scale.

    That scale t solves ``E[min(|t s|, 1) |t s|] = 1`` with s exponential:
    ``t^2 (2 - (2 + 2/t + 1/t^2) e^(-1/t)) + (t + 1) e^(-1/t) = 1``.
    """

    def excess(t: float) -> float:
        tail = np.exp(-1 / t)
        return t * t * (2 - (2 + 2 / t + 1 / t**2) * tail) + (t + 1) * tail - 1

    return brentq(excess, 0.1, 10) * np.linalg.inv(A)


def from_matrix(X: np.ndarray, *, seed: int, n: int, left_out: int) -> Finite:
    """Samples in random order times a random p x p matrix (paper, 4.4), a part of them left out."""
    rng = np.random.default_rng([seed, X.shape[1]])
    rows = rng.permutation(len(X))
    mixing = rng.normal(size=(X.shape[1], X.shape[1]))
    left_out = min(left_out, len(X) // 5)
    test, valid = rows[:left_out], rows[left_out : left_out + min(10_000, len(X) // 10)]
    train = rows[left_out + len(valid) :][:n]
    mean = X[train].mean(axis=0)
    parts = [(X[chosen] - mean).astype(np.float64) @ mixing.T for chosen in (train, test, valid)]
    parts[0] -= parts[0].mean(axis=0)
    return Finite(parts[0], parts[1], parts[2], None)


def as_stream(data: Finite) -> Endless:
    """One pass over samples in memory."""
    return Endless(len(data.X), lambda: split_batches(iter([data.X])), data.left_out, data.validation, data.A)


def load_eeg(path: Path) -> np.ndarray:
    """EEG samples (n, p) from a ``.npy`` file, samples or channels first."""
    X = np.load(path)
    return X.T if X.shape[0] < X.shape[1] else X


def load_images(path: Path | None) -> list[np.ndarray]:
    """Grey images from a folder or ``.npz`` file; those that scikit-learn and scikit-image bring when None."""
    if path is None:
        return bundled_images()
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return [grey(archive[name]) for name in archive.files]
    from skimage.io import imread

    files = sorted(f for f in path.iterdir() if f.suffix.lower() in {".png", ".jpg", ".jpeg", ".tif", ".bmp"})
    return [grey(imread(f)) for f in files]


def bundled_images() -> list[np.ndarray]:
    """Seven photographs that need no download."""
    from skimage import data
    from sklearn.datasets import load_sample_images

    named = [data.camera(), data.astronaut(), data.chelsea(), data.coffee(), data.rocket()]
    return [grey(image) for image in [*named, *load_sample_images().images]]


def grey(image: np.ndarray) -> np.ndarray:
    """One channel, float32 in [0, 1]."""
    image = np.asarray(image, dtype=np.float32) / 255
    return image if image.ndim == 2 else image[..., :3] @ np.array([0.299, 0.587, 0.114], dtype=np.float32)


def patches(images: list[np.ndarray], n: int, rng: np.random.Generator, *, side: int = 10) -> np.ndarray:
    """`n` random square patches (n, side^2), each image chosen by its area."""
    windows = [np.lib.stride_tricks.sliding_window_view(image, (side, side)) for image in images]
    areas = np.array([w.shape[0] * w.shape[1] for w in windows], dtype=float)
    which = rng.choice(len(images), size=n, p=areas / areas.sum())
    out = np.empty((n, side * side), dtype=np.float32)
    for k, window in enumerate(windows):
        rows = np.flatnonzero(which == k)
        i = rng.integers(window.shape[0], size=len(rows))
        j = rng.integers(window.shape[1], size=len(rows))
        out[rows] = window[i, j].reshape(len(rows), -1)
    return out


def patch_stream(images: list[np.ndarray], n: int, *, seed: int, left_out: int) -> Endless:
    """Patches of 10 x 10 pixels (p = 100), generated as they are read; the mean patch is removed.

    Independent noise of one 8-bit grey level's rounding error (1/sqrt(12))
    keeps patches of flat regions from being exactly rank-deficient.
    """
    rng = np.random.default_rng([seed, 100])
    mean = patches(images, 100_000, rng).mean(axis=0)
    jitter = 1 / 255 / np.sqrt(12)

    def draw(count: int, generator: np.random.Generator) -> np.ndarray:
        block = patches(images, count, generator) - mean
        return block + jitter * generator.normal(size=block.shape)

    out, validation = draw(left_out, rng), draw(10_000, rng)

    def batches() -> Iterator[np.ndarray]:
        fresh = np.random.default_rng([seed, 100, 1])
        return split_batches(draw(min(20_000, n - s), fresh) for s in range(0, n, 20_000))

    return Endless(n, batches, out, validation, None)


def reduced_patches(images: list[np.ndarray], n: int, *, p: int, seed: int) -> np.ndarray:
    """`n` patches reduced to `p` dimensions by PCA, principal components unscaled."""
    X = patches(images, n, np.random.default_rng([seed, p])).astype(np.float64)
    X -= X.mean(axis=0)
    vectors = np.linalg.eigh(X.T @ X / len(X))[1]
    return X @ vectors[:, ::-1][:, :p]
