"""How far majorizers lie above the loss, compiled, in registers: what the incremental solver chooses by.

Rows hold one component's samples. Blocks hold samples as they lie, component
after component; the shapes then stand in rows of the same length. Twin: gaps
of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.densities.piecewise import KNOTS
from majorica.kernels.elementwise import majorizer
from majorica.kernels.machine import is_flat
from majorica.kernels.scratch import LINE
from majorica.kernels.tiles import Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "809b31ccc00058d5"
#: Numbers in a block of the gaps, if that is whole samples.
BLOCK = 1024


def block_length(p: int, item: int) -> int:
    """Numbers in a block: whole samples, and if there are not too many components whole cache lines."""
    lines = math.lcm(p, LINE // item)
    step = lines if lines <= 2 * BLOCK else p
    return max(1, BLOCK // step) * step


class Gaps(Tile):
    """Writes the formulas of gaps, each as a square about the old point and squares about the knots passed since.

    So gaps much smaller than the loss keep their digits.
    """

    def over(self, one, other):
        """``one / other``; in float64 to its last digits but one, from a reciprocal of float32: in half the time."""
        builder = self.builder
        if self.item == 4:
            return builder.fdiv(one, other)
        short = ir.VectorType(ir.FloatType(), self.lanes)
        known = builder.fptrunc(self.larger(other, self.constant(1e-38)), short)  # never 0
        guess = builder.fdiv(ir.Constant(short, [1.0] * self.lanes), known)
        guess = builder.fpext(guess, self.kind)
        left = self.fused(builder.fneg(other), guess, self.constant(1))
        return builder.fmul(one, self.fused(guess, left, guess))

    def clipped(self, value, old, half, knot):
        """For a score clipped at `knot`, of twice the slope `half` before."""
        builder, none = self.builder, self.constant(0)
        u, v = self.size(value), self.size(old)
        apart, beyond = builder.fsub(u, v), builder.fsub(u, knot)
        was = builder.select(builder.fcmp_ordered(">", v, knot), half, none)
        passed = builder.fneg(was)
        passed = builder.select(builder.fcmp_ordered(">", u, knot), builder.fadd(passed, half), passed)
        turn = self.over(builder.fmul(builder.fmul(was, knot), builder.fmul(apart, apart)), self.larger(v, knot))
        return self.fused(builder.fmul(passed, beyond), beyond, turn)

    def piecewise(self, value, old, slope, j1, j2, j3, j4, flat):
        """For a score whose `slope` jumps at each knot; with a `flat` weight > 0 the majorizer's is that."""
        builder, none = self.builder, self.constant(0)
        u, v = self.size(value), self.size(old)
        squares, intercept = none, none
        for knot, jump in zip(KNOTS, (j1, j2, j3, j4), strict=True):
            knot = self.constant(knot)
            was = builder.select(builder.fcmp_ordered(">", v, knot), jump, none)
            passed = builder.select(builder.fcmp_ordered(">", u, knot), builder.fsub(was, jump), was)
            t = builder.fsub(u, knot)
            squares = self.fused(builder.fmul(passed, t), t, squares)
            intercept, slope = self.fused(builder.fneg(knot), was, intercept), builder.fadd(slope, was)
        apart, bend = builder.fsub(u, v), builder.fsub(flat, slope)
        even = builder.fcmp_ordered(">", flat, none)
        turn = builder.select(even, bend, self.over(intercept, self.larger(v, self.constant(KNOTS[0]))))
        crossed = builder.and_(even, builder.fcmp_ordered("<", builder.fmul(value, old), none))
        across = builder.fmul(builder.fadd(u, u), self.fused(bend, v, builder.fneg(intercept)))
        gap = builder.fmul(self.constant(0.5), self.fused(builder.fmul(turn, apart), apart, squares))
        return self.add_where(crossed, gap, across)


