"""Along the ridge of scale and shape: each source's scale is searched with its best shape at every point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from majorica.densities.piecewise import KNOTS
from majorica.kernels import scales as kernels
from majorica.kernels import shapes as fits
from majorica.kernels.partition import basis
from majorica.solvers.shapes import Shapes
from majorica.statistics import F64, Statistics


def settle_scales(source: Callable[[int], F64], W: F64, shapes: Shapes, statistics: Statistics, enough: float) -> int:
    """Move scale and shape of sources to the minimum near by, as their samples ``source(i)`` have it.

    Changes rows of `W` and `shapes` in place, and only where the loss falls
    by more than `enough`; `statistics` are those at `W` and `shapes`. Returns how many
    rows changed.
    """
    n, changed = statistics.n, 0
    slopes = statistics.gradient.diagonal() / n - 1.0
    curvatures = np.maximum(statistics.diagonal / n + 1.0, 1.0)
    for i in (slopes**2 / curvatures > 0.1 * enough).nonzero()[0].tolist():
        y = source(i)
        known = float(shapes.slopes[i] @ fits.sample_means(y) + shapes.log_normalisers[i])
        own = (shapes.slopes[i], bool(shapes.fine[i]), shapes.allow_fine)
        ends = (curvatures[i], 0.1 * enough, bool(shapes.rising[i]))
        scale, k, log_normaliser, fine, loss = kernels.settle_scale(y, *own, *ends)
        if loss < known - enough:
            W[i] *= scale
            shapes.slopes[i], shapes.log_normalisers[i], shapes.fine[i] = k, log_normaliser, fine
            changed += 1
    return changed


def profile(y: F64, scale: float, slopes: F64, *, fine: bool, allow_fine: bool) -> tuple[float, float]:
    """Loss of the source `y` at `scale` with its best shape, and its derivative in the logarithm of the scale.

    The definition of what the compiled search walks down: the shape's own
    derivative does not appear, as the loss is stationary in it.
    """
    size, n = np.abs(scale * y), float(len(y))
    tolerance = fits.FIT_TOLERANCE / n
    k, loss, _, _ = fits.best_shape(basis(size).mean(axis=1), slopes, fine, allow_fine, n, tolerance)
    edges = np.array([0.0, *KNOTS, np.inf])
    scores = [np.clip(size - low, 0.0, high - low) for low, high in pairwise(edges)]
    return float(loss - np.log(scale)), float(k @ [np.mean(score * size) for score in scores] - 1.0)
