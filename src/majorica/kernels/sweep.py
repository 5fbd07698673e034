"""The M-step compiled: each row by truncated conjugate gradient, and the inverse of `W` behind it.

Moments are symmetric: about half of them are read. Twin: improve_row and sweep
of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.kernels.machine import ZERO
from majorica.kernels.rows import LATE, add_rows, advance, apply_symmetric, combine, dot, padded, renew, set_out

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "b7ae0504479e97bc"
#: Rows of `work`: the new row and what belongs to it, the inverse's column, and what the inverse is late by.
NEW_ROW, APPLIED, RESIDUAL, DIRECTION, ALONG, COLUMN, COLUMNS = range(7)
STEPS = COLUMNS + LATE


@nb.njit(nogil=True, cache=True)
def make_work(k):
    """What :func:`improve` and :func:`sweep_row` work in: rows one after the other, then the steps' shares."""
    return np.zeros((STEPS + LATE) * padded(k) + LATE * (LATE + 1))


@nb.njit(nogil=True, cache=True, error_model="numpy")
def improve(A, at, k, w, first, iterations, work):
    """Fill NEW_ROW of `work` with the row better than ``w[first : first + k]``, for the inverse's column in COLUMN.

    `A` (k k,) lies from `at` on and is read by :func:`apply_symmetric`; `work` is that of :func:`make_work`.
    """
    size = padded(k)
    z, Az, residual, direction, Ad, c = (
        NEW_ROW * size, APPLIED * size, RESIDUAL * size, DIRECTION * size, ALONG * size, COLUMN * size,
    )  # fmt: skip
    apply_symmetric(A, at, k, w, first, work, Az)
    t = dot(work, c, w, first, k) / dot(w, first, work, Az, k)
    length = set_out(work, z, Az, residual, direction, c, w, first, t, k)
    for _ in range(iterations):
        apply_symmetric(A, at, k, work, direction, work, Ad)
        curvature = dot(work, direction, work, Ad, k)
        if not (curvature > 0 and length > 0):
            break
        previous, length = length, advance(work, z, Az, residual, direction, Ad, length / curvature, k)
        combine(work, direction, 1.0, work, residual, length / previous, work, direction, k)
    scale = dot(work, z, work, Az, k)
    if scale > 0:
        combine(work, z, 1 / math.sqrt(scale), work, z, 0.0, work, z, k)
    else:
        combine(work, z, 1.0, w, first, 0.0, w, first, k)


@nb.njit(nogil=True, cache=True)
def catch_up(inverse, p, work, late):
    """Bring `inverse` (p p,) up to the rows it is late by; returns 0.

    Row r took `inverse` to ``inverse - c_r (s_r inverse)``: all of them at once
    read it twice, whatever their number.
    """
    size = padded(p)
    shares = (STEPS + LATE) * size
    for r in range(late, LATE):  # no such rows
        for j in range(size):
            work[(COLUMNS + r) * size + j] = work[(STEPS + r) * size + j] = 0.0
        for s in range(r):
            work[shares + r * LATE + s] = 0.0
    if late > 0:
        renew(inverse, p, work, COLUMNS * size, STEPS * size, size, shares)
    return 0


@nb.njit(nogil=True, cache=True, error_model="numpy")
def sweep_row(i, p, W, inverse, moments, tilts, flat, covariance_inverse, iterations, work, late):
    """M-step of row `i`; returns ``w A w / 2 - b w`` after it and what log|det W| grew by, and the next `late`.

    The inverse stays as it was `late` rows ago: of each, `work` has minus its
    column of the inverse, its step (its change over the pivot), and that
    step's shares, its products with the columns before. :func:`catch_up` now
    and then, and at the end. All arrays lie in one row each; `work` is that of :func:`make_work`. An empty
    `covariance_inverse` is the identity, which that of whitened samples is.
    """
    size, w, own, tau = padded(p), i * p, i * p * p, 0.0
    row, c, columns, steps = NEW_ROW * size, COLUMN * size, COLUMNS * size, STEPS * size
    shares = (STEPS + LATE) * size
    factors = shares + LATE * LATE
    for j in range(p):
        work[c + j] = inverse[j * p + i]
    for r in range(late):
        factor = dot(work, steps + r * size, work, c, p)
        for s in range(r):
            factor += work[shares + r * LATE + s] * work[factors + s]
        work[factors + r] = factor
    add_rows(work, columns, size, late, work, factors, 1, p, work, c)
    if flat > 0:
        z1, z2 = APPLIED * size, RESIDUAL * size
        if covariance_inverse.size:
            apply_symmetric(covariance_inverse, ZERO, p, tilts, w, work, z1)
            apply_symmetric(covariance_inverse, ZERO, p, work, c, work, z2)
        else:
            combine(work, z1, 1.0, tilts, w, 0.0, tilts, w, p)
            combine(work, z2, 1.0, work, c, 0.0, work, c, p)
        t, s = dot(work, c, work, z1, p) / flat, dot(work, c, work, z2, p) / flat
        tau = 0.5 * (t + math.copysign(math.sqrt(t * t + 4 * s), t))
        combine(work, row, 1 / flat, work, z1, 1 / (tau * flat), work, z2, p)
    else:
        improve(moments, own, p, W, w, iterations, work)
    pivot, growth = dot(work, c, work, row, p), 0.0  # det W grows by the factor `pivot`
    if np.isfinite(pivot) and np.isfinite(dot(work, row, work, row, p)) and abs(pivot) > 1e-12:
        growth = math.log(abs(pivot))
        step = steps + late * size
        combine(work, step, 1 / pivot, work, row, -1 / pivot, W, w, p)
        combine(W, w, 1.0, work, row, 0.0, work, row, p)
        combine(work, columns + late * size, -1.0, work, c, 0.0, work, c, p)
        for r in range(late):
            work[shares + late * LATE + r] = dot(work, step, work, columns + r * size, p)
        late += 1
        if late == LATE:
            late = catch_up(inverse, p, work, late)
        if not flat > 0:
            return 0.5, growth, late
        return 0.5 * (pivot / tau - dot(tilts, w, W, w, p)), growth, late  # A w = b + c / tau
    apply_symmetric(moments, own, p, W, w, work, APPLIED * size)
    return 0.5 * dot(W, w, work, APPLIED * size, p) - dot(tilts, w, W, w, p), growth, late


@nb.njit(nogil=True, cache=True)
def sweep_rows(W, inverse, moments_, tilts, flat, covariance_inverse, iterations):
    """M-step over all rows; returns the sum of their ``w A w / 2 - b w``."""
    p = W.shape[0]
    work, total, late = make_work(p), 0.0, ZERO
    W, inverse, tilts = W.reshape(p * p), inverse.reshape(p * p), tilts.reshape(p * p)
    moments_, C = moments_.reshape(p * p * p), covariance_inverse.reshape(covariance_inverse.size)
    for i in range(p):
        value, _, late = sweep_row(i, p, W, inverse, moments_, tilts, flat[i], C, iterations, work, late)
        total += value
    catch_up(inverse, p, work, late)
    return total
