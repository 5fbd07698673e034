"""The normalising constant of the adaptive densities and its derivatives in the slopes, compiled.

The density of :mod:`majorica.densities.piecewise` is an exponential family in its slopes k: ``log Z(k)`` has as
gradient and Hessian, but for a sign, the mean and the covariance of five basis functions under the model. They are
integrals over the inner pieces and the tail, by Gauss-Legendre.
"""

from __future__ import annotations

import math
import threading
from itertools import pairwise

import numba as nb
import numpy as np

from majorica.densities.piecewise import KNOTS
from majorica.kernels.elementwise import FAST, exponentials
from majorica.kernels.views import borrow
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "f13e90c185d2d802"
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
INNER, TAIL = len(_INNER), len(_TAIL_NODES)
TIED = np.ascontiguousarray(_tied())
FREE = np.eye(5)
D1, D2, D3, D4 = (float(knot) for knot in KNOTS)


#: Rows of a :func:`room`: the basis at all nodes, weights of these and what exponentials need; then vectors of five:
#: means of the model, slopes tried and taken, the fit's own numbers and its trial, gradient, step, which of these
#: are held, means of the samples, the best slopes; three matrices, covariance, Hessian and what is eliminated; and
#: the least that the fit's own numbers may be.
BASIS, WEIGHTS, SCRATCH, MEAN, TRIED, SLOPES, X, TRIAL, GRADIENT, STEP, HELD, SAMPLE, BEST = 0, *range(5, 17)
COVARIANCE, HESSIAN, ELIMINATED, LOWEST, ROWS = 17, 22, 27, 32, 33
_ROOMS = threading.local()


def room() -> F64:
    """What this thread's fits of shapes work in, with the basis at the inner nodes, which no slope changes."""
    work: F64 | None = getattr(_ROOMS, "work", None)
    if work is None:
        work = _ROOMS.work = np.zeros((ROWS, INNER + TAIL))
        work[BASIS : BASIS + 5, :INNER] = _INNER_BASIS
    return work


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy", forceinline=True)
def log_partition(work):
    """``log Z`` of the slopes TRIED; fills the model's MEAN and COVARIANCE of the basis."""
    work = borrow(work)
    b0, b1, b2, b3, b4, e, scratch = work[0], work[1], work[2], work[3], work[4], work[WEIGHTS], work[SCRATCH]
    k0, k1, k2, k3, k4 = work[TRIED, 0], work[TRIED, 1], work[TRIED, 2], work[TRIED, 3], work[TRIED, 4]
    score = k0 * D1 + k1 * (D2 - D1) + k2 * (D3 - D2) + k3 * (D4 - D3)
    if score >= 0:  # the tail falls from the last knot on: cut it 40 nats below
        low, high = 0.0, 80.0 / (score + math.sqrt(score * score + 80.0 * k4))
    else:  # it has a hump: nine standard deviations around it
        width = 9.0 / math.sqrt(k4)
        low, high = max(0.0, -score / k4 - width), -score / k4 + width
    log_width = math.log(high - low)
    for a in range(INNER):
        e[a] = _INNER_LOG_WEIGHTS[a]
    for a in range(TAIL):
        s = low + 0.5 * (high - low) * (_TAIL_NODES[a] + 1)
        size = D4 + s
        r0, r1, r2, r3, r4 = size * size, (size - D1) ** 2, (size - D2) ** 2, (size - D3) ** 2, s * s
        at = INNER + a
        b0[at], b1[at], b2[at], b3[at] = 0.5 * (r0 - r1), 0.5 * (r1 - r2), 0.5 * (r2 - r3), 0.5 * (r3 - r4)
        b4[at] = 0.5 * r4
        e[at] = log_width + _TAIL_LOG_WEIGHTS[a]
    top = -np.inf
    for a in range(INNER + TAIL):
        e[a] -= k0 * b0[a] + k1 * b1[a] + k2 * b2[a] + k3 * b3[a] + k4 * b4[a]
        top = max(top, e[a])
    exponentials(e, top, scratch)
    z, m0, m1, m2, m3, m4 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(INNER + TAIL):
        z += e[a]
        m0 += e[a] * b0[a]
        m1 += e[a] * b1[a]
        m2 += e[a] * b2[a]
        m3 += e[a] * b3[a]
        m4 += e[a] * b4[a]
    m0, m1, m2, m3, m4 = m0 / z, m1 / z, m2 / z, m3 / z, m4 / z
    mean = work[MEAN]
    mean[0], mean[1], mean[2], mean[3], mean[4] = m0, m1, m2, m3, m4
    for m in range(5):  # a row of the covariance in one go
        c0, c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0, 0.0
        row, centre = work[m], mean[m]
        for a in range(INNER + TAIL):
            weighted = e[a] * (row[a] - centre)
            c0 += weighted * (b0[a] - m0)
            c1 += weighted * (b1[a] - m1)
            c2 += weighted * (b2[a] - m2)
            c3 += weighted * (b3[a] - m3)
            c4 += weighted * (b4[a] - m4)
        full = work[COVARIANCE + m]
        full[0], full[1], full[2], full[3], full[4] = c0 / z, c1 / z, c2 / z, c3 / z, c4 / z
    return top + math.log(z)
