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
from majorica.kernels.outer import add_packed, make_readable, product_size
from majorica.kernels.panels import FEW, PIECE, fill_panels, fold_packed, in_panels, panel_width, sum_squares
from majorica.kernels.scratch import aligned
from majorica.kernels.tiles import MOST
from majorica.statistics import F64, Moments, pack_symmetric

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "706be160fbf23f6e"
Array = npt.NDArray[np.floating]
#: Components from which on the second moments of all are quicker in registers, one component after the other.
TILED = 24 if MOST == 4 else 6


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
            products = np.empty((k - a, m), Z.dtype)
            for c in range(a, k):
                for t in range(m):
                    products[c - a, t] = Z[a, t] * Z[c, t]
            sums = np.dot(weights, products.T)
            for i in range(sums.shape[0]):  # an assignment to a slice takes seconds to compile
                for c in range(k - a):
                    packed[i, column + c] += sums[i, c]
            column += k - a


@nb.njit(nogil=True, cache=True)
def _moments_in_tiles(X, mean, KT, W, points, codes, shapes, order, room, panels, weighted, product, packed, tilt_sums,
                      offsets):  # fmt: skip
    """:func:`_moments` with squares in registers, one component after the other; `room` is for samples of a tile."""
    b, f = X.shape
    p, k = W.shape
    for start in range(0, b, order.size):
        m = min(order.size, b - start)
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
        if panels.size:
            fill_panels(room, 0, m, k, panels)
        for i in range(p):
            if panels.size:
                sum_squares(panels, m, k, weights[i], weighted, product)
                fold_packed(product, k, packed[i])
            else:
                add_packed(room, 0, order, weights[i], m, k, packed[i], product)


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
    K, W = np.ascontiguousarray(K, X.dtype), np.ascontiguousarray(W, X.dtype)
    sums = total.packed, total.tilts, total.offsets
    if not (squares and k >= TILED):
        _moments(X, mean.astype(X.dtype), K, W, *given, tile, *sums)
        return total
    item, dtype = X.itemsize, X.dtype
    width, many = int(in_panels.py_func(k, item)), k > FEW
    rooms = (
        np.arange(tile, dtype=np.uint32),
        make_readable(tile, k, dtype).reshape(-1),
        aligned(tile * width if many else 0, dtype),
        aligned(PIECE * int(panel_width.py_func(item)), dtype),
        aligned(width * width if many else product_size(k, item), dtype),
    )
    _moments_in_tiles(X, mean.astype(dtype), np.ascontiguousarray(K.T), W, *given, *rooms, *sums)
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
