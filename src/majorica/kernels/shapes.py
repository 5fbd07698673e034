"""Maximum-likelihood slopes of the adaptive densities, compiled.

The density of :mod:`majorica.densities.piecewise` is an exponential family in
its slopes k: a source's normalised loss is ``k . t + log Z(k)`` with t the
sample means of five basis functions. That is convex in k, so a projected
Newton method in a box finds the best slopes of a source from five numbers.

Two nested families: the *coarse* one has two free numbers (slopes at the
centre and in the tail, in between as the slopes of tanh), the *fine* one all
five. Both contain the Gaussian.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numba as nb
import numpy as np

from majorica.densities.piecewise import KNOTS, Piecewise
from majorica.kernels.elementwise import FAST, exponentials

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "3533b0924d398d54"
SLOPE_MIN, SLOPE_MAX, TAIL_MIN = -30.0, 60.0, 1e-3
#: A fit of slopes ends when what is left is below this over n: far below what n samples can tell.
FIT_TOLERANCE = 0.02
#: Nats a source must gain for each extra slope, times log n / n, to leave the coarse family.
GATE = 0.75

_EDGES = np.concatenate([[0.0], KNOTS])


def basis(size: np.ndarray) -> np.ndarray:
    """The five basis functions at ``abs(y)``, ``(5, ...)``: G = sum of slopes times these."""
    ramps = [0.5 * np.maximum(size - edge, 0.0) ** 2 for edge in _EDGES]
    return np.stack([ramps[m] - (ramps[m + 1] if m < 4 else 0.0) for m in range(5)])


def _inner_quadrature() -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(24)
    nodes = [0.5 * (high - low) * (x + 1) + low for low, high in pairwise(_EDGES)]
    weights = [(high - low) * w for low, high in pairwise(_EDGES)]
    return np.concatenate(nodes), np.log(np.concatenate(weights))


def _tied() -> np.ndarray:
    """Slopes of the coarse family: ``k = (centre, tail) @ TIED``, a piecewise-linear tanh in between."""
    d = np.concatenate([_EDGES, [2 * KNOTS[-1]]])
    tau = np.diff(np.tanh(d)) / np.diff(d)
    share = (tau - tau[-1]) / (tau[0] - tau[-1])
    return np.array([share, 1 - share])


_INNER, _INNER_LOG_WEIGHTS = _inner_quadrature()
_INNER_BASIS = np.ascontiguousarray(basis(_INNER))
_TAIL_NODES, _TAIL_WEIGHTS = np.polynomial.legendre.leggauss(64)
_TAIL_LOG_WEIGHTS = np.log(_TAIL_WEIGHTS)
TIED = np.ascontiguousarray(_tied())
FREE = np.eye(5)
#: Coarse shapes (centre, tail) to start a fit from, with their slopes and log normalisers.
_STARTS = np.array(
    [[1.4, 0.6], [1.8, 0.1], [2.5, 0.01], [5.0, 0.01], [0.3, 1.6], [-1.0, 4.0], [-5.0, 15.0], [-19.0, 50.0]]
)
_START_SLOPES = np.ascontiguousarray(_STARTS @ TIED)
_START_LOG_Z = np.array([Piecewise(tuple(float(k) for k in slopes)).log_normaliser for slopes in _START_SLOPES])
_D1, _D2, _D3, _D4 = (float(knot) for knot in KNOTS)


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def log_partition(k, mean, covariance):
    """``log Z`` of slopes `k`; fills the model's mean and covariance of the basis."""
    inner, tail = _INNER.size, _TAIL_NODES.size
    total = inner + tail
    B, e, work = np.empty((5, total)), np.empty(total), np.empty(total)
    b0, b1, b2, b3, b4 = B[0], B[1], B[2], B[3], B[4]
    k0, k1, k2, k3, k4 = k[0], k[1], k[2], k[3], k[4]
    for m in range(5):
        for a in range(inner):
            B[m, a] = _INNER_BASIS[m, a]
    for a in range(inner):
        e[a] = _INNER_LOG_WEIGHTS[a]
    score = k0 * _D1 + k1 * (_D2 - _D1) + k2 * (_D3 - _D2) + k3 * (_D4 - _D3)
    if score >= 0:  # the tail falls from the last knot on: cut it 40 nats below
        low, high = 0.0, 80.0 / (score + math.sqrt(score * score + 80.0 * k4))
    else:  # it has a hump: nine standard deviations around it
        width = 9.0 / math.sqrt(k4)
        low, high = max(0.0, -score / k4 - width), -score / k4 + width
    log_width = math.log(high - low)
    for a in range(tail):
        s = low + 0.5 * (high - low) * (_TAIL_NODES[a] + 1)
        size = _D4 + s
        r0, r1, r2, r3, r4 = size * size, (size - _D1) ** 2, (size - _D2) ** 2, (size - _D3) ** 2, s * s
        at = inner + a
        b0[at], b1[at], b2[at], b3[at] = 0.5 * (r0 - r1), 0.5 * (r1 - r2), 0.5 * (r2 - r3), 0.5 * (r3 - r4)
        b4[at] = 0.5 * r4
        e[at] = log_width + _TAIL_LOG_WEIGHTS[a]
    top = -np.inf
    for a in range(total):
        e[a] -= k0 * b0[a] + k1 * b1[a] + k2 * b2[a] + k3 * b3[a] + k4 * b4[a]
        top = max(top, e[a])
    exponentials(e, top, work)
    z, m0, m1, m2, m3, m4 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(total):
        z += e[a]
        m0 += e[a] * b0[a]
        m1 += e[a] * b1[a]
        m2 += e[a] * b2[a]
        m3 += e[a] * b3[a]
        m4 += e[a] * b4[a]
    mean[0], mean[1], mean[2], mean[3], mean[4] = m0 / z, m1 / z, m2 / z, m3 / z, m4 / z
    for m in range(5):
        for a in range(total):
            B[m, a] -= mean[m]
    for m in range(5):  # a row of the covariance in one go
        c0, c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0, 0.0
        row = B[m]
        for a in range(total):
            weighted = e[a] * row[a]
            c0 += weighted * b0[a]
            c1 += weighted * b1[a]
            c2 += weighted * b2[a]
            c3 += weighted * b3[a]
            c4 += weighted * b4[a]
        full = covariance[m]
        full[0], full[1], full[2], full[3], full[4] = c0 / z, c1 / z, c2 / z, c3 / z, c4 / z
    return top + math.log(z)


