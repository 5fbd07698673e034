"""Mini-batches of few components, compiled: from samples to what their moments change by, in registers.

With so few, picking up the chosen pairs takes longer than their arithmetic. So
samples stand side by side, the change of every pair is computed, and those that
are not chosen are zero; all in float64. Twin: the gaps, select_largest and
update_moments of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.machine import is_flat, repeat
from majorica.kernels.moves import Changes, jumps_of
from majorica.kernels.rows import Rows

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "4966c89f5420d0cd"
#: Components from which and up to which this is quicker; with one there is nothing to choose.
LEAST, MOST = 2, 4
#: Samples whose changes stay in the first-level cache.
BLOCK = 256
#: Parameters of a component, and room for its sums: whole vectors.
PARAMS, SUMS = 6, 16


class Few(Changes):
    """Writes instructions for as many samples as a vector has numbers, one vector a component."""

    def spread(self, pointer, p, left=None):
        """The numbers of samples from there on, p each; zeros after the first `left` samples."""
        kind = ir.VectorType(pointer.type.pointee, self.lanes * p)
        if left is None:
            at = self.builder.bitcast(pointer, kind.as_pointer())
            found = self.builder.load(at, align=self.bytes_of(kind))
        else:
            found = self.load_first(pointer, self.numbers_of(left, p))
        nothing = ir.Constant(kind, ir.Undefined)
        picks = [[t * p + i for t in range(self.lanes)] for i in range(p)]
        return [self.builder.shuffle_vector(found, nothing, _places(own)) for own in picks]

    def gather(self, vectors, pointer, left=None):
        """Write such vectors as samples from there on, or the first `left` of them."""
        p, joined = len(vectors), list(vectors)
        while len(joined) > 1:
            joined += [ir.Constant(joined[0].type, ir.Undefined)] * (len(joined) % 2)
            both = _places(range(2 * joined[0].type.count))
            pairs = zip(joined[::2], joined[1::2], strict=True)
            joined = [self.builder.shuffle_vector(one, other, both) for one, other in pairs]
        picks = _places([i * self.lanes + t for t in range(self.lanes) for i in range(p)])
        found = self.builder.shuffle_vector(joined[0], ir.Constant(joined[0].type, ir.Undefined), picks)
        self.write(found, pointer, None if left is None else self.numbers_of(left, p))

    def numbers_of(self, left, p):
        """The mask of the first `left` samples' numbers."""
        return self.first(self.builder.mul(left, self.whole(p)), self.lanes * p)

    def change(self, code, old, new, y, params):
        """What a majorizer changes by, as in :class:`Changes`, from pointers to its component's parameters."""
        builder, own = self.builder, [self.load_repeated(param) for param in params]
        if code == CLIPPED:
            return self.clipped(old, new, y, *own[:2])
        sub = builder.fcmp_ordered(">", builder.load(params[0]), ir.Constant(self.number, 0.0))
        with builder.if_else(sub) as (then, otherwise):
            with then:
                tilted, first = self.flat(old, new, y, *own), builder.block
            with otherwise:
                weighed, second = self.piecewise(old, new, y, *own[1:]), builder.block
        found = []
        for one, other in zip(tilted, weighed, strict=True):
            found.append(builder.phi(self.kind))
            found[-1].add_incoming(one, first)
            found[-1].add_incoming(other, second)
        return found

    def ranked(self, falls, q):
        """Which components are among the `q` whose surrogates fall most, and do fall."""
        builder, kind = self.builder, ir.VectorType(ir.IntType(64), self.lanes)
        one, before = ir.Constant(kind, [1] * self.lanes), [ir.Constant(kind, None)] * len(falls)
        for i, fall in enumerate(falls):
            for j in range(i):
                more = builder.fcmp_ordered("<", fall, falls[j])
                before[j] = builder.select(more, builder.add(before[j], one), before[j])
                before[i] = builder.select(more, before[i], builder.add(before[i], one))
        most = repeat(builder, q, kind)
        within = (builder.icmp_signed("<", count, most) for count in before)
        return [builder.and_(low, self.falls(fall)) for low, fall in zip(within, falls, strict=True)]


def _places(picks):
    """Which numbers of two vectors a shuffle takes."""
    picks = list(picks)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(picks)), picks)


