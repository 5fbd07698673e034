"""What chance can do to a ratio of medians: a paired bootstrap over draws."""

from __future__ import annotations

import numpy as np

RESAMPLES = 10_000


def ratio(distances: np.ndarray) -> np.ndarray:
    """Median of column 0 over the smallest median of the others; distances ``(..., draws, methods)``."""
    median = np.median(distances, axis=-2)
    return np.asarray(median[..., 0] / median[..., 1:].min(axis=-1))


def interval(distances: np.ndarray, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Percentile interval of :func:`ratio`: draws are taken again with all methods' distances on them.

    The better peer is chosen anew each time, so the interval knows that it was chosen.
    """
    rng, draws = np.random.default_rng(seed), len(distances)
    ratios = ratio(distances[rng.integers(draws, size=(RESAMPLES, draws))])
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def places(distances: np.ndarray) -> tuple[int, int]:
    """In how many draws column 0 is the smallest of all, and in how many the largest."""
    others = distances[:, 1:]
    best, worst = distances[:, 0] < others.min(axis=1), distances[:, 0] > others.max(axis=1)
    return int(best.sum()), int(worst.sum())
