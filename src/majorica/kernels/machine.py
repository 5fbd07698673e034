"""What Numba has no words for: several numbers moved by one instruction, and BLAS's product in place.

Numba's loops over short rows of arrays that might overlap check that first,
each time, and its product of matrices has an output of its own and no rows
that are part of longer ones. All arrays here are flat and lie in order.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import get_cython_function_address, intrinsic

#: Bytes of the two vectors.
WIDE, NARROW = 32, 16


def place(context, builder, kind, array, index):
    """Where ``array[index]`` lies, for code that is generated."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


def repeat(builder, number, kind):
    """`number` in every place of a vector."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None))


def is_flat(*arrays):
    """Whether these types are of arrays in one row."""
    return all(isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C" for array in arrays)


def ask_for(builder, pointer):
    """Write the instruction that brings the cache line there into the second level, while others run."""
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    ask = builder.module.declare_intrinsic("llvm.prefetch.p0", (), shape)
    builder.call(ask, [builder.bitcast(pointer, byte), *(ir.Constant(number, value) for value in (0, 2, 1))])


@intrinsic
def fetch(typingctx, numbers, index):
    """Ask for the cache line of ``numbers[index]``; there may be no such number."""

    def generate(context, builder, signature, arguments):
        ask_for(builder, place(context, builder, numbers, *arguments))
        return context.get_dummy_value()

    return types.void(numbers, types.intp), generate


def _take(size):
    """An instruction for vectors of `size` bytes."""

    @intrinsic
    def take(typingctx, source, at, factor, out, to):
        """Put `factor` times the numbers of `source` from `at` on into `out` from `to` on."""

        def generate(context, builder, signature, arguments):
            source_, at_, factor_, out_, to_ = arguments
            number = context.get_data_type(source.dtype)
            kind = ir.VectorType(number, size * 8 // source.dtype.bitwidth)
            step = source.dtype.bitwidth // 8

            def point(kind_, array, index):
                return builder.bitcast(place(context, builder, kind_, array, index), kind.as_pointer())

            values = builder.load(point(source, source_, at_), align=step)
            builder.store(builder.fmul(repeat(builder, factor_, kind), values), point(out, out_, to_), align=step)
            return context.get_dummy_value()

        if not (is_flat(source, out) and source.dtype == out.dtype):
            return None
        return types.void(source, types.intp, source.dtype, out, types.intp), generate

    return take


_take_wide, _take_narrow = _take(WIDE), _take(NARROW)


@njit(nogil=True, cache=True, inline="always")
def take_row(source, at, factor, out, to, k):
    """``out[to : to + k] = factor * source[at : at + k]``; the last vector overlaps the one before."""
    wide, narrow = WIDE // source.itemsize, NARROW // source.itemsize
    if k >= wide:
        for j in range(0, k - wide, wide):
            _take_wide(source, at + j, factor, out, to + j)
        _take_wide(source, at + k - wide, factor, out, to + k - wide)
    elif k >= narrow:
        _take_narrow(source, at, factor, out, to)
        _take_narrow(source, at + k - narrow, factor, out, to + k - narrow)
    else:
        for j in range(k):
            out[to + j] = factor * source[at + j]


@intrinsic
def _add_four(typingctx, source, at, factor, out, to):
    """Add `factor` times four numbers of `source` from `at` on to those of `out` from `to` on, which are of float64."""

    def generate(context, builder, signature, arguments):
        source_, at_, factor_, out_, to_ = arguments
        four = ir.VectorType(ir.DoubleType(), 4)
        own = ir.VectorType(context.get_data_type(source.dtype), 4)
        from_ = builder.bitcast(place(context, builder, source, source_, at_), own.as_pointer())
        into = builder.bitcast(place(context, builder, out, out_, to_), four.as_pointer())
        values = builder.load(from_, align=source.dtype.bitwidth // 8)
        values = values if source.dtype == types.float64 else builder.fpext(values, four)
        product = builder.fmul(repeat(builder, factor_, four), values)
        builder.store(builder.fadd(builder.load(into, align=8), product), into, align=8)
        return context.get_dummy_value()

    if not (is_flat(source, out) and out.dtype == types.float64):
        return None
    return types.void(source, types.intp, types.float64, out, types.intp), generate


@njit(nogil=True, cache=True, inline="always")
def add_row(source, at, factor, out, to, k):
    """``out[to : to + k] += factor * source[at : at + k]``."""
    whole = k // 4 * 4
    for j in range(0, whole, 4):
        _add_four(source, at + j, factor, out, to + j)
    for j in range(whole, k):
        out[to + j] += factor * source[at + j]


@cache
def gemm_of(dtype: npt.DTypeLike) -> int:
    """Where SciPy's BLAS has its product of matrices of that type, for :func:`multiply`."""
    name = "dgemm" if np.dtype(dtype) == np.float64 else "sgemm"
    return int(get_cython_function_address("scipy.linalg.cython_blas", name))


@intrinsic
def multiply(typingctx, gemm, sign, numbers, left, right, length, inner, rows, columns, sums, to, width, keep, product):
    """``sign L^T R``: two matrices with `inner` rows of `rows` and `columns`, each row `length` after the one before.

    They lie in `numbers` from `left` and `right` on. Adds that to `sums` from
    `to` on, with rows of `width`, and returns true if those are of the same
    precision; else puts it into `product`, or with ``keep = 1`` adds it to
    what is there.
    """

    def generate(context, builder, signature, arguments):
        gemm_, sign_, numbers_, left_, right_, length_, inner_, rows_, columns_ = arguments[:9]
        sums_, to_, width_, keep_, product_ = arguments[9:]
        byte, adds = ir.IntType(8).as_pointer(), sums.dtype == numbers.dtype

        def hold(value):
            with builder.goto_entry_block():  # once a call, however often a loop comes by
                room = builder.alloca(value.type)
            builder.store(value, room)
            return builder.bitcast(room, byte)

        def point(kind, array, index):
            return builder.bitcast(place(context, builder, kind, array, index), byte)

        # BLAS counts along columns: it is asked for the transpose. It takes the low bytes of its integers if it wants.
        no, yes = (hold(ir.Constant(ir.IntType(8), ord(letter))) for letter in "NT")
        L, R, along = point(numbers, numbers_, left_), point(numbers, numbers_, right_), hold(length_)
        given = [no, yes, hold(columns_), hold(rows_), hold(inner_), hold(sign_), R, along, L, along]
        if adds:
            one = ir.Constant(context.get_data_type(numbers.dtype), 1.0)
            given += [hold(one), point(sums, sums_, to_), hold(width_)]
        else:
            given += [hold(keep_), point(product, product_, ir.Constant(ir.IntType(64), 0)), hold(columns_)]
        function = ir.FunctionType(ir.VoidType(), [byte] * 13).as_pointer()
        builder.call(builder.inttoptr(gemm_, function), given)
        return ir.Constant(ir.IntType(1), adds)

    if not (is_flat(numbers, sums, product) and numbers.dtype == product.dtype):
        return None
    number, places = numbers.dtype, (types.intp,) * 6
    return types.boolean(types.intp, number, numbers, *places, sums, types.intp, types.intp, number, product), generate