@nb.njit(nogil=True, cache=True)
def _solve(A, b, x):
    """Fill `x` with the solution of ``A x = b`` by elimination with row exchanges; for a few unknowns.

    LAPACK's is as good, but takes seconds to compile.
    """
    size = b.size
    M = np.empty((size, size + 1))
    for a in range(size):
        for c in range(size):
            M[a, c] = A[a, c]
        M[a, size] = b[a]
    for a in range(size):
        pivot = a
        for r in range(a + 1, size):
            if abs(M[r, a]) > abs(M[pivot, a]):
                pivot = r
        for c in range(size + 1):
            M[a, c], M[pivot, c] = M[pivot, c], M[a, c]
        for r in range(a + 1, size):
            factor = M[r, a] / M[a, a]
            for c in range(a, size + 1):
                M[r, c] -= factor * M[a, c]
    for a in range(size - 1, -1, -1):
        total = M[a, size]
        for c in range(a + 1, size):
            total -= M[a, c] * x[c]
        x[a] = total / M[a, a]


@nb.njit(nogil=True, cache=True)
def _stay_inside(H, g, x, low, high, step):
    """Where a Newton step leaves the box, end it on the face and solve again for the rest; `step` in place."""
    size = x.size
    held = np.zeros(size, np.bool_)
    for _ in range(size):
        found = False
        for m in range(size):
            if not held[m] and not low[m] <= x[m] + step[m] <= high[m]:
                step[m] = (low[m] if x[m] + step[m] < low[m] else high[m]) - x[m]
                held[m] = found = True
        if not found:
            return
        A, rhs = H.copy(), np.empty(size)
        for m in range(size):
            rhs[m] = -g[m]
            if held[m]:
                for o in range(size):
                    A[m, o] = 0.0
                A[m, m] = 1.0
                rhs[m] = step[m]
        _solve(A, rhs, step)


