"""Views without a counted reference: hot loops take rows of arrays that their caller keeps alive anyway.

Numba counts every view of an array up and down with atomic operations, which
cost more than a short row's arithmetic.
"""

from __future__ import annotations

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
def address(typingctx, array):
    """Where the first number of `array` lies."""

    def generate(context, builder, signature, arguments):
        view = context.make_array(array)(context, builder, arguments[0])
        return builder.ptrtoint(view.data, context.get_value_type(types.intp))

    return types.intp(array), generate
