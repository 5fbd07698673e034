"""The M-step compiled: each row by truncated conjugate gradient, and the inverse of `W` behind it.

Moments are symmetric: their upper triangle alone is read. Twin: improve_row
and sweep of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.elementwise import FAST

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "6d8a0d5194e76305"


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
def _apply_upper(A, v, out):
    """``out = A v`` for a symmetric `A` of which only the upper triangle is read: half the memory, once."""
    k = v.size
    whole = k // 4 * 4
    for j in range(k):
        out[j] = 0.0
    for a in range(0, whole, 4):
        v0, v1, v2, v3 = v[a], v[a + 1], v[a + 2], v[a + 3]
        row0, row1, row2, row3 = A[a, a:], A[a + 1, a:], A[a + 2, a:], A[a + 3, a:]
        total0 = row0[0] * v0 + row0[1] * v1 + row0[2] * v2 + row0[3] * v3
        total1 = row0[1] * v0 + row1[1] * v1 + row1[2] * v2 + row1[3] * v3
        total2 = row0[2] * v0 + row1[2] * v1 + row2[2] * v2 + row2[3] * v3
        total3 = row0[3] * v0 + row1[3] * v1 + row2[3] * v2 + row3[3] * v3
        row0, row1, row2, row3, right, below = row0[4:], row1[4:], row2[4:], row3[4:], v[a + 4 :], out[a + 4 :]
        for j in range(right.size):
            x0, x1, x2, x3 = row0[j], row1[j], row2[j], row3[j]
            total0 += x0 * right[j]
            total1 += x1 * right[j]
            total2 += x2 * right[j]
            total3 += x3 * right[j]
            below[j] += x0 * v0 + x1 * v1 + x2 * v2 + x3 * v3
        out[a] += total0
        out[a + 1] += total1
        out[a + 2] += total2
        out[a + 3] += total3
    for a in range(whole, k):
        out[a] += A[a, a] * v[a]
        for j in range(a + 1, k):
            out[a] += A[a, j] * v[j]
            out[j] += A[a, j] * v[a]


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def improve(A, w, c, iterations, work):
    """Fill ``work[0]`` with the row; reads the upper triangle of `A`. `work` is (5, k) at least."""
    k = w.size
    z, Az, residual, direction, Ad = work[0], work[1], work[2], work[3], work[4]
    _apply_upper(A, w, Az)
    t = _dot(c, w) / _dot(w, Az)
    size = 0.0
    for j in range(k):
        z[j] = t * w[j]
        Az[j] *= t
        residual[j] = c[j] - Az[j]
        direction[j] = residual[j]
        size += residual[j] * residual[j]
    for _ in range(iterations):
        _apply_upper(A, direction, Ad)
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
def _follow_inverse(inverse, column, change, step, product):
    """``inverse -= column change``, then ``product = step inverse``: one reading for both."""
    p = change.size
    for k in range(p):
        product[k] = 0.0
    whole = p // 2 * 2
    for j in range(0, whole, 2):
        row0, row1 = inverse[j], inverse[j + 1]
        c0, c1, s0, s1 = column[j], column[j + 1], step[j], step[j + 1]
        for k in range(p):
            x0, x1 = row0[k] - c0 * change[k], row1[k] - c1 * change[k]
            row0[k], row1[k] = x0, x1
            product[k] += s0 * x0 + s1 * x1
    for j in range(whole, p):
        row0, c0, s0 = inverse[j], column[j], step[j]
        for k in range(p):
            x0 = row0[k] - c0 * change[k]
            row0[k] = x0
            product[k] += s0 * x0


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def sweep_row(i, W, inverse, A, tilt, flat, covariance_inverse, iterations, work, late):
    """M-step of row `i`; returns ``w A w / 2 - b w`` after it and what log|det W| grew by, and the next `late`.

    `work` is (10, k). The inverse is late by the product of ``work[late]`` (a
    column) and ``work[late + 1]``, which the next row subtracts as it reads the
    inverse anyway; begin with zeros and end with :func:`catch_up`.
    """
    p = W.shape[0]
    w, row, column, change = W[i], work[0], work[late], work[late + 1]
    after = 6 if late == 8 else 8
    c = work[after]
    for j in range(p):
        c[j] = inverse[j, i] - column[j] * change[i]
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
        step = work[4]
        for j in range(p):
            step[j] = (row[j] - w[j]) / pivot
            w[j] = row[j]
        _follow_inverse(inverse, column, change, step, work[after + 1])
        late = after
        if not flat > 0:
            return 0.5, growth, late
    _apply_upper(A, w, work[1])
    return 0.5 * _dot(w, work[1]) - _dot(tilt, w), growth, late


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def catch_up(inverse, work, late):
    """Bring `inverse` up to date after the last row, and `work` to where a sweep begins; returns its `late`."""
    column, change = work[late], work[late + 1]
    for j in range(inverse.shape[0]):
        row, c = inverse[j], column[j]
        for k in range(row.size):
            row[k] -= c * change[k]
    for j in range(column.size):
        column[j], change[j] = 0.0, 0.0
    return late


@nb.njit(nogil=True, cache=True)
def sweep_rows(W, inverse, moments_, tilts, flat, covariance_inverse, iterations):
    """M-step over all rows; returns the sum of their ``w A w / 2 - b w``."""
    work = np.zeros((10, W.shape[1]))
    total, late = 0.0, 8
    for i in range(W.shape[0]):
        value, _, late = sweep_row(
            i, W, inverse, moments_[i], tilts[i], flat[i], covariance_inverse, iterations, work, late
        )
        total += value
    catch_up(inverse, work, late)
    return total
