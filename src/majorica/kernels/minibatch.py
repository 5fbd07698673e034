"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Tiles of samples come first (whiten, unmix, gaps, choice of q); the chosen
pairs go to a bucket for each component, whose moments and row follow.
One mini-batch is the work of one thread: two threads that shared its parts
were no faster. Twin: the gaps, select_largest, update_moments and sweep of
:mod:`majorica.kernels.reference`. The memory is `touch`, float32, or `packed`,
codes of one byte (:class:`majorica.kernels.codes.CodeTable`); the other is empty.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.compiled import _sweep_row
from majorica.kernels.elementwise import D1, D2, D3, D4, FAST, majorizer, select_piece
from majorica.kernels.rounding import decode_columns, encode_entries, hide_settled, read_entries

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "b5f6fc7cc3138be8"
#: Samples a tile.
TILE = 512
#: Components below which a bucket's samples are taken as columns: loops over a sample would be too short.
SHORT = 16


@nb.njit(nogil=True, cache=True)
def _any_gap_row(y, old, code, shape, gap):
    """:func:`_gap_row` for any density."""
    for t in range(y.size):
        value = np.float64(y[t])
        w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
        w1, t1, r1 = majorizer(value, code, shape)
        gap[t] = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _gap_row(y, old, code, shape, gap):
    """How far each sample's majorizer, which touches at `old`, lies above the loss at `y`; Eq. (dualgap).

    As a square about `old` and the squares about the knots between `old` and
    `y`, so that gaps much smaller than the loss keep their digits.
    """
    b, d = shape[1], shape[2]
    kind = gap.dtype.type
    zero, half = kind(0), kind(0.5)
    if code == CLIPPED and b >= 0:
        half_b, knot = kind(0.5 * b), kind(d)
        for t in range(y.size):
            u, v = abs(y[t]), abs(kind(old[t]))
            far = v if v > knot else knot
            apart, beyond = u - v, u - knot
            old_half, new_half = half_b if v > knot else zero, half_b if u > knot else zero
            gap[t] = (new_half - old_half) * beyond * beyond + old_half * knot * apart * apart / far
    elif code == PIECEWISE:
        k0, flat = kind(shape[0]), kind(shape[5])
        j1, j2 = kind(shape[1] - shape[0]), kind(shape[2] - shape[1])
        j3, j4 = kind(shape[3] - shape[2]), kind(shape[4] - shape[3])
        d1, d2, d3, d4 = kind(D1), kind(D2), kind(D3), kind(D4)
        for t in range(y.size):
            value, value0 = y[t], kind(old[t])
            u, v = abs(value), abs(value0)
            b1, b2 = j1 if v > d1 else zero, j2 if v > d2 else zero
            b3, b4 = j3 if v > d3 else zero, j4 if v > d4 else zero
            c1, c2 = j1 if u > d1 else zero, j2 if u > d2 else zero
            c3, c4 = j3 if u > d3 else zero, j4 if u > d4 else zero
            t1, t2, t3, t4 = u - d1, u - d2, u - d3, u - d4
            knots = (b1 - c1) * t1 * t1 + (b2 - c2) * t2 * t2 + (b3 - c3) * t3 * t3 + (b4 - c4) * t4 * t4
            intercept = -(b1 * d1 + b2 * d2 + b3 * d3 + b4 * d4)
            apart = u - v
            if flat > 0:
                bend = flat - (k0 + b1 + b2 + b3 + b4)
                across = bend * v - intercept if value * value0 < zero else zero
                gap[t] = half * (bend * apart * apart + knots) + (u + u) * across
            else:
                far = v if v > d1 else d1
                gap[t] = half * (intercept * apart * apart / far + knots)
    else:
        _any_gap_row(y, old, code, shape, gap)


@nb.njit(nogil=True, cache=True)
def _rank(bits, low, clear, ranks):
    """Keep of each sample the largest keys so far, in descending order down `ranks` (q, TILE).

    A key is a gap read as an integer (positive floats compare like integers)
    whose last bits are `low` instead: they name the component. Changes `bits`.
    """
    q, level, kind = ranks.shape[0], ranks[0], bits.dtype.type
    for t in range(bits.size):
        key, kept = kind((bits[t] & clear) | low), level[t]
        level[t] = max(key, kept)
        bits[t] = min(key, kept)
    for r in range(1, q - 1):
        level = ranks[r]
        for t in range(bits.size):
            key, kept = bits[t], level[t]
            level[t] = max(key, kept)
            bits[t] = min(key, kept)
    level = ranks[q - 1]
    for t in range(bits.size if q > 1 else 0):
        level[t] = max(bits[t], level[t])


