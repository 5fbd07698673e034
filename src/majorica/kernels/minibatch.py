"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Tiles of samples come first (whiten, unmix, gaps, choice of q); the chosen
pairs are sorted by component, and each component's moments and row follow.
One mini-batch is the work of one thread: two threads that shared its parts
were no faster. Twin: the gaps, select_largest, update_moments and sweep of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.compiled import _sweep_row
from majorica.kernels.elementwise import D1, FAST, majorizer, select_piece

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "363b48c3eb0a175f"
#: Samples a tile.
TILE = 256


@nb.njit(nogil=True, cache=True)
def _any_gap_row(y, old, code, shape, gap):
    """:func:`_gap_row` for any density."""
    for t in range(y.size):
        value = np.float64(y[t])
        w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
        w1, t1, r1 = majorizer(np.float64(np.float32(y[t])), code, shape)
        gap[t] = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _gap_row(y, old, code, shape, gap):
    """Decrease of the surrogate for each sample if its majorizer touched at `y`, rounded, instead of `old`."""
    b, d = shape[1], shape[2]
    kind = gap.dtype.type
    if code == CLIPPED and b >= 0:
        half_b, threshold = kind(0.5 * b), kind(d)
        for t in range(y.size):
            square = y[t] * y[t]
            size0, size1 = abs(kind(old[t])), abs(kind(np.float32(y[t])))
            outer0 = size0 if size0 > threshold else threshold
            outer1 = size1 if size1 > threshold else threshold
            inside0 = threshold if size0 > threshold else size0
            inside1 = threshold if size1 > threshold else size1
            weight = threshold * (outer1 - outer0) / (outer0 * outer1)
            gap[t] = half_b * (weight * square + (inside0 * (size0 - inside0) - inside1 * (size1 - inside1)))
    elif code == PIECEWISE:
        k0, flat = kind(shape[0]), kind(shape[5])
        j1, j2 = kind(shape[1] - shape[0]), kind(shape[2] - shape[1])
        j3, j4 = kind(shape[3] - shape[2]), kind(shape[4] - shape[3])
        half, near = kind(0.5), kind(D1)
        if flat > 0:
            for t in range(y.size):
                value, value0, value1 = y[t], kind(old[t]), kind(np.float32(y[t]))
                size0, size1 = abs(value0), abs(value1)
                slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
                slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
                lean0 = (flat - slope0) * value0 - (intercept0 if value0 > 0 else -intercept0)
                lean1 = (flat - slope1) * value1 - (intercept1 if value1 > 0 else -intercept1)
                rest = half * (flat - slope0) * size0 * size0 - half * (flat - slope1) * size1 * size1
                gap[t] = (lean1 - lean0) * value + (rest + (level0 - level1))
        else:
            for t in range(y.size):
                value, size0, size1 = y[t], abs(kind(old[t])), abs(kind(np.float32(y[t])))
                slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
                slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
                outer0 = size0 if size0 > near else near
                outer1 = size1 if size1 > near else near
                weight = (slope0 - slope1) + (intercept0 * outer1 - intercept1 * outer0) / (outer0 * outer1)
                rest = half * (intercept0 * size0 - intercept1 * size1) + (level0 - level1)
                gap[t] = half * weight * value * value + rest
    else:
        _any_gap_row(y, old, code, shape, gap)


@nb.njit(nogil=True, cache=True)
def _rank_two(gap, best, second, best_at, second_at, i):
    """Keep of each sample the two largest gaps so far and whose they are, without branches.

    One choice nested in another (``a if x else (b if y else c)``) is compiled
    wrongly here by the LLVM of Numba 0.68 when it vectorises; keep them apart.
    """
    for t in range(gap.size):
        g, b1, b2, a1, a2 = gap[t], best[t], second[t], best_at[t], second_at[t]
        over1, over2 = g > b1, g > b2
        best[t] = g if over1 else b1
        best_at[t] = i if over1 else a1
        lower = b1 if over1 else g
        lower_at = a1 if over1 else i
        second[t] = lower if over2 else b2
        second_at[t] = lower_at if over2 else a2