@nb.njit(nogil=True, cache=True)
def _evaluate(t, P, x, k, mean, covariance):
    """Loss and log normaliser of the slopes ``x @ P``, which fill `k`; their basis means and covariance as well."""
    for a in range(5):
        k[a] = 0.0
        for m in range(x.size):
            k[a] += x[m] * P[m, a]
    log_z = log_partition(k, mean, covariance)
    value = log_z
    for a in range(5):
        value += k[a] * t[a]
    return value, log_z


@nb.njit(nogil=True, cache=True)
def _derivatives(t, P, mean, covariance, x, low, high, g, H):
    """Fill gradient and Hessian in x; coordinates that push against their bound are taken out."""
    size = x.size
    for m in range(size):
        g[m] = 0.0
        for a in range(5):
            g[m] += P[m, a] * (t[a] - mean[a])
        for o in range(size):
            H[m, o] = 0.0
            for a in range(5):
                for c in range(5):
                    H[m, o] += P[m, a] * covariance[a, c] * P[o, c]
    for m in range(size):
        H[m, m] = H[m, m] * (1 + 1e-10) + 1e-14
        if (x[m] <= low[m] and g[m] > 0) or (x[m] >= high[m] and g[m] < 0):
            for o in range(size):
                H[m, o] = 0.0
                H[o, m] = 0.0
            H[m, m] = 1.0
            g[m] = 0.0


@nb.njit(nogil=True, cache=True)
def _largest(x):
    """Largest absolute value."""
    largest = 0.0
    for m in range(x.size):
        largest = max(largest, abs(x[m]))
    return largest


@nb.njit(nogil=True, cache=True)
def fit_slopes(t, P, x, tolerance):
    """Minimise ``k . t + log Z(k)`` over ``k = x @ P``, x in its box, by damped projected Newton from `x` (in place).

    Returns the slopes, their loss and their log normaliser.
    """
    size = P.shape[0]
    mean, covariance = np.empty(5), np.empty((5, 5))
    low, high = np.full(size, SLOPE_MIN), np.full(size, SLOPE_MAX)
    low[size - 1] = TAIL_MIN
    for m in range(size):
        x[m] = min(max(x[m], low[m]), high[m])
    k, k_trial, trial = np.empty(5), np.empty(5), np.empty(size)
    g, H = np.empty(size), np.empty((size, size))
    value, log_z = _evaluate(t, P, x, k, mean, covariance)
    damping, width, step = 0.0, SLOPE_MAX - SLOPE_MIN, np.empty(size)
    for _ in range(200):
        _derivatives(t, P, mean, covariance, x, low, high, g, H)
        _solve(H, g, step)
        promise = 0.0
        for m in range(size):
            step[m] = -step[m]
            promise -= g[m] * step[m]
        if not promise > tolerance:
            break
        _stay_inside(H, g, x, low, high, step)
        # where the model has no mass H is singular: damp, towards a short step down the gradient
        least, moved = 1e-3 * _largest(g) / width, False
        for _ in range(60):
            if damping > 0:
                for m in range(size):
                    H[m, m] += damping
                _solve(H, g, step)
                for m in range(size):
                    H[m, m] -= damping
                    step[m] = -step[m]
            length, slope = min(1.0, width / _largest(step)), 0.0
            for m in range(size):
                trial[m] = min(max(x[m] + length * step[m], low[m]), high[m])
                slope += g[m] * (trial[m] - x[m])
            value_trial, log_z_trial = _evaluate(t, P, trial, k_trial, mean, covariance)
            if value_trial < value and value_trial <= value + 1e-4 * min(slope, 0.0):
                moved = True
                break
            damping = max(4 * damping, least)
        if not moved:
            break
        damping = 0.25 * damping if damping > least else 0.0
        for m in range(size):
            x[m] = trial[m]
        for a in range(5):
            k[a] = k_trial[a]
        log_z, value = log_z_trial, value_trial
    return k, value, log_z


