"""The incremental solver's choice of majorizers, compiled: whiten, unmix, gaps, and the q largest of each sample.

Few components lie as rows, so that loops run along samples; more of them lie
as the samples do, so that nothing is turned round. The chosen pairs go to a
bucket for each component. Twin: the gaps and select_largest of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.gaps import BLOCK, gap_block, gap_row, repeat_shapes

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "9ffaef165d425349"
#: Components below which they lie as rows: loops over a sample would be too short.
SHORT = 16
#: Operations below which BLAS has quicker products of small matrices.
SMALL = 1_000_000


@nb.njit(nogil=True, cache=True)
def tile_of(b, f, k):
    """Samples a product: few enough for BLAS's small matrices, of about the same number each."""
    most = SMALL // (k * max(f, k))
    if most < 32:  # too many components for that
        most = 256
    tiles = -(-b // min(most, 512))
    return -(-b // tiles)


@nb.njit(nogil=True, cache=True)
def name_bits(p):
    """The last bits of a key that can name `p` components, all set."""
    names = 1
    while names < p:
        names *= 2
    return names - 1


@nb.njit(nogil=True, cache=True)
def rank_row(bits, low, clear, ranks):
    """Keep of each sample the largest keys so far, in descending order down `ranks` (q, m).

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
def rank_samples(bits, lows, clear, names, ranks):
    """:func:`rank_row` for samples as they lie: `bits` (m, p) hold all gaps, `lows` (p,) the names."""
    q, kind = ranks.shape[0], bits.dtype.type
    none = kind(names)
    for t in range(bits.shape[0]):
        row = bits[t]
        best = none
        for j in range(row.size):
            best = max(best, kind((row[j] & clear) | lows[j]))
        ranks[0, t] = best
        for r in range(1, q):
            above, best = best, none
            for j in range(row.size):
                key = kind((row[j] & clear) | lows[j])
                best = max(best, key if key < above else none)
            ranks[r, t] = best


@nb.njit(nogil=True, cache=True)
def choose_rows(X, means, K, W, codes, shapes, keys, touch, ranks, work, before, Z, counts, rows, sources, olds):
    """A part of a mini-batch with its components as rows: fill `Z` (k b numbers) and each component's bucket.

    `keys` (p, b) are random keys, or empty for the greedy choice by gap.
    Component i's chosen samples are ``rows[i, :counts[i]]``, in order, their
    sources ``sources[i, :counts[i]]`` and where their majorizers touch `olds`.
    """
    b, f = X.shape
    p, k = W.shape
    centred, gap = work[: f * b].reshape(f, b), work[f * b : (f + 1) * b]
    Y = work[(f + 1) * b : (f + 1 + p) * b].reshape(p, b)
    white, old = Z[: k * b].reshape(k, b), before[: p * b].reshape(p, b)
    for t in range(b):
        for j in range(f):
            centred[j, t] = X[t, j] - means[j]
    np.dot(K, centred, white)
    np.dot(W, white, Y)
    for t in range(b):
        for i in range(p):
            old[i, t] = touch[t, i]
    names = name_bits(p)
    bits = gap.view(ranks.dtype)
    ranks[:] = names
    for i in range(p):
        if keys.size:
            gap[:] = keys[i]
        else:
            gap_row(Y[i], old[i], codes[i], shapes[i], gap)
        rank_row(bits, names - i, ~names, ranks)
    counts[:] = 0
    for t in range(b):
        for r in range(ranks.shape[0]):
            key = ranks[r, t]
            i = names - (key & names)
            place = counts[i]
            rows[i, place] = t
            sources[i, place] = Y[i, t]
            olds[i, place] = old[i, t]
            counts[i] = place + (1 if key > names else 0)


@nb.njit(nogil=True, cache=True)
def _gaps_by_rows(y, old, codes, shapes, gap, work, before):
    """Gaps of densities that differ from each other, one component after the other."""
    m = y.shape[0]
    now, row, then = work[:m], work[m : 2 * m], before[:m]
    for i in range(codes.size):
        for t in range(m):
            now[t], then[t] = y[t, i], old[t, i]
        gap_row(now, then, codes[i], shapes[i], row)
        for t in range(m):
            gap[t, i] = row[t]


@nb.njit(nogil=True, cache=True)
def choose_samples(X, means, KT, WT, codes, shapes, keys, touch, ranks, work, before, lows, Z, counts, rows, sources, olds):
    """:func:`choose_rows` with samples as they lie, in `Z` too; `KT` and `WT` are transposed."""
    b, f = X.shape
    k, p = WT.shape
    tile = tile_of(b, f, k)
    names, q = name_bits(p), ranks.shape[0]
    length = max(1, BLOCK // p) * p
    params, rest = work[: 6 * length].reshape(6, length), work[6 * length :]
    shared = repeat_shapes(codes, shapes, params)
    for i in range(p):
        lows[i] = names - i
    white, memory = Z[: k * b].reshape(b, k), touch.reshape(b * p)
    counts[:] = 0
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred, Y, gap = rest[: m * f], rest[m * f : m * (f + p)], rest[m * (f + p) : m * (f + 2 * p)]
        raw, old = X.reshape(b * f)[start * f : (start + m) * f], memory[start * p : (start + m) * p]
        for begin in range(0, m * f, means.size):
            source, target = raw[begin : begin + means.size], centred[begin : begin + means.size]
            for j in range(source.size):
                target[j] = source[j] - means[j]
        z, y = white[start : start + m], Y.reshape(m, p)
        np.dot(centred.reshape(m, f), KT, z)
        np.dot(z, WT, y)
        if keys.size:
            for t in range(m):
                for i in range(p):
                    gap[t * p + i] = keys[i, start + t]
        elif shared >= 0:
            for begin in range(0, m * p, length):
                stop = min(begin + length, m * p)
                gap_block(Y[begin:stop], old[begin:stop], shared, params, gap[begin:stop])
        else:
            _gaps_by_rows(y, old.reshape(m, p), codes, shapes, gap.reshape(m, p), rest[m * (f + 2 * p) :], before)
        level = ranks[:, :m]
        rank_samples(gap.view(ranks.dtype).reshape(m, p), lows, ~names, names, level)
        for t in range(m):
            for r in range(q):
                key = level[r, t]
                i = names - (key & names)
                place = counts[i]
                rows[i, place] = start + t
                sources[i, place] = Y[t * p + i]
                olds[i, place] = old[t * p + i]
                counts[i] = place + (1 if key > names else 0)
