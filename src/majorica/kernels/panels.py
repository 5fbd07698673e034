"""Sums of weighted squares that many components take of the same samples, compiled.

Samples lie in panels: of some components each, sample after sample, whole
vectors wide. One panel at a time is weighted; it stays in the first-level
cache while tiles of the sum, in registers, take its products with the panels
before it. About half of the tiles are needed. It is as quick as BLAS, which
would need all squares of the samples first. Twin: ``Z.T @ (factors[:, None] * Z)``.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat
from majorica.kernels.rows import LANES, combine
from majorica.kernels.scratch import aligned
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a069f8f9e989ade0"
Array = npt.NDArray[np.floating]
#: Vectors beside each other in a panel, and rows of a tile as wide: these sums are what registers are there for.
ABREAST, HIGH = 3, 8 if MOST == 4 else 4
#: Samples at a time, two panels of which stay in the first-level cache.
PIECE = 128


@nb.njit(nogil=True, cache=True, inline="always")
def panel_width(item):
    """Numbers of so many bytes that a sample has in a panel."""
    return ABREAST * VECTOR // item


@nb.njit(nogil=True, cache=True, inline="always")
def in_panels(k, item):
    """Numbers that a sample of `k` takes in panels."""
    wide = ABREAST * VECTOR // item
    return -(-k // wide) * wide


def make_panels(samples: int, k: int, dtype: np.dtype[np.floating]) -> tuple[Array, Array, Array]:
    """Room for so many samples of k numbers in panels, for a weighted panel, and for a product."""
    item = dtype.itemsize
    width = int(in_panels.py_func(k, item))
    weighted = aligned(PIECE * int(panel_width.py_func(item)), dtype)
    return aligned(samples * width, dtype), weighted, aligned(width * width, dtype)


def _tile(rows, vectors):
    """An instruction for tiles of so many rows and vectors."""

    @intrinsic
    def tile(typingctx, panels, at, weighted, first, m, product, to, width):
        """Add the sum of ``panels[at + r] weighted[first + c]`` over m samples to `product`, from `to` on."""

        def generate(context, builder, signature, arguments):
            panels_, at_, weighted_, first_, m_, product_, to_, width_ = arguments
            tile = Tile(context, builder, panels.dtype)
            left, right = tile.point(panels, panels_, at_), tile.point(weighted, weighted_, first_)
            apart, target = ABREAST * tile.lanes, tile.point(product, product_, to_)

            def terms(s):
                one, other = tile.beside(left, s, apart), tile.beside(right, s, apart)
                return (
                    lambda r: tile.load_repeated(tile.beside(one, r)),
                    lambda v: tile.load(tile.beside(other, v * tile.lanes)),
                )

            for number, total in enumerate(tile.accumulate(m_, 1, rows, vectors, terms)):
                there = tile.beside(tile.beside(target, width_, number // vectors), number % vectors * tile.lanes)
                tile.store(builder.fadd(tile.load(there), total), there)
            return context.get_dummy_value()

        if not (is_flat(panels, weighted, product) and panels.dtype == weighted.dtype == product.dtype):
            return None
        place = types.intp
        return types.void(panels, place, weighted, place, place, product, place, place), generate

    return tile


_three, _two, _one = _tile(HIGH, 3), _tile(HIGH * 3 // 2, 2), _tile(HIGH * 3, 1)
_two_short, _one_double, _one_short = _tile(HIGH, 2), _tile(HIGH * 2, 1), _tile(HIGH, 1)


def _copy(whole):
    """An instruction for the samples of a panel, of whole vectors or not."""

    @intrinsic
    def copy(typingctx, numbers, start, k, own, m, panels, to):
        """The first `own` of every k `numbers` from `start` on, m times, and zeros after them, into a panel."""

        def generate(context, builder, signature, arguments):
            numbers_, start_, k_, own_, m_, panels_, to_ = arguments
            tile = Tile(context, builder, panels.dtype)
            source, target = tile.point(numbers, numbers_, start_), tile.point(panels, panels_, to_)
            places = [v * tile.lanes for v in range(ABREAST)]
            masks = [None if whole else tile.first(builder.sub(own_, tile.whole(place))) for place in places]

            def put(s, _):
                sample, room = tile.beside(source, s, k_), tile.beside(target, s, ABREAST * tile.lanes)
                for place, mask in zip(places, masks, strict=True):
                    tile.store(tile.read(tile.beside(sample, place), mask), tile.beside(room, place))
                return []

            tile.loop(tile.whole(0), m_, 1, [], put)
            return context.get_dummy_value()

        if not (is_flat(numbers, panels) and numbers.dtype == panels.dtype):
            return None
        place = types.intp
        return types.void(numbers, *(place,) * 4, panels, place), generate

    return copy


_copy_whole, _copy_part = _copy(True), _copy(False)


@nb.njit(nogil=True, cache=True)
def fill_panels(numbers, start, m, k, panels):
    """Put m samples of k `numbers` each, from ``numbers[start]`` on, into panels: PIECE after PIECE, panel after panel.

    `panels` has room for ``m in_panels(k)`` numbers.
    """
    wide, at = panel_width(numbers.itemsize), 0
    for piece in range(0, m, PIECE):
        count = min(PIECE, m - piece)
        for panel in range(0, k, wide):
            first = start + piece * k + panel
            if k - panel >= wide:
                _copy_whole(numbers, first, k, wide, count, panels, at)
            else:
                _copy_part(numbers, first, k, k - panel, count, panels, at)
            at += count * wide


@intrinsic
def _weigh(typingctx, panels, at, factors, first, m, weighted, to):
    """A vector of each of the m samples of a panel, from `at` on, times the sample's factor, into `weighted`."""

    def generate(context, builder, signature, arguments):
        panels_, at_, factors_, first_, m_, weighted_, to_ = arguments
        tile = Tile(context, builder, panels.dtype)
        source, target = tile.point(panels, panels_, at_), tile.point(weighted, weighted_, to_)
        weights, apart = tile.point(factors, factors_, first_), ABREAST * tile.lanes

        def put(s, _):
            factor = tile.load_repeated(builder.gep(weights, [s]))
            tile.store(builder.fmul(factor, tile.load(tile.beside(source, s, apart))), tile.beside(target, s, apart))
            return []

        tile.loop(tile.whole(0), m_, 1, [], put)
        return context.get_dummy_value()

    if not (is_flat(panels, factors, weighted) and panels.dtype == factors.dtype == weighted.dtype):
        return None
    place = types.intp
    return types.void(panels, place, factors, place, place, weighted, place), generate


