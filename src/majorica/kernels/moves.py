"""Chosen majorizers move to where their sources are now, compiled, in registers.

The pairs of a part of the mini-batch are picked up where they lie, changed side
by side, and put back. Twin: update_moments of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.densities.piecewise import KNOTS
from majorica.kernels.elementwise import majorizer
from majorica.kernels.machine import ZERO, is_flat
from majorica.kernels.rounding import round_entries
from majorica.kernels.rows import Rows

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "f253055b602234f3"


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


def room_for_pairs(q: int, length: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int16]]:
    """What :func:`move_part` works in: points and sources of all pairs, or three numbers and a code of each sample."""
    return np.empty(max(2 * q, 3) * length), np.empty(length, np.int16)


class Changes(Rows):
    """Writes the formulas of what a majorizer changes by, from touching at `old` to touching at `new`.

    Each returns the weight's or tilt's change, the offset's, and what the surrogate at `y` changes by.
    """

    def apply(self, formula, old, new, y, params, mask):
        """Change, offset, where the surrogate falls, and `new` as a memory of float32 has it."""
        builder = self.builder
        short = builder.fptrunc(new, ir.VectorType(ir.FloatType(), self.lanes))
        change, offset, fall = getattr(self, formula)(old, self.widened(short), y, *params)
        lower = self.falls(fall) if mask is None else builder.and_(mask, self.falls(fall))
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
    def change(typingctx, numbers, at, y, stored, count, params, changes, first):
        """:func:`change_row` for `count` pairs, into `changes` from `first` on."""

        def generate(context, builder, signature, arguments):
            numbers_, at_, y_, stored_, count_, params_, changes_, first_ = arguments
            tile = Changes(context, builder)
            olds = tile.point(numbers, numbers_, at_)
            values, points = builder.gep(olds, [y_]), builder.gep(olds, [stored_])
            target = tile.point(changes, changes_, first_)
            fixed = [tile.repeated(builder.extract_value(params_, r)) for r in range(many)]

            def move(index, mask, totals):
                old, value, new = (tile.read(builder.gep(at, [index]), mask) for at in (olds, values, points))
                moved, offset, lower, new = tile.apply(formula, old, new, value, fixed, mask)
                tile.write(moved, builder.gep(target, [index]), mask)
                tile.write(builder.select(lower, tile.widened(new), old), builder.gep(olds, [index]), mask)
                return [tile.add_where(lower, totals[0], offset)]

            return tile.total(tile.each(count_, [tile.constant(0)], move)[0])

        if not (is_flat(numbers, changes) and numbers.dtype == changes.dtype == types.float64):
            return None
        place = types.intp
        return types.float64(numbers, *(place,) * 4, params, changes, place), generate

    return change


@intrinsic
def _pick_up(typingctx, chosen, begin, count, i, p, Y, memory, numbers, at, y, first, own, to):
    """Copy where `count` pairs of component i touch into `numbers` from `at` on, and their sources `y` behind.

    Their samples go into `own`. One by one: some processors gather no faster than that.
    """

    def generate(context, builder, signature, arguments):
        chosen_, begin_, count_, i_, p_, Y_, memory_, numbers_, at_, y_, first_, own_, to_ = arguments
        tile = Rows(context, builder)
        samples, targets = tile.point(chosen, chosen_, begin_), tile.point(own, own_, to_)
        values, points = tile.point(Y, Y_, i_), tile.point(memory, memory_, i_)
        olds = tile.point(numbers, numbers_, at_)
        sources = builder.gep(olds, [y_])
        shift = builder.trunc(first_, ir.IntType(32))

        def pick(index, _):
            sample = builder.load(builder.gep(samples, [index]))
            builder.store(builder.add(sample, shift), builder.gep(targets, [index]))
            place = builder.mul(builder.zext(sample, p_.type), p_)
            for start, target in ((points, olds), (values, sources)):
                number = builder.load(builder.gep(start, [place]))
                number = number if number.type == tile.number else builder.fpext(number, tile.number)
                builder.store(number, builder.gep(target, [index]))
            return []

        tile.loop(tile.whole(0), count_, 1, [], pick)
        return context.get_dummy_value()

    if not (is_flat(chosen, Y, memory, numbers, own) and chosen.dtype == own.dtype == types.uint32):
        return None
    place = types.intp
    return types.void(chosen, *(place,) * 4, Y, memory, numbers, *(place,) * 3, own, place), generate


@intrinsic
def _put_back(typingctx, numbers, at, chosen, begin, count, i, p, memory):
    """Write `numbers` from `at` on where :func:`_pick_up` found them."""

    def generate(context, builder, signature, arguments):
        numbers_, at_, chosen_, begin_, count_, i_, p_, memory_ = arguments
        tile = Rows(context, builder)
        samples, points = tile.point(chosen, chosen_, begin_), tile.point(memory, memory_, i_)
        olds = tile.point(numbers, numbers_, at_)

        def put(index, _):
            place = builder.mul(builder.zext(builder.load(builder.gep(samples, [index])), p_.type), p_)
            number = builder.fptrunc(builder.load(builder.gep(olds, [index])), points.type.pointee)
            builder.store(number, builder.gep(points, [place]))
            return []

        tile.loop(tile.whole(0), count_, 1, [], put)
        return context.get_dummy_value()

    if not (is_flat(numbers, chosen, memory) and memory.dtype == types.float32 and numbers.dtype == types.float64):
        return None
    place = types.intp
    return types.void(numbers, place, chosen, *(place,) * 4, memory), generate


_change_clipped, _change_piecewise, _change_flat = _change("clipped", 2), _change("piecewise", 5), _change("flat", 6)


@nb.njit(nogil=True, cache=True)
def _change_any(numbers, at, y, stored, count, code, shape, flat, changes, first):
    """:func:`change_row` for any density."""
    total = 0.0
    for t in range(count):
        old, value, new = numbers[at + t], numbers[at + y + t], np.float64(np.float32(numbers[at + stored + t]))
        changes[first + t] = 0.0
        if new == old:
            continue
        w0, t0, r0 = majorizer(old, code, shape)
        w1, t1, r1 = majorizer(new, code, shape)
        if 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1) > 0:
            changes[first + t] = t1 - t0 if flat > 0 else w1 - w0
            total += r1 - r0
            numbers[at + t] = new
    return total


@nb.njit(nogil=True, cache=True)
def jumps_of(shapes, i):
    """The slope of component i's piecewise-linear score at 0 and what it jumps by at each knot."""
    k0, k1, k2, k3, k4 = shapes[i, 0], shapes[i, 1], shapes[i, 2], shapes[i, 3], shapes[i, 4]
    return k0, k1 - k0, k2 - k1, k3 - k2, k4 - k3


