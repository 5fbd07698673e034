"""Sums of weighted squares of samples with many components, compiled: two copies of each sample, then BLAS.

Twin: ``sum_s weights_s z_s z_s^T``.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat, multiply
from majorica.kernels.rows import combine
from majorica.kernels.tiles import Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a069f8f9e989ade0"
#: Rows of the sums that one product changes, from the first one's diagonal on.
STRIP = 32


@intrinsic
def _copy_twice(typingctx, source, at, factor, out, to, beyond, k):
    """``out[to + j] = source[at + j]`` and, so much `beyond`, `factor` times that, for k numbers."""

    def generate(context, builder, signature, arguments):
        source_, at_, factor_, out_, to_, beyond_, k_ = arguments
        tile = Tile(context, builder, source.dtype)
        start, target = tile.point(source, source_, at_), tile.point(out, out_, to_)
        other, factors = builder.gep(target, [beyond_]), tile.repeated(factor_)

        def put(index, mask, _):
            values = tile.read(builder.gep(start, [index]), mask)
            tile.write(values, builder.gep(target, [index]), mask)
            tile.write(builder.fmul(factors, values), builder.gep(other, [index]), mask)
            return []

        tile.each(k_, [], put)
        return context.get_dummy_value()

    if not (is_flat(source, out) and source.dtype == out.dtype):
        return None
    place = types.intp
    return types.void(source, place, source.dtype, out, place, place, place), generate


@nb.njit(nogil=True, cache=True)
def add_strips(gemm, numbers, start, chosen, weights, m, k, sums, at, samples, product):
    """``add_outer`` for many components; what lies left of squares of STRIP rows on the diagonal stays as it was.

    `gemm` is that of ``gemm_of``, `samples` has room for two copies of the
    chosen ones, `product` for a strip of the sums.
    """
    for s in range(m):
        _copy_twice(numbers, start + np.intp(chosen[s]) * k, weights[s], samples, s * k, m * k, k)
    for row in range(0, k, STRIP):
        rows, columns, to = min(STRIP, k - row), k - row, at + row * (k + 1)
        if not multiply(gemm, samples, m * k + row, row, k, m, rows, columns, sums, to, k, product):
            for i in range(rows):
                combine(sums, to + i * k, 1.0, sums, to + i * k, 1.0, product, i * columns, columns)
        for i in range(rows):
            for j in range(i):
                sums[to + i * k + j] = sums[to + j * k + i]
