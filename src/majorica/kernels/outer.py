"""Sums of weighted squares of a few samples, compiled: the moments' changes, without a copy of the samples.

Tiles of the sum stay in registers while all samples go by; each sample is read
where it lies, a cache line at a time, so rows that begin where cache lines do
are quickest (:func:`make_readable`). About half of the tiles are needed.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import ZERO, is_flat
from majorica.kernels.rows import LANES, Rows
from majorica.kernels.scratch import LINE, aligned
from majorica.kernels.tiles import HALVES, MOST, VECTOR, Tile
from majorica.kernels.views import address

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "7fdb1814d04bf51a"
#: Bytes of a vector, and of those of float32 with fewer than MANY components, where shorter ones leave out more of
#: what lies before the diagonal.
WIDE, SHORT = VECTOR, 32 if HALVES else VECTOR
_WIDE_POWER, _SHORT_POWER = WIDE.bit_length() - 1, SHORT.bit_length() - 1
#: Vectors of a sum of few components' samples; behind samples so much is read.
BESIDE = 2
#: Components up to which this is quicker than copies and BLAS, of float64 and of float32.
OUTER, OUTER_SHORT = 128, 128 if MOST == 4 else 256
#: Components from which on all their moments are too many for a second-level cache.
MANY = 48


def make_readable(rows: int, k: int, dtype: np.dtype[np.floating]) -> npt.NDArray[np.floating]:
    """An array ``(rows, k)`` that begins where a cache line does, with some vectors' room behind it."""
    return aligned(rows * k, dtype, BESIDE * VECTOR).reshape(rows, k)


@nb.njit(nogil=True, cache=True)
def in_registers(k, item):
    """Whether samples of k numbers of so many bytes are for :func:`add_outer`."""
    return k <= (OUTER if item == 8 else OUTER_SHORT)


