"""Mean, scatter and extremes of a block, compiled: the pass that whitening needs.

Features lie in rows of a tile, so that what is summed along samples is, and of
their products the half that is needed, in registers. All in float64.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat
from majorica.kernels.products import (
    add_squares,
    tile_of,
    turn_samples,
    whole_rows,
    whole_stride,
    whole_tiles,
    whole_width,
)
from majorica.kernels.scratch import workspace
from majorica.kernels.tiles import VECTOR, Tile
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "4a03fa0145b0123d"
#: Numbers in a vector.
LANES = VECTOR // 8


@intrinsic
def _centre_row(typingctx, rows, at, m, shift, found, to, apart):
    """Take `shift` off m numbers from ``rows[at]`` on; adds up what is left, and how low and high they were.

    These are vectors, `apart` from each other, from ``found[to]`` on.
    """

    def generate(context, builder, signature, arguments):
        rows_, at_, m_, shift_, found_, to_, apart_ = arguments
        tile = Tile(context, builder, rows.dtype)
        start, sums = tile.point(rows, rows_, at_), tile.point(found, found_, to_)
        places, mean = [tile.beside(sums, apart_, r) for r in range(3)], tile.repeated(shift_)

        def take(index, mask, held):
            there, (total, low, high) = builder.gep(start, [index]), held
            value = tile.read(there, mask)
            own = builder.fsub(value, mean)
            tile.write(own, there, mask)
            after = [builder.fadd(total, own), tile.smaller_number(value, low), tile.larger(value, high)]
            if mask is None:
                return after
            return [builder.select(mask, new, old) for new, old in zip(after, held, strict=True)]

        for vector, place in zip(tile.each(m_, [tile.load(place) for place in places], take), places, strict=True):
            tile.store(vector, place)
        return context.get_dummy_value()

    if not (is_flat(rows, found) and rows.dtype == found.dtype == types.float64):
        return None
    whole = types.intp
    return types.void(rows, whole, whole, types.float64, found, whole, whole), generate


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _scatter(X, f, tile, shift, nothing, found, samples, stride, products, width):
    """Fill `shift` with the first tile's mean; add up deviations and extremes, in `found`, and `products`.

    Returns how many samples equal the one before.
    """
    b = X.size // f
    first = min(tile, b)
    for t in range(first):
        for j in range(f):
            shift[j] += X[t * f + j]
    for j in range(f):
        shift[j] /= first
    for start in range(0, b, tile):
        m = min(tile, b - start)
        wide = whole_width(m, 8)
        turn_samples(X, start, m, f, nothing, samples, stride, wide)
        for j in range(f):
            _centre_row(samples, j * stride, m, shift[j], found, j * LANES, f * LANES)
        add_squares(samples, f, stride, wide, products, width)
    repeats = 0
    for at in range(f, X.size, f):
        j = at
        while j < at + f and X[j] == X[j - f]:
            j += 1
        repeats += j == at + f
    return repeats


@nb.njit(nogil=True, cache=True)
def _about_mean(products, total, mean):
    """Make `products` about a point, of which half is there, those about the mean, whole."""
    for i in range(mean.size):
        for j in range(i, mean.size):
            products[i, j] -= total[i] * mean[j]
            products[j, i] = products[i, j]


def scatter(X: npt.NDArray[np.floating]) -> tuple[F64, F64, F64, F64, int]:
    """Mean of a block, scatter about it, lowest and highest values, and how many samples equal the one before.

    Its own first samples keep offsets away.
    """
    b, f = X.shape
    tile = min(b, tile_of(f, 8))
    rows, width, stride = int(whole_rows(f, 8)), int(whole_tiles(f)), int(whole_stride(tile, 8))
    shift, found, products = np.zeros(f), np.zeros((3, f, LANES)), np.zeros((width, width))
    found[1], found[2] = np.inf, -np.inf
    samples = workspace(rows * stride, np.dtype(np.float64))
    samples[f * stride : width * stride] = 0  # multiplied in vain: what lay there may be slow to multiply
    given = X.reshape(X.size), f, tile, shift, np.zeros(rows), found.reshape(found.size)
    repeats = _scatter(*given, samples, stride, products.reshape(products.size), width)
    total = found[0].sum(axis=1)
    mean = total / b
    _about_mean(products, total, mean)
    about = np.ascontiguousarray(products[:f, :f])
    return shift + mean, about, found[1].min(axis=1), found[2].max(axis=1), int(repeats)
