"""The kernels compiled with Numba: twins of :mod:`majorica.kernels.reference`, same names and arguments.

Samples are taken in tiles that stay in the cache; sources lie as rows
``(p, tile)`` inside a tile, so that each component's samples are contiguous.
Matrix products go to BLAS. All kernels release the GIL.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels.centre import centre, repeated, tile_length
from majorica.kernels.centre import whiten as whiten
from majorica.kernels.covariance import scatter as scatter
from majorica.kernels.elementwise import majorizer
from majorica.kernels.machine import ZERO
from majorica.kernels.moments import moments as moments
from majorica.kernels.moments import row_moments as row_moments
from majorica.kernels.products import (
    FEW,
    correlate,
    tile_of,
    turn_samples,
    unmix_rows,
    whole_rows,
    whole_stride,
    whole_tiles,
    whole_width,
)
from majorica.kernels.rows import combine, padded
from majorica.kernels.scores import statistics_row
from majorica.kernels.scratch import workspace
from majorica.kernels.stream import learn_from as learn_from
from majorica.kernels.stream import look_at as look_at
from majorica.kernels.stream import settle as settle
from majorica.kernels.sweep import COLUMN, NEW_ROW, improve, make_work, sweep_rows
from majorica.kernels.views import borrow
from majorica.statistics import F64, Statistics

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "d920371f3d5ae182"
Array = npt.NDArray[np.floating]


@nb.njit(nogil=True, cache=True)
def _add_rows(Y, score, m, codes, shapes, loss, curvature, power, diagonal, ramps, reaches):
    """Fill the first `m` of each row of `score`, and add up what a pass wants to know of each component."""
    Y, score, shapes, ramps, reaches = borrow(Y), borrow(score), borrow(shapes), borrow(ramps), borrow(reaches)
    for i in range(codes.size):
        y, own = Y[i, :m], score[i, :m]
        sums = statistics_row(y, own, codes[i], shapes[i], ramps[i], reaches[i])
        loss[i] += sums[0]
        curvature[i] += sums[1]
        power[i] += sums[2]
        diagonal[i] += sums[3]


@nb.njit(nogil=True, cache=True)
def _statistics(X, mean, B, codes, shapes, tile, work, loss, gradient, curvature, power, diagonal, ramps, reaches):
    b, f = X.shape
    p = B.shape[0]
    means, product = repeated(mean), np.empty((p, p), X.dtype)
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred = work[: m * f].reshape(m, f)
        Y = work[m * f : m * (f + p)].reshape(p, m)
        score = work[m * (f + p) : m * (f + 2 * p)].reshape(p, m)
        centre(X, start, start + m, means, centred)
        np.dot(B, centred.T, Y)
        _add_rows(Y, score, m, codes, shapes, loss, curvature, power, diagonal, ramps, reaches)
        np.dot(score, Y.T, product)
        gradient += product


@nb.njit(nogil=True, cache=True)
def _statistics_of_few(
    X, means, B, codes, shapes, tile, work, loss, gradient, curvature, power, diagonal, ramps, reaches
):
    """:func:`_statistics` with products in registers; `means` has whole rows, `B` whole tiles."""
    b, f = X.shape
    p, rows = codes.size, B.shape[0]
    numbers, matrix, product = X.reshape(X.size), B.reshape(B.size), np.empty(rows * rows, X.dtype)
    stride = whole_stride(min(tile, b), X.itemsize)
    samples = work[: means.size * stride]
    sources = work[samples.size : samples.size + rows * stride]
    scores = work[samples.size + sources.size :][: rows * stride]
    Y, score, sums = sources.reshape(rows, stride), scores.reshape(rows, stride), gradient.reshape(p * p)
    score[p : whole_tiles(p)] = 0  # what lay there may be of the kind that is slow to multiply
    for start in range(0, b, tile):
        m = min(tile, b - start)
        width = whole_width(m, X.itemsize)
        turn_samples(numbers, start, m, f, means, samples, stride, width)
        near, far = (start + m) * f, (start + m + tile) * f  # maybe of the next block
        half = near + (far - near) // 2
        unmix_rows(matrix, p, f, samples, stride, ZERO, sources, stride, width, numbers, near, half)
        _add_rows(Y, score, m, codes, shapes, loss, curvature, power, diagonal, ramps, reaches)
        score[:p, m:width] = 0
        correlate(scores, sources, p, stride, width, product, rows, numbers, half, far)
        for i in range(p):
            combine(sums, i * p, 1.0, sums, i * p, 1.0, product, i * rows, p)


def project(X: Array, mean: F64, B: F64) -> Array:
    """``(X - mean) B^T`` in the block's own precision."""
    return (X - mean.astype(X.dtype)) @ B.astype(X.dtype).T


def statistics(X: Array, mean: F64, B: F64, densities: Densities) -> Statistics:
    """Loss, relative gradient and Hessian entries of one block; two products a sample."""
    p, f = B.shape
    tile = tile_of(max(p, f), X.itemsize) if max(p, f) <= FEW else tile_length(max(p, f))
    total = Statistics.zeros(p, len(X))
    sums = (total.loss, total.gradient, total.curvature, total.power, total.diagonal, total.ramps, total.reaches)
    formulas = (densities.codes, densities.shapes)
    if max(p, f) > FEW:
        work = workspace(min(tile, len(X)) * (f + 2 * p), X.dtype)
        given = (X, mean.astype(X.dtype), np.ascontiguousarray(B, X.dtype))
        _statistics(*given, *formulas, tile, work, *sums)
        return total
    item = X.itemsize
    means, matrix = np.zeros(whole_rows(f, item), X.dtype), np.zeros((whole_tiles(p), f), X.dtype)
    means[:f], matrix[:p] = mean, B
    work = workspace((len(means) + 2 * len(matrix)) * whole_stride(min(tile, len(X)), item), X.dtype)
    _statistics_of_few(X, means, matrix, *formulas, tile, work, *sums)
    return total