@nb.njit(nogil=True, cache=True)
def promised_gain(t, k):
    """What one Newton step over all five slopes from `k` promises."""
    mean, covariance = np.empty(5), np.empty((5, 5))
    log_partition(k, mean, covariance)
    for m in range(5):
        covariance[m, m] = covariance[m, m] * (1 + 1e-10) + 1e-14
    g, step = np.empty(5), np.empty(5)
    for m in range(5):
        g[m] = t[m] - mean[m]
    _solve(covariance, g, step)
    gain = 0.0
    for m in range(5):
        gain += 0.5 * g[m] * step[m]
    return gain


@nb.njit(nogil=True, cache=True)
def best_shape(t, slopes, fine, allow_fine, n, tolerance):
    """Best slopes of one source with basis means `t`, from its present `slopes`; coarse unless `fine` pays.

    Returns slopes, loss, log normaliser and whether they are fine ones.
    """
    if fine:
        k, value, log_z = fit_slopes(t, FREE, slopes.copy(), tolerance)
        return k, value, log_z, True
    start = np.array([slopes[0], slopes[4]])
    if abs(start[0] - start[1]) < 0.2:  # near the Gaussian: the best of a few shapes is nearer
        best = 0.5 * math.log(2 * math.pi) + (t[0] + t[1] + t[2] + t[3] + t[4])
        for a in range(_START_LOG_Z.size):
            value = _START_LOG_Z[a]
            for m in range(5):
                value += _START_SLOPES[a, m] * t[m]
            if value < best:
                best = value
                start[0], start[1] = _STARTS[a, 0], _STARTS[a, 1]
    k, value, log_z = fit_slopes(t, TIED, start, tolerance)
    gate = GATE * math.log(n) * 3 / n
    if allow_fine and promised_gain(t, k) > 0.5 * gate:
        k_fine, value_fine, log_z_fine = fit_slopes(t, FREE, k.copy(), tolerance)
        if value_fine < value - gate:
            return k_fine, value_fine, log_z_fine, True
    return k, value, log_z, False


@nb.njit(nogil=True, cache=True, inline="always")
def refit(T, slopes, log_normalisers, fine, allow_fine, n, least):
    """Refit every source from its basis means `T` (p, 5), in place; each changes only if it gains more than `least`.

    Returns the gain of each source in nats.
    """
    p = T.shape[0]
    gains = np.zeros(p)
    for i in range(p):
        before = log_normalisers[i]
        for m in range(5):
            before += slopes[i, m] * T[i, m]
        k, value, log_z, is_fine = best_shape(T[i], slopes[i], fine[i], allow_fine, n, FIT_TOLERANCE / n)
        if before - value > least:
            gains[i] = before - value
            for m in range(5):
                slopes[i, m] = k[m]
            log_normalisers[i] = log_z
            fine[i] = is_fine
    return gains


