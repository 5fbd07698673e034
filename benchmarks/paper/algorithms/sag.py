"""Stochastic average gradient (Schmidt et al.) on the relative gradient (paper, section 4.1).

The last gradient of every mini-batch is remembered (p^2 numbers each); a step
follows the average over the mini-batches visited so far. Constant step,
chosen by :mod:`tuning`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.paper.algorithms.sgd import BATCH
from benchmarks.paper.datasets import Finite
from benchmarks.paper.model import relative_gradient, statistics
from benchmarks.paper.recorder import Recorder


@dataclass
class GradientMemory:
    """Gradients of the mini-batches, weighted by their lengths, and their running sum."""

    blocks: int
    p: int
    gradients: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)
    lengths: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.gradients = np.zeros((self.blocks, self.p, self.p))
        self.total = np.zeros((self.p, self.p))
        self.lengths = np.zeros(self.blocks)

    def replace(self, k: int, gradient: np.ndarray, length: int) -> None:
        """Mini-batch `k` has a new mean gradient over its `length` samples."""
        self.total += length * gradient - self.lengths[k] * self.gradients[k]
        self.gradients[k] = gradient
        self.lengths[k] = length

    @property
    def average(self) -> np.ndarray:
        """Mean gradient over the samples visited at least once."""
        return self.total / self.lengths.sum()


def descend(X: np.ndarray, W: np.ndarray, step: float, rng: np.random.Generator, recorder: Recorder) -> GradientMemory:
    """Run until the budget is spent; gives the memory it ends with."""
    W = W.copy()
    memory = GradientMemory(-(-len(X) // BATCH), len(W))
    recorder.record(0.0, W)
    seen = 0
    with np.errstate(all="ignore"):
        while not recorder.over and np.isfinite(W).all():
            for k in rng.permutation(memory.blocks):
                block = X[k * BATCH : (k + 1) * BATCH]
                memory.replace(k, relative_gradient(statistics(block, W)), len(block))
                W -= step * (memory.average @ W)
                seen += len(block)
                recorder.record(seen / len(X), W)
                if recorder.over or not np.isfinite(W).all():
                    break
    return memory


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, step: float) -> None:
    """The finite sum, the only problem it is for."""
    recorder.start()
    descend(data.X, data.start, step, rng, recorder)
