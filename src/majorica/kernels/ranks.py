"""The q largest gaps of each sample, compiled: as many samples side by side as a vector has numbers.

Their gaps are turned round in registers, so that no vector is ever asked for
its own largest number. Twin: select_largest of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.kernels.machine import is_flat, repeat
from majorica.kernels.tiles import VECTOR, Tile
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "207c6466a5475f36"
#: Largest q for which this is done in registers.
FEW_RANKS = 3


@nb.njit(nogil=True, cache=True)
def name_bits(p):
    """The last bits of a key that can name `p` components, all set."""
    names = 1
    while names < p:
        names *= 2
    return names - 1


def _rank(q):
    """An instruction for the `q` largest."""

    @intrinsic
    def rank(typingctx, bits, first, last, p, names, ranks, m):
        """Keys of samples `first` on, as many as a vector has numbers and none after `last`, into `ranks` (q m,)."""

        def generate(context, builder, signature, arguments):
            bits_, first_, last_, p_, names_, ranks_, m_ = arguments
            tile = Tile(context, builder, bits.dtype)
            start, target = tile.point(bits, bits_, tile.whole(0)), tile.point(ranks, ranks_, first_)
            samples = [
                tile.beside(start, tile.smaller(builder.add(first_, tile.whole(t)), last_), p_)
                for t in range(tile.lanes)
            ]
            name = names_ if tile.item == 8 else builder.trunc(names_, tile.number)
            none = repeat(builder, name, tile.kind)
            clear = builder.not_(none)

            def larger(one, other):
                return builder.select(builder.icmp_signed(">", one, other), one, other)

            def turn(component, best):
                """Components from there on, as many as a vector has numbers; those there are not are the smallest."""
                own = tile.first(builder.sub(p_, component))
                rows = [tile.load_first(builder.gep(sample, [component]), own) for sample in samples]
                low = builder.sub(name, component if tile.item == 8 else builder.trunc(component, tile.number))
                for j, row in enumerate(tile.transpose(rows)):
                    place = builder.sub(low, ir.Constant(tile.number, j))
                    place = builder.and_(place, name)  # of a component there is not: any, with a gap of 0
                    key = builder.or_(builder.and_(row, clear), repeat(builder, place, tile.kind))
                    after = []
                    for held in best:
                        after.append(larger(held, key))
                        key = builder.select(builder.icmp_signed(">", held, key), key, held)
                    best = after
                return best

            best = tile.loop(tile.whole(0), p_, tile.lanes, [none] * q, turn)
            stored = tile.first(builder.add(builder.sub(last_, first_), tile.whole(1)))
            for r, held in enumerate(best):
                tile.store_first(held, tile.beside(target, m_, r), stored)
            return context.get_dummy_value()

        if not (is_flat(bits, ranks) and bits.dtype == ranks.dtype):
            return None
        place = types.intp
        return types.void(bits, place, place, place, place, ranks, place), generate

    return rank


_rank_one, _rank_two, _rank_three = _rank(1), _rank(2), _rank(3)


@nb.njit(nogil=True, cache=True)
def _rank_any(bits, lows, clear, names, ranks):
    """:func:`rank_samples` for any q."""
    bits = borrow(bits)
    q, kind = ranks.shape[0], bits.dtype.type
    none = kind(names)
    for t in range(bits.shape[0]):
        row = bits[t]
        best = none
        for j in range(row.size):
            best = max(best, kind((row[j] & clear) | lows[j]))
        ranks[0, t] = best
        for r in range(1, q):
            above, best = best, none
            for j in range(row.size):
                key = kind((row[j] & clear) | lows[j])
                best = max(best, key if key < above else none)
            ranks[r, t] = best


@nb.njit(nogil=True, cache=True)
def rank_samples(bits, p, lows, names, ranks):
    """Keep of each sample the largest keys, in descending order down `ranks` (q, m).

    A key is a gap, one of `bits` (m p,), read as an integer (positive floats
    compare like integers) whose last bits are the component's of `lows` (p,)
    instead: they name it. A key that is `names` stands for none.
    """
    q, m = ranks.shape
    bits, flat = borrow(bits), borrow(ranks).reshape(q * m)
    if q > FEW_RANKS:
        _rank_any(bits.reshape(m, p), lows, ~names, names, ranks)
        return
    for t in range(0, m, VECTOR // bits.itemsize):
        if q == 1:
            _rank_one(bits, t, m - 1, p, names, flat, m)
        elif q == 2:
            _rank_two(bits, t, m - 1, p, names, flat, m)
        else:
            _rank_three(bits, t, m - 1, p, names, flat, m)
