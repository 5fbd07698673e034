"""Inverse, determinant and definiteness of small matrices, compiled: LAPACK's take a second each to compile.

Twins: ``np.linalg.inv``, ``np.linalg.slogdet`` and the eigenvalues' signs.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.machine import keep_short
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a973a77e62298575"


@nb.njit(nogil=True, cache=True, error_model="numpy")
def log_determinant(W, M):
    """``log abs(det W)``, by elimination with row exchanges; `M` is as large, for that."""
    p, total, M = W.shape[0], 0.0, borrow(M)
    for i in range(p):
        for j in range(p):
            M[i, j] = W[i, j]
    for a in range(p):
        pivot = a
        for r in range(a + 1, p):
            if abs(M[r, a]) > abs(M[pivot, a]):
                pivot = r
        size = abs(M[pivot, a])
        if not size > 0:
            return -np.inf if size == 0 else np.nan
        total += math.log(size)
        top, other = M[a], M[pivot]
        for c in range(a, p):
            top[c], other[c] = other[c], top[c]
        for r in range(a + 1, p):
            row = M[r]
            factor = row[a] / top[a]
            for c in range(a + 1, p):
                row[c] -= factor * top[c]
    return total


@nb.njit(nogil=True, cache=True, error_model="numpy")
def invert(W, out, M):
    """Fill `out` with the inverse of `W`, by elimination with row exchanges; False if there is none.

    `M` is as large, for that.
    """
    p, M, out = W.shape[0], borrow(M), borrow(out)
    for i in range(p):
        for j in range(p):
            M[i, j], out[i, j] = W[i, j], 1.0 if i == j else 0.0
    for a in range(p):
        pivot = a
        for r in range(a + 1, p):
            if abs(M[r, a]) > abs(M[pivot, a]):
                pivot = r
        if not abs(M[pivot, a]) > 0:
            return False
        top, other, here, there = M[a], M[pivot], out[a], out[pivot]
        for c in range(p):
            top[c], other[c] = other[c], top[c]
            here[c], there[c] = there[c], here[c]
        scale = 1 / top[a]
        for c in range(p):
            top[c] *= scale
            here[c] *= scale
        for r in range(p):
            if r == a:
                continue
            row, mine = M[r], out[r]
            factor = row[a]
            for c in range(p):
                row[c] -= factor * top[c]
                mine[c] -= factor * here[c]
    return True


@nb.njit(nogil=True, cache=True, error_model="numpy")
def is_positive(A):
    """Whether a symmetric matrix has positive eigenvalues only, by Cholesky's factor, which is written over it."""
    keep_short()
    p = A.shape[0]
    for j in range(p):
        square = A[j, j]
        for k in range(j):
            square -= A[j, k] * A[j, k]
        if not square > 0:
            return False
        root = math.sqrt(square)
        A[j, j] = root
        for i in range(j + 1, p):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = total / root
    return True
