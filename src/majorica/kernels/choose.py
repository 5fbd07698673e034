"""The incremental solver's choice of majorizers, compiled: whiten, unmix, gaps, and the q largest of each sample.

Components lie as the samples do, so that nothing is turned round. The chosen
pairs go to a bucket for each component. Twin: the gaps and select_largest of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.buckets import fill_buckets
from majorica.kernels.gaps import gap_block, gap_row
from majorica.kernels.machine import ZERO
from majorica.kernels.ranks import name_bits, rank_samples
from majorica.kernels.rounding import decode, hide_settled
from majorica.kernels.unmixing import OWN, unmix_samples
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "aaa66c938fe4573b"
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
def _gaps_by_rows(y, old, codes, shapes, params, width, gap, work, before):
    """Gaps of densities that differ from each other, one component after the other."""
    m = y.shape[0]
    now, row, then = work[:m], work[m : 2 * m], before[:m]
    for i in range(codes.size):
        for t in range(m):
            now[t], then[t] = y[t, i], old[t, i]
        gap_row(now, then, i, codes[i], shapes[i], params, width, row)
        for t in range(m):
            gap[t, i] = row[t]


@nb.njit(nogil=True, cache=True)
def whiten_samples(X, mean, KT, work, white):
    """Fill `white` (b, k) from raw samples `X` (b, f); `mean` and `work` are those of :func:`choose_samples`."""
    b, f = X.shape
    k = white.shape[1]
    X, work, white, matrix = borrow(X).reshape(b * f), borrow(work), borrow(white), borrow(KT).reshape(f * k)
    flat_white = white.reshape(b * k)
    tile = tile_of(b, f, k)
    for start in range(0, b, tile):
        m = min(tile, b - start)
        raw, centred = X[start * f : (start + m) * f], work[: m * f]
        for first in range(0, m * f, mean.size):
            source, target = raw[first : first + mean.size], centred[first : first + mean.size]
            for j in range(source.size):
                target[j] = source[j] - mean[j]
        if OWN:
            unmix_samples(work, ZERO, m, f, matrix, k, flat_white, start * k)
        else:
            np.dot(centred.reshape(m, f), KT, white[start : start + m])


@nb.njit(nogil=True, cache=True)
def choose_samples(
    X, known, mean, KT, WT, codes, shapes, flat, shared, params, keys, touch, packed, levels, limits, q, ranks, work,
    before, lows, white, y, ends, rows,
):  # fmt: skip
    """A part of a mini-batch: fill `white` (b, k), unless that is `known`, and `y` (b, p), and the buckets.

    `KT` and `WT` are transposed, `mean` so many times over that a loop along
    it is worth vectorising; `shared` and `params` are those of ``repeat_shapes``,
    `lows` (p,) the components' names in keys. `keys` (p, b) are random keys, or
    empty for the greedy choice by gap. Component i's chosen samples are put
    into `rows`, in order, from ``ends[i]`` on, which is moved to their end.
    The memory is `touch` or `packed` (b, p), the other empty; `limits` are those of ``repeat_cells``.
    """
    b, f = X.shape
    k, p = WT.shape
    if not known:
        whiten_samples(X, mean, KT, work, white)
    touch, work, white, y = borrow(touch).reshape(touch.size), borrow(work), borrow(white), borrow(y)
    packed, before, limits, ranks = borrow(packed), borrow(before), borrow(limits), borrow(ranks)
    numbers, width, params = y.reshape(b * p), params.shape[1], borrow(params).reshape(params.size)
    samples, matrix = white.reshape(b * k), borrow(WT).reshape(k * p)
    tile = tile_of(b, f, k)
    names = name_bits(p)
    for start in range(0, b, tile):
        m, at = min(tile, b - start), start * p
        gap, touching, begin = work[: m * p], touch, at
        if packed.size:
            touching, begin = before, 0
            decode(packed[start : start + m], flat, levels, touching)
        if OWN:
            unmix_samples(samples, start * k, m, k, matrix, p, numbers, at)
        else:
            np.dot(white[start : start + m], WT, y[start : start + m])
        if keys.size:
            for t in range(m):
                for i in range(p):
                    gap[t * p + i] = keys[i, start + t]
        elif shared >= 0:
            gap_block(numbers, at, touching, begin, m * p, shared, params, width, gap)
        else:
            own = touching[begin : begin + m * p].reshape(m, p)
            rest = work[m * p :], before[m * p :]
            _gaps_by_rows(y[start : start + m], own, codes, shapes, params, width, gap.reshape(m, p), *rest)
        for first in range(0, m * p if packed.size and not keys.size else 0, width):
            stop = min(first + width, m * p)
            there, own = numbers[at + first : at + stop], touching[first:stop]
            hide_settled(there, own, limits[0], limits[1], limits[2], gap[first:stop])
        rank_samples(gap.view(ranks.dtype), m, p, lows, names, q, ranks)
        fill_buckets(ranks, m, q, p, names, start, ends, rows)
