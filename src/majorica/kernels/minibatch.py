"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Parts of a mini-batch choose their pairs (:mod:`majorica.kernels.choose`), and
move their majorizers (:mod:`majorica.kernels.moves`); then the moments of one
component after the other change, and the rows move in order. Threads take parts and
components as they come; which thread did what changes no bit. With few
components a part is one piece of work (:mod:`majorica.kernels.few`). Twin: the gaps,
select_largest, update_moments and sweep of :mod:`majorica.kernels.reference`.
The memory is `touch`, float32, or `packed`, codes of one byte
(:class:`majorica.kernels.codes.CodeTable`); the other is empty.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.buckets import BEHIND
from majorica.kernels.choose import choose_samples, whiten_samples
from majorica.kernels.few import BLOCK, LEAST, MOST, PARAMS, SUMS, add_few, few_params, move_few
from majorica.kernels.gaps import block_length, repeat_shapes
from majorica.kernels.machine import ZERO
from majorica.kernels.moves import append_pairs, move_part, room_for_pairs
from majorica.kernels.outer import add_outer, add_samples, in_registers, make_readable, product_size
from majorica.kernels.ranks import name_bits
from majorica.kernels.rounding import repeat_cells
from majorica.kernels.rows import mirror
from majorica.kernels.scratch import aligned, begin_with_line
from majorica.kernels.strips import STRIP, add_strips
from majorica.kernels.sweep import catch_up, make_work, sweep_row
from majorica.kernels.team import PATIENCE, add_one, claim, let_others_run, look, post
from majorica.kernels.views import address, borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "657fa78da460aa34"
#: Where a team's numbers lie (each in a cache line of its own): parts allowed, taken and done; components
#: allowed and taken; whether all is over, or a thread failed. Components done follow from `DONE` on.
PARTS, PARTS_TAKEN, PARTS_DONE, COMPONENTS, COMPONENTS_TAKEN, OVER, DONE = 0, 8, 16, 24, 32, 40, 48
#: Rows that move one after the other: the inverse then stays in the first-level cache, which moments would fill.
GROUP = 8


