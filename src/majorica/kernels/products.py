"""Products of a tile of samples with small matrices, compiled, in registers; components lie in rows.

All arrays are flat. Rows have whole vectors: `width` is a ``whole_width``, and
they lie `stride` apart; those that begin where cache lines do are quickest.
Where it says whole rows, there are ``whole_rows`` of them, those at the end
without meaning.
"""

from __future__ import annotations

import numba as nb
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import fetch, is_flat
from majorica.kernels.scratch import LINE
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "0b87703576b7f0f9"
#: Rows of a tile, and of a higher one: those left over are always whole tiles of ROWS.
ROWS, HIGH = 4, 6 if MOST == 4 else 4
#: Components and channels up to which this is quicker than BLAS.
FEW = 256 if MOST == 4 else 128
#: Bytes of a component's samples in a tile, and with so many components that all rows leave the second-level cache.
ROW, SHORT_ROW, MANY = 3072, 2048, 48


def tile_of(p: int, item: int) -> int:
    """Samples a tile, of p components or channels: two tiles' rows stay in the first-level cache."""
    return (ROW if p <= MANY else SHORT_ROW) // item


@nb.njit(nogil=True, cache=True, inline="always")
def whole_width(m, item):
    """Numbers in a row of `m` samples: whole tiles."""
    wide = MOST * VECTOR // item
    return -(-m // wide) * wide


@nb.njit(nogil=True, cache=True, inline="always")
def whole_stride(m, item):
    """How far rows of `m` samples lie apart: a vector more, or they would all want the same places of the cache."""
    wide = MOST * VECTOR // item
    return -(-m // wide) * wide + VECTOR // item


@nb.njit(nogil=True, cache=True, inline="always")
def whole_rows(p, item):
    """Rows to make room for, for `p` of them: whole tiles, and whole vectors when they are turned."""
    lanes = VECTOR // item
    return -(-p // lanes) * lanes


@nb.njit(nogil=True, cache=True, inline="always")
def whole_tiles(p):
    """Rows that are multiplied, for `p` of them: whole tiles."""
    return -(-p // ROWS) * ROWS


@intrinsic
def _turn(typingctx, X, at, f, means, first, out, to, width):
    """As many samples as a vector has numbers, from `at` on and `f` apart, less `means`, to rows `width` apart."""

    def generate(context, builder, signature, arguments):
        X_, at_, f_, means_, first_, out_, to_, width_ = arguments
        tile = Tile(context, builder, out.dtype)
        mean = tile.load(tile.point(means, means_, first_))
        start, target = tile.point(X, X_, at_), tile.point(out, out_, to_)
        samples = [builder.fsub(tile.read(tile.beside(start, f_, t)), mean) for t in range(tile.lanes)]
        for j, row in enumerate(tile.transpose(samples)):
            tile.store(row, tile.beside(target, width_, j))
        return context.get_dummy_value()

    if not (is_flat(X, means, out) and means.dtype == out.dtype):
        return None
    place = types.intp
    return types.void(X, place, place, means, place, out, place, place), generate


@nb.njit(nogil=True, cache=True)
def turn_samples(X, start, m, f, means, out, stride, width):
    """Samples `start` to ``start + m`` less their mean, as rows of `width` with zeros at the end.

    `means` and `out` are whole rows for f, of the samples' precision or of float64.
    """
    lanes = VECTOR // out.itemsize
    # Vectors reach beyond a sample's end, but must not beyond the last one's.
    most = min(m, (X.size - (means.size - f)) // f - start)
    whole = max(most, 0) // lanes * lanes
    for t in range(0, whole, lanes):
        for j in range(0, f, lanes):
            _turn(X, (start + t) * f + j, f, means, j, out, j * stride + t, stride)
    for j in range(f):
        for t in range(whole, m):
            out[j * stride + t] = X[(start + t) * f + j] - means[j]
        for t in range(m, width):
            out[j * stride + t] = 0


@intrinsic
def _unmix_rows(typingctx, B, row, k, T, stride, at, Y, to, width):
    """A tile of rows of `B`, k numbers each, times k rows of `T`, `stride` apart, from `at` on."""

    def generate(context, builder, signature, arguments):
        B_, row_, k_, T_, stride_, at_, Y_, to_, width_ = arguments
        tile = Tile(context, builder, B.dtype)
        first, start = tile.point(B, B_, builder.mul(row_, k_)), tile.point(T, T_, at_)
        rows = [tile.beside(first, k_, r) for r in range(ROWS)]

        def terms(j):
            samples = tile.beside(start, stride_, j)
            return (
                lambda r: tile.load_repeated(builder.gep(rows[r], [j])),
                lambda v: tile.load(tile.beside(samples, v * tile.lanes)),
            )

        tile.store_rows(tile.accumulate(k_, 1, ROWS, MOST, terms), MOST, tile.point(Y, Y_, to_), width_)
        return context.get_dummy_value()

    if not (is_flat(B, T, Y) and B.dtype == T.dtype == Y.dtype):
        return None
    place = types.intp
    return types.void(B, place, place, T, place, place, Y, place, place), generate


@nb.njit(nogil=True, cache=True)
def unmix_rows(B, p, k, T, stride, first, Y, apart, width, coming, start, stop):
    """``Y = B T[:, first : first + width]``; `B` and `Y` have whole tiles for p, rows of `Y` lie `apart`.

    Meanwhile ``coming[start:stop]``, which will be read next, is asked for: some lines each tile.
    """
    wide, line = MOST * VECTOR // B.itemsize, LINE // coming.itemsize
    tiles = width // wide * -(-p // ROWS)
    lines = -(-(stop - start) // max(1, tiles * line))
    for t in range(0, width, wide):
        for row in range(0, p, ROWS):
            _unmix_rows(B, row, k, T, stride, first + t, Y, row * apart + t, apart)
            for at in range(start, start + lines * line, line):
                fetch(coming, at)
            start += lines * line


def _correlation(many, *, adds=False):
    """An instruction that writes inner products of so `many` rows with MOST others, or `adds` them to what is there."""

    @intrinsic
    def correlation(typingctx, S, row, Y, column, stride, width, out, to, rows):
        """Inner products of rows of `S` and of `Y`."""

        def generate(context, builder, signature, arguments):
            S_, row_, Y_, column_, stride_, width_, out_, to_, rows_ = arguments
            tile = Tile(context, builder, S.dtype)
            left = tile.point(S, S_, builder.mul(row_, stride_))
            right = tile.point(Y, Y_, builder.mul(column_, stride_))

            def terms(t):
                return (
                    lambda r: tile.load(builder.gep(tile.beside(left, stride_, r), [t])),
                    lambda v: tile.load(builder.gep(tile.beside(right, stride_, v), [t])),
                )

            sums, target = tile.accumulate(width_, tile.lanes, many, MOST, terms), tile.point(out, out_, to_)
            for first in range(0, many * MOST, tile.lanes):
                some = sums[first : first + tile.lanes]
                totals = tile.totals(some)
                for k in range(0, len(some), MOST):
                    own, there = tile.pick(totals, range(k, k + MOST)), tile.beside(target, rows_, (first + k) // MOST)
                    if adds:
                        own = builder.fadd(
                            builder.load(builder.bitcast(there, own.type.as_pointer()), align=tile.item), own
                        )
                    builder.store(own, builder.bitcast(there, own.type.as_pointer()), align=tile.item)
            return context.get_dummy_value()

        if not (is_flat(S, Y, out) and S.dtype == Y.dtype == out.dtype):
            return None
        place = types.intp
        return types.void(S, place, Y, place, place, place, out, place, place), generate

    return correlation


_correlate, _correlate_high, _add_correlation = _correlation(ROWS), _correlation(HIGH), _correlation(ROWS, adds=True)


@nb.njit(nogil=True, cache=True)
def correlate(S, Y, p, stride, width, out, rows, coming, start, stop):
    """``out = S Y^T`` for the first p rows of each; `out` is (rows, rows), at least whole tiles.

    Meanwhile ``coming[start:stop]`` is asked for as in :func:`unmix_rows`.
    """
    line, left = LINE // coming.itemsize, -(-p // ROWS) * ROWS
    tiles = -(-left // HIGH) * -(-p // MOST)
    lines = -(-(stop - start) // max(1, tiles * line))
    row = 0
    while row < left:
        high = left - row >= HIGH and left - row != HIGH + 2
        for column in range(0, p, MOST):
            if high:
                _correlate_high(S, row, Y, column, stride, width, out, row * rows + column, rows)
            else:
                _correlate(S, row, Y, column, stride, width, out, row * rows + column, rows)
            for at in range(start, min(start + lines * line, stop), line):
                fetch(coming, at)
            start += lines * line
        row += HIGH if high else ROWS


@nb.njit(nogil=True, cache=True)
def add_squares(S, p, stride, width, out, rows):
    """``out += S S^T`` for the first p rows, in tiles that reach to the diagonal or beyond; as in :func:`correlate`."""
    for row in range(0, p, ROWS):
        for column in range(row // MOST * MOST, p, MOST):
            _add_correlation(S, row, S, column, stride, width, out, row * rows + column, rows)
