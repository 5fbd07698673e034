"""Numbers that threads share without locks: what is written before a number is posted is seen by who reads it.

A lone integer tells how far work may go, another how far it was taken; they
only grow, but for a limit that ends all work, so that a thread which comes
late finds nothing of the past to do.
"""

from __future__ import annotations

import sys

import numba as nb
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import place

#: Readings of a number before a waiting thread lets others run.
PATIENCE = 2000


@intrinsic
def look(typingctx, numbers, index):
    """``numbers[index]``, and all that was written before it was posted."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(place(context, builder, signature.args[0], *arguments), "acquire", 8)

    return types.int64(numbers, types.intp), generate


@intrinsic
def post(typingctx, numbers, index, value):
    """``numbers[index] = value``, once all writes before it are done."""

    def generate(context, builder, signature, arguments):
        at = place(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], at, "release", 8)
        return context.get_dummy_value()

    return types.void(numbers, types.intp, types.int64), generate


@intrinsic
def add_one(typingctx, numbers, index):
    """``numbers[index] += 1``, once all writes before it are done; returns what it was."""

    def generate(context, builder, signature, arguments):
        at = place(context, builder, signature.args[0], *arguments)
        return builder.atomic_rmw("add", at, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(numbers, types.intp), generate


@intrinsic
def _swap(typingctx, numbers, index, old, new):
    """Whether ``numbers[index]`` was `old` and now is `new`."""

    def generate(context, builder, signature, arguments):
        at = place(context, builder, signature.args[0], *arguments[:2])
        pair = builder.cmpxchg(at, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(numbers, types.intp, types.int64, types.int64), generate


@nb.njit(nogil=True, cache=True)
def claim(numbers, taken, limit):
    """Number of the next task, or -1 if all tasks below ``numbers[limit]`` are taken."""
    while True:
        task = look(numbers, taken)
        if task >= look(numbers, limit):
            return -1
        if _swap(numbers, taken, task, task + 1):
            return task


if sys.platform == "win32":

    @nb.njit(nogil=True, cache=True)
    def let_others_run():
        """Nothing: waiting threads read on."""

else:
    _sched_yield = types.ExternalFunction("sched_yield", types.int32())

    @nb.njit(nogil=True, cache=True)
    def let_others_run():
        """Offer the core to other threads."""
        _sched_yield()
