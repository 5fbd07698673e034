"""Element-wise formulas of the built-in densities for one component's samples, compiled.

Rows are contiguous, so each loop vectorises; the choice of the formula is
made once a row. Only reassociation and contraction of floating-point
operations are allowed: NaN and infinity keep their meaning.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.densities.base import CLIPPED, LOGCOSH, PIECEWISE, STUDENT
from majorica.densities.piecewise import KNOTS

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "ab40e21775f5b2f7"
FAST = {"reassoc", "contract", "nsz"}
LOG2 = math.log(2.0)
D1, D2, D3, D4 = (float(knot) for knot in KNOTS)


@nb.njit(nogil=True, cache=True, inline="always")
def _log_cosh(y):
    size = abs(y)
    if size < 1:
        half = math.sinh(0.5 * size)
        return math.log1p(2 * half * half)
    return size + math.log1p(math.exp(-2 * size)) - LOG2


@nb.njit(nogil=True, cache=True, fastmath={"contract"}, forceinline=True)
def exponentials(x, top, work):
    """``exp(x - top)`` in place, for `x` of at most `top`; to 2e-16, where the library's function does not vectorise.

    Powers of two are split off by adding 1.5 * 2^52, which rounds; that must
    not be reassociated, and a function without flags takes those of its
    caller, hence flags of its own. `work` is as long as `x`.
    """
    bits = work.view(np.int64)
    for a in range(x.size):
        x[a] = max(x[a] - top, -700.0)
        work[a] = x[a] * 1.4426950408889634 + 6755399441055744.0
    for a in range(x.size):
        power = work[a] - 6755399441055744.0
        r = (x[a] - power * 6.93147180369123816490e-01) - power * 1.90821492927058770002e-10
        low = ((1 / 5040 * r + 1 / 720) * r + 1 / 120) * r + 1 / 24
        high = ((1 / 6227020800 * r + 1 / 479001600) * r + 1 / 39916800) * r + 1 / 3628800
        high = ((high * r + 1 / 362880) * r + 1 / 40320) * (r * r * r * r) + low
        x[a] = (((high * r + 1 / 6) * r + 0.5) * r + 1.0) * r + 1.0
        bits[a] = (bits[a] << 52) + (1023 << 52)
    for a in range(x.size):
        x[a] *= work[a]


@nb.njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def smooth_row(y, score, code, shape):
    """Fill `score` with G'(y) of a smooth density; return the sums of G, G'', y^2 and G'' y^2."""
    kind = y.dtype.type
    zero = kind(0)
    loss, curvature, power, diagonal = zero, zero, zero, zero
    if code == LOGCOSH:
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
def piece(size, k0, j1, j2, j3, j4):
    """The linear piece of a score that ``abs(y)`` falls in: ``G' = slope |y| + intercept`` and G's constant there.

    G is ``slope y^2 / 2 + intercept |y| + level``; j1 to j4 are the jumps of
    the slope at the knots. No differences of large numbers, whatever y.
    """
    slope, intercept, level = k0, 0 * k0, 0 * k0
    if size > D1:
        slope += j1
        intercept -= j1 * D1
        level += j1 * (0.5 * D1 * D1)
    if size > D2:
        slope += j2
        intercept -= j2 * D2
        level += j2 * (0.5 * D2 * D2)
    if size > D3:
        slope += j3
        intercept -= j3 * D3
        level += j3 * (0.5 * D3 * D3)
    if size > D4:
        slope += j4
        intercept -= j4 * D4
        level += j4 * (0.5 * D4 * D4)
    return slope, intercept, level


