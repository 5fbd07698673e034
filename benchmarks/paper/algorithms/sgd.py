"""Stochastic gradient descent on the relative gradient: Infomax (paper, section 4.1).

``W <- (I - rho_t grad) W`` with ``rho_t = step * t ** -0.5``, t counting
mini-batches of 1,000. Used for the finite sum (mini-batches in a new random
order each pass) and online. The step is chosen by :mod:`tuning`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.paper.datasets import Endless, Finite
from benchmarks.paper.model import relative_gradient, statistics
from benchmarks.paper.recorder import Recorder

BATCH = 1000


def shuffled_batches(X: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Mini-batches of `X` for ever, in a new random order each pass."""
    while True:
        for k in rng.permutation(-(-len(X) // BATCH)):
            yield X[k * BATCH : (k + 1) * BATCH]


def descend(batches: Iterable[np.ndarray], W: np.ndarray, n: int, step: float, recorder: Recorder) -> np.ndarray:
    """Run until the batches end or the budget is spent; gives the last iterate."""
    W = W.copy()
    seen = 0
    recorder.record(0.0, W)
    with np.errstate(all="ignore"):
        for t, X in enumerate(batches, start=1):
            W -= step / np.sqrt(t) * (relative_gradient(statistics(X, W)) @ W)
            seen += len(X)
            recorder.record(seen / n, W)
            if recorder.over or not np.isfinite(W).all():
                break
    return W


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, step: float) -> None:
    """The finite sum."""
    recorder.start()
    descend(shuffled_batches(data.X, rng), data.start, len(data.X), step, recorder)


def run_online(data: Endless, recorder: Recorder, rng: np.random.Generator, *, step: float) -> None:
    """Each mini-batch once."""
    from benchmarks.paper.model import whitening_start

    start = whitening_start(data.first())
    recorder.start()
    descend(recorder.off_clock(data.batches()), start, data.n, step, recorder)