@nb.njit(nogil=True, cache=True, inline="always")
def few_last(k, item):
    """How many of `k` numbers the last panel has, if these are better multiplied as rows than as columns; else 0."""
    last = (k - 1) % (ABREAST * VECTOR // item) + 1
    return last if last < k and last <= HIGH < VECTOR // item else 0


@nb.njit(nogil=True, cache=True)
def _add_piece(panels, at, m, k, factors, first, weighted, product):
    """Add the squares of m samples, whose panels lie from `at` on, to `product`."""
    wide, lanes, width = panel_width(panels.itemsize), VECTOR // panels.itemsize, in_panels(k, panels.itemsize)
    few = few_last(k, panels.itemsize)
    for panel in range(0, k, wide):
        own, row = at + panel * m, 0 if panel < k - few else panel
        vectors = min(ABREAST, -(-(k - panel) // lanes))
        for column in range(0, vectors * lanes, lanes):
            _weigh(panels, own + column, factors, first, m, weighted, column)
        if few > 0 and panel < k - few:  # left of the diagonal, from where they are turned round in the end
            _three(panels, at + (k - few) * m, weighted, 0, m, product, (k - few) * width + panel, width)
        while row < panel:
            above, to = at + row // wide * wide * m + row % wide, row * width + panel
            if vectors == 3:
                _three(panels, above, weighted, 0, m, product, to, width)
                row += HIGH
            elif vectors == 2:
                _two(panels, above, weighted, 0, m, product, to, width)
                row += HIGH * 3 // 2
            else:
                _one(panels, above, weighted, 0, m, product, to, width)
                row += HIGH * 3
        while row < min(panel + wide, k):  # on the diagonal: what lies left of a row's own vector is left out
            skipped = (row - panel) // lanes
            here, column = own + row - panel, skipped * lanes
            to = row * width + panel + column
            if vectors - skipped == 3:
                _three(panels, here, weighted, column, m, product, to, width)
            elif vectors - skipped == 2:
                _two_short(panels, here, weighted, column, m, product, to, width)
            elif lanes >= 2 * HIGH and row + HIGH < k:
                _one_double(panels, here, weighted, column, m, product, to, width)
                row += HIGH
            else:
                _one_short(panels, here, weighted, column, m, product, to, width)
            row += HIGH


@nb.njit(nogil=True, cache=True)
def sum_squares(panels, m, k, factors, weighted, product):
    """``product = sum_s factors_s z_s z_s^T`` over the m samples of :func:`fill_panels`, right from the diagonal on.

    In rows of ``in_panels(k)``, as many of them; `weighted` has room for PIECE samples of a panel.
    """
    width, few = in_panels(k, panels.itemsize), few_last(k, panels.itemsize)
    for j in range(width * width):
        product[j] = 0
    for piece in range(0, m, PIECE):
        _add_piece(panels, piece * width, min(PIECE, m - piece), k, factors, piece, weighted, product)
    for c in range(k - few, k):
        for a in range(k - few):
            product[a * width + c] = product[c * width + a]


@nb.njit(nogil=True, cache=True)
def fold_packed(product, k, packed):
    """Add the `product` of :func:`sum_squares` to a triangle, row after row in `packed` (k (k + 1) / 2,)."""
    width, at = in_panels(k, product.itemsize), 0
    for a in range(k):
        combine(packed, at, 1.0, packed, at, 1.0, product, a * width + a, k - a)
        at += k - a


@nb.njit(nogil=True, cache=True)
def fold(product, k, keep, sums, at):
    """``sums <- keep sums + product``, from squares of LANES rows on the diagonal on; (k k,) numbers from `at` on."""
    width = in_panels(k, product.itemsize)
    for a in range(k):
        row, own = at + a * k, a // LANES * LANES
        combine(sums, row + own, keep, sums, row + own, 1.0, product, a * width + own, k - own)
        for c in range(own, a):  # symmetric to the last bit
            sums[row + c] = sums[at + c * k + a]
