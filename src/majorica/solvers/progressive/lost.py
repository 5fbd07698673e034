"""Levels that led astray: what a smaller level made of sources whose events it had none of, or too few."""

from __future__ import annotations

import math

import numpy as np

from majorica.solvers.progressive.gains import ProgressiveState
from majorica.statistics import F64

#: Nats a sample of a Gaussian source of variance one, and nats more that no source has that was fitted to its like.
GAUSSIAN, ABSURD = 0.5 + 0.5 * math.log(2 * math.pi), 1.0


def is_lost(state: ProgressiveState) -> bool:
    """Whether some source is far worse off than a Gaussian of its variance would be.

    Where a source is at rest in all samples of a level, its loss has no
    minimum: its row grows, others take any part in it, and the first event of
    the next level lies hundreds of standard deviations out.
    """
    assert state.statistics is not None
    loss = state.statistics.loss / state.n_samples + state.densities.log_normalisers
    return bool((loss - np.log(np.linalg.norm(state.W, axis=1)) > GAUSSIAN + ABSURD).any())


def nearest_rotation(W: F64) -> F64:
    """The rotation nearest to `W`: what is left of it without the lengths and the leanings of its rows."""
    left, _, right = np.linalg.svd(W)
    return np.asarray(left @ right)
