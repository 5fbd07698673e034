"""Sums of weighted squares of few components, compiled: all components' at once, from samples that lie in rows.

The product of two rows is made once for several components' weights, and sums
stay in registers while the samples go by. Twin: ``(U * Z[a]) @ Z[b]`` for all
rows a and b.
"""

from __future__ import annotations

import numba as nb
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat
from majorica.kernels.products import HIGH, ROWS
from majorica.kernels.rows import LANES
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "64a8acbe98c8890c"
#: Components up to which this is quicker than squares of one component after the other.
FEW_PAIRS = 32
#: Components whose sums are made together: tiles of rows, and no more than threads like to share.
TOGETHER = 12
#: Bytes of samples and weights that are gone through at a time: they stay in the first-level cache.
AT_A_TIME = 2**15
#: Rows beyond the last: those of a vector of float32, or of two tiles.
REACH = max(VECTOR // 4, MOST + ROWS)


@nb.njit(nogil=True, cache=True, inline="always")
def beyond(k):
    """Rows to make room for, for `k` of them: tiles and vectors reach beyond the last, to numbers without meaning."""
    return k + REACH


@nb.njit(nogil=True, cache=True, inline="always")
def between(k):
    """How far a component's sums lie from the next one's: `k` rows of a few numbers more than `k`."""
    return k * (k + MOST)


def _weighted(many):
    """An instruction for sums of so many components."""

    @intrinsic
    def weighted(typingctx, U, row, Z, a, b, stride, at, width, out, to, apart):
        """Add to `out` what rows of `U` weigh the products of row a of `Z` with MOST others from b on."""

        def generate(context, builder, signature, arguments):
            U_, row_, Z_, a_, b_, stride_, at_, width_, out_, to_, apart_ = arguments
            tile = Tile(context, builder, U.dtype)

            def start(kind, array, line):
                return tile.point(kind, array, builder.add(builder.mul(line, stride_), at_))

            weights, own, others = start(U, U_, row_), start(Z, Z_, a_), start(Z, Z_, b_)

            def terms(t):
                one = tile.load(builder.gep(own, [t]))
                return (
                    lambda r: tile.load(builder.gep(tile.beside(weights, stride_, r), [t])),
                    lambda v: builder.fmul(one, tile.load(builder.gep(tile.beside(others, stride_, v), [t]))),
                )

            sums, target = tile.accumulate(width_, tile.lanes, many, MOST, terms), tile.point(out, out_, to_)
            for first in range(0, many * MOST, tile.lanes):
                some = sums[first : first + tile.lanes]
                totals = tile.totals(some)
                for k in range(0, len(some), MOST):
                    found, there = (
                        tile.pick(totals, range(k, k + MOST)),
                        tile.beside(target, apart_, (first + k) // MOST),
                    )
                    known = builder.load(builder.bitcast(there, found.type.as_pointer()), align=tile.item)
                    tile.store(builder.fadd(known, found), there)
            return context.get_dummy_value()

        if not (is_flat(U, Z, out) and U.dtype == Z.dtype == out.dtype):
            return None
        place = types.intp
        return types.void(U, place, Z, *(place,) * 5, out, place, place), generate

    return weighted


_weighted_low, _weighted_high = _weighted(ROWS), _weighted(HIGH)


@nb.njit(nogil=True, cache=True)
def add_pairs(U, p, Z, k, stride, width, out):
    """Add ``sum_t U[i, t] Z[a, t] Z[b, t]`` for b >= a to ``out[i between(k) + a (k + MOST) + b]``.

    The first p rows of `U` and k of `Z`, all flat arrays; rows are `stride`
    apart, `width` is a ``whole_width``, and there is room for
    ``beyond(p)`` rows of `U` and ``beyond(k)`` of `Z`, and in `out` for as many components as rows of `U`.
    A component's sums are the same to the bit whichever and however many others are with it.
    """
    apart = between(k)
    wide = MOST * VECTOR // U.itemsize
    length = max(wide, AT_A_TIME // (U.itemsize * (min(k, TOGETHER) + k)) // wide * wide)
    for at in range(0, width, length):
        now = min(length, width - at)
        for a in range(k):
            for b in range(a, k, MOST):
                row = 0
                while row < p:
                    to = row * apart + a * (k + MOST) + b
                    if p - row > ROWS and (HIGH == ROWS or not HIGH < p - row <= 2 * ROWS):
                        _weighted_high(U, row, Z, a, b, stride, at, now, out, to, apart)
                        row += HIGH
                    else:
                        _weighted_low(U, row, Z, a, b, stride, at, now, out, to, apart)
                        row += ROWS


@nb.njit(nogil=True, cache=True)
def add_triangle(sums, i, k, packed):
    """Add component i of the `sums` of :func:`add_pairs` to a triangle, row after row in `packed` (k (k + 1) / 2,)."""
    start, at = i * between(k), 0
    for a in range(k):
        for b in range(a, k):
            packed[at] += sums[start + a * (k + MOST) + b]
            at += 1


@nb.njit(nogil=True, cache=True)
def fold_triangle(sums, i, k, keep, share, moments, at):
    """``moments <- keep moments + share sums`` of component i, (k k,) numbers from `at` on.

    Right where rows are read: from squares of LANES rows on the diagonal on.
    """
    start = i * between(k)
    for a in range(k):
        for b in range(a, k):
            entry = keep * moments[at + a * k + b] + share * sums[start + a * (k + MOST) + b]
            moments[at + a * k + b] = entry
            if a // LANES == b // LANES:
                moments[at + b * k + a] = entry
