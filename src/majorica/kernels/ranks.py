"""The q largest gaps of each sample, compiled: as many samples side by side as a vector has numbers.

Each place of a sample's vectors keeps its own largest; then two samples share a
vector, half of the places each, then four, until each has one. Where there are
few components they are picked one by one instead. Twin: select_largest of
:mod:`majorica.kernels.reference`.
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
INLINED_DIGEST = "fee216adb6246486"
#: Largest q for which this is done in registers.
FEW_RANKS = 3
#: Samples whose keys are looked through at once: one by one, the loops take longer than what is in them.
TOGETHER = 4


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
    def rank(typingctx, bits, sample, last, p, lows, names, ranks):
        """Keys of samples `sample` on, as many as a vector has numbers and none after `last`."""

        def generate(context, builder, signature, arguments):
            bits_, sample_, last_, p_, lows_, names_, ranks_ = arguments
            tile = Tile(context, builder, bits.dtype)
            start, target = tile.point(bits, bits_, tile.whole(0)), tile.point(ranks, ranks_, sample_)
            apart = builder.add(last_, tile.whole(1))
            name = names_ if tile.item == 8 else builder.trunc(names_, tile.number)
            none = repeat(builder, name, tile.kind)
            clear = builder.not_(none)
            stored = tile.first(builder.add(builder.sub(last_, sample_), tile.whole(1)))
            lows_at = tile.point(lows, lows_, tile.whole(0))

            def insert(key, best, first=0):
                """The largest keys so far and this one, which is no larger than those before the `first`."""
                after = list(best[:first])
                for held in best[first:]:
                    larger = builder.icmp_signed(">", held, key)
                    after.append(builder.select(larger, held, key))
                    key = builder.select(larger, key, held)
                return after

            def named(gaps, places):
                """Keys: gaps whose last bits name their components."""
                return builder.or_(builder.and_(gaps, clear), places)

            def keep(several):
                """In each place the largest of a sample's keys there, for several samples at once."""

                def inserted(best, keys):
                    return [held for s, key in enumerate(keys) for held in insert(key, best[q * s : q * (s + 1)])]

                def more(component, best):
                    places = tile.load(builder.gep(lows_at, [component]))
                    return inserted(best, [named(tile.load(builder.gep(at, [component])), places) for at in several])

                def rest(component, best):  # what is not there is none: its gap is 0
                    gaps = [tile.load_first(builder.gep(at, [component]), end) for at in several]
                    return inserted(best, [named(gap, last_places) for gap in gaps])

                best = tile.loop(tile.whole(0), whole, tile.lanes, [none] * (q * len(several)), more)
                best = tile.loop(whole, p_, tile.lanes, best, rest)
                return [best[q * s : q * (s + 1)] for s in range(len(several))]

            def merge(ones, others, far):
                """The largest keys of both in one vector each, in half as many places; others are `far` samples on."""
                pairs = [tile.trade(one, other, far) for one, other in zip(ones, others, strict=True)]
                best = [one for one, _ in pairs]
                for r, (_, key) in enumerate(pairs):
                    best = insert(key, best, r)
                return best

            def share(i, far):
                """The largest keys of every `far`-th sample from i on, in as many places of each vector."""
                if far * TOGETHER < tile.lanes:
                    return merge(share(i, 2 * far), share(i + far, 2 * far), far)
                kept = keep(samples[i::far])
                while len(kept) > 1:
                    half = len(kept) // 2
                    kept = [merge(one, other, half * far) for one, other in zip(kept, kept[half:], strict=False)]
                return kept[0]

            def pick(component, best):
                """One component."""
                gaps = tile.read_scattered(builder.gep(start, [component]), places, stored)
                return insert(named(gaps, tile.load_repeated(builder.gep(lows_at, [component]))), best)

            if few:
                kind = ir.VectorType(ir.IntType(64), tile.lanes)
                numbers = builder.add(ir.Constant(kind, list(range(tile.lanes))), repeat(builder, sample_, kind))
                places = builder.mul(numbers, repeat(builder, p_, kind))
                best = tile.loop(tile.whole(0), p_, 1, [none] * q, pick)
            else:
                rows = [tile.smaller(builder.add(sample_, tile.whole(t)), last_) for t in range(tile.lanes)]
                samples = [tile.beside(start, row, p_) for row in rows]
                whole = builder.and_(p_, tile.whole(-tile.lanes))
                end = tile.first(builder.sub(p_, whole))
                last_places = tile.load_first(builder.gep(lows_at, [whole]), end)
                best = share(0, 1)
            for r, held in enumerate(best):
                tile.store_first(held, tile.beside(target, apart, r), stored)
            return context.get_dummy_value()

        if not (is_flat(bits, lows, ranks) and bits.dtype == lows.dtype == ranks.dtype):
            return None
        place = types.intp
        return types.void(bits, *(place,) * 3, lows, place, ranks), generate

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
            _rank_two_of_few(bits, t, m - 1, p, lows, names, ranks)
        elif q == 1 and 2 * p <= lanes:
            _rank_one_of_few(bits, t, m - 1, p, lows, names, ranks)
        elif q == 1:
            _rank_one(bits, t, m - 1, p, lows, names, ranks)
        elif q == 2:
            _rank_two(bits, t, m - 1, p, lows, names, ranks)
        else:
            _rank_three(bits, t, m - 1, p, lows, names, ranks)
