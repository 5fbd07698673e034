"""Products of the M-step's matrices with vectors, compiled, in registers; all numbers are of float64.

Numba's loops over short rows spend as long on what is left over at their ends
as on the rows. Here the last vector of a row is cut off by a mask. Twins: ``A @ v``,
``coefficients @ rows``, ``alpha x + beta y`` and ``x @ y``.
"""

from __future__ import annotations

import numba as nb
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat
from majorica.kernels.tiles import MOST, VECTOR, Tile

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "812faddb3c65d6bd"
#: Numbers in a vector: so many rows are read at a time.
LANES = VECTOR // 8
#: Vectors of a sum of rows that stay in registers.
ABREAST = 4
#: Rows by which the inverse may be late, and vectors of its change by them that stay in registers.
LATE, RENEWED = 8, 2 if MOST == 4 else 1


@nb.njit(nogil=True, cache=True)
def padded(k):
    """Room for a row of `k` numbers: whole vectors."""
    return -(-k // LANES) * LANES


class Rows(Tile):
    """Writes instructions for rows of float64."""

    def __init__(self, context, builder):
        super().__init__(context, builder, types.float64)


def _apply_some(whole):
    """An instruction for as many rows as a vector has numbers, or those that are left."""

    @intrinsic
    def apply(typingctx, A, at, k, row, v, first, out, to):
        """What rows `row` on of the symmetric matrix give to ``out += A v``, from their square on the diagonal on."""

        def generate(context, builder, signature, arguments):
            A_, at_, k_, row_, v_, first_, out_, to_ = arguments
            rows = Rows(context, builder)
            start, numbers, sums = rows.point(A, A_, at_), rows.point(v, v_, first_), rows.point(out, out_, to_)
            last = builder.sub(k_, rows.whole(1))
            own = rows.first(builder.sub(k_, row_))
            indices = [builder.add(row_, rows.whole(r)) for r in range(rows.lanes)]
            indices = indices if whole else [rows.smaller(index, last) for index in indices]
            lines = [rows.beside(start, index, k_) for index in indices]
            factors = [rows.load_repeated(builder.gep(numbers, [index])) for index in indices]
            here, *square = (
                rows.load(there) if whole else rows.load_first(there, own)
                for there in (builder.gep(line, [row_]) for line in (numbers, *lines))
            )
            totals = [builder.fmul(entries, here) for entries in square]

            def beyond(column, mask, totals):
                there, target = rows.read(builder.gep(numbers, [column]), mask), builder.gep(sums, [column])
                chains = [rows.load(target), ir.Constant(rows.kind, None)]
                after = []
                for r, line in enumerate(lines):
                    entry = rows.read(builder.gep(line, [column]), mask)
                    after.append(rows.fused(entry, there, totals[r]))
                    chains[r % 2] = rows.fused(entry, factors[r], chains[r % 2])
                rows.store(builder.fadd(*chains), target)
                return after

            if whole:
                totals = rows.each(k_, totals, beyond, builder.add(row_, rows.whole(rows.lanes)))
            target = builder.gep(sums, [row_])
            rows.store(builder.fadd(rows.load(target), rows.totals(totals)), target)
            return context.get_dummy_value()

        if not (is_flat(A, v, out) and A.dtype == v.dtype == out.dtype == types.float64):
            return None
        place = types.intp
        return types.void(A, *(place,) * 3, v, place, out, place), generate

    return apply


_apply_whole, _apply_last = _apply_some(True), _apply_some(False)


@nb.njit(nogil=True, cache=True)
def apply_symmetric(A, at, k, v, first, out, to):
    """``out = A v`` for the symmetric matrix (k k,) in `A` from `at` on; `v` and `out` begin at `first` and `to`.

    Nothing left of the squares on its diagonal is read, of LANES rows each.
    There is room for ``padded(k)`` numbers in `out`.
    """
    whole = k // LANES * LANES
    for j in range(padded(k)):
        out[to + j] = 0.0
    for row in range(0, whole, LANES):
        _apply_whole(A, at, k, row, v, first, out, to)
    if whole < k:
        _apply_last(A, at, k, whole, v, first, out, to)


@nb.njit(nogil=True, cache=True)
def mirror(A):
    """Write what :func:`apply_symmetric` never reads, left of the squares on the diagonal, from what lies above it."""
    k = A.shape[0]
    for row in range(LANES, k, LANES):  # squares that fit in cache lines, one after the other
        for column in range(0, row, LANES):
            for r in range(row, min(row + LANES, k)):
                for j in range(column, column + LANES):
                    A[r, j] = A[j, r]


@intrinsic
def combine(typingctx, out, to, alpha, x, at, beta, y, first, k):
    """``out[to + j] = alpha x[at + j] + beta y[first + j]`` for k numbers; `x` and `y` may be of float32."""

    def generate(context, builder, signature, arguments):
        out_, to_, alpha_, x_, at_, beta_, y_, first_, k_ = arguments
        rows = Rows(context, builder)
        left, right, target = rows.point(x, x_, at_), rows.point(y, y_, first_), rows.point(out, out_, to_)
        one, other = rows.repeated(alpha_), rows.repeated(beta_)

        def put(index, mask, _):
            values = builder.fmul(one, rows.read(builder.gep(left, [index]), mask))
            values = rows.fused(other, rows.read(builder.gep(right, [index]), mask), values)
            rows.write(values, builder.gep(target, [index]), mask)
            return []

        rows.each(k_, [], put)
        return context.get_dummy_value()

    if not (is_flat(out, x, y) and out.dtype == types.float64):
        return None
    place, number = types.intp, types.float64
    return types.void(out, place, number, x, place, number, y, place, place), generate


@intrinsic
def set_out(typingctx, work, z, Az, residual, direction, c, w, first, t, k):
    """Conjugate gradient sets out from ``z = t w``: fills z, residual and direction, and turns ``A w`` into ``A z``.

    All but ``w[first : first + k]`` are places in `work`, of k numbers each. Returns the residual's square.
    """

    def generate(context, builder, signature, arguments):
        work_, z_, Az_, residual_, direction_, c_, w_, first_, t_, k_ = arguments
        rows = Rows(context, builder)
        places = [rows.point(work, work_, at) for at in (z_, Az_, residual_, direction_, c_)]
        start, factor = rows.point(w, w_, first_), rows.repeated(t_)

        def put(index, mask, totals):
            z, product, residual, direction, c = (builder.gep(place, [index]) for place in places)
            applied = builder.fmul(factor, rows.read(product, mask))
            left = builder.fsub(rows.read(c, mask), applied)
            rows.write(builder.fmul(factor, rows.read(builder.gep(start, [index]), mask)), z, mask)
            rows.write(applied, product, mask)
            rows.write(left, residual, mask)
            rows.write(left, direction, mask)
            return [rows.fused(left, left, totals[0])]

        return rows.total(rows.each(k_, [rows.constant(0)], put)[0])

    if not (is_flat(work, w) and work.dtype == w.dtype == types.float64):
        return None
    return types.float64(work, *(types.intp,) * 5, w, types.intp, types.float64, types.intp), generate


@intrinsic
def advance(typingctx, work, z, Az, residual, direction, Ad, step, k):
    """A step of conjugate gradient along `direction`; all are places in `work`. Returns the residual's square."""

    def generate(context, builder, signature, arguments):
        work_, *places_, step_, k_ = arguments
        rows = Rows(context, builder)
        places, far = [rows.point(work, work_, at) for at in places_], rows.repeated(step_)

        def put(index, mask, totals):
            z, product, residual, direction, along = (builder.gep(place, [index]) for place in places)
            applied = builder.fmul(far, rows.read(along, mask))
            left = builder.fsub(rows.read(residual, mask), applied)
            rows.write(rows.fused(far, rows.read(direction, mask), rows.read(z, mask)), z, mask)
            rows.write(builder.fadd(rows.read(product, mask), applied), product, mask)
            rows.write(left, residual, mask)
            return [rows.fused(left, left, totals[0])]

        return rows.total(rows.each(k_, [rows.constant(0)], put)[0])

    if not (is_flat(work) and work.dtype == types.float64):
        return None
    return types.float64(work, *(types.intp,) * 5, types.float64, types.intp), generate


@intrinsic
def dot(typingctx, x, at, y, first, k):
    """The sum of ``x[at + j] y[first + j]`` over k numbers."""

    def generate(context, builder, signature, arguments):
        x_, at_, y_, first_, k_ = arguments
        rows = Rows(context, builder)
        left, right = rows.point(x, x_, at_), rows.point(y, y_, first_)

        def add(index, mask, totals):
            one, other = (rows.read(builder.gep(row, [index]), mask) for row in (left, right))
            return [rows.fused(one, other, totals[0])]

        return rows.total(rows.each(k_, [ir.Constant(rows.kind, None)], add)[0])

    if not (is_flat(x, y) and x.dtype == y.dtype == types.float64):
        return None
    return types.float64(x, types.intp, y, types.intp, types.intp), generate


def _add_some(whole):
    """An instruction for as many columns as stay in registers, or those that are left."""

    @intrinsic
    def add(typingctx, A, at, stride, count, factors, first, apart, column, k, out, to):
        """Columns `column` on of :func:`add_rows`."""

        def generate(context, builder, signature, arguments):
            A_, at_, stride_, count_, factors_, first_, apart_, column_, k_, out_, to_ = arguments
            rows = Rows(context, builder)
            start = builder.gep(rows.point(A, A_, at_), [column_])
            target = builder.gep(rows.point(out, out_, to_), [column_])
            weights = rows.point(factors, factors_, first_)
            left = builder.sub(k_, column_)
            masks = [
                None if whole else rows.first(builder.sub(left, rows.whole(v * rows.lanes))) for v in range(ABREAST)
            ]
            totals = [rows.read(rows.beside(target, v * rows.lanes), masks[v]) for v in range(ABREAST)]
            totals += [ir.Constant(rows.kind, None)] * ABREAST

            def several(many):
                def body(index, totals):
                    totals = list(totals)
                    for r in range(many):
                        row, half = builder.add(index, rows.whole(r)), r % 2 * ABREAST
                        factor = rows.load_repeated(rows.beside(weights, row, apart_))
                        line = rows.beside(start, row, stride_)
                        for v in range(ABREAST):
                            entry = rows.read(rows.beside(line, v * rows.lanes), masks[v])
                            totals[half + v] = rows.fused(entry, factor, totals[half + v])
                    return totals

                return body

            fours = builder.and_(count_, rows.whole(-4))
            totals = rows.loop(rows.whole(0), fours, 4, totals, several(4))
            totals = rows.loop(fours, count_, 1, totals, several(1))
            for v in range(ABREAST):
                total = builder.fadd(totals[v], totals[ABREAST + v])
                rows.write(total, rows.beside(target, v * rows.lanes), masks[v])
            return context.get_dummy_value()

        if not (is_flat(A, factors, out) and A.dtype == factors.dtype == out.dtype == types.float64):
            return None
        place = types.intp
        return types.void(A, place, place, place, factors, *(place,) * 4, out, place), generate

    return add


_add_whole, _add_last = _add_some(True), _add_some(False)


@nb.njit(nogil=True, cache=True)
def add_rows(A, at, stride, count, factors, first, apart, k, out, to):
    """``out[to : to + k] += sum_r factors[first + apart r] A[at + stride r :][:k]`` over `count` rows."""
    wide = ABREAST * LANES
    for column in range(0, k - wide + 1, wide):
        _add_whole(A, at, stride, count, factors, first, apart, column, k, out, to)
    if k % wide:
        _add_last(A, at, stride, count, factors, first, apart, k // wide * wide, k, out, to)


def _renew_some(whole):
    """An instruction for as many columns as stay in registers, or those that are left."""

    @intrinsic
    def renew_some(typingctx, inverse, k, column, work, columns, steps, size, shares):
        """Columns `column` on of :func:`renew`."""

        def generate(context, builder, signature, arguments):
            inverse_, k_, column_, work_, columns_, steps_, size_, shares_ = arguments
            rows = Rows(context, builder)
            start = rows.point(inverse, inverse_, column_)
            before, after, known = (rows.point(work, work_, at) for at in (steps_, columns_, shares_))
            left = builder.sub(k_, column_)
            vectors = [rows.whole(v * rows.lanes) for v in range(RENEWED)]
            masks = [None if whole else rows.first(builder.sub(left, at)) for at in vectors]

            def places(line):
                there = rows.beside(start, line, k_)
                return [(builder.gep(there, [at]), mask) for at, mask in zip(vectors, masks, strict=True)]

            def factor(at, r, line):
                return rows.load_repeated(builder.gep(rows.beside(at, size_, r), [line]))

            def gather(line, totals):
                own = [rows.read(*place) for place in places(line)]
                factors = [factor(before, r, line) for r in range(LATE)]
                return [rows.fused(factors[k // RENEWED], own[k % RENEWED], held) for k, held in enumerate(totals)]

            def change(line, _):
                factors = [factor(after, r, line) for r in range(LATE)]
                for v, place in enumerate(places(line)):
                    entry = rows.read(*place)
                    for r in range(LATE):
                        entry = rows.fused(factors[r], changes[r * RENEWED + v], entry)
                    rows.write(entry, *place)
                return []

            nothing = [ir.Constant(rows.kind, None)] * (LATE * RENEWED)
            changes = list(rows.loop(rows.whole(0), k_, 1, nothing, gather))
            for r in range(LATE):
                for s in range(r):
                    share = rows.load_repeated(builder.gep(known, [rows.whole(r * LATE + s)]))
                    for v in range(RENEWED):
                        other = changes[s * RENEWED + v]
                        changes[r * RENEWED + v] = rows.fused(share, other, changes[r * RENEWED + v])
            rows.loop(rows.whole(0), k_, 1, [], change)
            return context.get_dummy_value()

        if not (is_flat(inverse, work) and inverse.dtype == work.dtype == types.float64):
            return None
        place = types.intp
        return types.void(inverse, place, place, work, *(place,) * 4), generate

    return renew_some


_renew_whole, _renew_last = _renew_some(True), _renew_some(False)


@nb.njit(nogil=True, cache=True)
def renew(inverse, k, work, columns, steps, size, shares):
    """Add LATE products of a column and a row to `inverse` (k k,).

    Column r lies in `work` from ``columns + r size`` on. Row r is the product
    of what lies from ``steps + r size`` on with `inverse`, as it is after the r products before: it is
    made of that with `inverse` as it was, and of rows s before times ``shares + r LATE + s``.
    """
    wide = RENEWED * LANES
    for column in range(0, k - wide + 1, wide):
        _renew_whole(inverse, k, column, work, columns, steps, size, shares)
    if k % wide:
        _renew_last(inverse, k, k // wide * wide, work, columns, steps, size, shares)