@nb.njit(nogil=True, cache=True)
def _gaps(Y, Y_new, Y_old, codes, shapes, out):
    for t in range(Y.shape[0]):
        for i in range(Y.shape[1]):
            y = Y[t, i]
            w0, t0, r0 = majorizer(Y_old[t, i], codes[i], shapes[i])
            w1, t1, r1 = majorizer(Y_new[t, i], codes[i], shapes[i])
            out[t, i] = 0.5 * (w0 - w1) * y * y - (t0 - t1) * y + (r0 - r1)


def gaps(Y: F64, Y_new: F64, Y_old: F64, densities: Densities) -> F64:
    """Decrease of the surrogate, per entry, if its majorizer touched at `Y_new` instead of `Y_old`; Eq. (dualgap)."""
    out = np.empty_like(Y)
    _gaps(Y, Y_new, Y_old, densities.codes, densities.shapes, out)
    return out


@nb.njit(nogil=True, cache=True)
def _select_largest(gap, q, mask):
    p = gap.shape[1]
    for t in range(gap.shape[0]):
        for _ in range(q):
            best = -1
            for i in range(p):
                if not mask[t, i] and (best < 0 or gap[t, i] > gap[t, best]):
                    best = i
            mask[t, best] = True


def select_largest(gap: F64, q: int) -> npt.NDArray[np.bool_]:
    """Mask of the `q` largest entries of each row; of equal ones, the first."""
    mask = np.zeros(gap.shape, dtype=np.bool_)
    if q >= gap.shape[1]:
        mask[:] = True
    else:
        _select_largest(gap, q, mask)
    return mask


@nb.njit(nogil=True, cache=True)
def _update_moments(Z, Y_new, Y_old, chosen, codes, shapes, flat, relative, scales, moments_, tilts, offsets):
    b, k = Z.shape
    rows = np.empty(b, np.intp)
    for i in range(chosen.shape[1]):
        m = 0
        for t in range(b):
            if chosen[t, i]:
                rows[m] = t
                m += 1
        if m == 0:
            continue
        taken = np.empty((m, k))
        weighted = np.empty((m, k))
        code, shape, scale = codes[i], shapes[i], scales[i]
        w0, t0, r0 = 0.0, 0.0, 0.0
        for s in range(m):
            t = rows[s]
            w1, t1, r1 = majorizer(Y_new[t, i], code, shape)
            if relative:
                w0, t0, r0 = majorizer(Y_old[t, i], code, shape)
            offsets[i] += scale * (r1 - r0)
            if flat[i]:
                for j in range(k):
                    tilts[i, j] += scale * (t1 - t0) * Z[t, j]
            else:
                for j in range(k):
                    taken[s, j] = Z[t, j]
                    weighted[s, j] = scale * (w1 - w0) * Z[t, j]
        if not flat[i]:
            change = np.dot(weighted.T, taken)
            for j in range(k):  # symmetric to the last bit
                for c in range(j, k):
                    moments_[i, j, c] += change[j, c]
                    moments_[i, c, j] = moments_[i, j, c]


def update_moments(
    Z: F64,
    Y_new: F64,
    Y_old: F64,
    chosen: npt.NDArray[np.bool_],
    densities: Densities,
    scales: F64,
    moments_: F64,
    tilts: F64,
    offsets: F64,
) -> None:
    """Move the chosen entries' majorizers from `Y_old` to `Y_new`; Eq. (updateamem), one product a component."""
    formulas = (densities.codes, densities.shapes, ~densities.super_gaussian)
    _update_moments(Z, Y_new, Y_old, chosen, *formulas, True, scales, moments_, tilts, offsets)


def add_moments(
    Z: F64,
    Y: F64,
    chosen: npt.NDArray[np.bool_],
    densities: Densities,
    scales: F64,
    moments_: F64,
    tilts: F64,
    offsets: F64,
) -> None:
    """Add the chosen entries' majorizers that touch at `Y`, `scales` (p,) times each; Eq. (updateastream)."""
    formulas = (densities.codes, densities.shapes, ~densities.super_gaussian)
    _update_moments(Z, Y, Y, chosen, *formulas, False, scales, moments_, tilts, offsets)


def improve_row(A: F64, w: F64, c: F64, iterations: int) -> F64:
    """Lower the super-Gaussian surrogate over one row by truncated conjugate gradient on ``A z = c``."""
    k, work = len(w), make_work(len(w))
    work[COLUMN * padded(k) :][:k] = c
    improve(A.reshape(k * k), 0, k, np.ascontiguousarray(w), 0, iterations, work)
    return work[NEW_ROW * padded(k) :][:k].copy()


def sweep(W: F64, inverse: F64, moments_: F64, tilts: F64, flat: F64, covariance_inverse: F64, iterations: int) -> None:
    """One M-step over all rows, in place on `W` and its `inverse`; O(p^2) a row."""
    sweep_rows(W, inverse, moments_, tilts, flat, covariance_inverse, iterations)
