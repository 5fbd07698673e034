"""The M-step compiled: each row by truncated conjugate gradient, and the inverse of `W` behind it.

Moments are symmetric: about half of them are read. Twin: improve_row and sweep
of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.blas import multiply
from majorica.kernels.elementwise import FAST
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "1523aa2184fe03b8"
#: Components below which loops are quicker than BLAS, and the incremental solver takes all its samples for each.
SHORT = 9
#: Rows of moments that are read and changed from the first one's diagonal on: half of the matrix, if it is large.
STRIP = 32
#: Rows by which the inverse may be late.
LATE = 8


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _apply(A, v, out):
    """``out = A v``, four rows at a time."""
    k = v.size
    A = borrow(A)
    whole = k // 4 * 4
    for a in range(0, whole, 4):
        row0, row1, row2, row3 = A[a], A[a + 1], A[a + 2], A[a + 3]
        total0, total1, total2, total3 = 0.0, 0.0, 0.0, 0.0
        for j in range(k):
            total0 += row0[j] * v[j]
            total1 += row1[j] * v[j]
            total2 += row2[j] * v[j]
            total3 += row3[j] * v[j]
        out[a], out[a + 1], out[a + 2], out[a + 3] = total0, total1, total2, total3
    for a in range(whole, k):
        out[a] = _dot(A[a], v)


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _add_rows(A, v, out):
    """``out += v A`` for some rows `A`, four at a time."""
    A = borrow(A)
    whole = v.size // 4 * 4
    for a in range(0, whole, 4):
        row0, row1, row2, row3 = A[a], A[a + 1], A[a + 2], A[a + 3]
        v0, v1, v2, v3 = v[a], v[a + 1], v[a + 2], v[a + 3]
        for j in range(out.size):
            out[j] += row0[j] * v0 + row1[j] * v1 + row2[j] * v2 + row3[j] * v3
    for a in range(whole, v.size):
        row0, v0 = A[a], v[a]
        for j in range(out.size):
            out[j] += row0[j] * v0


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _apply_moments(A, v, out):
    """``out = A v`` for a symmetric `A`; what lies left of each strip's square on the diagonal is not read."""
    k = v.size
    if k <= STRIP:
        _apply(A, v, out)
        return
    A, v, out = borrow(A), borrow(v), borrow(out)
    for j in range(k):
        out[j] = 0.0
    for a in range(0, k, STRIP):
        stop = min(a + STRIP, k)
        left, right, far = v[a:stop], v[stop:], out[stop:]
        whole = a + (stop - a) // 4 * 4
        for i in range(a, whole, 4):
            row0, row1, row2, row3 = A[i, a:stop], A[i + 1, a:stop], A[i + 2, a:stop], A[i + 3, a:stop]
            total0, total1, total2, total3 = 0.0, 0.0, 0.0, 0.0
            for j in range(left.size):
                total0 += row0[j] * left[j]
                total1 += row1[j] * left[j]
                total2 += row2[j] * left[j]
                total3 += row3[j] * left[j]
            if right.size > 0:  # each number serves its row and its column
                v0, v1, v2, v3 = v[i], v[i + 1], v[i + 2], v[i + 3]
                row0, row1, row2, row3 = A[i, stop:], A[i + 1, stop:], A[i + 2, stop:], A[i + 3, stop:]
                for j in range(right.size):
                    x0, x1, x2, x3 = row0[j], row1[j], row2[j], row3[j]
                    total0 += x0 * right[j]
                    total1 += x1 * right[j]
                    total2 += x2 * right[j]
                    total3 += x3 * right[j]
                    far[j] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
            out[i] += total0
            out[i + 1] += total1
            out[i + 2] += total2
            out[i + 3] += total3
        for i in range(whole, stop):  # only the last strip has such rows
            out[i] += _dot(A[i, a:stop], left)


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def improve(A, w, c, iterations, work):
    """Fill ``work[0]`` with the row; reads what :func:`_apply_moments` does. `work` is (5, k) at least."""
    k = w.size
    work = borrow(work)
    z, Az, residual, direction, Ad = work[0], work[1], work[2], work[3], work[4]
    _apply_moments(A, w, Az)
    t = _dot(c, w) / _dot(w, Az)
    size = 0.0
    for j in range(k):
        z[j] = t * w[j]
        Az[j] *= t
        residual[j] = c[j] - Az[j]
        direction[j] = residual[j]
        size += residual[j] * residual[j]
    for _ in range(iterations):
        _apply_moments(A, direction, Ad)
        curvature = _dot(direction, Ad)
        if not (curvature > 0 and size > 0):
            break
        step = size / curvature
        previous, size = size, 0.0
        for j in range(k):
            z[j] += step * direction[j]
            Az[j] += step * Ad[j]
            residual[j] -= step * Ad[j]
            size += residual[j] * residual[j]
        for j in range(k):
            direction[j] = residual[j] + (size / previous) * direction[j]
    scale = _dot(z, Az)
    if scale > 0:
        shrink = 1 / math.sqrt(scale)
        for j in range(k):
            z[j] *= shrink
    else:
        for j in range(k):
            z[j] = w[j]


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def catch_up(inverse, work, late):
    """Add to `inverse` the products it is late by; returns 0."""
    p = inverse.shape[0]
    if p < SHORT:
        for r in range(late):
            column, change = borrow(work)[6 + r], borrow(work)[6 + LATE + r]
            for j in range(p):
                row, c = borrow(inverse)[j], column[j]
                for k in range(p):
                    row[k] += c * change[k]
    elif late > 0:
        flat = borrow(work).reshape(work.size)
        multiply(p, p, late, flat, 6 * p, p, 1, flat, (6 + LATE) * p, p, inverse.reshape(p * p), 0, p, 1.0)
    return 0


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def sweep_row(i, W, inverse, A, tilt, flat, covariance_inverse, iterations, work, late):
    """M-step of row `i`; returns ``w A w / 2 - b w`` after it and what log|det W| grew by, and the next `late`.

    The inverse stays as it was `late` rows ago: to it belong so many products
    of a column ``work[6 + r]`` and a row ``work[6 + LATE + r]``, added together
    by :func:`catch_up` now and then, and at the end. `work` is (6 + 2 LATE, k).
    """
    p = W.shape[0]
    work, inverse = borrow(work), borrow(inverse)
    w, row, c = borrow(W)[i], work[0], work[5]
    for j in range(p):
        c[j] = inverse[j, i]
    for r in range(late):
        column, share = work[6 + r], work[6 + LATE + r, i]
        for j in range(p):
            c[j] += column[j] * share
    if flat > 0:
        z1, z2 = work[1], work[2]
        _apply(covariance_inverse, tilt, z1)
        _apply(covariance_inverse, c, z2)
        t, s = _dot(c, z1) / flat, _dot(c, z2) / flat
        tau = 0.5 * (t + math.copysign(math.sqrt(t * t + 4 * s), t))
        for j in range(p):
            row[j] = (z1[j] + z2[j] / tau) / flat
    else:
        improve(A, w, c, iterations, work)
    pivot, growth = _dot(c, row), 0.0  # det W grows by the factor `pivot`
    if np.isfinite(pivot) and np.isfinite(_dot(row, row)) and abs(pivot) > 1e-12:
        growth = math.log(abs(pivot))
        step, column, change = work[4], work[6 + late], work[6 + LATE + late]
        for j in range(p):
            step[j] = (row[j] - w[j]) / pivot
            w[j] = row[j]
            column[j] = -c[j]
            change[j] = 0.0
        _add_rows(inverse, step, change)
        for r in range(late):
            share, before = _dot(step, work[6 + r]), work[6 + LATE + r]
            for j in range(p):
                change[j] += share * before[j]
        late += 1
        if late == LATE or p < SHORT:
            late = catch_up(inverse, work, late)
        if not flat > 0:
            return 0.5, growth, late
    _apply_moments(A, w, work[1])
    return 0.5 * _dot(w, work[1]) - _dot(tilt, w), growth, late


@nb.njit(nogil=True, cache=True)
def sweep_rows(W, inverse, moments_, tilts, flat, covariance_inverse, iterations):
    """M-step over all rows; returns the sum of their ``w A w / 2 - b w``."""
    work = np.empty((6 + 2 * LATE, W.shape[1]))
    total, late = 0.0, 0
    for i in range(W.shape[0]):
        value, _, late = sweep_row(
            i, W, inverse, moments_[i], tilts[i], flat[i], covariance_inverse, iterations, work, late
        )
        total += value
    catch_up(inverse, work, late)
    return total
