"""The search for the steps of SGD and SAG: "trial and error on each dataset", made explicit.

Each step of a grid of half decades is tried from the common start for a few
passes over the first draw of a dataset; the one with the lowest loss on
validation samples (neither fitted nor left out) wins. Steps that blow up lose.
The search is off the clock, which favours SGD and SAG.
"""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.paper.algorithms import sag, sgd
from benchmarks.paper.datasets import Endless, Finite
from benchmarks.paper.measures import left_out_loss
from benchmarks.paper.model import whitening_start
from benchmarks.paper.recorder import Recorder

#: Multipliers of t^-0.5 tried for SGD; constant steps tried for SAG.
SGD_STEPS = tuple(float(f"{10**e:.2g}") for e in np.arange(-2, 1.01, 0.5))
SAG_STEPS = tuple(float(f"{10**e:.2g}") for e in np.arange(-2.5, 0.01, 0.5))
#: Most mini-batches of a stream the search reads.
SEARCH_BATCHES = 300


def search_finite(name: str, data: Finite, *, passes: float) -> dict[float, float]:
    """Validation loss after `passes` for each step of the grid."""
    module, steps = (sgd, SGD_STEPS) if name == "sgd" else (sag, SAG_STEPS)
    return {step: _final(module, data, step, passes) for step in steps}


def search_online(data: Endless) -> dict[float, float]:
    """Validation loss after the first mini-batches of the stream for each step of the grid."""
    batches = list(itertools.islice(data.batches(), SEARCH_BATCHES))
    start = whitening_start(data.first())
    losses = {}
    for step in SGD_STEPS:
        W = sgd.descend(batches, start, data.n, step, Recorder(passes=np.inf))
        losses[step] = left_out_loss(W, data.validation)
    return losses


def best(losses: dict[float, float]) -> float:
    """The step with the lowest validation loss."""
    return min(losses, key=lambda step: losses[step])


def _final(module: object, data: Finite, step: float, passes: float) -> float:
    recorder = Recorder(passes=passes)
    module.run(data, recorder, np.random.default_rng(0), step=step)  # type: ignore[attr-defined]
    recorder.finish()
    return left_out_loss(recorder.iterates[-1], data.validation)
