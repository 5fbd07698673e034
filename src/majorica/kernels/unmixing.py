"""Samples as they lie times a small matrix, compiled, in registers.

Where the processor has vectors of 64 bytes this makes all of them there is to make, as BLAS does. Sums run along a
sample whatever else is multiplied with it, so a source's bits depend on its own sample alone.
"""

from __future__ import annotations

import numba as nb
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "812faddb3c65d6bd"
#: Whether this is for the processor: 32 registers are needed for tiles that keep it busy.
OWN = MOST == 4
#: Samples of a tile one, two, three and four vectors wide: with their factors they fill the registers.
ONE, TWO, THREE, FOUR = 14, 12, 8, 6


def _times(rows, vectors):
    """An instruction for tiles of so many samples and vectors."""

    @intrinsic
    def times(typingctx, X, at, k, B, column, p, Y, to, last):
        """Samples of k numbers, from ``X[at]`` on, times columns of `B`, rows of p, from `column` on.

        Of the last vector `last` numbers count.
        """

        def generate(context, builder, signature, arguments):
            X_, at_, k_, B_, column_, p_, Y_, to_, last_ = arguments
            tile = Tile(context, builder, X.dtype)
            first, start, target = tile.point(X, X_, at_), tile.point(B, B_, column_), tile.point(Y, Y_, to_)
            samples, mask = [tile.beside(first, k_, r) for r in range(rows)], tile.first(last_)

            def terms(j):
                row = tile.beside(start, p_, j)

                def right(v):
                    there = tile.beside(row, v * tile.lanes)
                    return tile.load(there) if v < vectors - 1 else tile.load_first(there, mask)

                return lambda r: tile.load_repeated(builder.gep(samples[r], [j])), right

            for i, total in enumerate(tile.accumulate(k_, 1, rows, vectors, terms)):
                r, v = divmod(i, vectors)
                there = tile.beside(tile.beside(target, p_, r), v * tile.lanes)
                tile.write(total, there, None if v < vectors - 1 else mask)
            return context.get_dummy_value()

        if not (is_flat(X, B, Y) and X.dtype == B.dtype == Y.dtype):
            return None
        place = types.intp
        return types.void(X, place, place, B, place, place, Y, place, place), generate

    return times


_single, _by_one, _by_two, _by_three, _by_four = (
    _times(1, 1), _times(ONE, 1), _times(TWO, 2), _times(THREE, 3), _times(FOUR, 4),
)  # fmt: skip


@nb.njit(nogil=True, cache=True)
def unmix_samples(X, start, m, k, B, p, Y, to):
    """``Y = X B`` for m samples of k numbers from ``X[start]`` on, into `Y` from `to` on; `B` is (k, p). All flat."""
    lanes = VECTOR // X.itemsize
    column, left = 0, -(-p // lanes)
    while left > 0:
        wide = -(-left // -(-left // 4))  # of about the same width, at most four
        high = FOUR if wide == 4 else THREE if wide == 3 else TWO if wide == 2 else ONE
        last = min(lanes, p - column - (wide - 1) * lanes)
        if m < high:
            for s in range(m):
                for c in range(column, min(column + wide * lanes, p), lanes):
                    _single(X, start + s * k, k, B, c, p, Y, to + s * p + c, min(lanes, p - c))
        else:
            for begin in range(0, m, high):
                s = min(begin, m - high)  # the last ones once more, rather than fewer
                at, there = start + s * k, to + s * p + column
                if wide == 4:
                    _by_four(X, at, k, B, column, p, Y, there, last)
                elif wide == 3:
                    _by_three(X, at, k, B, column, p, Y, there, last)
                elif wide == 2:
                    _by_two(X, at, k, B, column, p, Y, there, last)
                else:
                    _by_one(X, at, k, B, column, p, Y, there, last)
        column, left = column + wide * lanes, left - wide
