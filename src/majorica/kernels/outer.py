"""Sums of weighted squares of a few samples, compiled: the moments' changes, without a copy of the samples.

Tiles of the sum stay in registers while all samples go by; each sample is read
where it lies, a cache line at a time, so rows that begin where cache lines do
are quickest (:func:`make_readable`). About half of the tiles are needed.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import add_row, is_flat
from majorica.kernels.scratch import aligned
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "5714af3ee09b926e"
#: Components up to which this is quicker than copies and BLAS.
OUTER = 64


def make_readable(rows: int, k: int, dtype: np.dtype[np.floating]) -> npt.NDArray[np.floating]:
    """An array ``(rows, k)`` that begins where a cache line does, with a vector's room behind it."""
    return aligned(rows * k, dtype, VECTOR).reshape(rows, k)


def product_size(k: int, item: int) -> int:
    """Numbers in the `product` of :func:`add_outer`."""
    lanes = VECTOR // item
    return -(-k // 8) * 8 * (-(-k // lanes) * lanes)


def _tile(rows, vectors):
    """An instruction for tiles of so many rows and vectors."""

    @intrinsic
    def tile(typingctx, numbers, chosen, factors, m, k, row, column, product, to, width):
        """Sum of ``factors[s] z[row + r] z[column + c]`` over m chosen samples `z` of k `numbers`.

        Goes into `product` from `to` on, with rows of `width`.
        """

        def generate(context, builder, signature, arguments):
            numbers_, chosen_, factors_, m_, k_, row_, column_, product_, to_, width_ = arguments
            tile = Tile(context, builder, numbers.dtype)
            start = tile.point(numbers, numbers_, tile.whole(0))

            def terms(s):
                index = builder.zext(builder.load(tile.point(chosen, chosen_, s)), k_.type)
                sample = tile.beside(start, index, k_)
                left, right = builder.gep(sample, [row_]), builder.gep(sample, [column_])
                factor = tile.load_repeated(tile.point(factors, factors_, s))
                return (
                    lambda r: tile.load_repeated(tile.beside(left, r)),
                    lambda v: builder.fmul(factor, tile.load(tile.beside(right, v * tile.lanes))),
                )

            sums = tile.accumulate(m_, 1, rows, vectors, terms)
            tile.store_rows(sums, vectors, tile.point(product, product_, to_), width_)
            return context.get_dummy_value()

        if not (is_flat(numbers, chosen, factors, product) and numbers.dtype == factors.dtype == product.dtype):
            return None
        return types.void(numbers, chosen, factors, *(types.intp,) * 4, product, types.intp, types.intp), generate

    return tile


_tile_4x4, _tile_4x3, _tile_4x2, _tile_4x1 = (_tile(4, vectors) for vectors in (4, 3, 2, 1))
_tile_8x2, _tile_8x1 = (_tile(8, vectors) for vectors in (2, 1))


@nb.njit(nogil=True, cache=True)
def _fill_tiles(numbers, chosen, factors, k, product, width):
    """The tiles of the sum that reach to its diagonal or beyond, into `product` with rows of `width`."""
    m, lanes, row = chosen.size, VECTOR // numbers.itemsize, 0
    while row < k:
        column = row // lanes * lanes
        tall = MOST == 4 and width - column <= 2 * lanes and row % 8 == 0 and k - row > 4
        while column < width:
            left, to = (width - column) // lanes, row * width + column
            if tall and left == 2:
                _tile_8x2(numbers, chosen, factors, m, k, row, column, product, to, width)
            elif tall:
                _tile_8x1(numbers, chosen, factors, m, k, row, column, product, to, width)
            elif MOST == 4 and left >= 4:
                _tile_4x4(numbers, chosen, factors, m, k, row, column, product, to, width)
            elif MOST == 4 and left == 3:
                _tile_4x3(numbers, chosen, factors, m, k, row, column, product, to, width)
            elif left >= 2:
                _tile_4x2(numbers, chosen, factors, m, k, row, column, product, to, width)
            else:
                _tile_4x1(numbers, chosen, factors, m, k, row, column, product, to, width)
            column += min(left, MOST) * lanes
        row += 8 if tall else 4


@nb.njit(nogil=True, cache=True)
def add_outer(numbers, chosen, factors, k, sums, product):
    """``sums += sum_s factors_s z_s z_s^T`` from the diagonal on, over the chosen samples of k `numbers` each.

    `numbers` are those of :func:`make_readable`, `sums` (k k,) of float64,
    `product` has the numbers' precision and ``product_size(k)`` numbers.
    """
    lanes = VECTOR // numbers.itemsize
    width = -(-k // lanes) * lanes
    _fill_tiles(numbers, chosen, factors, k, product, width)
    for i in range(k):
        first = i // 4 * 4
        add_row(product, i * width + first, 1.0, sums, i * k + first, k - first)