def _gap(formula, many, rows):
    """An instruction for a formula of so many parameters: of one component's rows, or of blocks."""

    @intrinsic
    def gaps(typingctx, y, at, old, begin, count, shape, width, place, gap, to):
        """Fill `gap` from `to` on for `count` numbers of `y` from `at` on, with majorizers that touch at `old`.

        Parameter r is ``shape[r width + place]``, or in blocks what lies from there on.
        """

        def generate(context, builder, signature, arguments):
            y_, at_, old_, begin_, count_, shape_, width_, place_, gap_, to_ = arguments
            tile = Gaps(context, builder, y.dtype)
            values, points, target = tile.point(y, y_, at_), tile.point(old, old_, begin_), tile.point(gap, gap_, to_)
            start = tile.point(shape, shape_, place_)
            params = [tile.beside(start, width_, r) for r in range(many)]
            fixed = [tile.load_repeated(param) for param in params] if rows else None

            def write(index, mask, _):
                value, touching = (tile.read(builder.gep(first, [index]), mask) for first in (values, points))
                own = fixed or [tile.read(builder.gep(param, [index]), mask) for param in params]
                tile.write(getattr(tile, formula)(value, touching, *own), builder.gep(target, [index]), mask)
                return []

            tile.each(count_, [], write)
            return context.get_dummy_value()

        if not (is_flat(y, old, shape, gap) and y.dtype == shape.dtype == gap.dtype):
            return None
        whole = types.intp
        return types.void(y, whole, old, *(whole,) * 2, shape, *(whole,) * 2, gap, whole), generate

    return gaps


_clipped_rows, _piecewise_rows = _gap("clipped", 2, True), _gap("piecewise", 6, True)
_clipped_blocks, _piecewise_blocks = _gap("clipped", 2, False), _gap("piecewise", 6, False)


@nb.njit(nogil=True, cache=True)
def repeat_shapes(codes, shapes, out):
    """Fill `out` (6, length) with the parameters of all components, over and over, or as far as there is a formula.

    Returns the code all components share, else -1.
    """
    p, kind = codes.size, out.dtype.type
    shared = codes[0]
    for i in range(p):
        same = codes[i] == shared and (shared == PIECEWISE or (shared == CLIPPED and shapes[i, 1] >= 0))
        shared = shared if same else -1
    for s in range(out.shape[1]):
        shape = shapes[s % p]
        if codes[s % p] == PIECEWISE:
            out[0, s] = kind(shape[0])
            for j in range(1, 5):
                out[j, s] = kind(shape[j] - shape[j - 1])
            out[5, s] = kind(shape[5])
        else:
            out[0, s], out[1, s] = kind(0.5 * shape[1]), kind(shape[2])
    return shared


@nb.njit(nogil=True, cache=True)
def gap_row(y, old, i, code, shape, params, width, gap):
    """How far component i's majorizers, which touch at `old`, lie above its loss at `y`; Eq. (dualgap).

    `params` are those of :func:`repeat_shapes` in one row, `width` is their length.
    """
    if code == CLIPPED and shape[1] >= 0:
        _clipped_rows(y, 0, old, 0, y.size, params, width, i, gap, 0)
    elif code == PIECEWISE:
        _piecewise_rows(y, 0, old, 0, y.size, params, width, i, gap, 0)
    else:
        for t in range(y.size):
            value = np.float64(y[t])
            w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
            w1, t1, r1 = majorizer(value, code, shape)
            gap[t] = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)


@nb.njit(nogil=True, cache=True)
def gap_block(y, at, old, begin, count, code, params, width, gap):
    """:func:`gap_row` for `count` numbers of samples as they lie, all of one `code`, from ``y[at]`` on."""
    for start in range(0, count, width):
        size = min(width, count - start)
        if code == CLIPPED:
            _clipped_blocks(y, at + start, old, begin + start, size, params, width, 0, gap, start)
        else:
            _piecewise_blocks(y, at + start, old, begin + start, size, params, width, 0, gap, start)
