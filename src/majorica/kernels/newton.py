"""Quasi-Newton algebra in relative coordinates, compiled: what small problems spend their time on.

Twins in plain NumPy: :mod:`majorica.solvers.progressive.quasinewton`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.algebra import log_determinant
from majorica.kernels.elementwise import FAST
from majorica.kernels.machine import keep_short
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "d48f704038447b4a"


@nb.njit(nogil=True, cache=True, error_model="numpy")
def digest(W, n, loss, gradient, curvature, power, diagonal, log_normalisers, floor, relative, upper, M):
    """Fill `relative` with the relative gradient and `upper` with the entries of the 2 x 2 blocks of the Hessian.

    The blocks' smallest eigenvalues are raised to `floor`. `M` (p, p) is room
    to work in. Returns the loss and the largest entry of the relative gradient. One call instead of ten,
    and one function, as each takes its time to compile: twins are ``loss_of``,
    ``relative_gradient_of`` and ``block_curvature`` of :mod:`majorica.solvers.progressive.quasinewton`.
    """
    keep_short()
    p, largest, total = W.shape[0], 0.0, 0.0
    for i in range(p):
        total += loss[i] / n + log_normalisers[i]
        for j in range(p):
            entry = gradient[i, j] / n - (1.0 if i == j else 0.0)
            relative[i, j] = entry
            if not abs(entry) <= largest and largest == largest:  # NaN stays
                largest = abs(entry)
        upper[i, i] = max(diagonal[i] / n + 1, floor)
        for j in range(i):
            a = (curvature[i] / n) * (power[j] / n)
            b = (curvature[j] / n) * (power[i] / n)
            smallest = 0.5 * (a + b - math.sqrt((a - b) ** 2 + 4))
            lift = max(0.0, floor - smallest)
            upper[i, j] = a + lift
            upper[j, i] = b + lift
    return total - log_determinant(W, M), largest


@nb.njit(nogil=True, cache=True, error_model="numpy")
def block_solve(upper, gradient, out):
    """Fill `out` with the blocks solved for `gradient`."""
    p = upper.shape[0]
    for i in range(p):
        out[i, i] = gradient[i, i] / upper[i, i]
        for j in range(i):
            determinant = upper[i, j] * upper[j, i] - 1
            out[i, j] = (upper[j, i] * gradient[i, j] - gradient[j, i]) / determinant
            out[j, i] = (upper[i, j] * gradient[j, i] - gradient[i, j]) / determinant


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def descent_direction(gradient, upper, steps, changes, count, newest, out, q, weights):
    """L-BFGS with the block Hessian inside; fills `out` and returns the gain the block Hessian promises.

    `steps` and `changes` (m, p, p) are ring buffers with `count` pairs, the
    latest at `newest`; `q` (p, p) and `weights` (2, m) are room to work in.
    Loops are quicker to compile than NumPy's calls, and to run where
    components are few.
    """
    p, length = gradient.shape[0], steps.shape[0]
    gain = 0.0
    block_solve(upper, gradient, out)
    for i in range(p):
        for j in range(p):
            q[i, j] = -gradient[i, j]
            gain += 0.5 * gradient[i, j] * out[i, j]
    for r in range(count):  # the latest first
        at = (newest - r) % length
        along, curvature = 0.0, 0.0
        for i in range(p):
            step, change, row = steps[at, i], changes[at, i], q[i]
            for j in range(p):
                along += step[j] * row[j]
                curvature += step[j] * change[j]
        weight = along / curvature
        weights[0, r], weights[1, r] = weight, 1 / curvature
        for i in range(p):
            change, row = changes[at, i], q[i]
            for j in range(p):
                row[j] -= weight * change[j]
    block_solve(upper, q, out)
    for r in range(count - 1, -1, -1):
        at = (newest - r) % length
        along = 0.0
        for i in range(p):
            change, row = changes[at, i], out[i]
            for j in range(p):
                along += change[j] * row[j]
        weight = weights[0, r] - weights[1, r] * along
        for i in range(p):
            step, row = steps[at, i], out[i]
            for j in range(p):
                row[j] += weight * step[j]
    return gain


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _spectral_norm(E, iterations, work):
    keep_short()
    p = E.shape[0]
    best, at = 0.0, 0
    for j in range(p):
        size = 0.0
        for i in range(p):
            size += E[i, j] * E[i, j]
        if size > best:
            best, at = size, j
    norm = math.sqrt(best)
    v, after = work[0], work[1]
    for j in range(p):
        v[j] = 1.0 if j == at else 0.0
    for _ in range(iterations):
        for j in range(p):
            after[j] = 0.0
        for i in range(p):  # E^T E v, a row of E at a time
            row, u = E[i], 0.0
            for j in range(p):
                u += row[j] * v[j]
            for j in range(p):
                after[j] += u * row[j]
        size = 0.0
        for j in range(p):
            size += after[j] * after[j]
        size = math.sqrt(size)
        if not size > 0:
            break
        norm = max(norm, math.sqrt(size))
        for j in range(p):
            v[j] = after[j] / size
    return norm


def spectral_norm(E: F64, iterations: int) -> float:
    """A lower estimate of the largest singular value, by power iteration from the largest column."""
    return float(_spectral_norm(E, iterations, np.empty((2, len(E)))))
