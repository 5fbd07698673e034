"""Scores of one component's samples and the sums a pass wants to know of them, compiled, in registers.

Numba's loops use half of a vector where the processor has whole ones, and
twice the instructions. Numbers behind the last sample count as zeros that are
not there. Twins: score and loss of the densities.
"""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.elementwise import D1, D2, D3, D4, smooth_row
from majorica.kernels.machine import is_flat
from majorica.kernels.tiles import Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "739c8a696b2a6671"
KNOTS = (D1, D2, D3, D4)


class Row(Tile):
    """Writes instructions for all samples of a row, a vector at a time."""

    def sums(self, y, count, score, many, formula):
        """Write ``score = formula(y)`` for `count` samples and return `many` sums over them, as float64.

        `formula` takes samples, a mask of those there are, and sums so far;
        returns their scores and the sums after them. Without `score` there are sums alone.
        """
        builder, everywhere = self.builder, ir.Constant(self.mask, [1] * self.lanes)

        def add(index, mask, totals):
            values = self.read(builder.gep(y, [index]), mask)
            scores, after = formula(values, everywhere if mask is None else mask, totals)
            if score is not None:
                self.write(scores, builder.gep(score, [index]), mask)
            return after

        totals = self.each(count, [ir.Constant(self.kind, None)] * many, add)
        found = []
        for first in range(0, many, self.lanes):
            some = totals[first : first + self.lanes]
            at = self.totals(some)
            found += [builder.extract_element(at, ir.Constant(ir.IntType(32), k)) for k in range(len(some))]
        return found if self.item == 8 else [builder.fpext(total, ir.DoubleType()) for total in found]


def _read_row(context, builder, signature, arguments):
    """What both formulas begin with: the row, where its samples and scores lie, and how many there are."""
    y, score = signature.args[:2]
    row = Row(context, builder, y.dtype)
    count = context.make_array(y)(context, builder, arguments[0]).nitems
    return row, row.point(y, arguments[0], row.whole(0)), row.point(score, arguments[1], row.whole(0)), count


def _rows_match(y, score):
    """Whether these types are rows of the same precision."""
    return is_flat(y, score) and y.dtype == score.dtype


@intrinsic
def _piecewise_sums(typingctx, y, score, k0, j1, j2, j3, j4):
    """Sums of ``y^2``, and of ``t^2``, ``t`` and ``t > 0`` for each knot, where t is what y has beyond it."""

    def generate(context, builder, signature, arguments):
        row, samples, scores, count = _read_row(context, builder, signature, arguments)
        slope, *jumps = (row.repeated(number) for number in arguments[2:])
        zero, one = row.constant(0), row.constant(1)

        def formula(value, _, totals):
            size = row.size(value)
            power, *others = totals
            squares, reaches, counts = others[:4], others[4:8], others[8:]
            beyond = zero
            for k, knot in enumerate(KNOTS):
                t = builder.fsub(size, row.constant(knot))
                there = builder.fcmp_ordered(">", t, zero)
                beyond = builder.select(there, row.fused(jumps[k], t, beyond), beyond)
                squares[k] = builder.select(there, row.fused(t, t, squares[k]), squares[k])
                reaches[k], counts[k] = row.add_where(there, reaches[k], t), row.add_where(there, counts[k], one)
            scores = row.fused(slope, value, row.turned(beyond, value))
            return scores, [row.fused(value, value, power), *squares, *reaches, *counts]

        found = row.sums(samples, count, scores, 13, formula)
        return context.make_tuple(builder, signature.return_type, found)

    if not _rows_match(y, score):
        return None
    return types.UniTuple(types.float64, 13)(y, score, *(y.dtype,) * 5), generate


@nb.njit(nogil=True, cache=True)
def piecewise_row(y, score, shape, ramps, reaches):
    """Fill `score` with G'(y) for a piecewise-linear one; return the sums of G, G'', y^2 and G'' y^2.

    Adds to `ramps` the sums of ``(abs(y) - knot)_+^2 / 2``, to `reaches` those
    of ``(abs(y) - knot)_+``. Beyond a knot y^2 is ``(t + knot)^2``, so G'' y^2
    needs no sum of its own.
    """
    kind = y.dtype.type
    k0, k1, k2, k3, k4 = kind(shape[0]), kind(shape[1]), kind(shape[2]), kind(shape[3]), kind(shape[4])
    jumps = (k1 - k0, k2 - k1, k3 - k2, k4 - k3)
    found = _piecewise_sums(y, score, k0, *jumps)
    power = found[0]
    loss, curvature, diagonal = k0 * power, k0 * np.float64(y.size), k0 * power
    for k in range(4):
        jump, knot, square, reach, count = jumps[k], KNOTS[k], found[1 + k], found[5 + k], found[9 + k]
        ramps[k] += 0.5 * square
        reaches[k] += reach
        loss += jump * square
        curvature += jump * count
        diagonal += jump * (square + 2 * knot * reach + knot * knot * count)
    return 0.5 * loss, curvature, power, diagonal


