"""A line search over one block of white samples in one call, compiled: small problems pay for calls, not for samples.

Twins in plain NumPy: ``reference.statistics`` for a pass, and for the search that of the progressive solver over
problems of several blocks.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.densities.base import PIECEWISE
from majorica.kernels.elementwise import FAST, piecewise_row, statistics_row
from majorica.kernels.newton import digest, spectral_norm

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "3b6120dea418c73e"
#: Up to this many components a loop over rows is faster than a call of BLAS.
FEW = 6


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def _unmix(W, Z, start, Y):
    """Fill `Y` (p, m) with ``W Z`` for the samples from `start` on; few components."""
    m = Y.shape[1]
    for i in range(Y.shape[0]):
        row, first, w = Y[i], Z[0, start : start + m], W[i, 0]
        for t in range(m):
            row[t] = w * first[t]
        for j in range(1, Z.shape[0]):
            other, w = Z[j, start : start + m], W[i, j]
            for t in range(m):
                row[t] += w * other[t]


@nb.njit(nogil=True, cache=True, inline="always")
def _evaluate(Z, W, codes, shapes, log_normalisers, floor, tile, work, sums, ramps, reaches, gradient, relative, upper):
    """Sums over all samples as ``_statistics`` of the compiled kernels makes them, and what ``digest`` says of them."""
    p, n = Z.shape
    product = np.empty((p, p))
    sums[:] = 0.0
    ramps[:] = 0.0
    reaches[:] = 0.0
    gradient[:] = 0.0
    for start in range(0, n, tile):
        m = min(tile, n - start)
        Y = work[: m * p].reshape(p, m)
        score = work[m * p : 2 * m * p].reshape(p, m)
        if p <= FEW:
            _unmix(W, Z, start, Y)
        else:
            for i in range(p):
                source, target = Z[i, start : start + m], score[i]
                for t in range(m):
                    target[t] = source[t]
            np.dot(W, score, Y)
        for i in range(p):
            if codes[i] == PIECEWISE:
                row = piecewise_row(Y[i], score[i], shapes[i], ramps[i], reaches[i])
            else:
                row = statistics_row(Y[i], score[i], codes[i], shapes[i])
            sums[0, i] += row[0]
            sums[1, i] += row[1]
            sums[2, i] += row[2]
            sums[3, i] += row[3]
        np.dot(score, Y.T, product)
        gradient += product
    return digest(W, n, sums[0], gradient, sums[1], sums[2], sums[3], log_normalisers, floor, relative, upper)


@nb.njit(nogil=True, cache=True)
def search(
    Z,
    origin,
    direction,
    before,
    longest,
    known,
    below,
    tries,
    floor,
    steps,
    changes,
    count,
    newest,
    codes,
    shapes,
    log_normalisers,
    tile,
    work,
    W,
    sums,
    ramps,
    reaches,
    gradient,
    relative,
    upper,
):
    """Shorten the step from `origin` along `direction` until the loss is under `below`, `tries` times at most.

    `before` is the relative gradient at `origin` and `known` the loss there;
    the first step is at most `longest` in spectral norm. A step that is taken
    goes to the memory of pairs, as ``Memory.add`` puts it there, unless
    `newest` is below -1. With no `tries` evaluates at `origin`.

    Returns the evaluations made, whether the loss of the last one is low
    enough, that loss, the largest entry of the relative gradient, and `count`
    and `newest` of the memory. `W` (p, p), the statistics and the derivatives
    are those of the last evaluation; `sums` (4, p) are loss, curvature, power
    and diagonal.
    """
    made, found, loss, largest = 0, False, np.inf, np.inf
    length, slope, move = 0.0, 0.0, origin
    if tries > 0:
        slope = np.dot(direction.ravel(), before.ravel())
        if not slope < 0:
            return made, found, loss, largest, count, newest
        length = min(1.0, longest / spectral_norm(direction, 4))
        move = np.dot(direction, origin)
    while made < max(tries, 1) and not found:
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                W[i, j] = origin[i, j] + length * move[i, j] if tries > 0 else origin[i, j]
        loss, largest = _evaluate(
            Z, W, codes, shapes, log_normalisers, floor, tile, work, sums, ramps, reaches, gradient, relative, upper
        )
        made += 1
        found = loss < below
        if not found:
            rise, best = loss - known - length * slope, 0.5 * length
            if np.isfinite(rise) and rise > 0:
                best = -slope * length * length / (2 * rise)
            length = min(max(best, 0.1 * length), 0.5 * length)
    if found and newest >= -1:
        curvature, size = 0.0, 0.0
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                step = length * direction[i, j]
                curvature += step * (relative[i, j] - before[i, j])
                size += step * step
        if curvature > 1e-2 * floor * size:
            newest = (newest + 1) % steps.shape[0]
            count = min(count + 1, steps.shape[0])
            for i in range(W.shape[0]):
                for j in range(W.shape[1]):
                    steps[newest, i, j] = length * direction[i, j]
                    changes[newest, i, j] = relative[i, j] - before[i, j]
    return made, found, loss, largest, count, newest
