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
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "687d0114fb8fa248"
#: Numbers of a function that are worked on at a time, and samples at most and at least.
AT_ONCE, LONGEST, SHORTEST = 2**13, 512, 64
Array = npt.NDArray[np.floating]


def dependences(Y: Array, largest: float) -> F64:
    """How dependent pairs of `Y` ``(p, m)`` look, in standard errors, ``(p, p)``.

    The larger correlation, without its sign, of the squares of ``min(abs(y) /
    sd, largest)`` and of its distances from the middle. O(p^2) a sample.
    """
    p = len(Y)
    length = min(LONGEST, max(SHORTEST, AT_ONCE // p))
    out = np.empty((p, p))
    _fill(np.ascontiguousarray(Y), largest, np.empty((2 * p, length)), np.zeros((2 * p, p)), np.zeros(2 * p), out)
    return out


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _fill(Y, largest, work, products, totals, out):
    """Fill `out`; squares and distances, their products and their totals lie above each other, p rows each."""
    p, m = Y.shape
    middle, length = 0.5 * largest, work.shape[1]
    inverse = np.empty(p)
    for i in range(p):
        total, power = 0.0, 0.0
        for s in range(m):
            y = np.float64(Y[i, s])
            total += y
            power += y * y
        inverse[i] = 1 / math.sqrt(max(power / m - (total / m) ** 2, 1e-300))
    for start in range(0, m, length):
        count = min(length, m - start)
        for i in range(p):
            square, far = 0.0, 0.0
            for s in range(count):
                size = min(abs(np.float64(Y[i, start + s])) * inverse[i], largest)
                work[i, s] = size * size - 1.0  # less about what the mean is: fewer digits cancel
                work[p + i, s] = abs(size - middle)
                square += work[i, s]
                far += work[p + i, s]
            totals[i] += square
            totals[p + i] += far
        for a in range(0, 2 * p, p):
            for i in range(p):
                for j in range(i, p):
                    product = 0.0
                    for s in range(count):
                        product += work[a + i, s] * work[a + j, s]
                    products[a + i, j] += product
    for a in range(0, 2 * p, p):
        for i in range(p):
            for j in range(i, p):
                products[a + i, j] -= totals[a + i] * totals[a + j] / m
    for i in range(p):
        for j in range(i, p):
            found = 0.0
            for a in range(0, 2 * p, p):  # values that are all the same correlate with none
                norms = max(products[a + i, i], 1e-12 * m) * max(products[a + j, j], 1e-12 * m)
                found = max(found, abs(products[a + i, j]) / math.sqrt(norms))
            out[i, j] = out[j, i] = found * math.sqrt(m)
