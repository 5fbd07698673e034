"""The incremental solver's choice of majorizers, compiled: whiten, unmix, gaps, and the q largest of each sample.

Components lie as the samples do, so that nothing is turned round. The chosen
pairs go to a bucket for each component. Twin: the gaps and select_largest of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.gaps import gap_block, gap_row
from majorica.kernels.ranks import name_bits, rank_samples
from majorica.kernels.rounding import decode, hide_settled
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "40738801edc285d8"
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
def fill_buckets(ranks, names, shift, ends, rows):
    """Put each sample, the first of which has the number `shift`, into the buckets of its chosen components.

    Component i's bucket goes on at ``rows[ends[i]]``. No branches: what is
    not chosen is written too, and written over by the next.
    """
    rows, ends = borrow(rows), borrow(ends)
    for t in range(ranks.shape[1]):
        for r in range(ranks.shape[0]):
            key = ranks[r, t]
            i = np.uintp(names - (key & names))
            place = ends[i]
            rows[place] = shift + t
            ends[i] = place + np.uintp(key > names)


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
    X, shift, known, mean, KT, WT, codes, shapes, flat, shared, params, keys, touch, packed, levels, limits, q, ranks,
    work, before, lows, white, unmixed, ends, rows,
):  # fmt: skip
    """A part of a mini-batch: fill its rows of `white`, unless they are `known`, and of `unmixed`, and the buckets.

    Its rows of `white` (all, k) and `unmixed` (all, p) begin at `shift`.
    `KT` and `WT` are transposed, `mean` so many times over that a loop along
    it is worth vectorising; `shared` and `params` are those of ``repeat_shapes``,
    `lows` (p,) the components' names in keys. `keys` (p, b) are random keys, or
    empty for the greedy choice by gap. Component i's chosen samples are put
    into `rows`, in order, from ``ends[i]`` on, which is moved to their end.
    The memory is `touch` or `packed` (b, p), the other empty; `limits` are those of ``repeat_cells``.
    """
    b, f = X.shape
    k, p = WT.shape
    X, touch, work, white = borrow(X).reshape(b * f), borrow(touch).reshape(touch.size), borrow(work), borrow(white)
    packed, before, limits, unmixed = borrow(packed), borrow(before), borrow(limits), borrow(unmixed)
    tile = tile_of(b, f, k)
    names = name_bits(p)
    length = params.shape[1]
    for start in range(0, b, tile):
        m = min(tile, b - start)
        centred, gap = work[: m * f], work[m * f : m * (f + p)]
        raw, touching = X[start * f : (start + m) * f], before[: m * p]
        if packed.size:
            decode(packed[start : start + m], flat, levels, touching)
        else:
            touching = touch[start * p : (start + m) * p]
        for begin in range(0, 0 if known else m * f, mean.size):
            source, target = raw[begin : begin + mean.size], centred[begin : begin + mean.size]
            for j in range(source.size):
                target[j] = source[j] - mean[j]
        z, y = white[shift + start : shift + start + m], unmixed[shift + start : shift + start + m]
        Y = y.reshape(m * p)
        if not known:
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
            own = work[m * (f + p) :], before[m * p :]
            _gaps_by_rows(y, touching.reshape(m, p), codes, shapes, gap.reshape(m, p), *own)
        for begin in range(0, m * p if packed.size and not keys.size else 0, length):
            stop = min(begin + length, m * p)
            hide_settled(Y[begin:stop], touching[begin:stop], limits[0], limits[1], limits[2], gap[begin:stop])
        level = borrow(ranks)[: q * m].reshape(q, m)
        rank_samples(gap.view(ranks.dtype), p, lows, names, level)
        fill_buckets(level, names, shift + start, ends, rows)
