"""Sums of weighted squares of a few samples, compiled: the moments' changes, without a copy of the samples.

Tiles of the sum stay in registers while all samples go by; each sample is read
where it lies, a cache line at a time, so rows that begin where cache lines do
are quickest (:func:`make_readable`). About half of the tiles are needed.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import add_row, is_flat, place, repeat

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a0fde5d6c80eadc0"
#: Bytes of a vector, and vectors side by side in a tile of four rows: what the processor has registers for.
VECTOR, MOST = (64, 4) if binding.get_host_cpu_features().get("avx512f") else (32, 2)
#: Components up to which this is quicker than copies and BLAS.
OUTER = 64
#: Bytes of a cache line.
LINE = 64


def make_readable(rows: int, k: int, dtype: np.dtype[np.floating]) -> npt.NDArray[np.floating]:
    """An array ``(rows, k)`` that begins where a cache line does, with a vector's room behind it."""
    size, item = rows * k, np.dtype(dtype).itemsize
    room = np.empty(size + (LINE + VECTOR) // item, dtype)
    first = -room.ctypes.data % LINE // item
    return room[first : first + size].reshape(rows, k)


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
            number, long = context.get_data_type(numbers.dtype), ir.IntType(64)
            lanes, item = VECTOR * 8 // numbers.dtype.bitwidth, numbers.dtype.bitwidth // 8
            vector = ir.VectorType(number, lanes)
            fused = {"flags": ("contract",)}  # one instruction for product and sum, where there is one

            def whole(value):
                return ir.Constant(long, value)

            def at(pointer):
                return builder.bitcast(pointer, vector.as_pointer())

            before = builder.block
            head, body, done = (builder.append_basic_block(f"tile.{name}") for name in ("head", "body", "done"))
            builder.branch(head)
            builder.position_at_end(head)
            s = builder.phi(long)
            s.add_incoming(whole(0), before)
            sums = [builder.phi(vector) for _ in range(rows * vectors)]
            for total in sums:
                total.add_incoming(ir.Constant(vector, None), before)
            builder.cbranch(builder.icmp_signed("<", s, m_), body, done)

            builder.position_at_end(body)
            sample = builder.mul(builder.zext(builder.load(place(context, builder, chosen, chosen_, s)), long), k_)
            left = place(context, builder, numbers, numbers_, builder.add(sample, row_))
            right = place(context, builder, numbers, numbers_, builder.add(sample, column_))
            factor = repeat(builder, builder.load(place(context, builder, factors, factors_, s)), vector)
            scaled = [
                builder.fmul(factor, builder.load(at(builder.gep(right, [whole(v * lanes)])), align=item))
                for v in range(vectors)
            ]
            for r in range(rows):
                one = repeat(builder, builder.load(builder.gep(left, [whole(r)])), vector)
                for v in range(vectors):
                    total = sums[r * vectors + v]
                    total.add_incoming(builder.fadd(builder.fmul(one, scaled[v], **fused), total, **fused), body)
            s.add_incoming(builder.add(s, whole(1)), body)
            builder.branch(head)

            builder.position_at_end(done)
            for r in range(rows):
                start = builder.add(to_, builder.mul(width_, whole(r)))
                for v in range(vectors):
                    pointer = place(context, builder, product, product_, builder.add(start, whole(v * lanes)))
                    builder.store(sums[r * vectors + v], at(pointer), align=item)
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
