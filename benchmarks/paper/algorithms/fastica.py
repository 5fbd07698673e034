"""FastICA (Hyvarinen), scikit-learn's, parallel and with its default log-cosh contrast.

It minimises another objective, so only the Amari distance is compared, as in
the paper. Its contrast function, which users may bring, reports the iterates;
see :mod:`hooks`. The whitening is its own; that pass counts.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
from sklearn.decomposition import fastica

from benchmarks.paper.algorithms.hooks import IterateReader
from benchmarks.paper.algorithms.picard import OverBudget
from benchmarks.paper.datasets import Finite
from benchmarks.paper.model import whitening_start
from benchmarks.paper.recorder import Recorder


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, tol: float = 1e-10) -> None:
    """Whiten with all samples, then iterate from the identity."""
    p = len(data.start)
    recorder.start()
    recorder.record(0.0, data.start)
    K = whitening_start(data.X)
    Z = data.X @ K.T
    with recorder.paused():
        reader = IterateReader(np.ascontiguousarray(Z.T))
    iteration = 0

    def contrast(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal iteration
        recorder.record(1.0 + iteration, reader.read(Y) @ K)
        if recorder.over:
            raise OverBudget
        iteration += 1
        score = np.tanh(Y)
        return score, 1 - np.einsum("ij,ij->i", score, score) / Y.shape[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged within the budget: the curves show it
        with contextlib.suppress(OverBudget):
            fastica(Z, fun=contrast, whiten=False, w_init=np.eye(p), max_iter=10_000, tol=tol, compute_sources=False)
