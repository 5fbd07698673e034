"""The M-step compiled: each row by truncated conjugate gradient, and the inverse of `W` behind it.

Moments are symmetric: about half of them are read. Twin: improve_row and sweep
of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.elementwise import FAST
from majorica.kernels.rows import add_rows, apply_symmetric, padded
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "c5c072fd805b0dad"
#: Components below which the inverse is never late.
SHORT = 9
#: Rows by which the inverse may be late.
LATE = 8


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@nb.njit(nogil=True, cache=True)
def make_work(k):
    """The rows that :func:`improve` and :func:`sweep_row` work in, with room behind each for whole vectors."""
    return np.empty((6 + 2 * LATE, padded(k)))


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def improve(A, w, c, iterations, work):
    """Fill ``work[0]`` with the row; reads what :func:`apply_symmetric` does. `work` is that of :func:`make_work`."""
    k = w.size
    A, work = borrow(A).reshape(A.size), borrow(work)
    z, Az, residual, direction, Ad = work[0, :k], work[1, :k], work[2, :k], work[3, :k], work[4, :k]
    apply_symmetric(A, k, w, work[1])
    t = _dot(c, w) / _dot(w, Az)
    size = 0.0
    for j in range(k):
        z[j] = t * w[j]
        Az[j] *= t
        residual[j] = c[j] - Az[j]
        direction[j] = residual[j]
        size += residual[j] * residual[j]
    for _ in range(iterations):
        apply_symmetric(A, k, direction, work[4])
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
    p, size = inverse.shape[0], work.shape[1]
    numbers, inverse = borrow(work).reshape(work.size), borrow(inverse).reshape(inverse.size)
    for j in range(p):
        add_rows(numbers, (6 + LATE) * size, size, late, numbers, 6 * size + j, size, p, inverse, j * p)
    return 0


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def sweep_row(i, W, inverse, A, tilt, flat, covariance_inverse, iterations, work, late):
    """M-step of row `i`; returns ``w A w / 2 - b w`` after it and what log|det W| grew by, and the next `late`.

    The inverse stays as it was `late` rows ago: to it belong so many products
    of a column ``work[6 + r]`` and a row ``work[6 + LATE + r]``, added together
    by :func:`catch_up` now and then, and at the end. `work` is that of :func:`make_work`.
    """
    p, size = W.shape[0], work.shape[1]
    work, inverse, numbers = borrow(work), borrow(inverse), borrow(work).reshape(work.size)
    w, row, c = borrow(W)[i], work[0, :p], work[5, :p]
    for j in range(p):
        c[j] = inverse[j, i]
    add_rows(numbers, 6 * size, size, late, numbers, (6 + LATE) * size + i, size, p, numbers, 5 * size)
    if flat > 0:
        C, z1, z2 = borrow(covariance_inverse).reshape(p * p), work[1, :p], work[2, :p]
        apply_symmetric(C, p, tilt, work[1])
        apply_symmetric(C, p, c, work[2])
        t, s = _dot(c, z1) / flat, _dot(c, z2) / flat
        tau = 0.5 * (t + math.copysign(math.sqrt(t * t + 4 * s), t))
        for j in range(p):
            row[j] = (z1[j] + z2[j] / tau) / flat
    else:
        improve(A, w, c, iterations, work)
    pivot, growth = _dot(c, row), 0.0  # det W grows by the factor `pivot`
    if np.isfinite(pivot) and np.isfinite(_dot(row, row)) and abs(pivot) > 1e-12:
        growth = math.log(abs(pivot))
        step, column, change = work[4, :p], work[6 + late, :p], work[6 + LATE + late, :p]
        shares = work[3]
        for j in range(p):
            step[j] = (row[j] - w[j]) / pivot
            w[j] = row[j]
            column[j] = -c[j]
            change[j] = 0.0
        for r in range(late):
            shares[r] = _dot(step, work[6 + r, :p])
        to = (6 + LATE + late) * size
        add_rows(borrow(inverse).reshape(p * p), 0, p, p, step, 0, 1, p, numbers, to)
        add_rows(numbers, (6 + LATE) * size, size, late, shares, 0, 1, p, numbers, to)
        late += 1
        if late == LATE or p < SHORT:
            late = catch_up(inverse, work, late)
        if not flat > 0:
            return 0.5, growth, late
    apply_symmetric(borrow(A).reshape(p * p), p, w, work[1])
    return 0.5 * _dot(w, work[1, :p]) - _dot(tilt, w), growth, late


@nb.njit(nogil=True, cache=True)
def sweep_rows(W, inverse, moments_, tilts, flat, covariance_inverse, iterations):
    """M-step over all rows; returns the sum of their ``w A w / 2 - b w``."""
    work = make_work(W.shape[1])
    total, late = 0.0, 0
    for i in range(W.shape[0]):
        value, _, late = sweep_row(
            i, W, inverse, moments_[i], tilts[i], flat[i], covariance_inverse, iterations, work, late
        )
        total += value
    catch_up(inverse, work, late)
    return total
