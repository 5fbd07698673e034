"""What Numba has no words for: where numbers lie, lines asked for ahead, and BLAS's product in place.

Numba's product of matrices has an output of its own and no rows that are part
of longer ones. All arrays here are flat and lie in order.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import get_cython_function_address, intrinsic

#: A number like any other: a bare 0 is a type of its own to Numba, and what it is given to would be compiled twice.
ZERO = np.intp(0)


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


@intrinsic
def keep_short(typingctx):
    """Say in a function that its loops are short: the compiler spends seconds on unrolling and vectorising."""

    def generate(context, builder, signature, arguments):
        builder.function.attributes.add("optsize")
        builder.function.attributes.add("minsize")
        return context.get_dummy_value()

    return types.void(), generate


@cache
def gemm_of(dtype: npt.DTypeLike) -> int:
    """Where SciPy's BLAS has its product of matrices of that type, for :func:`multiply`."""
    name = "dgemm" if np.dtype(dtype) == np.float64 else "sgemm"
    return int(get_cython_function_address("scipy.linalg.cython_blas", name))


@intrinsic
def multiply(typingctx, gemm, numbers, left, right, length, inner, rows, columns, sums, to, width, product):
    """``L^T R``: two matrices with `inner` rows of `rows` and `columns`, each row `length` after the one before.

    They lie in `numbers` from `left` and `right` on. Adds that to `sums` from
    `to` on, with rows of `width`, and returns true if those are of the same
    precision; else puts it into `product`.
    """

    def generate(context, builder, signature, arguments):
        gemm_, numbers_, left_, right_, length_, inner_, rows_, columns_, sums_, to_, width_, product_ = arguments
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
        one, none = (hold(ir.Constant(context.get_data_type(numbers.dtype), factor)) for factor in (1.0, 0.0))
        given = [no, yes, hold(columns_), hold(rows_), hold(inner_), one, R, along, L, along]
        if adds:
            given += [one, point(sums, sums_, to_), hold(width_)]
        else:
            given += [none, point(product, product_, ir.Constant(ir.IntType(64), 0)), hold(columns_)]
        function = ir.FunctionType(ir.VoidType(), [byte] * 13).as_pointer()
        builder.call(builder.inttoptr(gemm_, function), given)
        return ir.Constant(ir.IntType(1), adds)

    if not (is_flat(numbers, sums, product) and numbers.dtype == product.dtype):
        return None
    place_ = types.intp
    return types.boolean(place_, numbers, *(place_,) * 6, sums, place_, place_, product), generate