def _move(code, p):
    """An instruction for scores of one kind and so many components."""

    @intrinsic
    def move(typingctx, numbers, at, m, W, params, q, memory, begin, rows, falls, to):
        """:func:`move_few` for at most BLOCK samples; fills p `rows` with the samples and p with the changes."""

        def generate(context, builder, signature, arguments):
            numbers_, at_, m_, W_, params_, q_, memory_, begin_, rows_, falls_, to_ = arguments
            tile = Few(context, builder)
            samples, points = tile.point(numbers, numbers_, at_), tile.point(memory, memory_, begin_)
            unmixing, shapes = tile.point(W, W_, tile.whole(0)), tile.point(params, params_, tile.whole(0))
            target, totals = tile.point(rows, rows_, tile.whole(0)), tile.point(falls, falls_, to_)
            own = [[tile.beside(shapes, i * PARAMS + r) for r in range(PARAMS)] for i in range(p)]

            def go(index, mask, held):
                left = None if mask is None else builder.sub(m_, index)
                sample, point = tile.beside(samples, index, p), tile.beside(points, index, p)
                z = [tile.widened(vector) for vector in tile.spread(sample, p, left)]
                old = tile.spread(point, p, left)
                moved = []
                for i in range(p):
                    y = builder.fmul(tile.load_repeated(tile.beside(unmixing, i * p)), z[0])
                    for j in range(1, p):
                        y = tile.fused(tile.load_repeated(tile.beside(unmixing, i * p + j)), z[j], y)
                    new = builder.fptrunc(y, old[i].type)
                    moved.append((new, *tile.change(code, tile.widened(old[i]), tile.widened(new), y, own[i])))
                chosen = tile.ranked([fall for _, _, _, fall in moved], q_)
                kept, after = [], []
                for i, (new, change, offset, _) in enumerate(moved):
                    tile.store(z[i], builder.gep(target, [builder.add(index, tile.whole(i * BLOCK))]))
                    change = builder.select(chosen[i], change, tile.constant(0))
                    tile.store(change, builder.gep(target, [builder.add(index, tile.whole((p + i) * BLOCK))]))
                    kept.append(builder.select(chosen[i], new, old[i]))
                    after.append(tile.add_where(chosen[i], held[i], offset))
                tile.gather(kept, point, left)
                return after

            for i, sums in enumerate(tile.each(m_, [tile.constant(0)] * p, go)):
                there = tile.beside(totals, i)
                builder.store(builder.fadd(builder.load(there), tile.total(sums)), there)
            return context.get_dummy_value()

        if not (is_flat(numbers, W, params, memory, rows, falls) and memory.dtype == types.float32):
            return None
        place = types.intp
        given = (numbers, place, place, W, params, place, memory, place, rows, falls, place)
        return types.void(*given), generate

    return move


def _add(p, flat):
    """An instruction for so many components, of flat weights or others."""

    @intrinsic
    def add(typingctx, rows, i, m, sums, to):
        """Add to `sums` component i's changes times its m samples, or times the upper triangle of their squares."""

        def generate(context, builder, signature, arguments):
            rows_, i_, m_, sums_, to_ = arguments
            tile = Rows(context, builder)
            start, target = tile.point(rows, rows_, tile.whole(0)), tile.point(sums, sums_, to_)
            changes = tile.beside(start, builder.add(i_, tile.whole(p)), BLOCK)
            pairs = [(a, b) for a in range(p) for b in range(a, p)]

            def go(index, totals):
                change = tile.load(builder.gep(changes, [index]))
                z = [tile.load(tile.beside(builder.gep(start, [index]), a, BLOCK)) for a in range(p)]
                if flat:
                    return [tile.fused(change, vector, total) for vector, total in zip(z, totals, strict=True)]
                scaled = [builder.fmul(change, vector) for vector in z]
                return [tile.fused(scaled[a], z[b], total) for (a, b), total in zip(pairs, totals, strict=True)]

            none = tile.constant(0)
            totals = tile.loop(tile.whole(0), m_, tile.lanes, [none] * (p if flat else len(pairs)), go)
            totals += [none] * (-len(totals) % tile.lanes)
            for first in range(0, len(totals), tile.lanes):
                there = tile.beside(target, first)
                tile.store(builder.fadd(tile.load(there), tile.totals(totals[first : first + tile.lanes])), there)
            return context.get_dummy_value()

        if not is_flat(rows, sums):
            return None
        return types.void(rows, types.intp, types.intp, sums, types.intp), generate

    return add