def product_size(k: int, item: int) -> int:
    """Numbers in the `product` of :func:`add_outer`."""
    return (-(-k // 16) * 16 + 4) * int(_width(k, item))  # the lowest tile may have 16 rows, or end 4 rows further down


@nb.njit(nogil=True, cache=True)
def _power(k, item):
    """Which power of two numbers of so many bytes are in a vector of samples of `k`: divisions by it are shifts."""
    return _SHORT_POWER - 2 if item == 4 and k < MANY else _WIDE_POWER - (3 if item == 8 else 2)


@nb.njit(nogil=True, cache=True)
def _width(k, item):
    """Numbers in a row of `product`, whole vectors."""
    power = _power(k, item)
    return -(-k >> power) << power


def _tile(rows, vectors, shorter=0, *, wide=False):
    """An instruction for tiles of so many rows and vectors, and under them some rows that are a vector `shorter`.

    The vectors are those of the sum, or `wide`.
    """

    @intrinsic
    def tile(typingctx, numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line):
        """Sum of ``factors[s] z[row + r] z[column + c]`` over m chosen samples `z` of k `numbers`.

        Goes into `product` from `to` on, with rows of `width`.
        """

        def write(context, builder, arguments, size):
            numbers_, start_, chosen_, factors_, m_, k_, row_, column_ = arguments[:8]
            product_, to_, width_, ahead_, line_ = arguments[8:]
            tile = Tile(context, builder, numbers.dtype, size)
            first, target = tile.point(numbers, numbers_, start_), tile.point(product, product_, to_)
            places = [(r, v) for r in range(rows + shorter) for v in range(0 if r < rows else 1, vectors)]

            def add(s, sums):
                tile.fetch(builder.add(ahead_, builder.mul(s, line_)))
                index = builder.zext(builder.load(tile.point(chosen, chosen_, s)), k_.type)
                sample = tile.beside(first, index, k_)
                left, right = builder.gep(sample, [row_]), builder.gep(sample, [column_])
                factor = tile.load_repeated(tile.point(factors, factors_, s))
                own = [builder.fmul(factor, tile.load(tile.beside(right, v * tile.lanes))) for v in range(vectors)]
                one = [tile.load_repeated(tile.beside(left, r)) for r in range(rows + shorter)]
                return [tile.fused(one[r], own[v], total) for (r, v), total in zip(places, sums, strict=True)]

            nothing = [ir.Constant(tile.kind, None)] * len(places)
            for (r, v), total in zip(places, tile.loop(tile.whole(0), m_, 1, nothing, add), strict=True):
                tile.store(total, tile.beside(tile.beside(target, width_, r), v * tile.lanes))

        def generate(context, builder, signature, arguments):
            if wide or numbers.dtype == types.float64 or SHORT == WIDE:
                write(context, builder, arguments, WIDE)
                return context.get_dummy_value()
            few = builder.icmp_signed("<", arguments[5], ir.Constant(arguments[5].type, MANY))
            with builder.if_else(few) as (then, otherwise):
                with then:
                    write(context, builder, arguments, SHORT)
                with otherwise:
                    write(context, builder, arguments, WIDE)
            return context.get_dummy_value()

        if not (is_flat(numbers, chosen, factors, product) and numbers.dtype == factors.dtype == product.dtype):
            return None
        place = types.intp
        return types.void(numbers, place, chosen, factors, *(place,) * 4, product, *(place,) * 4), generate

    return tile


@intrinsic
def _tile_end(typingctx, numbers, start, chosen, factors, m, k, row, product, width, ahead, line):
    """The last rows, from `row` on, of the sum of :func:`_tile`: three times half as many as a vector has numbers.

    Two thirds of them take the last vector of columns. The first and the last third have squares on the diagonal half
    a vector wide, which are made as one.
    """

    def generate(context, builder, signature, arguments):
        numbers_, start_, chosen_, factors_, m_, k_, row_, product_, width_, ahead_, line_ = arguments
        tile = Tile(context, builder, numbers.dtype, WIDE)
        third = tile.lanes // 2
        half, every = ir.VectorType(tile.number, third), ir.VectorType(ir.IntType(32), tile.lanes)
        first, target = tile.point(numbers, numbers_, start_), tile.point(product, product_, tile.whole(0))
        middle, last = (builder.add(row_, tile.whole(rows)) for rows in (third, 2 * third))

        def read_half(pointer):
            return builder.load(builder.bitcast(pointer, half.as_pointer()), align=tile.item)

        def add(s, sums):
            tile.fetch(builder.add(ahead_, builder.mul(s, line_)))
            index = builder.zext(builder.load(tile.point(chosen, chosen_, s)), k_.type)
            sample = tile.beside(first, index, k_)
            upper, lower = builder.gep(sample, [row_]), builder.gep(sample, [last])
            factor = tile.load_repeated(tile.point(factors, factors_, s))
            halves = ir.Constant(every, list(range(tile.lanes)))
            squares, column = (
                builder.shuffle_vector(read_half(upper), read_half(lower), halves),
                tile.load(builder.gep(sample, [middle])),
            )
            weighted, own = builder.fmul(factor, squares), builder.fmul(factor, column)
            terms = [(tile.load_repeated(tile.beside(upper, r)), own) for r in range(2 * third)]
            terms += [(tile.pick(squares, [r] * third + [third + r] * third), weighted) for r in range(third)]
            return [tile.fused(*term, total) for term, total in zip(terms, sums, strict=True)]

        sums = tile.loop(tile.whole(0), m_, 1, [ir.Constant(tile.kind, None)] * (3 * third), add)
        corner = tile.beside(target, row_, width_)
        for r in range(2 * third):
            tile.store(sums[r], builder.gep(tile.beside(corner, width_, r), [middle]))
        for r, total in enumerate(sums[2 * third :]):
            for column, down, begin in ((row_, r, 0), (last, 2 * third + r, third)):
                there = builder.gep(tile.beside(corner, width_, down), [column])
                tile.store(tile.pick(total, range(begin, begin + third)), there)
        return context.get_dummy_value()

    if not (is_flat(numbers, chosen, factors, product) and numbers.dtype == factors.dtype == product.dtype):
        return None
    place = types.intp
    return types.void(numbers, place, chosen, factors, *(place,) * 3, product, *(place,) * 3), generate


_tile_16x1, _tile_12x2, _tile_12x1 = _tile(16, 1), _tile(12, 2), _tile(12, 1)
_tile_8x3, _tile_8x2, _tile_8x1 = _tile(8, 3), _tile(8, 2), _tile(8, 1)
_tile_6x2, _tile_6x1 = _tile(6, 2), _tile(6, 1)
_tile_4x2, _tile_4x1, _tile_last, _tile_wide = _tile(4, 2), _tile(4, 1), _tile(8, 2, 8), _tile(8, 2, wide=True)


@nb.njit(nogil=True, cache=True)
def _height(left, below):
    """Rows of tiles `left` vectors wide in all, with so many rows still to do: few passes over the samples."""
    if left <= 2 and 8 < below <= 16:
        return 16 if below > 12 else 12
    return 8 if below > 4 else 4


@nb.njit(nogil=True, cache=True)
def _breadth(high, left, short):
    """Vectors of the next tile of so many rows; four `short` ones are two wide ones."""
    if left == 4:
        return 4 if short else 2
    return 3 if high == 8 and left > 2 else min(left, 2)


@nb.njit(nogil=True, cache=True)
def _fill_pairs(numbers, start, chosen, factors, m, k, product, width, ahead, until, then, end):
    """:func:`_fill_tiles` where twelve sums stay in registers: six rows at a time of two vectors of the columns."""
    lanes = 1 << _power(k, numbers.itemsize)
    for panel in range(0, width, 2 * lanes):
        row = 0
        while row < min(panel + 2 * lanes, k):
            if ahead >= until:
                ahead, until, then = then, end, end
            line = LINE if ahead < until else 0
            high = 6 if k - row > 4 else 4
            whole = panel + lanes < width and row < panel + lanes
            column = panel if whole or panel + lanes >= width else panel + lanes
            to = row * width + column
            if whole and high == 6:
                _tile_6x2(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif whole:
                _tile_4x2(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 6:
                _tile_6x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            else:
                _tile_4x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            row, ahead = row + high, ahead + m * line


@nb.njit(nogil=True, cache=True)
def _fill_tiles(numbers, start, chosen, factors, m, k, product, width, ahead, until, then, end):
    """The tiles of the sum that reach to its diagonal or beyond, into `product` with rows of `width`.

    Lines between the addresses `ahead` and `until` are asked for meanwhile, a line a sample, and those from `then` to
    `end` after them.
    """
    if MOST < 4:
        _fill_pairs(numbers, start, chosen, factors, m, k, product, width, ahead, until, then, end)
        return
    power, row = _power(k, numbers.itemsize), 0
    short = 1 << power < VECTOR // numbers.itemsize
    folded = width - 24 if 1 << power == 16 and width - k < 8 and k > 24 else k
    while row < k:
        if row == folded:
            if ahead >= until:
                ahead, until = then, end
            line = LINE if ahead < until else 0
            _tile_end(numbers, start, chosen, factors, m, k, row, product, width, ahead, line)
            return
        whole, near = row >> power << power, row // LANES * LANES
        left = -(near - k >> power)
        column = near if left < -(whole - k >> power) else whole  # a vector less is worth crossing cache lines
        high = _height(left, k - row)
        while left > 0:
            if ahead >= until:
                ahead, until, then = then, end, end
            to, line = row * width + column, LINE if ahead < until else 0
            wide = _breadth(high, left, short)
            if wide == 4:
                _tile_wide(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 8 and wide == 3:
                _tile_8x3(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 8 and wide == 2:
                _tile_8x2(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 8:
                _tile_8x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 16 and wide == 2:
                _tile_last(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 16:
                _tile_16x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 12 and wide == 2:
                _tile_12x2(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif high == 12:
                _tile_12x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            elif wide == 2:
                _tile_4x2(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            else:
                _tile_4x1(numbers, start, chosen, factors, m, k, row, column, product, to, width, ahead, line)
            column, left, ahead = column + (wide << power), left - wide, ahead + m * line
        row += high


def _add_beside(vectors):
    """An instruction for so many vectors of a sum, which stay in registers; as many lines a sample are asked for."""

    @intrinsic
    def add_beside(typingctx, numbers, start, chosen, factors, m, k, column, sums, at, ahead, line):
        """Columns `column` on of :func:`add_samples`, in the precision of its factors."""

        def generate(context, builder, signature, arguments):
            numbers_, start_, chosen_, factors_, m_, k_, column_, sums_, at_, ahead_, line_ = arguments
            tile = Tile(context, builder, factors.dtype)
            first = tile.point(numbers, numbers_, builder.add(start_, column_))
            target = tile.point(sums, sums_, builder.add(at_, column_))

            def add(s, totals):
                coming = builder.add(ahead_, builder.mul(builder.mul(s, line_), tile.whole(vectors)))
                for v in range(vectors):
                    tile.fetch(builder.add(coming, builder.mul(line_, tile.whole(v))))
                index = builder.zext(builder.load(tile.point(chosen, chosen_, s)), k_.type)
                sample, factor = tile.beside(first, index, k_), tile.load_repeated(tile.point(factors, factors_, s))
                values = [tile.read(tile.beside(sample, v * tile.lanes)) for v in range(vectors)]
                return [tile.fused(factor, value, total) for value, total in zip(values, totals, strict=True)]

            totals = tile.loop(tile.whole(0), m_, 1, [ir.Constant(tile.kind, None)] * vectors, add)
            for v, total in enumerate(totals):
                left = builder.sub(k_, builder.add(column_, tile.whole(v * tile.lanes)))
                mask, there = tile.first(left), tile.beside(target, v * tile.lanes)
                before = tile.load_first(there, mask)
                total = total if before.type == total.type else builder.fpext(total, before.type)
                tile.store_first(builder.fadd(total, before), there, mask)
            return context.get_dummy_value()

        if not (is_flat(numbers, chosen, factors, sums) and sums.dtype == types.float64):
            return None
        place = types.intp
        return types.void(numbers, place, chosen, factors, *(place,) * 3, sums, *(place,) * 3), generate

    return add_beside


_add_four, _add_two = _add_beside(4), _add_beside(BESIDE)


@nb.njit(nogil=True, cache=True)
def add_samples(numbers, start, chosen, factors, m, k, sums, at, ahead, until):
    """``sums += sum_s factors_s z_s`` over m chosen samples of k `numbers` each; as in :func:`add_outer`.

    A line for each vector of a sample is asked for.
    """
    lanes, column = VECTOR // factors.itemsize, ZERO
    while column < k:
        line = LINE if ahead < until else 0
        vectors = 4 if k - column > BESIDE * lanes else BESIDE
        if vectors == 4:
            _add_four(numbers, start, chosen, factors, m, k, column, sums, at, ahead, line)
        else:
            _add_two(numbers, start, chosen, factors, m, k, column, sums, at, ahead, line)
        column, ahead = column + vectors * lanes, ahead + vectors * m * line


@intrinsic
def _add_rows(typingctx, product, width, sums, at, k, row):
    """Add rows `row` on of `product`, as many as a vector has numbers, to those of `sums`, from the diagonal on.

    Their square on the diagonal becomes symmetric to the last bit.
    """

    def generate(context, builder, signature, arguments):
        product_, width_, sums_, at_, k_, row_ = arguments
        rows = Rows(context, builder)
        source = rows.point(product, product_, builder.mul(row_, width_))
        target = rows.point(sums, sums_, builder.add(at_, builder.mul(row_, k_)))
        lines = [(rows.beside(source, width_, r), rows.beside(target, k_, r)) for r in range(rows.lanes)]

        own = [rows.read(builder.gep(line, [row_])) for line, _ in lines]
        own = [builder.fadd(rows.load(builder.gep(to, [row_])), new) for new, (_, to) in zip(own, lines, strict=True)]
        for r, (turned, (_, to)) in enumerate(zip(rows.transpose(own), lines, strict=True)):
            upper = ir.Constant(rows.mask, [lane >= r for lane in range(rows.lanes)])
            rows.store(builder.select(upper, own[r], turned), builder.gep(to, [row_]))

        def beyond(column, mask, _):
            for line, to in lines:
                there, new = builder.gep(to, [column]), rows.read(builder.gep(line, [column]))
                rows.write(builder.fadd(rows.read(there, mask), new), there, mask)
            return []

        rows.each(k_, [], beyond, builder.add(row_, rows.whole(rows.lanes)))
        return context.get_dummy_value()

    if not (is_flat(product, sums) and sums.dtype == types.float64):
        return None
    return types.void(product, types.intp, sums, *(types.intp,) * 3), generate


@nb.njit(nogil=True, cache=True)
def add_outer(numbers, start, chosen, factors, m, k, sums, at, product, ahead, until):
    """``sums += sum_s factors_s z_s z_s^T`` over the m chosen samples of k `numbers` each, from ``numbers[start]`` on.

    What lies left of the squares on the diagonal, of LANES rows each, stays
    as it was. `numbers` are those of :func:`make_readable`, `sums` of float64
    are (k k,) numbers from `at` on, `product` has the numbers' precision and ``product_size(k)`` numbers.
    What lies between the addresses `ahead` and `until` is asked for meanwhile, a line a sample; before it the
    sums themselves, if there are MANY.
    """
    width, whole = _width(k, numbers.itemsize), k // LANES * LANES
    own = address(sums) + at * 8
    end = own + k * k * 8 if k >= MANY else own
    _fill_tiles(numbers, start, chosen, factors, m, k, product, width, own, end, ahead, until)
    for row in range(0, whole, LANES):
        _add_rows(product, width, sums, at, k, row)
    for i in range(whole, k):
        for j in range(i, k):
            sums[at + i * k + j] += product[i * width + j]
            sums[at + j * k + i] = sums[at + i * k + j]