@nb.njit(nogil=True, cache=True)
def _choose(keys, gap, q, best, where):
    """The `q` largest keys of each column whose gap is positive, -1 where there are fewer; of equals, the first."""
    p, m = gap.shape
    best[:q] = -np.inf
    where[:q] = -1
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
    for r in range(q):
        for t in range(m):
            if where[r, t] >= 0 and not gap[where[r, t], t] > 0:
                where[r, t] = -1


@nb.njit(nogil=True, cache=True)
def choose_tiles(X, mean, KT, W, codes, shapes, q, keys, touch, Z, where, values):
    """Whiten, unmix and choose, tile by tile: fill `Z` (b, k), `where` and `values` (b, q).

    `KT` is the whitening, transposed (products with rows as they lie are
    faster), `touch` (b, p) the memory; `keys` (p, b) are random keys, or empty for
    the greedy choice by gap. `where` are the components chosen, or -1, and
    `values` their sources.
    """
    b, f = X.shape
    p = W.shape[0]
    centred = np.empty((TILE, f), X.dtype)
    flat_y = np.empty(p * TILE, X.dtype)
    greedy_two = keys.size == 0 and q <= 2  # needs one component's gaps at a time
    gaps = np.empty((1 if greedy_two else p, TILE), X.dtype)
    old = np.empty((p, TILE + 16), touch.dtype)  # rows not a power of two apart: those would share cache lines
    best = np.empty((max(q, 2), TILE), X.dtype)
    at = np.empty((max(q, 2), TILE), np.int32)
    for start in range(0, b, TILE):
        m = min(TILE, b - start)
        for t in range(m):
            for j in range(f):
                centred[t, j] = X[start + t, j] - mean[j]
        z = Z[start : start + m]
        y = flat_y[: p * m].reshape(p, m)
        np.dot(centred[:m], KT, z)
        np.dot(W, z.T, y)
        best[:2] = 0
        at[:2] = -1
        for t in range(m):
            for i in range(p):
                old[i, t] = touch[start + t, i]
        for i in range(p):
            gap = gaps[0 if greedy_two else i, :m]
            _gap_row(y[i], old[i, :m], codes[i], shapes[i], gap)
            if greedy_two:
                _rank_two(gap, best[0, :m], best[1, :m], at[0, :m], at[1, :m], np.int32(i))
        if not greedy_two:
            order = keys[:, start : start + m] if keys.size else gaps[:, :m]
            _choose(order, gaps[:, :m], q, best[:, :m], at[:, :m])
        for r in range(q):
            for t in range(m):
                i = at[r, t]
                where[start + t, r] = i
                values[start + t, r] = y[max(i, 0), t]


@nb.njit(nogil=True, cache=True)
def sort_chosen(where, values, bounds, rows, new):
    """Sort the chosen pairs by component, samples in order: component i has `bounds[i]` to `bounds[i + 1]`."""
    bounds[:] = 0
    for t in range(where.shape[0]):
        for r in range(where.shape[1]):
            bounds[where[t, r] + 1] += 1
    bounds[0] = 0  # those without a component
    for i in range(1, bounds.size):
        bounds[i] += bounds[i - 1]
    for i in range(bounds.size - 1, 0, -1):
        bounds[i] = bounds[i - 1]
    for t in range(where.shape[0]):
        for r in range(where.shape[1]):
            i = where[t, r]
            if i >= 0:
                place = bounds[i + 1]
                rows[place] = t
                new[place] = values[t, r]
                bounds[i + 1] = place + 1


