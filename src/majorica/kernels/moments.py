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
from majorica.kernels.outer import OUTER, add_packed, make_readable, product_size
from majorica.kernels.tiles import MOST, VECTOR
from majorica.statistics import F64, Moments, pack_symmetric

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "d7615723fb0c22dd"
Array = npt.NDArray[np.floating]
#: Components from which on the second moments of all are quicker in registers, one component after the other.
TILED = 24 if MOST == 4 else 6
#: Room for a sample over its numbers, beyond which whole vectors do not pay.
MUCH = 1.1


@nb.njit(nogil=True, cache=True)
def squares_from(a, Z, weights):
    """Entries (a, c) with c >= a of all components' weighted squares, ``(p, k - a)``; samples and weights in rows."""
    k, m = Z.shape
    products = np.empty((k - a, m), Z.dtype)
    for c in range(a, k):
        for t in range(m):
            products[c - a, t] = Z[a, t] * Z[c, t]
    return np.dot(weights, products.T)


@nb.njit(nogil=True, cache=True)
def _moments(X, mean, K, W, points, codes, shapes, tile, packed, tilt_sums, offsets):
    b, f = X.shape
    k = K.shape[0]
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred = np.empty((m, f), X.dtype)
        centre(X, start, start + m, repeated(mean), centred)
        Z = np.dot(K, centred.T)
        Y = np.dot(W, Z)
        if points.size:
            for i in range(Y.shape[0]):
                for t in range(m):
                    Y[i, t] = points[start + t, i]
        weights = np.empty_like(Y)
        tilts = np.empty_like(Y)
        majorizer_rows(Y, codes, shapes, weights, tilts, offsets)
        tilt_sums += np.dot(tilts, Z.T)
        column = 0
        for a in range(k if packed.size else 0):  # half the work, for all components at once
            sums = squares_from(a, Z, weights)
            for i in range(sums.shape[0]):  # an assignment to a slice takes seconds to compile
                for c in range(k - a):
                    packed[i, column + c] += sums[i, c]
            column += k - a


@nb.njit(nogil=True, cache=True)
def _moments_in_tiles(X, mean, KT, W, points, codes, shapes, k, room, order, product, packed, tilt_sums, offsets):
    """:func:`_moments` with squares in registers, one component after the other; `room` is for samples of a tile.

    `KT`, `W` and `tilt_sums` have rows of whole vectors, of which k numbers count, and so do samples.
    """
    b, f = X.shape
    p, apart = W.shape
    for start in range(0, b, order.size):
        m = min(order.size, b - start)
        centred = np.empty((m, f), X.dtype)
        centre(X, start, start + m, repeated(mean), centred)
        Z = room[: m * apart].reshape(m, apart)
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
        for i in range(p):
            add_packed(room, 0, order, weights[i], m, k, apart, packed[i], product)


def whole_vectors(k: int, item: int) -> int:
    """How far samples of k numbers lie apart: whole vectors, if that is not much more."""
    lanes = VECTOR // item
    apart = -(-k // lanes) * lanes
    return apart if apart <= MUCH * k else k


def moments(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, points: F64 | None = None, *, squares: bool = True
) -> Moments:
    """The surrogate's statistics of one block at the current `W`, or touching at `points`; p^3 operations a sample.

    Without `squares` the second moments are left out, and p^2 operations are enough.
    """
    p, k = W.shape
    total = Moments(len(X), np.zeros((p, k * (k + 1) // 2 if squares else 0)), np.zeros((p, k)), np.zeros(p))
    tile, touching = tile_length(max(K.shape)), np.empty((0, 0))
    if points is not None:
        touching = np.ascontiguousarray(points, np.float64)
    given = touching, densities.codes, densities.shapes
    if not (squares and TILED <= k <= OUTER):
        matrices = np.ascontiguousarray(K, X.dtype), np.ascontiguousarray(W, X.dtype)
        _moments(X, mean.astype(X.dtype), *matrices, *given, tile, total.packed, total.tilts, total.offsets)
        return total
    apart = whole_vectors(k, X.itemsize)
    KT, rows, tilts = np.zeros((K.shape[1], apart), X.dtype), np.zeros((p, apart), X.dtype), np.zeros((p, apart))
    KT[:, :k], rows[:, :k] = K.T, W
    rooms = (
        make_readable(tile, apart, X.dtype).reshape(-1),
        np.arange(tile, dtype=np.uint32),
        np.empty(product_size(k, X.itemsize), X.dtype),
    )
    sums = total.packed, tilts, total.offsets
    _moments_in_tiles(X, mean.astype(X.dtype), KT, rows, *given, k, *rooms, *sums)
    total.tilts[:] = tilts[:, :k]
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