def count_parts(b: int) -> int:
    """Parts of a mini-batch of `b` samples: an even number, of at most 1024 samples."""
    return 2 * max(1, -(-b // 2048))


def make_rooms(
    p: int, f: int, q: int, length: int, parts: int, dtype: np.dtype, *, coded: bool
) -> tuple[np.ndarray, ...]:
    """The arrays a thread works in, made here so that compiled code need not count its views of them."""
    longest, block, tiled = parts * length, block_length(p, dtype.itemsize), in_registers(p, dtype.itemsize)
    return (
        np.empty(max(1, 1024 // f) * f, dtype),  # the mean, over and over
        aligned(length * (f + p + 2), dtype),
        np.empty(length * (p + 1), np.float32),
        np.empty(p, np.int64 if dtype == np.float64 else np.int32),
        np.empty(q * length, np.int64 if dtype == np.float64 else np.int32),
        aligned(6 * block, dtype).reshape(6, block),
        np.empty((3, block if coded else 0), dtype),
        make_readable(length, p, dtype),  # sources
        np.empty(p, np.uintp),  # ends of buckets
        np.empty(p * (length + BEHIND), np.uint32),
        *room_for_pairs(q, length),
        np.empty(longest, np.uint32),
        np.empty(longest, dtype),  # what weights or tilts of the chosen change by
        np.empty(0 if tiled else 2 * longest * p, dtype),
        aligned(product_size(p, dtype.itemsize) if tiled else STRIP * p, dtype),
        begin_with_line(make_work(p)),
        aligned(p * (2 * BLOCK + PARAMS) if p <= MOST else 0, np.dtype(np.float64)),
    )


@nb.njit(nogil=True, cache=True)
def _add_component(
    gemm, i, k, white, start, begins, chosen, changes, falls, flat, scale, moments, tilts, offsets, own, factors,
    samples, product, ahead, until,
):  # fmt: skip
    """Bring component i's moments up to its moved majorizers: Eq. (updateamem) in one product.

    The mini-batch lies in `white` from `start` on. Of the moments what lies
    from the squares on the diagonal on changes; those are symmetric to the last bit.
    """
    m, total, at = ZERO, 0.0, i * k * k
    for part in range(begins.shape[0]):
        begin, count = begins[part, i], begins[part, i + 1] - begins[part, i]
        append_pairs(chosen, changes, begin, count, scale, own, factors, m)
        m += count
        total += falls[part, i]
    if m == 0:
        return
    offsets[i] += scale * total
    if flat > 0:
        add_samples(white, start, own, factors, m, k, tilts, i * k, ahead, until)
    elif in_registers(k, white.itemsize):
        add_outer(white, start, own, factors, m, k, moments, at, product, ahead, until)
    else:
        add_strips(gemm, white, start, own, factors, m, k, moments, at, samples, product)


@nb.njit(nogil=True, cache=True)
def _coming(i, p, s, X, starts, stops, touch, packed, white, origins, known, begins):
    """Addresses between which lies what component i asks for of mini-batch `s`: of its samples, or of its memory.

    Components ask for some lines a pair: each takes the share of them that it has of the pairs.
    """
    if s >= starts.size:
        return address(white), address(white)
    length, before, own, pairs = stops[s] - starts[s], ZERO, ZERO, ZERO
    for part in range(begins.shape[0]):
        before += begins[part, i] - begins[part, 0]
        own += begins[part, i + 1] - begins[part, i]
        pairs += begins[part, p] - begins[part, 0]
    row = X.shape[1] * X.itemsize
    samples, size = address(X) + starts[s] * row, length * row
    if known[s]:
        row = p * white.itemsize
        samples, size = address(white) + origins[s] * row, length * row
    row = p * (1 if packed.size else touch.itemsize)
    memory = (address(packed) if packed.size else address(touch)) + starts[s] * row
    both = size + length * row
    pairs = max(pairs, ZERO + 1)
    first, last = both * before // pairs, both * (before + own) // pairs
    if first < size:
        return samples + first, samples + min(last, size)
    return memory + first - size, memory + last - size


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    first, team, gemm, X, starts, stops, mean, K, W, inverse, log_det, codes, shapes, flat, covariance_inverse, keys,
    scale, touch, packed, levels, edges, cells, moments, tilts, offsets, iterations, log_normaliser, sweeps,
    refresh_every, q, rooms, now, white, origins, known, begins, chosen, changes, falls, sums, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    All threads of a team call this with the same arrays but `rooms` (:func:`make_rooms`),
    and ``first`` is true for one of them, which moves the rows, GROUP of them right
    after their moments if no other thread changed those. `log_det` is that of
    `W`; the first thread returns what it is afterwards. `now` (k, p) holds `W`
    in the samples' precision, transposed like `K`. The whitened mini-batch s
    lies in `white` from row ``origins[s]`` on, and is there already if
    ``known[s]``. `chosen` and `changes` take its pairs, q times as many as
    samples, `begins` (parts, p + 1) where each component's begin, which
    is known of the first ones, and `falls` (parts, p) their offsets. With few
    components there are `sums` (parts, p, SUMS) instead of pairs.
    """
    X, keys, touch, packed, moments, tilts, shapes = (
        borrow(X), borrow(keys), borrow(touch), borrow(packed), borrow(moments), borrow(tilts), borrow(shapes),
    )  # fmt: skip
    W, inverse, now, white, begins, chosen, changes, falls = (
        borrow(W), borrow(inverse), borrow(now), borrow(white), borrow(begins), borrow(chosen), borrow(changes),
        borrow(falls),
    )  # fmt: skip
    codes, flat, offsets, levels, edges, K = (
        borrow(codes), borrow(flat), borrow(offsets), borrow(levels), borrow(edges), borrow(K),
    )  # fmt: skip
    means, scratch, before, lows, ranks = (
        borrow(rooms[0]), borrow(rooms[1]), borrow(rooms[2]), borrow(rooms[3]), borrow(rooms[4]),
    )  # fmt: skip
    params, limits, sources, ends, rows, numbers = (
        borrow(rooms[5]), borrow(rooms[6]), borrow(rooms[7]), borrow(rooms[8]), borrow(rooms[9]), borrow(rooms[10]),
    )  # fmt: skip
    named, own, factors, samples, product, work, side = (
        borrow(rooms[11]), borrow(rooms[12]), borrow(rooms[13]), borrow(rooms[14]), borrow(rooms[15]),
        borrow(rooms[16]), borrow(rooms[17]),
    )  # fmt: skip
    p, k = W.shape
    f, parts, length = X.shape[1], begins.shape[0], ranks.size // q
    room, names = length + BEHIND, name_bits(p)
    for j in range(means.size):
        means[j] = mean[j % f]
    for i in range(p):
        lows[i] = names - i
    all_white, all_moments, all_tilts = white.reshape(white.size), moments.reshape(moments.size), tilts.reshape(p * k)
    all_W, all_inverse, C_inverse = W.reshape(p * k), inverse.reshape(p * k), borrow(covariance_inverse)
    all_touch, all_packed = touch.reshape(touch.size), packed.reshape(packed.size)
    all_sources = sources.reshape(sources.size)
    shared = repeat_shapes(codes, shapes, params)
    repeat_cells(cells, flat, limits)
    few = LEAST <= p <= MOST and shared >= 0 and packed.size == 0 and keys.size == 0
    params_of = side[2 * p * BLOCK :]
    if few:
        few_params(codes, shapes, flat, params_of)
    all_falls, all_sums = falls.reshape(falls.size), borrow(sums).reshape(sums.size)
    s, row, idle, late, total = -1, p, 0, ZERO, 0.0
    while True:
        if first and row == p:  # the next mini-batch
            s, row, total = s + 1, 0, 0.0
            if s == starts.size:
                post(team, OVER, 1)
                for i in range(p):
                    mirror(moments[i])
                return log_det
            for i in range(p):
                for j in range(k):
                    now[j, i] = W[i, j]
            post(team, PARTS, (s + 1) * parts)
        task = claim(team, PARTS_TAKEN, PARTS)
        if task >= 0:
            idle, part = 0, task % parts
            start, stop = starts[task // parts], stops[task // parts]
            size = -(-(stop - start) // parts)
            low, high = min(start + part * size, stop), min(start + (part + 1) * size, stop)
            first_row = origins[task // parts] + low - start
            there = white[first_row : first_row + high - low]
            if few:
                if high > low and not known[task // parts]:
                    whiten_samples(X[low:high], means, K, scratch, there)
                move_few(
                    all_white, first_row * k, high - low, p, shared, all_W, params_of, flat, q, all_touch,
                    low * p, side, all_falls, part * p, all_sums, part * p * SUMS,
                )  # fmt: skip
            else:
                for i in range(p):
                    ends[i] = i * room
                if high > low:
                    choose_samples(
                        X[low:high], known[task // parts], means, K, now, codes, shapes, flat, shared, params,
                        keys[:, low - start : high - start], touch[low:high], packed[low:high], levels, limits, q,
                        ranks, scratch, before, lows, there, sources[: high - low], ends, rows,
                    )  # fmt: skip
                move_part(
                    part, p, room, low - start, ends, rows, all_sources, codes, shapes, flat,
                    all_touch[low * touch.shape[1] :], all_packed[low * packed.shape[1] :], levels, edges, numbers,
                    named, begins, chosen, changes, falls,
                )  # fmt: skip
            if add_one(team, PARTS_DONE) + 1 == (task // parts + 1) * parts:
                post(team, COMPONENTS, (task // parts + 1) * p)
            continue
        group = min(row // GROUP * GROUP + GROUP, p) - 1
        if first and look(team, DONE + row) == s + 1 and look(team, DONE + group) == s + 1:
            value, growth, late = sweep_row(
                row, p, all_W, all_inverse, all_moments, all_tilts, flat[row], C_inverse, iterations, work, late
            )
            idle = 0
            total += value
            log_det += growth
            row += 1
            if row == p:
                late = catch_up(all_inverse, p, work, late)
                if (sweeps + s) % refresh_every == 0:  # the first too: from a bad start it is the longest
                    fresh = np.linalg.inv(W)
                    for i in range(p):
                        for j in range(k):
                            inverse[i, j] = fresh[i, j]
                    log_det = np.linalg.slogdet(W)[1]
                losses[s] = total + offsets.sum() + log_normaliser - log_det
            continue
        task = claim(team, COMPONENTS_TAKEN, COMPONENTS)
        if task >= 0:
            idle, i = 0, task % p
            if few:
                add_few(i, p, flat[i], scale, falls, sums, all_moments, all_tilts, offsets)
            else:
                ahead, until = _coming(
                    i, p, task // p + 1, X, starts, stops, touch, packed, white, origins, known, begins
                )  # fmt: skip
                _add_component(
                    gemm, i, k, all_white, origins[task // p] * k, begins, chosen, changes, falls, flat[i], scale,
                    all_moments, all_tilts, offsets, own, factors, samples, product, ahead, until,
                )  # fmt: skip
            post(team, DONE + i, task // p + 1)
            continue
        if look(team, OVER) > 0:  # for the first thread: another one failed
            return np.nan
        idle += 1
        if idle > PATIENCE:
            let_others_run()
