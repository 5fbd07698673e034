"""One mini-batch of the incremental solver, compiled: majorization in two phases, then minimisation.

Phase one works on tiles of samples (whiten, unmix, gaps, choice of q), phase
two on components (moments). Within a phase the parts are independent, so
threads may share them; the parts are the same for any number of threads, and
so are the bits. Twin: the gaps, select_largest, update_moments and sweep of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.compiled import _sweep
from majorica.kernels.elementwise import D1, D2, D3, D4, majorizer

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "85a2ca1387855bf9"
#: Samples a tile of phase one.
TILE = 256


@nb.njit(nogil=True, cache=True, inline="always")
def _piece(size, k0, j1, j2, j3, j4, kind):
    """:func:`majorica.kernels.elementwise.piece` in the precision `kind`, without branches."""
    b1, b2 = j1 if size > kind(D1) else kind(0), j2 if size > kind(D2) else kind(0)
    b3, b4 = j3 if size > kind(D3) else kind(0), j4 if size > kind(D4) else kind(0)
    slope = k0 + b1 + b2 + b3 + b4
    intercept = -(b1 * kind(D1) + b2 * kind(D2) + b3 * kind(D3) + b4 * kind(D4))
    level = b1 * kind(0.5 * D1 * D1) + b2 * kind(0.5 * D2 * D2) + b3 * kind(0.5 * D3 * D3) + b4 * kind(0.5 * D4 * D4)
    return slope, intercept, level


@nb.njit(nogil=True, cache=True)
def _gap_row(y, old, new, code, shape, gap):
    """Decrease of the surrogate for each sample if its majorizer touched at `new` instead of `old`."""
    b, d = shape[1], shape[2]
    kind = gap.dtype.type
    if code == CLIPPED and b >= 0:
        half_b, threshold = kind(0.5 * b), kind(d)
        for t in range(y.size):
            square = y[t] * y[t]
            size0, size1 = abs(kind(old[t])), abs(kind(new[t]))
            inside0, inside1 = min(size0, threshold), min(size1, threshold)
            slope0 = threshold / max(threshold, size0)
            slope1 = threshold / max(threshold, size1)
            gap[t] = half_b * ((slope0 - slope1) * square + inside0 * (size0 - inside0) - inside1 * (size1 - inside1))
    elif code == PIECEWISE:
        k0, flat = kind(shape[0]), kind(shape[5])
        j1, j2 = kind(shape[1] - shape[0]), kind(shape[2] - shape[1])
        j3, j4 = kind(shape[3] - shape[2]), kind(shape[4] - shape[3])
        half, near = kind(0.5), kind(D1)
        for t in range(y.size):
            value, value0, value1 = y[t], kind(old[t]), kind(new[t])
            size0, size1 = abs(value0), abs(value1)
            slope0, intercept0, level0 = _piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = _piece(size1, k0, j1, j2, j3, j4, kind)
            if flat > 0:
                lean0 = (flat - slope0) * value0 - (intercept0 if value0 > 0 else -intercept0)
                lean1 = (flat - slope1) * value1 - (intercept1 if value1 > 0 else -intercept1)
                rest = half * (flat - slope0) * size0 * size0 - half * (flat - slope1) * size1 * size1
                gap[t] = (lean1 - lean0) * value + (rest + (level0 - level1))
            else:
                weight = (slope0 + intercept0 / max(size0, near)) - (slope1 + intercept1 / max(size1, near))
                rest = half * (intercept0 * size0 - intercept1 * size1) + (level0 - level1)
                gap[t] = half * weight * value * value + rest
    else:
        for t in range(y.size):
            value = np.float64(y[t])
            w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
            w1, t1, r1 = majorizer(np.float64(new[t]), code, shape)
            gap[t] = kind(0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1))


@nb.njit(nogil=True, cache=True)
def _choose(keys, gap, q, chosen):
    """Mark the `q` largest keys of each column whose gap is positive; of equal keys, the first."""
    p, m = keys.shape
    if q >= p:
        for i in range(p):
            for t in range(m):
                chosen[i, t] = gap[i, t] > 0
        return
    best = np.empty((q, m), keys.dtype)
    where = np.empty((q, m), np.int32)
    best[:] = -np.inf
    where[:] = -1
    for i in range(p):
        for t in range(m):
            key = keys[i, t]
            if key > best[q - 1, t]:
                r = q - 1
                while r > 0 and key > best[r - 1, t]:
                    best[r, t] = best[r - 1, t]
                    where[r, t] = where[r - 1, t]
                    r -= 1
                best[r, t] = key
                where[r, t] = i
    chosen[:] = False
    for r in range(q):
        for t in range(m):
            i = where[r, t]
            if i >= 0 and gap[i, t] > 0:
                chosen[i, t] = True


@nb.njit(nogil=True, cache=True)
def choose_tiles(X, mean, K, W, codes, shapes, q, keys, touch, Z, Y, chosen, first, last):
    """Phase one for tiles `first` to `last`: fill `Z` (b, k), `Y` (p, b), `chosen` (p, b).

    `touch` (b, p) is the memory; `keys` (p, b) are random keys, or empty for
    the greedy choice by gap.
    """
    b, f = X.shape
    p = W.shape[0]
    for tile in range(first, last):
        start = tile * TILE
        stop = min(start + TILE, b)
        m = stop - start
        centred = np.empty((m, f), X.dtype)
        for t in range(m):
            for j in range(f):
                centred[t, j] = X[start + t, j] - mean[j]
        Z[start:stop] = np.dot(centred, K.T)
        y = np.dot(W, Z[start:stop].T)
        gap = np.empty((p, m), X.dtype)
        old = np.empty(m, touch.dtype)
        new = np.empty(m, touch.dtype)
        for i in range(p):
            for t in range(m):
                old[t] = touch[start + t, i]
                new[t] = y[i, t]
                Y[i, start + t] = y[i, t]
            _gap_row(y[i], old, new, codes[i], shapes[i], gap[i])
        mask = np.empty((p, m), np.bool_)
        if keys.size:
            _choose(keys[:, start:stop], gap, q, mask)
        else:
            _choose(gap, gap, q, mask)
        for i in range(p):
            for t in range(m):
                chosen[i, start + t] = mask[i, t]


@nb.njit(nogil=True, cache=True)
def move_components(Z, Y, chosen, codes, shapes, flat, scale, touch, moments, tilts, offsets, first, last):
    """Phase two for components `first` to `last`: Eq. (updateamem), one product a component, and the memory."""
    b, k = Z.shape
    taken = np.empty((b, k), Z.dtype)
    weighted = np.empty((b, k), Z.dtype)
    for i in range(first, last):
        code, shape = codes[i], shapes[i]
        m = 0
        for t in range(b):
            if not chosen[i, t]:
                continue
            old, new = touch[t, i], touch.dtype.type(Y[i, t])
            w1, t1, r1 = majorizer(np.float64(new), code, shape)
            w0, t0, r0 = majorizer(np.float64(old), code, shape)
            touch[t, i] = new
            offsets[i] += scale * (r1 - r0)
            if flat[i] > 0:
                for j in range(k):
                    tilts[i, j] += scale * (t1 - t0) * Z[t, j]
            else:
                change = Z.dtype.type(scale * (w1 - w0))
                for j in range(k):
                    taken[m, j] = Z[t, j]
                    weighted[m, j] = change * Z[t, j]
                m += 1
        if m:
            moments[i] += np.dot(weighted[:m].T, taken[:m])


@nb.njit(nogil=True, cache=True)
def surrogate_value(W, moments, tilts, offsets, log_normaliser):
    """The surrogate loss, Eq. (quad_form)."""
    total = offsets.sum() + log_normaliser - np.linalg.slogdet(W)[1]
    for i in range(W.shape[0]):
        w = W[i]
        total += 0.5 * np.dot(w, np.dot(moments[i], w)) - np.dot(tilts[i], w)
    return total


@nb.njit(nogil=True, cache=True)
def minimise(W, inverse, moments, tilts, flat, covariance_inverse, iterations, offsets, log_normaliser, refresh):
    """M-step over every row; returns the surrogate after it."""
    _sweep(W, inverse, moments, tilts, flat, covariance_inverse, iterations)
    if refresh:
        inverse[:] = np.linalg.inv(W)
    return surrogate_value(W, moments, tilts, offsets, log_normaliser)


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    X, starts, stops, mean, K, W, inverse, codes, shapes, flat, covariance_inverse, q, keys, scale, touch, moments,
    tilts, offsets, iterations, log_normaliser, sweeps, refresh_every, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each."""
    p, k = W.shape
    for s in range(starts.size):
        start, stop = starts[s], stops[s]
        b = stop - start
        Z = np.empty((b, k), X.dtype)
        Y = np.empty((p, b), X.dtype)
        chosen = np.empty((p, b), np.bool_)
        memory = touch[start:stop]
        tiles = (b + TILE - 1) // TILE
        now = W.astype(X.dtype)
        choose_tiles(X[start:stop], mean, K, now, codes, shapes, q, keys, memory, Z, Y, chosen, 0, tiles)
        move_components(Z, Y, chosen, codes, shapes, flat, scale, memory, moments, tilts, offsets, 0, p)
        refresh = (sweeps + s + 1) % refresh_every == 0
        losses[s] = minimise(
            W, inverse, moments, tilts, flat, covariance_inverse, iterations, offsets, log_normaliser, refresh
        )
