"""Chosen majorizers move to where their sources are now, compiled, in registers.

The pairs of a component and a part of the mini-batch are picked up where they
lie, changed side by side, and put back. Twin: update_moments of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.densities.piecewise import KNOTS
from majorica.kernels.elementwise import majorizer
from majorica.kernels.machine import is_flat, repeat
from majorica.kernels.rounding import round_entries
from majorica.kernels.rows import Rows

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "157b17242728ce3e"


@intrinsic
def append_pairs(typingctx, chosen, changes, begin, count, scale, own, factors, to):
    """``own[to + s] = chosen[begin + s]`` and ``factors[to + s] = scale changes[begin + s]`` for `count` of them."""

    def generate(context, builder, signature, arguments):
        chosen_, changes_, begin_, count_, scale_, own_, factors_, to_ = arguments
        tile = Rows(context, builder)
        samples, numbers = tile.point(chosen, chosen_, begin_), tile.point(changes, changes_, begin_)
        targets, weights = tile.point(own, own_, to_), tile.point(factors, factors_, to_)
        scales, kind = tile.repeated(scale_), ir.VectorType(weights.type.pointee, tile.lanes)

        def put(index, mask, _):
            values = builder.fmul(scales, tile.read(builder.gep(numbers, [index]), mask))
            values = values if kind == tile.kind else builder.fptrunc(values, kind)
            tile.write(tile.read(builder.gep(samples, [index]), mask), builder.gep(targets, [index]), mask)
            tile.write(values, builder.gep(weights, [index]), mask)
            return []

        tile.each(count_, [], put)
        return context.get_dummy_value()

    if not (is_flat(chosen, changes, own, factors) and chosen.dtype == own.dtype == types.uint32):
        return None
    whole = types.intp
    return types.void(chosen, changes, whole, whole, types.float64, own, factors, whole), generate


class Changes(Rows):
    """Writes the formulas of what a majorizer changes by, from touching at `old` to touching at `new`.

    Each returns the weight's or tilt's change, the offset's, and what the surrogate at `y` changes by.
    """

    def apply(self, formula, old, new, y, params, mask):
        """Change, offset, where the surrogate falls, and `new` as a memory of float32 has it."""
        builder = self.builder
        short = builder.fptrunc(new, ir.VectorType(ir.FloatType(), self.lanes))
        change, offset, fall = getattr(self, formula)(old, self.widened(short), y, *params)
        lower = builder.and_(mask, self.falls(fall))
        return builder.select(lower, change, self.constant(0)), offset, lower, short

    def falls(self, change):
        """Whether numbers are negative."""
        return self.builder.fcmp_ordered("<", change, self.constant(0))

    def clipped(self, old, new, y, b, d):
        """For a score clipped at `d`, of slope `b` before: weight and offset."""
        builder = self.builder
        size0, size1 = self.size(old), self.size(new)
        outer0, outer1 = self.larger(size0, d), self.larger(size1, d)
        inside0, inside1 = self.smaller_number(size0, d), self.smaller_number(size1, d)
        weight = builder.fdiv(builder.fmul(d, builder.fsub(outer0, outer1)), builder.fmul(outer0, outer1))
        offset = builder.fmul(inside1, builder.fsub(size1, inside1))
        offset = builder.fsub(offset, builder.fmul(inside0, builder.fsub(size0, inside0)))
        half = builder.fmul(self.constant(0.5), b)
        fall = builder.fmul(half, self.fused(builder.fmul(weight, y), y, offset))
        return builder.fmul(b, weight), builder.fmul(half, offset), fall

    def piece(self, size, slope, jumps):
        """Slope, intercept and level of the line of the score at `size`."""
        builder, intercept, level = self.builder, self.constant(0), self.constant(0)
        for knot, jump in zip(KNOTS, jumps, strict=True):
            there = builder.fcmp_ordered(">", size, self.constant(knot))
            slope = self.add_where(there, slope, jump)
            intercept = self.add_where(there, intercept, builder.fmul(self.constant(-knot), jump))
            level = self.add_where(there, level, builder.fmul(self.constant(0.5 * knot * knot), jump))
        return slope, intercept, level

    def piecewise(self, old, new, y, slope, *jumps):
        """For a score whose `slope` jumps at each knot, of a super-Gaussian: weight and offset."""
        builder, half, nearest = self.builder, self.constant(0.5), self.constant(KNOTS[0])
        size0, size1 = self.size(old), self.size(new)
        slope0, intercept0, level0 = self.piece(size0, slope, jumps)
        slope1, intercept1, level1 = self.piece(size1, slope, jumps)
        outer0, outer1 = self.larger(size0, nearest), self.larger(size1, nearest)
        turn = builder.fsub(builder.fmul(intercept1, outer0), builder.fmul(intercept0, outer1))
        weight = builder.fadd(builder.fsub(slope1, slope0), builder.fdiv(turn, builder.fmul(outer0, outer1)))
        offset = builder.fsub(builder.fmul(intercept1, size1), builder.fmul(intercept0, size0))
        offset = self.fused(half, offset, builder.fsub(level1, level0))
        return weight, offset, self.fused(builder.fmul(builder.fmul(half, weight), y), y, offset)

    def flat(self, old, new, y, flat, slope, *jumps):
        """For such a score of a sub-Gaussian, under majorizers of weight `flat`: tilt and offset."""
        builder = self.builder
        leans, bends, levels = [], [], []
        for point in (old, new):
            size = self.size(point)
            own, intercept, level = self.piece(size, slope, jumps)
            bend = builder.fsub(flat, own)
            leans.append(self.fused(bend, point, self.turned(builder.fneg(intercept), point)))
            bends.append(builder.fmul(builder.fmul(bend, size), size))
            levels.append(level)
        tilt = builder.fsub(leans[1], leans[0])
        offset = builder.fmul(self.constant(0.5), builder.fsub(bends[1], bends[0]))
        offset = builder.fadd(offset, builder.fsub(levels[1], levels[0]))
        return tilt, offset, builder.fsub(offset, builder.fmul(tilt, y))


def _change(formula, many):
    """An instruction for a formula of so many parameters, for pairs that lie side by side."""

    @intrinsic
    def change(typingctx, numbers, y, stored, count, params, changes, first):
        """:func:`change_row` for `count` pairs, into `changes` from `first` on."""

        def generate(context, builder, signature, arguments):
            numbers_, y_, stored_, count_, params_, changes_, first_ = arguments
            tile = Changes(context, builder)
            olds, values, points = (tile.point(numbers, numbers_, at) for at in (tile.whole(0), y_, stored_))
            target = tile.point(changes, changes_, first_)
            fixed = [tile.repeated(builder.extract_value(params_, r)) for r in range(many)]

            def move(index, totals):
                mask = tile.first(builder.sub(count_, index))
                old, value, new = (tile.load_first(builder.gep(at, [index]), mask) for at in (olds, values, points))
                moved, offset, lower, new = tile.apply(formula, old, new, value, fixed, mask)
                tile.store_first(moved, builder.gep(target, [index]), mask)
                tile.store_first(tile.widened(new), builder.gep(olds, [index]), lower)
                return [tile.add_where(lower, totals[0], offset)]

            return tile.total(tile.loop(tile.whole(0), count_, tile.lanes, [tile.constant(0)], move)[0])

        if not (is_flat(numbers, changes) and numbers.dtype == changes.dtype == types.float64):
            return None
        place = types.intp
        return types.float64(numbers, place, place, place, params, changes, place), generate

    return change


def _move(formula, many):
    """An instruction for a formula of so many parameters, for pairs where they lie."""

    @intrinsic
    def move(typingctx, chosen, begin, count, i, p, Y, memory, params, first, own, changes, to):
        """:func:`move_pairs` for a memory of float32."""

        def generate(context, builder, signature, arguments):
            chosen_, begin_, count_, i_, p_, Y_, memory_, params_, first_, own_, changes_, to_ = arguments
            tile = Changes(context, builder)
            samples, targets = tile.point(chosen, chosen_, begin_), tile.point(own, own_, to_)
            values, points = tile.point(Y, Y_, i_), tile.point(memory, memory_, i_)
            target, short = tile.point(changes, changes_, to_), ir.VectorType(ir.IntType(32), tile.lanes)
            shift, long = (
                repeat(builder, builder.trunc(first_, short.element), short),
                ir.VectorType(p_.type, tile.lanes),
            )
            fixed = [tile.repeated(builder.extract_value(params_, r)) for r in range(many)]

            def go(index, totals):
                mask = tile.first(builder.sub(count_, index))
                found = tile.load_first(builder.gep(samples, [index]), mask)
                tile.store_first(builder.add(found, shift), builder.gep(targets, [index]), mask)
                places = builder.mul(builder.zext(found, long), repeat(builder, p_, long))
                value, old = (tile.read_scattered(start, places, mask) for start in (values, points))
                moved, offset, lower, new = tile.apply(formula, old, value, value, fixed, mask)
                tile.store_first(moved, builder.gep(target, [index]), mask)
                tile.store_scattered(new, points, places, lower)
                return [tile.add_where(lower, totals[0], offset)]

            return tile.total(tile.loop(tile.whole(0), count_, tile.lanes, [tile.constant(0)], go)[0])

        if not (is_flat(chosen, Y, memory, own, changes) and memory.dtype == types.float32):
            return None
        place = types.intp
        given = (chosen, *(place,) * 4, Y, memory, params, place, own, changes, place)
        return types.float64(*given), generate

    return move


_change_clipped, _change_piecewise, _change_flat = _change("clipped", 2), _change("piecewise", 5), _change("flat", 6)
_move_clipped, _move_piecewise, _move_flat = _move("clipped", 2), _move("piecewise", 5), _move("flat", 6)


@nb.njit(nogil=True, cache=True)
def _change_any(numbers, y, stored, count, code, shape, flat, changes, first):
    """:func:`change_row` for any density."""
    total = 0.0
    for t in range(count):
        old, value, new = numbers[t], numbers[y + t], np.float64(np.float32(numbers[stored + t]))
        changes[first + t] = 0.0
        if new == old:
            continue
        w0, t0, r0 = majorizer(old, code, shape)
        w1, t1, r1 = majorizer(new, code, shape)
        if 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1) > 0:
            changes[first + t] = t1 - t0 if flat > 0 else w1 - w0
            total += r1 - r0
            numbers[t] = new
    return total


@nb.njit(nogil=True, cache=True)
def jumps_of(shape):
    """The slope of a piecewise-linear score at 0 and what it jumps by at each knot."""
    return shape[0], shape[1] - shape[0], shape[2] - shape[1], shape[3] - shape[2], shape[4] - shape[3]


@nb.njit(nogil=True, cache=True)
def change_row(numbers, y, stored, count, code, shape, flat, changes, first):
    """Move `count` majorizers of a component to their sources as the memory will hold them, where the surrogate falls.

    The points where they touch are the first of `numbers`, changed in place;
    sources lie there from `y` on; from `stored` on what the memory will hold
    after rounding to float32: sources again, or the points their codes name.
    Fills `changes` from `first` on with what weights change by, or
    tilts if the weight is always `flat` > 0; returns the offsets' change.
    """
    if code == CLIPPED and shape[1] >= 0:
        return _change_clipped(numbers, y, stored, count, (shape[1], shape[2]), changes, first)
    if code == PIECEWISE and flat > 0:
        return _change_flat(numbers, y, stored, count, (flat, *jumps_of(shape)), changes, first)
    if code == PIECEWISE:
        return _change_piecewise(numbers, y, stored, count, jumps_of(shape), changes, first)
    return _change_any(numbers, y, stored, count, code, shape, flat, changes, first)


@nb.njit(nogil=True, cache=True)
def _move_any(
    chosen, begin, count, i, p, Y, code, shape, flat, memory, packed, levels, edges, numbers, named, first, own,
    changes, to,
):  # fmt: skip
    """:func:`move_pairs` for any density and memory: what it says of `numbers` and `named` is used here."""
    room, kind = named.size, 1 if flat > 0 else 0
    old, y, stored = numbers[:room], numbers[room : room + count], numbers[2 * room :]
    for s in range(count):
        at = np.intp(chosen[begin + s]) * p + i
        own[to + s] = chosen[begin + s] + np.uint32(first)
        y[s], old[s] = Y[at], levels[kind, packed[at]] if packed.size else memory[at]
    if not packed.size:
        total = change_row(numbers, room, room, count, code, shape, flat, changes, to)
        for s in range(count):
            memory[np.intp(chosen[begin + s]) * p + i] = old[s]
        return total
    round_entries(y, old, levels, edges, kind, stored, named)
    total = change_row(numbers, room, 2 * room, count, code, shape, flat, changes, to)
    for s in range(count):
        if named[s] >= 0 and old[s] == stored[s]:
            packed[np.intp(chosen[begin + s]) * p + i] = named[s]
    return total


@nb.njit(nogil=True, cache=True)
def move_pairs(
    chosen, begin, count, i, p, Y, codes, shapes, flat, memory, packed, levels, edges, numbers, named, first, own,
    changes, to,
):  # fmt: skip
    """Move component i's chosen majorizers of a part, ``chosen[begin : begin + count]``, to their sources.

    `Y`, and the memory, `memory` or `packed`, hold p numbers a sample; the
    part's first sample is the mini-batch's `first`. Puts samples of the
    mini-batch and changes into `own` and `changes` from `to` on, see
    :func:`change_row`, and returns what that does. `numbers` and `named` are
    room for three and one of each pair.
    """
    code, k1 = codes[i], shapes[i, 1]
    if packed.size or not (code == PIECEWISE or (code == CLIPPED and k1 >= 0)):
        return _move_any(
            chosen, begin, count, i, p, Y, code, shapes[i], flat, memory, packed, levels, edges, numbers, named, first,
            own, changes, to,
        )  # fmt: skip
    if code == CLIPPED:
        params = (k1, shapes[i, 2])
        return _move_clipped(chosen, begin, count, i, p, Y, memory, params, first, own, changes, to)
    if flat > 0:
        jumps = (flat, *jumps_of(shapes[i]))
        return _move_flat(chosen, begin, count, i, p, Y, memory, jumps, first, own, changes, to)
    return _move_piecewise(chosen, begin, count, i, p, Y, memory, jumps_of(shapes[i]), first, own, changes, to)