_clipped_2, _clipped_3, _clipped_4 = _move(CLIPPED, 2), _move(CLIPPED, 3), _move(CLIPPED, 4)
_piecewise_2, _piecewise_3, _piecewise_4 = _move(PIECEWISE, 2), _move(PIECEWISE, 3), _move(PIECEWISE, 4)
_squares_2, _squares_3, _squares_4 = _add(2, False), _add(3, False), _add(4, False)
_samples_2, _samples_3, _samples_4 = _add(2, True), _add(3, True), _add(4, True)


@nb.njit(nogil=True, cache=True)
def few_params(codes, shapes, flat, out):
    """Fill `out` (p PARAMS,) with what :func:`move_few` needs of the components' shapes."""
    for i in range(codes.size):
        at = i * PARAMS
        if codes[i] == CLIPPED:
            out[at], out[at + 1] = shapes[i, 1], shapes[i, 2]
        else:
            jumps = jumps_of(shapes, i)
            out[at] = flat[i]
            for r in range(PARAMS - 1):
                out[at + 1 + r] = jumps[r]


@nb.njit(nogil=True, cache=True)
def move_few(numbers, at, m, p, code, W, params, flat, q, memory, begin, rows, falls, to, sums, first):
    """Move the q majorizers of each of m samples whose surrogate falls most, where it falls, to their sources.

    Samples of p components lie in `numbers` from `at` on, their `memory` from
    `begin` on; `code` is that of all scores, `params` are those of
    :func:`few_params`. What offsets change by goes into `falls` from `to` on.
    Component i's sums go into `sums` from ``first + i SUMS`` on: of changes times samples where
    it is `flat`, else times the upper triangle of their squares. `rows` has
    room for ``2 p BLOCK`` numbers.
    """
    for i in range(p):
        falls[to + i] = 0.0
    for k in range(p * SUMS):
        sums[first + k] = 0.0
    for start in range(0, m, BLOCK):
        count, z, y = min(BLOCK, m - start), at + start * p, begin + start * p
        if code == CLIPPED:
            if p == 2:
                _clipped_2(numbers, z, count, W, params, q, memory, y, rows, falls, to)
            elif p == 3:
                _clipped_3(numbers, z, count, W, params, q, memory, y, rows, falls, to)
            else:
                _clipped_4(numbers, z, count, W, params, q, memory, y, rows, falls, to)
        elif p == 2:
            _piecewise_2(numbers, z, count, W, params, q, memory, y, rows, falls, to)
        elif p == 3:
            _piecewise_3(numbers, z, count, W, params, q, memory, y, rows, falls, to)
        else:
            _piecewise_4(numbers, z, count, W, params, q, memory, y, rows, falls, to)
        for i in range(p):
            own = first + i * SUMS
            if flat[i] > 0:
                if p == 2:
                    _samples_2(rows, i, count, sums, own)
                elif p == 3:
                    _samples_3(rows, i, count, sums, own)
                else:
                    _samples_4(rows, i, count, sums, own)
            elif p == 2:
                _squares_2(rows, i, count, sums, own)
            elif p == 3:
                _squares_3(rows, i, count, sums, own)
            else:
                _squares_4(rows, i, count, sums, own)


@nb.njit(nogil=True, cache=True)
def add_few(i, p, flat, scale, falls, sums, moments, tilts, offsets):
    """Add what :func:`move_few` found of component i, part after part, times `scale`.

    `falls` (parts, p) and `sums` (parts, p, SUMS); moments of all components lie in one row, and their tilts.
    """
    at = i * p * p
    for part in range(falls.shape[0]):
        offsets[i] += scale * falls[part, i]
        k = 0
        for a in range(p):
            if flat > 0:
                tilts[i * p + a] += scale * sums[part, i, a]
                continue
            for b in range(a, p):
                moments[at + a * p + b] += scale * sums[part, i, k]
                moments[at + b * p + a] = moments[at + a * p + b]
                k += 1
