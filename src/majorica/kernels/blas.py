"""Products of parts of matrices by the BLAS that Numba's own ``np.dot`` calls, added to what is there if asked."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_CHAR, _INT, _SIZE = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_KINDS = {types.float64: "d", types.float32: "s"}


@intrinsic
def multiply(typingctx, rows, columns, inner, A, a, lda, transposed, B, b, ldb, C, c, ldc, keep):
    """``C = op(A) B + keep C``: `rows` x `columns` of `C`, row-major all.

    `a`, `b` and `c` are the places in the flat arrays where the parts begin,
    `lda`, `ldb` and `ldc` the numbers from one of their rows to the next.
    ``transposed = 1`` takes `A` as ``inner x rows``.
    """
    signature = types.void(
        *[types.intp] * 3, A, types.intp, types.intp, types.intp, B, types.intp, types.intp, C, types.intp, types.intp,
        types.float64,
    )  # fmt: skip

    def generate(context, builder, signature, arguments):
        m, n, k, A_, a_, lda_, transposed_, B_, b_, ldb_, C_, c_, ldc_, keep_ = arguments
        dtype = signature.args[3].dtype
        number = context.get_value_type(dtype)

        def place(kind, value, offset):
            data = context.make_array(kind)(context, builder, value).data
            return builder.bitcast(builder.gep(data, [offset]), cgutils.voidptr_t)

        one = cgutils.alloca_once_value(builder, ir.Constant(number, 1.0))
        keep_ = keep_ if dtype == types.float64 else builder.fptrunc(keep_, number)
        kept = cgutils.alloca_once_value(builder, keep_)
        plain, turned = ir.Constant(_CHAR, ord("n")), ir.Constant(_CHAR, ord("t"))
        flag = builder.select(builder.icmp_signed("!=", transposed_, ir.Constant(_SIZE, 0)), turned, plain)
        pointer = cgutils.voidptr_t
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(
                _INT,
                [_CHAR] * 3 + [_SIZE] * 3 + [pointer, pointer, _SIZE, pointer, _SIZE, pointer, pointer, _SIZE],
            ),
            "numba_xxgemm",
        )
        # BLAS is column-major: ask for C^T = B^T op(A)^T
        builder.call(
            function,
            [
                ir.Constant(_CHAR, ord(_KINDS[dtype])), plain, flag, n, m, k,
                builder.bitcast(one, pointer), place(signature.args[7], B_, b_), ldb_,
                place(signature.args[3], A_, a_), lda_, builder.bitcast(kept, pointer),
                place(signature.args[10], C_, c_), ldc_,
            ],
        )  # fmt: skip
        return context.get_dummy_value()

    return signature, generate