@nb.njit(nogil=True, cache=True)
def change_row(numbers, at, y, stored, count, code, shapes, i, flat, changes, first):
    """Move `count` majorizers of component i to their sources as the memory will hold them, where the surrogate falls.

    The points where they touch are `numbers` from `at` on, changed in place;
    sources lie `y` behind them, and `stored` behind them what the memory will hold
    after rounding to float32: sources again, or the points their codes name.
    Fills `changes` from `first` on with what weights change by, or
    tilts if the weight is always `flat` > 0; returns the offsets' change.
    """
    if code == CLIPPED and shapes[i, 1] >= 0:
        return _change_clipped(numbers, at, y, stored, count, (shapes[i, 1], shapes[i, 2]), changes, first)
    if code == PIECEWISE and flat > 0:
        return _change_flat(numbers, at, y, stored, count, (flat, *jumps_of(shapes, i)), changes, first)
    if code == PIECEWISE:
        return _change_piecewise(numbers, at, y, stored, count, jumps_of(shapes, i), changes, first)
    return _change_any(numbers, at, y, stored, count, code, shapes[i], flat, changes, first)


@nb.njit(nogil=True, cache=True)
def _move_codes(
    chosen, begin, count, i, p, Y, code, shapes, flat, packed, levels, edges, numbers, named, first, own, changes, to,
):  # fmt: skip
    """Component i of :func:`move_part` for a memory of codes."""
    room, kind = named.size, 1 if flat > 0 else 0
    old, y, stored = numbers[:room], numbers[room : room + count], numbers[2 * room :]
    for s in range(count):
        at = np.intp(chosen[begin + s]) * p + i
        own[to + s] = chosen[begin + s] + np.uint32(first)
        y[s], old[s] = Y[at], levels[kind, packed[at]]
    round_entries(y, old, levels, edges, kind, stored, named)
    total = change_row(numbers, ZERO, room, 2 * room, count, code, shapes, i, flat, changes, to)
    for s in range(count):
        if named[s] >= 0 and old[s] == stored[s]:
            packed[np.intp(chosen[begin + s]) * p + i] = named[s]
    return total


@nb.njit(nogil=True, cache=True)
def move_part(
    part, p, room, first, ends, rows, sources, codes, shapes, flat, memory, packed, levels, edges, numbers, named,
    begins, chosen, changes, falls,
):  # fmt: skip
    """Move the chosen majorizers of a part, whose samples begin at `first` in the mini-batch, to their sources.

    Component i's samples are ``rows[i room : ends[i]]``. `sources`, and the
    memory, `memory` or `packed`, hold p numbers a sample. Puts component i's
    pairs from ``begins[part, i]`` on into `chosen` and `changes`
    (:func:`change_row`), and what offsets change by into ``falls[part, i]``.
    `numbers` and `named` are :func:`room_for_pairs`.
    """
    start = begins[part, 0]
    for i in range(p):
        begins[part, i + 1] = begins[part, i] + np.intp(ends[i]) - i * room
    if packed.size:
        for i in range(p):
            to = begins[part, i]
            falls[part, i] = _move_codes(
                rows, i * room, begins[part, i + 1] - to, i, p, sources, codes[i], shapes, flat[i], packed, levels,
                edges, numbers, named, first, chosen, changes, to,
            )  # fmt: skip
        return
    half = numbers.size // 2
    for i in range(p):  # all, before the first is changed: what was just written one by one is slow to read
        to, count = begins[part, i], begins[part, i + 1] - begins[part, i]
        _pick_up(rows, i * room, count, i, p, sources, memory, numbers, to - start, half, first, chosen, to)
    for i in range(p):
        to, count = begins[part, i], begins[part, i + 1] - begins[part, i]
        falls[part, i] = change_row(numbers, to - start, half, half, count, codes[i], shapes, i, flat[i], changes, to)
    for i in range(p):
        to, count = begins[part, i], begins[part, i + 1] - begins[part, i]
        _put_back(numbers, to - start, rows, i * room, count, i, p, memory)