@nb.njit(nogil=True, cache=True)
def _any_change_row(old, new, code, shape, weights, tilts):
    """:func:`_change_row` for any density."""
    total = 0.0
    for t in range(old.size):
        w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
        w1, t1, r1 = majorizer(np.float64(new[t]), code, shape)
        weights[t] = w1 - w0
        tilts[t] = t1 - t0
        total += r1 - r0
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _change_row(old, new, code, shape, weights, tilts):
    """Fill `weights` and `tilts` with what majorizers change by from `old` to `new`; returns the offsets' change.

    Leaves `tilts` alone where they are all zero.
    """
    b, d = shape[1], shape[2]
    total = 0.0
    if code == CLIPPED and b >= 0:
        for t in range(old.size):
            size0, size1 = abs(old[t]), abs(np.float64(new[t]))
            outer0 = size0 if size0 > d else d
            outer1 = size1 if size1 > d else d
            inside0 = d if size0 > d else size0
            inside1 = d if size1 > d else size1
            weights[t] = b * d * (outer0 - outer1) / (outer0 * outer1)
            total += inside1 * (size1 - inside1) - inside0 * (size0 - inside0)
        return 0.5 * b * total
    if code == PIECEWISE and not shape[5] > 0:
        kind = np.float64
        k0, j1, j2, j3, j4 = shape[0], b - shape[0], d - b, shape[3] - d, shape[4] - shape[3]
        for t in range(old.size):
            size0, size1 = abs(old[t]), abs(np.float64(new[t]))
            slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
            outer0 = size0 if size0 > D1 else D1
            outer1 = size1 if size1 > D1 else D1
            weights[t] = (slope1 - slope0) + (intercept1 * outer0 - intercept0 * outer1) / (outer0 * outer1)
            total += 0.5 * (intercept1 * size1 - intercept0 * size0) + (level1 - level0)
        return total
    return _any_change_row(old, new, code, shape, weights, tilts)


@nb.njit(nogil=True, cache=True)
def _move_component(i, Z, rows, new, code, shape, flat, scale, touch, A, tilt, offsets, numbers, samples, product):
    """Move component `i`'s chosen majorizers to touch at `new`: Eq. (updateamem) in one product, and the memory."""
    m, k = rows.size, Z.shape[1]
    if m == 0:
        return
    old, weights, tilts = numbers[0, :m], numbers[1, :m], numbers[2, :m]
    for s in range(m):
        old[s] = touch[rows[s], i]
        touch[rows[s], i] = new[s]
    offsets[i] += scale * _change_row(old, new, code, shape, weights, tilts)
    if flat > 0:
        for s in range(m):
            z, change = Z[rows[s]], scale * tilts[s]
            for j in range(k):
                tilt[j] += change * z[j]
        return
    taken, weighted = samples[0, :m], samples[1, :m]
    for s in range(m):
        z, change = Z[rows[s]], Z.dtype.type(scale * weights[s])
        row0, row1 = taken[s], weighted[s]
        for j in range(k):
            row0[j] = z[j]
            row1[j] = change * z[j]
    np.dot(weighted.T, taken, product)
    for a in range(k):
        row0, row1 = A[a], product[a]
        for j in range(k):
            row0[j] += row1[j]


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    X, starts, stops, mean, KT, W, inverse, codes, shapes, flat, covariance_inverse, q, keys, scale, touch, moments,
    tilts, offsets, iterations, log_normaliser, sweeps, refresh_every, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    Each row moves right after its moments, while they are in the cache.
    """
    p, k = W.shape
    longest = (stops - starts).max()
    space = np.empty((longest, k), X.dtype)
    now = np.empty((p, k), X.dtype)
    chosen = np.empty((longest, q), np.int32)
    sources = np.empty((longest, q), touch.dtype)
    bounds, rows, new = np.empty(p + 1, np.intp), np.empty(longest * q, np.intp), np.empty(longest * q, touch.dtype)
    numbers, samples = np.empty((3, longest)), np.empty((2, longest, k), X.dtype)
    product, work = np.empty((k, k), X.dtype), np.empty((7, k))
    for s in range(starts.size):
        start, stop = starts[s], stops[s]
        b = stop - start
        Z, where, values, memory = space[:b], chosen[:b], sources[:b], touch[start:stop]
        now[:] = W
        choose_tiles(X[start:stop], mean, KT, now, codes, shapes, q, keys, memory, Z, where, values)
        sort_chosen(where, values, bounds, rows, new)
        total = 0.0
        for i in range(p):
            part = slice(bounds[i], bounds[i + 1])
            _move_component(
                i, Z, rows[part], new[part], codes[i], shapes[i], flat[i], scale, memory, moments[i], tilts[i],
                offsets, numbers, samples, product,
            )  # fmt: skip
            total += _sweep_row(
                i, W, inverse, moments[i], tilts[i], flat[i], covariance_inverse, iterations, work
            )  # fmt: skip
        if (sweeps + s + 1) % refresh_every == 0:
            inverse[:] = np.linalg.inv(W)
        losses[s] = total + offsets.sum() + log_normaliser - np.linalg.slogdet(W)[1]
