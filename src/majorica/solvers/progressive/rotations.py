"""Escape from saddles: finite rotations of pairs of components, kept only if the joint loss falls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from majorica.kernels import shapes as kernels
from majorica.kernels.dependence import dependences
from majorica.kernels.scales import settle_scale
from majorica.solvers.shapes import Shapes
from majorica.sources.base import Array
from majorica.statistics import F64, Statistics

ANGLES = (np.pi / 8, np.pi / 4, 3 * np.pi / 8)
#: Pairs are looked at if two functions of their sizes correlate by this many standard errors.
SUSPICIOUS = 3.0
#: Sizes are clipped at this many standard deviations for that.
LARGEST = 2.5
#: Flat pairs are looked at as well: m samples tell an angle to about one over the root of m times the curvature, and
#: below this product there may be several optima, a nat or so apart.
FLAT = 200.0
#: Nats over all samples that a turn must gain, and a turn of a flat pair.
LEAST, LEAST_FLAT = 1.0, 0.1
#: Pairs that may fail in a row, the most suspicious first, before the rest are taken to be fine.
PATIENCE = 32


def suspicious_pairs(Y: Array, limit: int) -> list[tuple[int, int]]:
    """Pairs of components that look dependent, the most so first; `Y` is ``(p, m)``.

    Squares alone see nothing where two sources of no kurtosis are mixed, modulated sines for example.
    """
    return _largest_pairs(dependences(Y, LARGEST), SUSPICIOUS, limit)


def flat_pairs(statistics: Statistics, limit: int) -> list[tuple[int, int]]:
    """Pairs of components whose loss is nearly flat, or bent downwards, under rotation: at most `limit`, worst first.

    Along a rotation the block Hessian curves by ``E[G_i''] E[y_j^2] +
    E[G_j''] E[y_i^2] - 2``, zero for two Gaussians.
    """
    upper = statistics.curvature[:, None] * (statistics.power / statistics.n**2)
    return _largest_pairs(2 - upper - upper.T, -FLAT / statistics.n, limit)


def _largest_pairs(score: F64, least: float, limit: int) -> list[tuple[int, int]]:
    """Pairs whose entry in a symmetric matrix is over `least`: at most `limit`, the largest first."""
    first, second = np.nonzero(score > least)
    above = first < second
    first, second = first[above], second[above]
    if not len(first):
        return []
    order = np.argsort(-score[first, second], kind="stable")[:limit]
    return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def rotate_pairs(sources: Array, W: F64, shapes: Shapes, flat: Sequence[tuple[int, int]] = ()) -> int:
    """Try rotations of suspicious and `flat` pairs of the `sources` ``(p, m)`` of white samples.

    Each trial refits both shapes; the best one is kept if the loss falls by
    more than 1/m, or 0.1/m where it is flat. Gives up after :data:`PATIENCE`
    pairs that gained nothing. Changes `sources`, `W` and `shapes` in place;
    returns how many pairs were rotated.
    """
    m, may_be_fine = sources.shape[1], shapes.may_be_fine
    rotated = failed = 0
    least = dict.fromkeys(suspicious_pairs(sources, limit=2 * len(W)), LEAST) | dict.fromkeys(flat, LEAST_FLAT)
    for (i, j), nats in least.items():
        if failed == PATIENCE:
            break
        before = _loss(sources[i], shapes, i) + _loss(sources[j], shapes, j)
        best, found = before - nats / m, None
        pair = sources[[i, j]].astype(np.float64, copy=False)
        deviation, size = np.sqrt(_powers(pair)), float(np.abs(pair).mean())
        rising = bool(shapes.rising[i] or shapes.rising[j])
        allow_fine = bool(may_be_fine[i] and may_be_fine[j])
        for angle in ANGLES:
            c, s = np.cos(angle), np.sin(angle)
            turn, fits = np.array([[c, s], [-s, c]]) / deviation, []
            for side in (0, 1):
                turned = turn[side] @ pair
                # variance one is far from the best scale of a source at rest; the size that the pair has is near it
                scale = float(np.abs(turned).mean()) / size if rising else math.sqrt(turned @ turned / m)
                turn[side] /= scale
                turned /= scale
                fits.append(_fit(turned, allow_fine, rising))
            loss = fits[0][1] + fits[1][1] - np.log(abs(np.linalg.det(turn)))
            if loss < best:
                best, found = loss, (turn, fits)
        if found is None:
            failed += 1
            continue
        failed = 0
        turn, fits = found
        W[[i, j]] = turn @ W[[i, j]]
        sources[[i, j]] = turn @ pair
        for row, (slopes, _, log_normaliser, fine) in zip((i, j), fits, strict=True):
            shapes.slopes[row], shapes.log_normalisers[row], shapes.fine[row] = slopes, log_normaliser, fine
        rotated += 1
    return rotated


def reset_scales(sources: Array, W: F64, shapes: Shapes) -> int:
    """Bring rows that strayed from unit variance back to it, with a new shape, where that lowers the loss by 1/m.

    Scale and shape nearly make up for each other; a bad start can leave a row
    at a scale where no shape fits well. Changes `sources`, `W` and `shapes` in
    place; returns how many rows changed.
    """
    m, may_be_fine = sources.shape[1], shapes.may_be_fine
    deviation = np.sqrt(_powers(sources))
    changed = 0
    for i in np.flatnonzero(np.abs(np.log(deviation)) > 0.2).tolist():
        slopes, loss, log_normaliser, fine = _fit(
            sources[i].astype(np.float64, copy=False) / deviation[i], bool(may_be_fine[i]), bool(shapes.rising[i])
        )
        if loss + np.log(deviation[i]) < _loss(sources[i], shapes, i) - 1.0 / m:
            W[i] /= deviation[i]
            sources[i] /= deviation[i]
            shapes.slopes[i], shapes.log_normalisers[i], shapes.fine[i] = slopes, log_normaliser, fine
            changed += 1
    return changed


def escape(sources: Array, W: F64, shapes: Shapes, flat: Sequence[tuple[int, int]] = ()) -> int:
    """:func:`reset_scales`, then :func:`rotate_pairs`; returns how many rows and pairs changed."""
    return reset_scales(sources, W, shapes) + rotate_pairs(sources, W, shapes, flat)


def _powers(Y: Array) -> F64:
    """Mean squares of the rows, summed in float64."""
    return np.asarray(np.einsum("it,it->i", Y, Y, dtype=np.float64) / Y.shape[1])


def _loss(y: Array, shapes: Shapes, i: int) -> float:
    return float(shapes.slopes[i] @ kernels.sample_means(y.astype(np.float64, copy=False)) + shapes.log_normalisers[i])


def _fit(y: F64, allow_fine: bool, rising: bool) -> tuple[F64, float, float, bool]:
    """Best slopes of one source as it is, its loss, log normaliser and whether they are fine ones."""
    _, slopes, log_normaliser, fine, loss = settle_scale(y, np.ones(5), False, allow_fine, 1.0, np.inf, rising)
    return slopes, loss, log_normaliser, fine
