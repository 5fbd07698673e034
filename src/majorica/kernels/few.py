"""Mini-batches of few components, compiled: loops run along samples, and every component takes all of them.

A component that is not among a sample's q best changes by nothing there. That
is more arithmetic than picking samples one by one, and less time. Twin: the
gaps, select_largest and update_moments of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.choose import name_bits
from majorica.kernels.gaps import change_row, gap_row
from majorica.kernels.rounding import decode, hide_settled, keep_codes, round_entries
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "340422f24b3ee978"


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
def _keep_chosen(ranks, name, names, touching, Y, old, y):
    """A component's chosen sources `y`, and for all others where their majorizers touch; `old` is that for all."""
    ranks = borrow(ranks)
    level = ranks[0]
    for t in range(y.size):
        key, new, kept = level[t], np.float64(Y[t]), np.float64(touching[t])
        old[t] = kept
        y[t] = new if ((key & names) == name) & (key > names) else kept
    for r in range(1, ranks.shape[0]):
        level = ranks[r]
        for t in range(y.size):
            key, new, kept = level[t], np.float64(Y[t]), y[t]
            y[t] = new if ((key & names) == name) & (key > names) else kept


@nb.njit(nogil=True, cache=True)
def move_rows(
    X, mean, K, W, codes, shapes, flat, keys, touch, packed, levels, edges, limits, q, ranks, work, before, numbers,
    named, sums, tilts, offsets,
):  # fmt: skip
    """A part of a mini-batch: fill what it changes the moments (packed), tilts and offsets by, and the memory.

    `keys` (p, b) are random keys, or empty for the greedy choice by gap.
    `sums` (p, k (k + 1) / 2) and `tilts` (p, k) are in the samples' precision.
    The memory is `touch` or `packed` (b, p), the other empty; `limits` are those of ``repeat_cells``.
    """
    b, f = X.shape
    p, k = W.shape
    pairs = k * (k + 1) // 2
    X, touch, work, before, ranks, numbers = (
        borrow(X), borrow(touch), borrow(work), borrow(before), borrow(ranks)[: q * b].reshape(q, b), borrow(numbers),
    )  # fmt: skip
    centred, gap, Z = work[: f * b], work[f * b : (f + 1) * b], work[(f + 1) * b : (f + 1 + k) * b]
    Y, rest = work[(f + 1 + k) * b : (f + 1 + k + p) * b], work[(f + 1 + k + p) * b :]
    weights, leans, products = rest[: p * b], rest[p * b : 2 * p * b], rest[2 * p * b : (2 * p + pairs) * b]
    for j in range(f):
        source, target, middle = X[:, j], centred[j * b : j * b + b], mean[j]
        for t in range(b):
            target[t] = source[t] - middle
    np.dot(K, centred.reshape(f, b), Z.reshape(k, b))
    np.dot(W, Z.reshape(k, b), Y.reshape(p, b))
    packed, limits, room = borrow(packed), borrow(limits), limits.shape[1] // p
    if packed.size:
        decode(packed, flat, levels, 1, b, before)
    names = name_bits(p)
    bits = gap.view(ranks.dtype)
    ranks[:] = names
    for i in range(p):
        touching, column = before[i * b : i * b + b], touch[:, i]
        for t in range(0 if packed.size else b):
            touching[t] = column[t]
        if keys.size:
            gap[:] = keys[i]
        else:
            gap_row(Y[i * b : i * b + b], touching, codes[i], shapes[i], gap)
            if packed.size:
                own = limits[0, i * room :], limits[1, i * room :], limits[2, i * room :]
                hide_settled(Y[i * b : i * b + b], touching, *own, gap)
        rank_row(bits, names - i, ~names, ranks)
    old, y, weight, lean = numbers[0, :b], numbers[1, :b], numbers[2, :b], numbers[3, :b]
    some_flat = False
    for i in range(p):
        touching, column = before[i * b : i * b + b], touch[:, i]
        _keep_chosen(ranks, names - i, names, touching, Y[i * b : i * b + b], old, y)
        stored = y
        if packed.size:
            stored = numbers[4, :b]
            round_entries(y, old, levels, edges, 1 if flat[i] > 0 else 0, stored, named)
        offsets[i] = change_row(old, y, stored, codes[i], shapes[i], weight, lean)
        if packed.size:
            keep_codes(old, stored, named, packed[:, i])
        else:
            for t in range(b):
                column[t] = old[t]
        target, other, given = weights[i * b : i * b + b], leans[i * b : i * b + b], weight
        if flat[i] > 0:
            target, other, given = other, target, lean
            some_flat = True
        for t in range(b):
            target[t] = given[t]
            other[t] = 0
    place = 0
    for a in range(k):
        for c in range(a, k):
            row0, row1, target = Z[a * b : a * b + b], Z[c * b : c * b + b], products[place * b : place * b + b]
            for t in range(b):
                target[t] = row0[t] * row1[t]
            place += 1
    np.dot(weights.reshape(p, b), products.reshape(pairs, b).T, sums)
    if some_flat:
        np.dot(leans.reshape(p, b), Z.reshape(k, b).T, tilts)
    else:
        tilts[:] = 0


@nb.njit(nogil=True, cache=True)
def add_parts(i, flat, scale, sums, part_tilts, part_offsets, A, tilt, offsets):
    """Add what all parts change component `i` by, `scale` times: `sums` (parts, p, pairs) and so on."""
    k = tilt.size
    for part in range(sums.shape[0]):
        offsets[i] += scale * part_offsets[part, i]
        if flat > 0:
            for j in range(k):
                tilt[j] += scale * part_tilts[part, i, j]
            continue
        place = 0
        for a in range(k):
            for c in range(a, k):
                A[a, c] += scale * sums[part, i, place]
                A[c, a] = A[a, c]
                place += 1
