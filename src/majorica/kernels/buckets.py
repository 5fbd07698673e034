"""Chosen samples go to a bucket for each component, compiled: with few components a vector of samples at a time."""

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.kernels.machine import is_flat, repeat
from majorica.kernels.tiles import VECTOR, Tile, has

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "812faddb3c65d6bd"
#: Components up to which each looks for its own in a vector of samples, where the processor can pack what a mask keeps.
FEW = 16 if has("avx512f", "avx512vl") else 0
#: Room that a bucket needs behind its last sample.
BEHIND = 16


def _pack(q):
    """An instruction for `q` keys a sample."""

    @intrinsic
    def pack(typingctx, ranks, at, m, p, names, first, ends, rows):
        """:func:`fill_buckets` for samples `at` on, as many as a vector has numbers and none after the m-th."""

        def generate(context, builder, signature, arguments):
            ranks_, at_, m_, p_, names_, first_, ends_, rows_ = arguments
            tile = Tile(context, builder, ranks.dtype)
            start, targets = tile.point(ranks, ranks_, at_), tile.point(rows, rows_, tile.whole(0))
            mask, narrow = tile.first(builder.sub(m_, at_)), ir.VectorType(ir.IntType(32), tile.lanes)
            name = names_ if tile.item == 8 else builder.trunc(names_, tile.number)
            none = repeat(builder, name, tile.kind)
            numbers = ir.Constant(narrow, list(range(tile.lanes)))
            samples = builder.trunc(builder.add(first_, at_), ir.IntType(32))
            samples = builder.add(numbers, repeat(builder, samples, narrow))
            found = []
            for r in range(q):
                key = tile.load_first(tile.beside(start, m_, r), mask)  # zeros: chosen by none
                chosen = builder.icmp_signed(">", key, none)
                own = builder.sub(none, builder.and_(key, none))
                found.append(builder.select(chosen, own, ir.Constant(tile.kind, [-1] * tile.lanes)))
            shape = ir.FunctionType(narrow, [narrow, narrow, tile.mask])
            keep = builder.module.declare_intrinsic(f"llvm.x86.avx512.mask.compress.v{tile.lanes}i32", (), shape)
            bits = ir.IntType(tile.lanes)
            count = builder.module.declare_intrinsic("llvm.ctpop", [bits], ir.FunctionType(bits, [bits]))

            def put(component, _):
                wanted = component if tile.item == 8 else builder.trunc(component, tile.number)
                wanted, own = repeat(builder, wanted, tile.kind), ir.Constant(tile.mask, None)
                for names_found in found:
                    own = builder.or_(own, builder.icmp_signed("==", names_found, wanted))
                end = tile.point(ends, ends_, component)
                place = builder.load(end)
                packed = builder.call(keep, [samples, ir.Constant(narrow, None), own])
                tile.store(packed, builder.gep(targets, [place]))
                many = builder.zext(builder.call(count, [builder.bitcast(own, bits)]), place.type)
                builder.store(builder.add(place, many), end)
                return []

            tile.loop(tile.whole(0), p_, 1, [], put)
            return context.get_dummy_value()

        if not (is_flat(ranks, ends, rows) and rows.dtype == types.uint32):
            return None
        place = types.intp
        return types.void(ranks, *(place,) * 5, ends, rows), generate

    return pack


_pack_one, _pack_two, _pack_three = _pack(1), _pack(2), _pack(3)


@nb.njit(nogil=True, cache=True)
def _put(sample, key, names, ends, rows):
    """Put a sample into the bucket of the component that `key` names."""
    i = np.uintp(names - (key & names))
    place = ends[i]
    rows[place] = sample  # what is not chosen too, and written over by the next
    ends[i] = place + np.uintp(key > names)


@nb.njit(nogil=True, cache=True)
def fill_buckets(ranks, m, q, p, names, first, ends, rows):
    """Put m samples, the first of which has the number `first`, into the buckets of their chosen components.

    Component i's bucket goes on at ``rows[ends[i]]``, and what lies BEHIND it
    may be written over. The keys `ranks` (q m,) are those of ``rank_samples``.
    """
    if FEW > 0 and p <= FEW and q <= 3:  # Numba never sees what another processor lacks
        for t in range(0, m, VECTOR // ranks.itemsize):
            if q == 1:
                _pack_one(ranks, t, m, p, names, first, ends, rows)
            elif q == 2:
                _pack_two(ranks, t, m, p, names, first, ends, rows)
            else:
                _pack_three(ranks, t, m, p, names, first, ends, rows)
        return
    if q == 2:  # the default: a loop over two keys takes longer than they do
        for t in range(m):
            _put(first + t, ranks[t], names, ends, rows)
            _put(first + t, ranks[m + t], names, ends, rows)
        return
    for t in range(m):
        for r in range(q):
            _put(first + t, ranks[r * m + t], names, ends, rows)