@nb.njit(nogil=True, cache=True)
def refit_sums(n, power, ramps, reaches, slopes, log_normalisers, fine, allow_fine, least, loss, gradient):
    """:func:`refit` from a pass's sums; brings the sums `loss` and the diagonal of `gradient` to the new shapes.

    Scores are linear in the slopes, so the sums of ``(abs(y) - knot)_+`` and
    of half its square say what both are at any shape. Twin: ``basis_means``
    and ``diagonal_sums`` of :mod:`majorica.solvers.shapes`.
    """
    p = power.size
    T = np.empty((p, 5))
    for i in range(p):
        above = 0.5 * power[i]
        for m in range(5):
            below = ramps[i, m] if m < 4 else 0.0
            T[i, m] = (above - below) / n
            above = below
    gains = refit(T, slopes, log_normalisers, fine, allow_fine, n, least)
    for i in range(p):
        loss[i] = np.dot(slopes[i], T[i]) * n
        total = slopes[i, 0] * power[i]
        for m in range(4):
            total += (slopes[i, m + 1] - slopes[i, m]) * (2 * ramps[i, m] + KNOTS[m] * reaches[i, m])
        gradient[i, i] = total
    return gains


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def scaled_means(y, scale, t, c):
    """Fill `t` with the means of the five basis functions of ``scale y``, `c` with those of their slopes times it."""
    q0, q1, q2, q3, q4, r1, r2, r3, r4 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(y.size):
        size = abs(scale * y[k])
        t1, t2, t3, t4 = max(size - _D1, 0.0), max(size - _D2, 0.0), max(size - _D3, 0.0), max(size - _D4, 0.0)
        q0 += size * size
        q1 += t1 * t1
        q2 += t2 * t2
        q3 += t3 * t3
        q4 += t4 * t4
        r1 += t1
        r2 += t2
        r3 += t3
        r4 += t4
    n = y.size
    half = 0.5 / n
    t[0], t[1], t[2], t[3], t[4] = half * (q0 - q1), half * (q1 - q2), half * (q2 - q3), half * (q3 - q4), half * q4
    a1, a2, a3, a4 = (q1 + _D1 * r1) / n, (q2 + _D2 * r2) / n, (q3 + _D3 * r3) / n, (q4 + _D4 * r4) / n
    c[0], c[1], c[2], c[3], c[4] = q0 / n - a1, a1 - a2, a2 - a3, a3 - a4, a4


@nb.njit(nogil=True, cache=True)
def sample_means(y):
    """Means of the five basis functions over one source's samples. Twin: ``basis(abs(y)).mean(axis=1)``."""
    means, slopes = np.empty(5), np.empty(5)
    scaled_means(y, 1.0, means, slopes)
    return means


@nb.njit(nogil=True, cache=True)
def shape_table(slopes):
    """What kernels read of piecewise densities: slopes and constant weight ``(p, 6)``, and which are super-Gaussian.

    Twin: :meth:`majorica.densities.table.Densities.piecewise`.
    """
    p = slopes.shape[0]
    table = np.empty((p, 6))
    heavy = np.empty(p, np.bool_)
    for i in range(p):
        intercept, largest, falls = 0.0, slopes[i, 0], True
        table[i, 0] = slopes[i, 0]
        for m in range(1, 5):
            intercept -= (slopes[i, m] - slopes[i, m - 1]) * KNOTS[m - 1]
            falls = falls and intercept >= 0
            largest = max(largest, slopes[i, m])
            table[i, m] = slopes[i, m]
        table[i, 5] = 0.0 if falls else largest
        heavy[i] = falls
    return table, heavy


@nb.njit(nogil=True, cache=True)
def square_correlations(Y):
    """Correlations ``(p, p)`` of the sources' clipped squares, ``min(abs(y) / sd, 2.5)^2``; `Y` is ``(p, m)``.

    Twin: :func:`majorica.solvers.rotations.square_correlations`.
    """
    p, m = Y.shape
    Q = np.empty((p, m))
    for i in range(p):
        mean = Y[i].mean()
        spread = 0.0
        for t in range(m):
            spread += (Y[i, t] - mean) ** 2
        scale = 1 / math.sqrt(spread / m)
        total = 0.0
        for t in range(m):
            size = min(abs(Y[i, t]) * scale, 2.5)
            Q[i, t] = size * size
            total += Q[i, t]
        total /= m
        norm = 0.0
        for t in range(m):
            Q[i, t] -= total
            norm += Q[i, t] * Q[i, t]
        norm = 1 / (math.sqrt(norm) + 1e-300)
        for t in range(m):
            Q[i, t] *= norm
    return np.dot(Q, Q.T)
