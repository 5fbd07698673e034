"""Views without a counted reference, for hot loops whose caller keeps the arrays alive; memory asked for ahead.

Numba counts every view of an array up and down with atomic operations, which
cost more than a short row's arithmetic.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic
def borrow(typingctx, array):
    """The same `array`, for as long as the caller holds it; never return it."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(signature.return_type)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    if not isinstance(array, types.Array):
        return None
    return array(array), generate


@intrinsic
def fetch(typingctx, array, index):
    """Ask for the cache line of ``array[index]``, for a flat array; changes nothing, and no index is wrong."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [cgutils.voidptr_t], ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t] + [number] * 3)
        )
        builder.call(function, [place, ir.Constant(number, 0), ir.Constant(number, 2), ir.Constant(number, 1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