@nb.njit(nogil=True, cache=True)
def choose_tiles(
    X, mean, KT, W, codes, shapes, keys, flat, touch, packed, levels, cells, Z, ranks, counts, rows, sources
):
    """Whiten, unmix and choose, tile by tile: fill `Z` (b, k) and one bucket of chosen samples a component.

    `KT` is the whitening, transposed (products with rows as they lie are
    faster), `touch` or `packed` (b, p) the memory; `keys` (p, b) are random keys, or
    empty for the greedy choice by gap. `ranks` (q, TILE) are integers of the samples'
    width. Component i's chosen samples are ``rows[i, :counts[i]]``, in order,
    and their sources ``sources[i, :counts[i]]``.
    """
    b, f = X.shape
    p, q = W.shape[0], ranks.shape[0]
    centred = np.empty(TILE * f, X.dtype)
    shift = np.empty(TILE * f, X.dtype)
    for t in range(TILE):
        for j in range(f):
            shift[t * f + j] = mean[j]
    flat_y = np.empty(p * TILE, X.dtype)
    gap = np.empty(TILE, X.dtype)
    bits = gap.view(ranks.dtype)
    old = np.empty((p, TILE + 16), np.float32)  # rows not a power of two apart: those would share cache lines
    names = 1
    while names < p:
        names *= 2
    names -= 1
    counts[:] = 0
    for start in range(0, b, TILE):
        m = min(TILE, b - start)
        raw = X[start : start + m].reshape(m * f)
        for j in range(m * f):
            centred[j] = raw[j] - shift[j]
        z = Z[start : start + m]
        y = flat_y[: p * m].reshape(p, m)
        np.dot(centred[: m * f].reshape(m, f), KT, z)
        np.dot(W, z.T, y)
        for t in range(0 if packed.size else m):
            for i in range(p):
                old[i, t] = touch[start + t, i]
        if packed.size:
            decode_columns(packed[start : start + m], flat, levels, old)
        ranks[:] = names
        for i in range(p):
            if keys.size:
                for t in range(m):
                    gap[t] = keys[i, start + t]
            else:
                _gap_row(y[i], old[i, :m], codes[i], shapes[i], gap[:m])
                if packed.size:
                    hide_settled(y[i], old[i, :m], cells, 1 if flat[i] > 0 else 0, gap[:m])
            _rank(bits[:m], names - i, ~names, ranks)
        for t in range(m):
            for r in range(q):
                if ranks[r, t] > names:
                    i = names - (ranks[r, t] & names)
                    place = counts[i]
                    rows[i, place] = start + t
                    sources[i, place] = y[i, t]
                    counts[i] = place + 1


@nb.njit(nogil=True, cache=True)
def _any_change_row(old, y, stored, code, shape, weights, tilts):
    """:func:`_change_row` for any density."""
    total = 0.0
    for t in range(old.size):
        value, new = y[t], stored[t]
        w0, t0, r0 = majorizer(old[t], code, shape)
        w1, t1, r1 = majorizer(new, code, shape)
        fall = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)
        weights[t], tilts[t] = 0.0, 0.0
        if fall > 0:
            weights[t], tilts[t] = w1 - w0, t1 - t0
            total += r1 - r0
            old[t] = new
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def _change_row(old, y, stored, code, shape, weights, tilts):
    """Move majorizers from `old`, in place, to `stored`, `y` as the memory will hold it, where the surrogate falls.

    Fills `weights` and `tilts` with what they change by (or leaves alone the
    one that never changes); returns the offsets' change.
    """
    b, d = shape[1], shape[2]
    total = 0.0
    if code == CLIPPED and b >= 0:
        for t in range(old.size):
            new = stored[t]
            size0, size1 = abs(old[t]), abs(new)
            outer0 = size0 if size0 > d else d
            outer1 = size1 if size1 > d else d
            inside0 = d if size0 > d else size0
            inside1 = d if size1 > d else size1
            weight = d * (outer0 - outer1) / (outer0 * outer1)
            offset = inside1 * (size1 - inside1) - inside0 * (size0 - inside0)
            lower = weight * y[t] * y[t] + offset < 0.0
            weights[t] = b * weight if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        return 0.5 * b * total
    if code == PIECEWISE:
        kind = np.float64
        k0, j1, j2, j3, j4 = shape[0], b - shape[0], d - b, shape[3] - d, shape[4] - shape[3]
        flat = shape[5]
        for t in range(old.size if flat > 0 else 0):
            new = stored[t]
            size0, size1 = abs(old[t]), abs(new)
            slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
            lean0 = (flat - slope0) * old[t] - (intercept0 if old[t] > 0 else -intercept0)
            lean1 = (flat - slope1) * new - (intercept1 if new > 0 else -intercept1)
            offset = 0.5 * ((flat - slope1) * size1 * size1 - (flat - slope0) * size0 * size0) + (level1 - level0)
            lower = (lean0 - lean1) * y[t] + offset < 0.0
            tilts[t] = lean1 - lean0 if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        for t in range(0 if flat > 0 else old.size):
            new = stored[t]
            size0, size1 = abs(old[t]), abs(new)
            slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
            outer0 = size0 if size0 > D1 else D1
            outer1 = size1 if size1 > D1 else D1
            weight = (slope1 - slope0) + (intercept1 * outer0 - intercept0 * outer1) / (outer0 * outer1)
            offset = 0.5 * (intercept1 * size1 - intercept0 * size0) + (level1 - level0)
            lower = 0.5 * weight * y[t] * y[t] + offset < 0.0
            weights[t] = weight if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        return total
    return _any_change_row(old, y, stored, code, shape, weights, tilts)