@intrinsic
def _clipped_sums(typingctx, y, score, alpha, beta, d):
    """Sums of ``c (y - c / 2)``, ``y^2``, ``c = y`` and ``y^2`` there, where c is y clipped at d."""

    def generate(context, builder, signature, arguments):
        row, samples, scores, count = _read_row(context, builder, signature, arguments)
        alpha_, beta_, limit = (row.repeated(number) for number in arguments[2:])
        low, half, one = builder.fsub(row.constant(-0.0), limit), row.constant(-0.5), row.constant(1)

        def formula(value, there, totals):
            loss, power, inside, near = totals
            clipped = row.smaller_number(row.larger(value, low), limit)
            within = builder.and_(there, builder.fcmp_ordered("==", clipped, value))
            square = builder.fmul(value, value)
            after = [
                row.fused(clipped, row.fused(half, clipped, value), loss),
                builder.fadd(power, square),
                row.add_where(within, inside, one),
                row.add_where(within, near, square),
            ]
            return row.fused(alpha_, value, builder.fmul(beta_, clipped)), after

        found = row.sums(samples, count, scores, 4, formula)
        return context.make_tuple(builder, signature.return_type, found)

    if not _rows_match(y, score):
        return None
    return types.UniTuple(types.float64, 4)(y, score, *(y.dtype,) * 3), generate


@nb.njit(nogil=True, cache=True)
def clipped_row(y, score, shape):
    """Fill `score` with ``alpha y + beta c`` for y clipped to c; return the sums of G, G'', y^2 and G'' y^2."""
    kind = y.dtype.type
    alpha, beta = shape[0], shape[1]
    loss, power, inside, near = _clipped_sums(y, score, kind(alpha), kind(beta), kind(shape[2]))
    return (
        0.5 * alpha * power + beta * loss,
        alpha * y.size + beta * inside,
        power,
        alpha * power + beta * near,
    )


@intrinsic
def _piecewise_losses(typingctx, y):
    """Sums of ``y^2`` and, for each knot, of ``t^2``, where t is what y has beyond it."""

    def generate(context, builder, signature, arguments):
        row = Row(context, builder, y.dtype)
        count = context.make_array(y)(context, builder, arguments[0]).nitems
        zero = row.constant(0)

        def formula(value, _, totals):
            size, after = row.size(value), [row.fused(value, value, totals[0])]
            for knot, square in zip(KNOTS, totals[1:], strict=True):
                t = row.larger(builder.fsub(size, row.constant(knot)), zero)
                after.append(row.fused(t, t, square))
            return None, after

        found = row.sums(row.point(y, arguments[0], row.whole(0)), count, None, 5, formula)
        return context.make_tuple(builder, signature.return_type, found)

    if not is_flat(y):
        return None
    return types.UniTuple(types.float64, 5)(y), generate


@intrinsic
def _clipped_losses(typingctx, y, d):
    """Sums of ``c (y - c / 2)`` and of ``y^2``, where c is y clipped at d."""

    def generate(context, builder, signature, arguments):
        row = Row(context, builder, y.dtype)
        count = context.make_array(y)(context, builder, arguments[0]).nitems
        limit, half = row.repeated(arguments[1]), row.constant(-0.5)

        def formula(value, _, totals):
            size = row.size(value)
            inside = row.smaller_number(size, limit)
            loss = row.fused(inside, row.fused(half, inside, size), totals[0])
            return None, [loss, row.fused(value, value, totals[1])]

        found = row.sums(row.point(y, arguments[0], row.whole(0)), count, None, 2, formula)
        return context.make_tuple(builder, signature.return_type, found)

    if not is_flat(y):
        return None
    return types.UniTuple(types.float64, 2)(y, y.dtype), generate


@nb.njit(nogil=True, cache=True)
def loss_row(y, room, code, shape, ramps):
    """The sums of G and y^2; adds to `ramps` what :func:`piecewise_row` does. `room` is for as many scores."""
    if code == PIECEWISE:
        found = _piecewise_losses(y)
        loss = shape[0] * found[0]
        for k in range(4):
            ramps[k] += 0.5 * found[1 + k]
            loss += (shape[k + 1] - shape[k]) * found[1 + k]
        return 0.5 * loss, found[0]
    if code == CLIPPED:
        found_ = _clipped_losses(y, y.dtype.type(shape[2]))
        return 0.5 * shape[0] * found_[1] + shape[1] * found_[0], found_[1]
    total, _, power, _ = smooth_row(y, room, code, shape)
    return np.float64(total), np.float64(power)


@nb.njit(nogil=True, cache=True)
def statistics_row(y, score, code, shape, ramps, reaches):
    """Fill `score` with G'(y); return the sums of G, G'', y^2 and G'' y^2.

    Adds to `ramps` and `reaches` what :func:`piecewise_row` does, if the score is such a one.
    """
    if code == PIECEWISE:
        return piecewise_row(y, score, shape, ramps, reaches)
    if code == CLIPPED:
        return clipped_row(y, score, shape)
    loss, curvature, power, diagonal = smooth_row(y, score, code, shape)
    return np.float64(loss), np.float64(curvature), np.float64(power), np.float64(diagonal)
