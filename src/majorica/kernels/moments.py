"""Majorizers' statistics of whole blocks, compiled: what batch and online solvers average.

Twin: moments and row_moments of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.densities.table import Densities
from majorica.kernels.centre import centre, repeated, tile_length
from majorica.kernels.elementwise import majorizer_rows
from majorica.kernels.machine import ZERO
from majorica.kernels.outer import make_readable
from majorica.kernels.pairs import FEW_PAIRS, add_pairs, add_triangle, between, beyond
from majorica.kernels.panels import fill_panels, fold_packed, make_panels, sum_squares
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
from majorica.kernels.scratch import workspace
from majorica.kernels.views import borrow
from majorica.statistics import F64, Moments, pack_symmetric

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a79a83f3c845c186"
Array = npt.NDArray[np.floating]


@nb.njit(nogil=True, cache=True)
def _moments(X, mean, KT, W, points, codes, shapes, tile, room, panels, weighted, product, packed, tilt_sums,
             offsets):  # fmt: skip
    """For each tile of samples, for which there is `room`, squares of one component after the other.

    Without room in `packed` no squares are summed.
    """
    b, f = X.shape
    p, k = W.shape
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred = np.empty((m, f), X.dtype)
        centre(X, start, start + m, repeated(mean), centred)
        Z = room[: m * k].reshape(m, k)
        np.dot(centred, KT, Z)
        Y = np.dot(W, Z.T)
        if points.size:
            for i in range(p):
                for t in range(m):
                    Y[i, t] = points[start + t, i]
        weights = np.empty_like(Y)
        tilts = np.empty_like(Y)
        majorizer_rows(Y, codes, shapes, weights, tilts, offsets)
        tilt_sums += np.dot(tilts, Z)
        if packed.size:
            fill_panels(room, ZERO, m, k, panels)
        for i in range(p if packed.size else 0):
            sum_squares(panels, m, k, weights[i], weighted, product)
            fold_packed(product, k, packed[i])


@nb.njit(nogil=True, cache=True)
def _moments_of_few(X, means, K, W, k, p, points, codes, shapes, sloped, tile, turned, white, sources, weights, tilts,
                    product, packed, tilt_sums, offsets):  # fmt: skip
    """:func:`_moments` with all products in registers; `means` has whole rows, `K` and `W` whole tiles.

    So have the rows of samples `turned`, `white` and so on, ``beyond`` k or p of them. Tilts are zero unless `sloped`.
    """
    b, f = X.shape
    numbers, whitening, matrix = X.reshape(X.size), K.reshape(K.size), W.reshape(W.size)
    sources, weights, tilts, shapes = borrow(sources), borrow(weights), borrow(tilts), borrow(shapes)
    codes, offsets, packed = borrow(codes), borrow(offsets), borrow(packed)
    stride, rows = whole_stride(min(tile, b), X.itemsize), whole_tiles(max(p, k))
    for start in range(0, b, tile):
        m = min(tile, b - start)
        width = whole_width(m, X.itemsize)
        turn_samples(numbers, start, m, f, means, turned, stride, width)
        unmix_rows(whitening, k, f, turned, stride, ZERO, white, stride, width, numbers, ZERO, ZERO)
        unmix_rows(matrix, p, k, white, stride, ZERO, sources, stride, width, numbers, ZERO, ZERO)
        for i in range(p):
            first = i * stride
            y, own, lean = sources[first : first + m], weights[first : first + m], tilts[first : first + m]
            for t in range(m if points.size else 0):
                y[t] = points[start + t, i]
            formula = codes[i : i + 1], shapes[i : i + 1]
            majorizer_rows(y.reshape(1, m), *formula, own.reshape(1, m), lean.reshape(1, m), offsets[i : i + 1])
            for t in range(first + m, first + width):
                weights[t] = tilts[t] = 0
        if sloped:
            correlate(tilts, white, max(p, k), stride, width, product, rows, numbers, ZERO, ZERO)
            for i in range(p):
                for j in range(k):
                    tilt_sums[i, j] += product[i * rows + j]
        if packed.size:
            for j in range(product.size):
                product[j] = 0
            add_pairs(weights, p, white, k, stride, width, product)
            for i in range(p):
                add_triangle(product, i, k, packed[i])


def moments(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, points: F64 | None = None, *, squares: bool = True
) -> Moments:
    """The surrogate's statistics of one block at the current `W`, or touching at `points`; p^3 operations a sample.

    Without `squares` the second moments are left out, and p^2 operations are enough.
    """
    (p, k), f = W.shape, X.shape[1]
    total = Moments(len(X), np.zeros((p, k * (k + 1) // 2 if squares else 0)), np.zeros((p, k)), np.zeros(p))
    touching = np.empty((0, 0)) if points is None else np.ascontiguousarray(points, np.float64)
    sums, formulas = (total.packed, total.tilts, total.offsets), (densities.codes, densities.shapes)
    dtype, item = X.dtype, X.itemsize
    if max(p, k) > FEW_PAIRS or f > FEW:
        tile = tile_length(max(K.shape)) * 8 // item  # of as many bytes
        rooms = tile, make_readable(tile, k, dtype).reshape(-1), *make_panels(tile, k, dtype)
        matrices = mean.astype(dtype), np.ascontiguousarray(K.T, dtype), np.ascontiguousarray(W, dtype)
        _moments(X, *matrices, touching, *formulas, *rooms, *sums)
        return total
    tile, q = tile_of(max(p, f), item), max(p, k)
    stride, many = int(whole_stride(min(tile, len(X)), item)), int(beyond(q))
    size, own = int(whole_rows(f, item)) * stride, many * stride
    means, whitening = np.zeros(size // stride, dtype), np.zeros((many, f), dtype)
    matrix, work = np.zeros((many, k), dtype), workspace(size + 4 * own, dtype)
    means[:f], whitening[:k], matrix[:p] = mean, K, W
    turned, rows = work[:size], work[size : size + 4 * own].reshape(4, own)
    rows[:, q * stride :] = 0  # multiplied in vain: what lay there may be slow to multiply
    product = np.empty(max(many * int(between(k)), many * many), dtype)
    sloped = bool(not densities.super_gaussian.all())
    _moments_of_few(X, means, whitening, matrix, k, p, touching, *formulas, sloped, tile, turned, *rows, product, *sums)
    return total


def row_moments(X: Array, mean: F64, K: F64, w: F64, density: Density) -> Moments:
    """The surrogate's statistics of one block for one row `w` only; p^2 memory."""
    k = len(K)
    A, tilt, offset = np.zeros((k, k)), np.zeros(k), np.zeros(1)
    _row_moments(
        X,
        mean.astype(X.dtype),
        np.ascontiguousarray(K, X.dtype),
        w.astype(X.dtype),
        Densities([density]).codes,
        Densities([density]).shapes,
        tile_length(max(K.shape)),
        A,
        tilt,
        offset,
    )
    return Moments(len(X), pack_symmetric(A[None]), tilt[None], offset)


@nb.njit(nogil=True, cache=True)
def _row_moments(X, mean, K, w, code, shape, tile, A, tilt, offset):
    b, f = X.shape
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred = np.empty((m, f), X.dtype)
        centre(X, start, start + m, repeated(mean), centred)
        Z = np.dot(K, centred.T)
        y = np.dot(w, Z).reshape(1, m)
        weights = np.empty_like(y)
        tilts = np.empty_like(y)
        majorizer_rows(y, code, shape, weights, tilts, offset)
        tilt += np.dot(Z, tilts[0])
        A += np.dot(Z * weights, Z.T)