@nb.njit(nogil=True, cache=True)
def _move_component(
    i, Z, rows, sources, code, shape, flat, scale, touch, packed, levels, edges, A, tilt, offsets, numbers,
    samples, product,
):  # fmt: skip
    """Move component `i`'s chosen majorizers to its `sources`: Eq. (updateamem) in one product, and the memory."""
    m, k = rows.size, Z.shape[1]
    if m == 0:
        return
    old, y, weights, tilts, stored = numbers[0, :m], numbers[1, :m], numbers[2, :m], numbers[3, :m], numbers[4, :m]
    kind = 1 if flat > 0 else 0
    for s in range(m):
        y[s] = sources[s]
        stored[s] = np.float32(sources[s])
    if packed.size:
        read_entries(packed, i, rows, y, levels, edges, kind, old, stored)
    for s in range(0 if packed.size else m):
        old[s] = touch[rows[s], i]
    offsets[i] += scale * _change_row(old, y, stored, code, shape, weights, tilts)
    if packed.size:
        encode_entries(old, i, rows, edges, kind, packed)
    for s in range(0 if packed.size else m):
        touch[rows[s], i] = old[s]
    if flat > 0:
        for s in range(m):
            z, change = Z[rows[s]], scale * tilts[s]
            for j in range(k):
                tilt[j] += change * z[j]
        return
    if k < SHORT:
        taken, weighted = samples[: k * m].reshape(k, m), samples[k * m : 2 * k * m].reshape(k, m)
        for s in range(m):
            z = Z[rows[s]]
            for j in range(k):
                taken[j, s] = z[j]
        for j in range(k):
            row0, row1 = taken[j], weighted[j]
            for s in range(m):
                row1[s] = Z.dtype.type(scale * weights[s]) * row0[s]
        np.dot(weighted, taken.T, product)
    else:
        taken, weighted = samples[: k * m].reshape(m, k), samples[k * m : 2 * k * m].reshape(m, k)
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
    X, starts, stops, mean, KT, W, inverse, log_det, codes, shapes, flat, covariance_inverse, keys, scale, touch,
    packed, levels, edges, cells, moments, tilts, offsets, iterations, log_normaliser, sweeps, refresh_every, ranks,
    losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    Each row moves right after its moments, while they are in the cache.
    `log_det` is that of `W`; returns what it is afterwards.
    """
    p, k = W.shape
    longest = 0
    for s in range(starts.size):
        longest = max(longest, stops[s] - starts[s])
    space = np.empty((longest, k), X.dtype)
    now = np.empty((p, k), X.dtype)
    counts, rows = np.empty(p, np.intp), np.empty((p, longest + 16), np.int32)
    sources = np.empty((p, longest + 16), X.dtype)
    numbers, samples = np.empty((5, longest)), np.empty(2 * longest * k, X.dtype)
    product, work = np.empty((k, k), X.dtype), np.empty((7, k))
    for s in range(starts.size):
        start, stop = starts[s], stops[s]
        Z, memory, bytes_ = space[: stop - start], touch[start:stop], packed[start:stop]
        for i in range(p):
            for j in range(k):
                now[i, j] = W[i, j]
        choose_tiles(
            X[start:stop], mean, KT, now, codes, shapes, keys, flat, memory, bytes_, levels, cells, Z, ranks, counts,
            rows, sources,
        )  # fmt: skip
        total = 0.0
        for i in range(p):
            m = counts[i]
            _move_component(
                i, Z, rows[i, :m], sources[i, :m], codes[i], shapes[i], flat[i], scale, memory, bytes_, levels, edges,
                moments[i], tilts[i], offsets, numbers, samples, product,
            )  # fmt: skip
            value, growth = _sweep_row(
                i, W, inverse, moments[i], tilts[i], flat[i], covariance_inverse, iterations, work
            )  # fmt: skip
            total += value
            log_det += growth
        if (sweeps + s) % refresh_every == 0:  # the first too: from a bad start it is the longest
            fresh = np.linalg.inv(W)
            for i in range(p):
                for j in range(k):
                    inverse[i, j] = fresh[i, j]
            log_det = np.linalg.slogdet(W)[1]
        losses[s] = total + offsets.sum() + log_normaliser - log_det
    return log_det
