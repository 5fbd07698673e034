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

import numba as nb
import numpy as np
import numpy.typing as npt

from majorica.densities.piecewise import KNOTS, Piecewise
from majorica.kernels.elementwise import FAST
from majorica.kernels.machine import keep_short
from majorica.kernels.partition import (
    BEST,
    COVARIANCE,
    D1,
    D2,
    D3,
    D4,
    ELIMINATED,
    FREE,
    GRADIENT,
    HELD,
    HESSIAN,
    LOWEST,
    MEAN,
    SAMPLE,
    SLOPES,
    STEP,
    TIED,
    TRIAL,
    TRIED,
    X,
    log_partition,
    room,
)
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "874d4995136992fc"
SLOPE_MIN, SLOPE_MAX, TAIL_MIN = -30.0, 60.0, 1e-3
#: A fit of slopes ends when what is left is below this over n: far below what n samples can tell.
FIT_TOLERANCE = 0.02
#: Nats a source must gain for each extra slope, times log n / n, to leave the coarse family.
GATE = 0.75

#: Coarse shapes (centre, tail) to start a fit from, with their slopes and log normalisers.
_STARTS = np.array(
    [[1.4, 0.6], [1.8, 0.1], [2.5, 0.01], [5.0, 0.01], [0.3, 1.6], [-1.0, 4.0], [-5.0, 15.0], [-19.0, 50.0]]
)
_START_SLOPES = np.ascontiguousarray(_STARTS @ TIED)
_START_LOG_Z = np.array([Piecewise(tuple(float(k) for k in slopes)).log_normaliser for slopes in _START_SLOPES])


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _derivatives(work, P):
    """Fill GRADIENT and HESSIAN in X; coordinates that push against their bound are taken out."""
    keep_short()
    size = P.shape[0]
    for m in range(size):
        g = 0.0
        for a in range(5):
            g += P[m, a] * (work[SAMPLE, a] - work[MEAN, a])
        work[GRADIENT, m] = g
        for o in range(size):
            h = 0.0
            for a in range(5):
                for c in range(5):
                    h += P[m, a] * work[COVARIANCE + a, c] * P[o, c]
            work[HESSIAN + m, o] = h
    for m in range(size):
        low, x, g = work[LOWEST, m], work[X, m], work[GRADIENT, m]
        work[HESSIAN + m, m] = work[HESSIAN + m, m] * (1 + 1e-10) + 1e-14
        if (x <= low and g > 0) or (x >= SLOPE_MAX and g < 0):
            for o in range(size):
                work[HESSIAN + m, o] = 0.0
                work[HESSIAN + o, m] = 0.0
            work[HESSIAN + m, m] = 1.0
            work[GRADIENT, m] = 0.0


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _solve(work, size, added):
    """Fill STEP with the solution of ``(H + added I) step = -g``, but coordinates that are HELD stay as they are.

    Elimination with row exchanges. LAPACK's is as good, but takes seconds to compile.
    """
    keep_short()
    M = ELIMINATED
    for a in range(size):
        held = work[HELD, a] > 0
        for c in range(size):
            work[M + a, c] = 0.0 if held else work[HESSIAN + a, c]
        work[M + a, a] = 1.0 if held else work[HESSIAN + a, a] + added
        work[M + a, size] = work[STEP, a] if held else -work[GRADIENT, a]
    for a in range(size):
        pivot = a
        for r in range(a + 1, size):
            if abs(work[M + r, a]) > abs(work[M + pivot, a]):
                pivot = r
        for c in range(size + 1):
            work[M + a, c], work[M + pivot, c] = work[M + pivot, c], work[M + a, c]
        for r in range(a + 1, size):
            factor = work[M + r, a] / work[M + a, a]
            for c in range(a, size + 1):
                work[M + r, c] -= factor * work[M + a, c]
    for a in range(size - 1, -1, -1):
        total = work[M + a, size]
        for c in range(a + 1, size):
            total -= work[M + a, c] * work[STEP, c]
        work[STEP, a] = total / work[M + a, a]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def search_slopes(work, P, rising, tolerance, worth):
    """Minimise ``k . t + log Z(k)`` over ``k = x @ P``, x in its box, by damped projected Newton.

    From X on, for the means t in SAMPLE; leaves the slopes in SLOPES. Five
    slopes of a score that is to be `rising` are zero or more but for the
    first. Does not set out if the first step promises less than `worth`.
    Returns their loss and their log normaliser. Whatever is costly to compile
    is written once: the loop comes back to it.
    """
    keep_short()
    size, width = P.shape[0], SLOPE_MAX - SLOPE_MIN
    value, log_z, slope, damping, least = np.inf, 0.0, 0.0, 0.0, 0.0
    rounds, tries = 0, 0
    for m in range(size):
        inner = rising and size == 5 and m > 0
        work[LOWEST, m] = TAIL_MIN if m == size - 1 else (0.0 if inner else SLOPE_MIN)
        work[TRIAL, m] = min(max(work[X, m], work[LOWEST, m]), SLOPE_MAX)
    while tries < 60:
        for a in range(5):
            k = 0.0
            for m in range(size):
                k += work[TRIAL, m] * P[m, a]
            work[TRIED, a] = k
        log_z_tried = log_partition(work)
        value_tried = log_z_tried
        for a in range(5):
            value_tried += work[TRIED, a] * work[SAMPLE, a]
        fresh = rounds == 0 or (value_tried < value and value_tried <= value + 1e-4 * min(slope, 0.0))
        if fresh:
            damping = 0.25 * damping if damping > least else 0.0
            for m in range(size):
                work[X, m] = work[TRIAL, m]
            for a in range(5):
                work[SLOPES, a] = work[TRIED, a]
            log_z, value = log_z_tried, value_tried
            rounds, tries = rounds + 1, 0
            if rounds > 200:
                break
            _derivatives(work, P)
            largest = 0.0
            for m in range(size):
                largest = max(largest, abs(work[GRADIENT, m]))
            least = 1e-3 * largest / width
        else:  # where the model has no mass H is singular: damp, towards a short step down the gradient
            tries += 1
            damping = max(4 * damping, least)
        for m in range(size):
            work[HELD, m] = 0.0
        added, promise = 0.0 if fresh else damping, np.inf
        while True:
            _solve(work, size, added)
            again = False
            if fresh:
                fresh, promise = False, 0.0
                for m in range(size):
                    promise -= work[GRADIENT, m] * work[STEP, m]
                again = damping > 0
                added = damping
            if added == 0:  # a step that leaves the box ends on its face, and the rest is solved again
                for m in range(size):
                    low, x = work[LOWEST, m], work[X, m]
                    there = x + work[STEP, m]
                    if work[HELD, m] == 0 and not low <= there <= SLOPE_MAX:
                        work[STEP, m] = (low if there < low else SLOPE_MAX) - x
                        work[HELD, m] = 1.0
                        again = True
            if not again:
                break
        if not promise > (worth if rounds == 1 and tries == 0 else tolerance):
            break
        largest, slope = 0.0, 0.0
        for m in range(size):
            largest = max(largest, abs(work[STEP, m]))
        length = min(1.0, width / largest)
        for m in range(size):
            x = work[X, m]
            there = min(max(x + length * work[STEP, m], work[LOWEST, m]), SLOPE_MAX)
            work[TRIAL, m] = there
            slope += work[GRADIENT, m] * (there - x)
    return value, log_z