@nb.njit(nogil=True, cache=True, inline="always")
def select_piece(size, k0, j1, j2, j3, j4, kind):
    """:func:`piece` in the precision `kind`, without branches."""
    b1, b2 = j1 if size > kind(D1) else kind(0), j2 if size > kind(D2) else kind(0)
    b3, b4 = j3 if size > kind(D3) else kind(0), j4 if size > kind(D4) else kind(0)
    slope = k0 + b1 + b2 + b3 + b4
    intercept = -(b1 * kind(D1) + b2 * kind(D2) + b3 * kind(D3) + b4 * kind(D4))
    level = b1 * kind(0.5 * D1 * D1) + b2 * kind(0.5 * D2 * D2) + b3 * kind(0.5 * D3 * D3) + b4 * kind(0.5 * D4 * D4)
    return slope, intercept, level


@nb.njit(nogil=True, cache=True)
def majorizer(y, code, shape):
    """Weight, tilt and offset of the majorizer that touches G at `y`."""
    a, b, d = shape[0], shape[1], shape[2]
    if code == PIECEWISE:
        size = abs(y)
        slope, intercept, level = piece(size, a, b - a, d - b, shape[3] - d, shape[4] - shape[3])
        flat = shape[5]
        if flat > 0:
            score = slope * size + intercept
            return flat, flat * y - (score if y >= 0 else -score), 0.5 * (flat - slope) * size * size + level
        return slope + intercept / max(size, D1), 0.0, 0.5 * intercept * size + level
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


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _piecewise_majorizer_row(y, shape, weights, tilts):
    """Weights and tilts of a piecewise-linear score's majorizers; returns the offsets' sum."""
    kind = y.dtype.type
    k0, flat, half, near = kind(shape[0]), kind(shape[5]), kind(0.5), kind(D1)
    j1, j2 = kind(shape[1] - shape[0]), kind(shape[2] - shape[1])
    j3, j4 = kind(shape[3] - shape[2]), kind(shape[4] - shape[3])
    total = kind(0)
    if flat > 0:
        for t in range(y.size):
            size = abs(y[t])
            slope, intercept, level = select_piece(size, k0, j1, j2, j3, j4, kind)
            weights[t] = flat
            tilts[t] = (flat - slope) * y[t] - (intercept if y[t] > 0 else -intercept)
            total += half * (flat - slope) * size * size + level
        return total
    for t in range(y.size):
        size = abs(y[t])
        slope, intercept, level = select_piece(size, k0, j1, j2, j3, j4, kind)
        weights[t] = slope + intercept / (size if size > near else near)
        tilts[t] = kind(0)
        total += half * intercept * size + level
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", forceinline=True)
def _clipped_majorizer_row(y, shape, weights, tilts):
    """Weights and tilts of a super-Gaussian clipped-linear score's majorizers; returns the offsets' sum."""
    kind = y.dtype.type
    a, b, d, zero = kind(shape[0]), kind(shape[1]), kind(shape[2]), kind(0)
    total = zero
    for t in range(y.size):
        size = abs(y[t])
        inside = size if size < d else d
        weights[t] = a + b * (d / (size if size > d else d))
        tilts[t] = zero
        total += inside * (size - inside)
    return kind(0.5) * b * total


@nb.njit(nogil=True, cache=True)
def majorizer_rows(Y, codes, shapes, weights, tilts, offsets):
    """Weights and tilts ``(p, m)`` of the majorizers that touch at `Y` ``(p, m)``; adds the offsets' sums."""
    kind = Y.dtype.type
    for i in range(Y.shape[0]):
        code = codes[i]
        shape = shapes[i]
        total = 0.0
        if code == CLIPPED and shape[1] >= 0:
            offsets[i] += _clipped_majorizer_row(Y[i], shape, weights[i], tilts[i])
        elif code == PIECEWISE:
            offsets[i] += _piecewise_majorizer_row(Y[i], shape, weights[i], tilts[i])
        else:
            for t in range(Y.shape[1]):
                w, slope, r = majorizer(np.float64(Y[i, t]), code, shape)
                weights[i, t] = kind(w)
                tilts[i, t] = kind(slope)
                total += r
            offsets[i] += total
