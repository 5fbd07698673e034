"""How dependent pairs of sources look, compiled: correlations of two functions of their sizes, in one reading.

Twin: dependences of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.kernels.elementwise import FAST
from majorica.kernels.products import add_squares, tile_of, whole_stride, whole_tiles, whole_width
from majorica.kernels.scratch import aligned
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "566a3d1a33e49713"
Array = npt.NDArray[np.floating]


def dependences(Y: Array, largest: float) -> F64:
    """How dependent pairs of `Y` ``(p, m)`` look, in standard errors, ``(p, p)``.

    The larger correlation, without its sign, of the squares of ``min(abs(y) /
    sd, largest)`` and of its distances from the middle. O(p^2) a sample.
    """
    p, m = Y.shape
    tile, rows = min(m, tile_of(p, 8)), int(whole_tiles(p))
    stride = int(whole_stride(tile, 8))
    out, work = np.empty((p, p)), aligned(2 * rows * stride, np.dtype(np.float64), zero=True)
    _fill(np.ascontiguousarray(Y), largest, tile, stride, work, np.zeros((2, rows * rows)), np.zeros((2, p)), out)
    return out


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _shape_row(y, inverse, largest, squares, distances):
    """Fill the two functions of a source's sizes, less about what their means are; returns their sums."""
    middle, square, far = 0.5 * largest, 0.0, 0.0
    for t in range(y.size):
        size = min(abs(np.float64(y[t])) * inverse, largest)
        squares[t] = size * size - 1.0  # less about what the mean is: fewer digits cancel
        distances[t] = abs(size - middle)
        square += squares[t]
        far += distances[t]
    return square, far


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _inverse_deviation(y):
    total, power = 0.0, 0.0
    for t in range(y.size):
        value = np.float64(y[t])
        total += value
        power += value * value
    return 1 / math.sqrt(max(power / y.size - (total / y.size) ** 2, 1e-300))


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _fill(Y, largest, tile, stride, work, products, totals, out):
    """Fill `out`; a tile's squares and distances are rows of `work`, p of each, from which `products` come."""
    p, m = Y.shape
    half, rows = work.size // 2, work.size // 2 // stride
    inverse = np.empty(p)
    for i in range(p):
        inverse[i] = _inverse_deviation(Y[i])
    for start in range(0, m, tile):
        count = min(tile, m - start)
        width = whole_width(count, 8)
        for i in range(p):
            squares, distances = work[i * stride :][:width], work[half + i * stride :][:width]
            found = _shape_row(Y[i, start : start + count], inverse[i], largest, squares, distances)
            totals[0, i] += found[0]
            totals[1, i] += found[1]
            for t in range(count, width):
                squares[t] = distances[t] = 0.0
        for a in range(2):
            add_squares(work[a * half :], p, stride, width, products[a], rows)
    for i in range(p):
        for j in range(i, p):
            found_, at = 0.0, i * rows + j
            for a in range(2):  # values that are all the same correlate with none
                own = max(products[a, i * rows + i] - totals[a, i] * totals[a, i] / m, 1e-12 * m)
                others = max(products[a, j * rows + j] - totals[a, j] * totals[a, j] / m, 1e-12 * m)
                product = products[a, at] - totals[a, i] * totals[a, j] / m
                found_ = max(found_, abs(product) / math.sqrt(own * others))
            out[i, j] = out[j, i] = found_ * math.sqrt(m)