@nb.njit(nogil=True, cache=True, error_model="numpy")
def search_shape(work, fine, allow_fine, rising, n, tolerance):
    """Best slopes for the means in SAMPLE, from those in BEST, into BEST; coarse unless `fine` ones pay.

    Fine ones of a score that is to be `rising` fall nowhere beyond the first knot.
    Returns their loss, their log normaliser and whether they are fine ones.
    """
    keep_short()
    for m in range(5):
        work[X, m] = work[BEST, m]
    if not fine:
        work[X, 1] = work[BEST, 4]
        if abs(work[X, 0] - work[X, 1]) < 0.2:  # near the Gaussian: the best of a few shapes is nearer
            t = work[SAMPLE]
            best = 0.5 * math.log(2 * math.pi) + (t[0] + t[1] + t[2] + t[3] + t[4])
            for a in range(_START_LOG_Z.size):
                value = _START_LOG_Z[a]
                for m in range(5):
                    value += _START_SLOPES[a, m] * work[SAMPLE, m]
                if value < best:
                    best = value
                    work[X, 0], work[X, 1] = _STARTS[a, 0], _STARTS[a, 1]
    gate = GATE * math.log(n) * 3 / n
    loss, log_z, is_fine, worth = np.inf, 0.0, fine, tolerance
    P = FREE if fine else TIED
    for stage in range(2):  # the coarse family, then the fine one
        value, log_z_new = search_slopes(work, P, rising, tolerance, worth)
        if stage == 0 or value < loss - gate:
            loss, log_z, is_fine = value, log_z_new, fine or stage == 1
            for m in range(5):
                work[BEST, m] = work[X, m] = work[SLOPES, m]
        if fine or not allow_fine:
            break
        P, worth = FREE, gate
    return loss, log_z, is_fine


def fit_slopes(t: F64, P: F64, x: F64, tolerance: float, worth: float) -> tuple[F64, float, float]:
    """Slopes ``x @ P``, from `x` on, of least loss for the basis means `t`; their loss and log normaliser."""
    work = room()
    work[SAMPLE, :5], work[X, : len(x)] = t, x
    value, log_z = search_slopes(work, P, False, tolerance, worth)
    return work[SLOPES, :5].copy(), value, log_z


