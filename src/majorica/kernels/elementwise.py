"""Element-wise formulas of the built-in densities for one component's samples, compiled.

Rows are contiguous, so each loop vectorises; the choice of the formula is
made once a row. Only reassociation and contraction of floating-point
operations are allowed: NaN and infinity keep their meaning.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.densities.base import CLIPPED, LOGCOSH, STUDENT

FAST = {"reassoc", "contract", "nsz"}
LOG2 = math.log(2.0)


@nb.njit(nogil=True, cache=True, inline="always")
def _log_cosh(y):
    size = abs(y)
    if size < 1:
        half = math.sinh(0.5 * size)
        return math.log1p(2 * half * half)
    return size + math.log1p(math.exp(-2 * size)) - LOG2


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def statistics_row(y, score, code, shape):
    """Fill `score` with G'(y); return the sums of G, G'', y^2 and G'' y^2."""
    kind = y.dtype.type
    zero = kind(0)
    loss, curvature, power, diagonal = zero, zero, zero, zero
    if code == CLIPPED:
        alpha, beta, d = kind(shape[0]), kind(shape[1]), kind(shape[2])
        half, inner = kind(0.5), kind(shape[0] + shape[1])
        for t in range(y.size):
            value = y[t]
            square = value * value
            clipped = min(max(value, -d), d)
            score[t] = alpha * value + beta * clipped
            loss += half * alpha * square + beta * clipped * (value - half * clipped)
            second = inner if clipped == value else alpha
            curvature += second
            power += square
            diagonal += second * square
    elif code == LOGCOSH:
        for t in range(y.size):
            value = y[t]
            square = value * value
            s = kind(math.tanh(value))
            second = kind(1) - s * s
            score[t] = s
            loss += kind(_log_cosh(value))
            curvature += second
            power += square
            diagonal += second * square
    elif code == STUDENT:
        dof = kind(shape[0])
        for t in range(y.size):
            value = y[t]
            square = value * value
            u = (dof + kind(1)) / (dof + square)
            second = u * (dof - square) / (dof + square)
            score[t] = u * value
            loss += kind(0.5) * (dof + kind(1)) * kind(math.log1p(square / dof))
            curvature += second
            power += square
            diagonal += second * square
    else:
        m = kind(shape[0])
        for t in range(y.size):
            value = y[t]
            square = value * value
            s = kind(math.tanh(m * value))
            second = kind(1) - m * m * (kind(1) - s * s)
            score[t] = value - m * s
            loss += kind(0.5) * square - kind(_log_cosh(m * value))
            curvature += second
            power += square
            diagonal += second * square
    return loss, curvature, power, diagonal


@nb.njit(nogil=True, cache=True, inline="always")
def majorizer(y, code, a, b, d):
    """Weight, tilt and offset of the majorizer that touches G at `y`."""
    if code == CLIPPED:
        size = abs(y)
        inside = min(size, d)
        if b >= 0:
            return a + b * (d / max(d, size)), 0.0, 0.5 * b * inside * (size - inside)
        return a, -b * min(max(y, -d), d), -0.5 * b * inside * inside
    if code == LOGCOSH:
        size = abs(y)
        if size < 1e-2:
            square = size * size
            return 1 - square / 3 + 2 * square * square / 15, 0.0, square * square / 12
        s = math.tanh(size)
        return s / size, 0.0, _log_cosh(y) - 0.5 * s * size
    if code == STUDENT:
        square = y * y
        u = (a + 1) / (a + square)
        return u, 0.0, 0.5 * (a + 1) * math.log1p(square / a) - 0.5 * u * square
    s = a * math.tanh(a * y)
    return 1.0, s, s * y - _log_cosh(a * y)


@nb.njit(nogil=True, cache=True)
def majorizer_rows(Y, codes, shapes, weights, tilts, offsets):
    """Weights and tilts ``(p, m)`` of the majorizers that touch at `Y` ``(p, m)``; adds the offsets' sums."""
    kind = Y.dtype.type
    for i in range(Y.shape[0]):
        code = codes[i]
        a, b, d = shapes[i, 0], shapes[i, 1], shapes[i, 2]
        total = 0.0
        if code == CLIPPED and b >= 0:
            for t in range(Y.shape[1]):
                size = abs(Y[i, t])
                inside = min(size, kind(d))
                weights[i, t] = kind(a) + kind(b) * (kind(d) / max(kind(d), size))
                tilts[i, t] = kind(0)
                total += inside * (size - inside)
            offsets[i] += 0.5 * b * total
        else:
            for t in range(Y.shape[1]):
                w, slope, r = majorizer(np.float64(Y[i, t]), code, a, b, d)
                weights[i, t] = kind(w)
                tilts[i, t] = kind(slope)
                total += r
            offsets[i] += total
