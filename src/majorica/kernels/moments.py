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
from majorica.kernels.outer import add_packed, make_readable
from majorica.kernels.panels import fill_panels, fold_packed, make_panels, sum_squares
from majorica.statistics import F64, Moments, pack_symmetric

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "5d2abac180fa044b"
Array = npt.NDArray[np.floating]


@nb.njit(nogil=True, cache=True)
def _moments(X, mean, KT, W, points, codes, shapes, order, room, panels, weighted, product, packed, tilt_sums,
             offsets):  # fmt: skip
    """For each tile of samples, as many as `order` is long, squares of one component after the other.

    `room` is for the samples of a tile. Without room in `packed` no squares are summed.
    """
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
        if panels.size and packed.size:
            fill_panels(room, ZERO, m, k, panels)
        for i in range(p if packed.size else 0):
            if panels.size:
                sum_squares(panels, m, k, weights[i], weighted, product)
                fold_packed(product, k, packed[i])
            else:
                add_packed(room, ZERO, order, weights[i], m, k, packed[i], product)


def moments(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, points: F64 | None = None, *, squares: bool = True
) -> Moments:
    """The surrogate's statistics of one block at the current `W`, or touching at `points`; p^3 operations a sample.

    Without `squares` the second moments are left out, and p^2 operations are enough.
    """
    p, k = W.shape
    total = Moments(len(X), np.zeros((p, k * (k + 1) // 2 if squares else 0)), np.zeros((p, k)), np.zeros(p))
    tile, touching = tile_length(max(K.shape)) * 8 // X.itemsize, np.empty((0, 0))  # of as many bytes
    if points is not None:
        touching = np.ascontiguousarray(points, np.float64)
    given = touching, densities.codes, densities.shapes
    dtype = X.dtype
    rooms = np.arange(tile, dtype=np.uint32), make_readable(tile, k, dtype).reshape(-1), *make_panels(tile, k, dtype)
    matrices = mean.astype(dtype), np.ascontiguousarray(K.T, dtype), np.ascontiguousarray(W, dtype)
    _moments(X, *matrices, *given, *rooms, total.packed, total.tilts, total.offsets)
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