def best_shape(
    t: F64, slopes: F64, fine: bool, allow_fine: bool, n: float, tolerance: float, rising: bool = False
) -> tuple[F64, float, float, bool]:
    """Best slopes of one source with basis means `t`, from its present `slopes`; coarse unless `fine` pays.

    Fine ones of a score that is to be `rising` fall nowhere beyond the first knot.
    Returns slopes, loss, log normaliser and whether they are fine ones.
    """
    work = room()
    work[SAMPLE, :5], work[BEST, :5] = t, slopes
    loss, log_z, is_fine = search_shape(work, fine, allow_fine, rising, n, tolerance)
    return work[BEST, :5].copy(), loss, log_z, is_fine


@nb.njit(nogil=True, cache=True, error_model="numpy")
def refit_sums(
    n, power, ramps, reaches, slopes, log_normalisers, fine, rising, may_be_fine, least, loss, gradient, gains, work
):
    """Refit every source from a pass's sums, in place; each changes only if it gains more than `least`.

    Brings the sums `loss` and the diagonal of `gradient` to the new shapes.
    Scores are linear in the slopes, so the sums of ``(abs(y) - knot)_+`` and
    of half its square say what both are at any shape. Twin: ``basis_means``
    and ``diagonal_sums`` of :mod:`majorica.solvers.shapes`. Fills `gains`
    with the gain of each source in nats; `work` is a :func:`room`.
    """
    keep_short()
    for i in range(power.size):
        gains[i] = 0.0
        before, above = log_normalisers[i], 0.5 * power[i]
        for m in range(5):
            below = ramps[i, m] if m < 4 else 0.0
            work[SAMPLE, m] = (above - below) / n
            work[BEST, m] = slopes[i, m]
            before += slopes[i, m] * work[SAMPLE, m]
            above = below
        value, log_z, is_fine = search_shape(work, fine[i], may_be_fine[i], rising[i], n, FIT_TOLERANCE / n)
        if before - value > least:
            gains[i] = before - value
            for m in range(5):
                slopes[i, m] = work[BEST, m]
            log_normalisers[i] = log_z
            fine[i] = is_fine
        mean, total = 0.0, slopes[i, 0] * power[i]
        for m in range(5):
            mean += slopes[i, m] * work[SAMPLE, m]
            if m < 4:
                total += (slopes[i, m + 1] - slopes[i, m]) * (2 * ramps[i, m] + KNOTS[m] * reaches[i, m])
        loss[i] = mean * n
        gradient[i, i] = total


@nb.njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def scaled_means(y, scale, t, c):
    """Fill `t` with the means of the five basis functions of ``scale y``, `c` with those of their slopes times it."""
    q0, q1, q2, q3, q4, r1, r2, r3, r4 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(y.size):
        size = abs(scale * y[k])
        t1, t2, t3, t4 = max(size - D1, 0.0), max(size - D2, 0.0), max(size - D3, 0.0), max(size - D4, 0.0)
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
    a1, a2, a3, a4 = (q1 + D1 * r1) / n, (q2 + D2 * r2) / n, (q3 + D3 * r3) / n, (q4 + D4 * r4) / n
    c[0], c[1], c[2], c[3], c[4] = q0 / n - a1, a1 - a2, a2 - a3, a3 - a4, a4


def sample_means(y: F64) -> F64:
    """Means of the five basis functions over one source's samples. Twin: ``basis(abs(y)).mean(axis=1)``."""
    means, slopes = np.empty((2, 5))
    scaled_means(y, 1.0, means, slopes)
    return means


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _fill_table(slopes, table, heavy):
    for i in range(heavy.size):
        intercept, largest, falls = 0.0, slopes[i, 0], True
        table[i, 0] = slopes[i, 0]
        for m in range(1, 5):
            intercept -= (slopes[i, m] - slopes[i, m - 1]) * KNOTS[m - 1]
            falls = falls and intercept >= 0
            largest = max(largest, slopes[i, m])
            table[i, m] = slopes[i, m]
        table[i, 5] = 0.0 if falls else largest
        heavy[i] = falls


def shape_table(slopes: F64) -> tuple[F64, npt.NDArray[np.bool_]]:
    """What kernels read of piecewise densities: slopes and constant weight ``(p, 6)``, and which are super-Gaussian.

    Twin: :meth:`majorica.densities.table.Densities.piecewise`.
    """
    table, heavy = np.empty((len(slopes), 6)), np.empty(len(slopes), np.bool_)
    _fill_table(slopes, table, heavy)
    return table, heavy
