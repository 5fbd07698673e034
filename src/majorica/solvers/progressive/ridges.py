"""Along the ridge of scale and shape: each source's scale is searched with its best shape at every point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from majorica.densities.piecewise import KNOTS
from majorica.kernels import scales as kernels
from majorica.kernels import shapes as fits
from majorica.kernels.partition import basis
from majorica.solvers.shapes import Shapes
from majorica.sources.base import Array
from majorica.statistics import F64, Statistics

#: Slope beyond the first knot from which on a source may have an edge; shapes of unbounded ones are less steep there.
STEEP = 4.0
#: Samples that edges are looked for in, and nats that they must gain over all of these.
EDGE_SAMPLES, EDGE_GAIN = 2000, 3.0
#: A source may have one edge if it reaches less than this times as far on one side as on the other.
ONE_SIDED = 0.6


def settle_scales(source: Callable[[int], F64], W: F64, shapes: Shapes, statistics: Statistics, enough: float) -> int:
    """Move scale and shape of sources to the minimum near by, as their samples ``source(i)`` have it.

    Changes rows of `W` and `shapes` in place, and only where the loss falls
    by more than `enough`; `statistics` are those at `W` and `shapes`. Returns how many
    rows changed.
    """
    n, changed, may_be_fine = statistics.n, 0, shapes.may_be_fine
    slopes = statistics.gradient.diagonal() / n - 1.0
    curvatures = np.maximum(statistics.diagonal / n + 1.0, 1.0)
    for i in (slopes**2 / curvatures > 0.1 * enough).nonzero()[0].tolist():
        y = source(i)
        known = float(shapes.slopes[i] @ fits.sample_means(y) + shapes.log_normalisers[i])
        own = (shapes.slopes[i], bool(shapes.fine[i]), bool(may_be_fine[i]))
        ends = (curvatures[i], 0.1 * enough, bool(shapes.rising[i]))
        scale, k, log_normaliser, fine, loss = kernels.settle_scale(y, *own, *ends)
        if loss < known - enough:
            W[i] *= scale
            shapes.slopes[i], shapes.log_normalisers[i], shapes.fine[i] = k, log_normaliser, fine
            changed += 1
    return changed


def has_edges(shapes: Shapes) -> npt.NDArray[np.bool_]:
    """Which sources :func:`stretch` is worth trying for."""
    return np.asarray(shapes.fine & (shapes.slopes[:, 1:].max(axis=1) > STEEP))


def stretch(sources: Array, W: F64, shapes: Shapes) -> int:
    """Scale bounded sources so that an edge lies at a late knot, where their samples `sources` gain by it.

    The score of a bounded source rises at its edge, and only there: a knot has to be at hand. At every knot the loss
    has a minimum over the scale, and the last leaves most of the others for what lies within. A source with an edge on
    one side, exponential say, may have that edge at the last knot or the one before, as its other side lies farther
    out. Changes rows of `W` and `shapes` in place; returns how many. Samples that all lie before the first knot, of a
    source that is mostly at rest, show no edge.
    """
    changed = 0
    for i in has_edges(shapes).nonzero()[0].tolist():
        y = sources[i].astype(np.float64)
        n, low, high = len(y), float(-y.min()), float(y.max())
        if max(low, high) <= KNOTS[0]:
            continue
        factors = [KNOTS[-1] / max(low, high)]
        if KNOTS[0] < min(low, high) < ONE_SIDED * max(low, high):
            factors += (KNOTS[-2:] / min(low, high)).tolist()
        least = float(shapes.slopes[i] @ fits.sample_means(y) + shapes.log_normalisers[i]) - EDGE_GAIN / n
        ends = (2.0, 0.1 * EDGE_GAIN / n, bool(shapes.rising[i]))
        found = None
        for factor in factors:
            scale, k, log_normaliser, fine, loss = kernels.settle_scale(factor * y, shapes.slopes[i], True, True, *ends)
            if loss - np.log(factor) < least:
                least, found = loss - np.log(factor), (factor * scale, k, log_normaliser, fine)
        if found is not None:
            W[i] *= found[0]
            shapes.slopes[i], shapes.log_normalisers[i], shapes.fine[i] = found[1:]
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
