"""The incremental solver's choice of majorizers, compiled: whiten, unmix, gaps, and the q largest of each sample.

Few components lie as rows, so that loops run along samples; more of them lie
as the samples do, so that nothing is turned round. The chosen pairs go to a
bucket for each component. Twin: the gaps and select_largest of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.blas import multiply
from majorica.kernels.gaps import BLOCK, gap_block, gap_row, repeat_shapes
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "ce2ea179eecfe17a"
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
    ranks = borrow(ranks)
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
    bits = borrow(bits)
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
def fill_buckets(ranks, names, shift, sources, olds, along, apart, counts, rows, new, old):
    """Put each sample's chosen components into their buckets: sample, source, and where its majorizer touches.

    Component i's source of sample t is ``sources[t * along + i * apart]``,
    `shift` the number of the first sample. No branches: what is not chosen is
    written too, and written over by the next.
    """
    p, room = rows.shape
    rows, new, old = borrow(rows).reshape(p * room), borrow(new).reshape(p * room), borrow(old).reshape(p * room)
    for t in range(ranks.shape[1]):
        for r in range(ranks.shape[0]):
            key = ranks[r, t]
            i = names - (key & names)
            place = counts[i]
            at, given = np.uintp(i * room + place), np.uintp(t * along + i * apart)
            rows[at] = shift + t
            new[at] = sources[given]
            old[at] = olds[given]
            counts[i] = place + (1 if key > names else 0)


@nb.njit(nogil=True, cache=True)
def choose_rows(X, shift, mean, K, W, codes, shapes, keys, touch, ranks, work, before, white, counts, rows, new, old):
    """A part of a mini-batch, its components as rows: fill its columns of `white` (k, all) and the buckets.

    The part begins at column `shift`. `keys` (p, b) are random keys, or empty
    for the greedy choice by gap. Component i's chosen samples are ``rows[i,
    :counts[i]]``, in order, their sources `new` and where their majorizers touch `old`.
    """
    b, f = X.shape
    p, k = W.shape
    X, touch, work, before, ranks = borrow(X), borrow(touch), borrow(work), borrow(before), borrow(ranks)
    total = white.shape[1]
    flat = borrow(white).reshape(k * total)
    centred, gap, Y = work[: f * b], work[f * b : (f + 1) * b], work[(f + 1) * b : (f + 1 + p) * b]
    touching = before[: p * b]
    for j in range(f):
        source, target, middle = X[:, j], centred[j * b : j * b + b], mean[j]
        for t in range(b):
            target[t] = source[t] - middle
    multiply(k, b, f, K.reshape(k * f), 0, f, 0, centred, 0, b, flat, shift, total, 0.0)
    multiply(p, b, k, W.reshape(p * k), 0, k, 0, flat, shift, total, Y, 0, b, 0.0)
    names = name_bits(p)
    bits = gap.view(ranks.dtype)
    ranks[:] = names
    for i in range(p):
        place = touching[i * b : i * b + b]
        column = touch[:, i]
        for t in range(b):
            place[t] = column[t]
        if keys.size:
            gap[:] = keys[i]
        else:
            gap_row(Y[i * b : i * b + b], place, codes[i], shapes[i], gap)
        rank_row(bits, names - i, ~names, ranks)
    counts[:] = 0
    fill_buckets(ranks, names, shift, Y, touching, 1, b, counts, rows, new, old)


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
def choose_samples(
    X, shift, mean, KT, WT, codes, shapes, keys, touch, ranks, work, before, lows, white, counts, rows, new, old
):  # fmt: skip
    """:func:`choose_rows` with samples as they lie, in `white` (all, k) too; `KT` and `WT` are transposed.

    `mean` is so many times over that a loop along it is worth vectorising.
    """
    b, f = X.shape
    k, p = WT.shape
    X, touch, work, white = borrow(X).reshape(b * f), borrow(touch).reshape(b * p), borrow(work), borrow(white)
    tile = tile_of(b, f, k)
    names = name_bits(p)
    length = max(1, BLOCK // p) * p
    params, rest = work[: 6 * length].reshape(6, length), work[6 * length :]
    shared = repeat_shapes(codes, shapes, params)
    for i in range(p):
        lows[i] = names - i
    counts[:] = 0
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred, Y, gap = rest[: m * f], rest[m * f : m * (f + p)], rest[m * (f + p) : m * (f + 2 * p)]
        raw, touching = X[start * f : (start + m) * f], touch[start * p : (start + m) * p]
        for begin in range(0, m * f, mean.size):
            source, target = raw[begin : begin + mean.size], centred[begin : begin + mean.size]
            for j in range(source.size):
                target[j] = source[j] - mean[j]
        z, y = white[shift + start : shift + start + m], Y.reshape(m, p)
        np.dot(centred.reshape(m, f), KT, z)
        np.dot(z, WT, y)
        if keys.size:
            for t in range(m):
                for i in range(p):
                    gap[t * p + i] = keys[i, start + t]
        elif shared >= 0:
            for begin in range(0, m * p, length):
                stop = min(begin + length, m * p)
                gap_block(Y[begin:stop], touching[begin:stop], shared, params, gap[begin:stop])
        else:
            _gaps_by_rows(y, touching.reshape(m, p), codes, shapes, gap.reshape(m, p), rest[m * (f + 2 * p) :], before)
        level = ranks[:, :m]
        rank_samples(gap.view(ranks.dtype).reshape(m, p), lows, ~names, names, level)
        fill_buckets(level, names, shift + start, Y, touching, p, 1, counts, rows, new, old)
