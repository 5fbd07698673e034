"""The q largest gaps of each sample, compiled: as many samples side by side as a vector has numbers.

Their gaps are turned round in registers, or picked one by one where there are
few, so that no vector is ever asked for its own largest number. Twin:
select_largest of :mod:`majorica.kernels.reference`.
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
INLINED_DIGEST = "dabba191e8be0f7d"
#: Largest q for which this is done in registers.
FEW_RANKS = 3


@nb.njit(nogil=True, cache=True)
def name_bits(p):
    """The last bits of a key that can name `p` components, all set."""
    names = 1
    while names < p:
        names *= 2
    return names - 1


def _rank(q, few):
    """An instruction for the `q` largest, of few components or of any number."""

    @intrinsic
    def rank(typingctx, bits, sample, last, p, names, ranks):
        """Keys of samples `sample` on, as many as a vector has numbers and none after `last`."""

        def generate(context, builder, signature, arguments):
            bits_, sample_, last_, p_, names_, ranks_ = arguments
            tile = Tile(context, builder, bits.dtype)
            start, target = tile.point(bits, bits_, tile.whole(0)), tile.point(ranks, ranks_, sample_)
            apart = builder.add(last_, tile.whole(1))
            name = names_ if tile.item == 8 else builder.trunc(names_, tile.number)
            none = repeat(builder, name, tile.kind)
            clear = builder.not_(none)
            stored = tile.first(builder.add(builder.sub(last_, sample_), tile.whole(1)))

            def insert(gaps, place, best):
                """The largest keys so far and these, which name the component at `place` from the end."""
                key = builder.or_(builder.and_(gaps, clear), repeat(builder, place, tile.kind))
                after = []
                for held in best:
                    larger = builder.icmp_signed(">", held, key)
                    after.append(builder.select(larger, held, key))
                    key = builder.select(larger, key, held)
                return after

            def named(component):
                return builder.sub(name, component if tile.item == 8 else builder.trunc(component, tile.number))

            def turn(component, best):
                """Components from there on, as many as a vector has numbers; those there are not are the smallest."""
                own = tile.first(builder.sub(p_, component))
                found = [tile.load_first(builder.gep(sample, [component]), own) for sample in samples]
                low = named(component)
                for j, row in enumerate(tile.transpose(found)):
                    place = builder.sub(low, ir.Constant(tile.number, j))
                    best = insert(row, builder.and_(place, name), best)  # of one there is not: any, with a gap of 0
                return best

            def pick(component, best):
                """One component."""
                gaps = tile.read_scattered(builder.gep(start, [component]), places, stored)
                return insert(gaps, named(component), best)

            if few:
                kind = ir.VectorType(ir.IntType(64), tile.lanes)
                numbers = builder.add(ir.Constant(kind, list(range(tile.lanes))), repeat(builder, sample_, kind))
                places = builder.mul(numbers, repeat(builder, p_, kind))
                best = tile.loop(tile.whole(0), p_, 1, [none] * q, pick)
            else:
                rows = [tile.smaller(builder.add(sample_, tile.whole(t)), last_) for t in range(tile.lanes)]
                samples = [tile.beside(start, row, p_) for row in rows]
                best = tile.loop(tile.whole(0), p_, tile.lanes, [none] * q, turn)
            for r, held in enumerate(best):
                tile.store_first(held, tile.beside(target, apart, r), stored)
            return context.get_dummy_value()

        if not (is_flat(bits, ranks) and bits.dtype == ranks.dtype):
            return None
        place = types.intp
        return types.void(bits, *(place,) * 4, ranks), generate

    return rank


_rank_one, _rank_two, _rank_three = _rank(1, False), _rank(2, False), _rank(3, False)
_rank_one_of_few, _rank_two_of_few = _rank(1, True), _rank(2, True)


@nb.njit(nogil=True, cache=True)
def _rank_any(bits, m, p, lows, names, q, ranks):
    """:func:`rank_samples` for any q."""
    bits, kind, clear = borrow(bits), ranks.dtype.type, ~names
    none = kind(names)
    for t in range(m):
        above = none
        for r in range(q):
            best = none
            for j in range(p):
                key = kind((bits[t * p + j] & clear) | lows[j])
                best = max(best, key if r == 0 or key < above else none)
            ranks[r * m + t] = above = best


@nb.njit(nogil=True, cache=True)
def rank_samples(bits, m, p, lows, names, q, ranks):
    """Keep of each of m samples the q largest keys, in descending order: ``ranks[r m + t]``.

    A key is a gap, one of `bits` (m p,), read as an integer (positive floats
    compare like integers) whose last bits are the component's of `lows` (p,)
    instead: they name it. A key that is `names` stands for none.
    """
    if q > FEW_RANKS:
        _rank_any(bits, m, p, lows, names, q, ranks)
        return
    lanes = VECTOR // bits.itemsize
    for t in range(0, m, lanes):
        if q == 2 and 2 * p <= lanes:
            _rank_two_of_few(bits, t, m - 1, p, names, ranks)
        elif q == 1 and 2 * p <= lanes:
            _rank_one_of_few(bits, t, m - 1, p, names, ranks)
        elif q == 1:
            _rank_one(bits, t, m - 1, p, names, ranks)
        elif q == 2:
            _rank_two(bits, t, m - 1, p, names, ranks)
        else:
            _rank_three(bits, t, m - 1, p, names, ranks)
