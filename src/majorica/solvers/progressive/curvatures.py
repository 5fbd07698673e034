"""The loss's own curvature between pairs of components, from some of the samples.

The block Hessian puts ``E[G_i''] E[y_j^2]`` for ``E[G_i'' y_j^2]``, which is
right for independent sources. Between dependent ones it may be wrong by any
factor: at a saddle of very sparse sources it promises next to nothing where
everything is still to gain.
"""

from __future__ import annotations

import numpy as np

from majorica.densities.table import Densities
from majorica.solvers.progressive.rotations import ANGLES
from majorica.sources.base import Array
from majorica.statistics import F64

#: Numbers that are taken at a time.
STRETCH = 2**13
#: Smallest eigenvalue that a pair's curvature counts as: where it is flat, or bent downwards, much may be to gain.
LEAST = 0.1
#: Product of a pair's two curvatures under which it is at a saddle: one, less what chance does.
SADDLE = 0.8


def pair_curvatures(sources: Array, densities: Densities) -> F64:
    """``E[G_i''(y_i) y_j^2]`` over the `sources` ``(p, m)``, some of them at a time."""
    p, m = sources.shape
    length, total = max(1, STRETCH // p), np.zeros((p, p))
    for start in range(0, m, length):
        Y = sources[:, start : start + length].astype(np.float64)
        total += densities.curvature(Y) @ (Y * Y).T
    return np.asarray(total / m)


def possible_gain(relative: F64, curvatures: F64) -> float:
    """What a step along the relative gradient may gain off its diagonal if pairs curve so; no end if that overflows."""
    if not np.isfinite(curvatures).all():
        return np.inf
    first, second = np.triu_indices(len(relative), 1)
    blocks = np.empty((len(first), 2, 2))
    blocks[:, 0, 0], blocks[:, 1, 1] = curvatures[first, second], curvatures[second, first]
    blocks[:, 0, 1] = blocks[:, 1, 0] = 1.0
    values, axes = np.linalg.eigh(blocks)
    along = np.einsum("kij,ki->kj", axes, np.stack([relative[first, second], relative[second, first]], axis=1))
    return float(0.5 * (along**2 / np.maximum(np.abs(values), LEAST)).sum())


def leave_saddles(sources: Array, W: F64, densities: Densities) -> int:
    """Turn pairs of the `sources` ``(p, m)`` whose loss is bent downwards, where that lowers it by one nat over all.

    For densities that stay as they are; adaptive ones have :func:`majorica.solvers.progressive.rotations.escape`.
    Changes `W` in place; returns how many pairs were turned.
    """
    curvatures = pair_curvatures(sources, densities)
    products, turned = curvatures * curvatures.T, set()
    first, second = np.nonzero(np.triu(products < SADDLE, 1))
    for k in np.argsort(products[first, second], kind="stable").tolist():
        i, j = int(first[k]), int(second[k])
        if i in turned or j in turned:
            continue
        found = _best_turn(sources[[i, j]].astype(np.float64), densities, (i, j))
        if found is not None:
            W[[i, j]] = found @ W[[i, j]]
            turned |= {i, j}
    return len(turned) // 2


def _best_turn(pair: F64, densities: Densities, at: tuple[int, int]) -> F64 | None:
    """The turn of two sources, each at its own variance, with the lowest loss, None if that is where they are."""
    deviation = np.sqrt(np.einsum("it,it->i", pair, pair) / pair.shape[1])
    best, found = _loss(pair, densities, at) - 1.0 / pair.shape[1], None
    for angle in (*ANGLES, *(-angle for angle in ANGLES)):
        c, s = np.cos(angle), np.sin(angle)
        turn = deviation[:, None] * np.array([[c, s], [-s, c]]) / deviation
        loss = _loss(turn @ pair, densities, at)  # turns leave the determinant
        if loss < best:
            best, found = loss, turn
    return found


def _loss(pair: F64, densities: Densities, at: tuple[int, int]) -> float:
    return float(sum(densities[i].loss(y).mean() for i, y in zip(at, pair, strict=True)))
