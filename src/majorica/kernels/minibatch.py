"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Parts of a mini-batch choose their pairs (:mod:`majorica.kernels.choose`), then
the moments of one component after the other change, and the rows move in order. Threads take parts and
components as they come; which thread did what changes no bit. Twin: the gaps,
select_largest, update_moments and sweep of :mod:`majorica.kernels.reference`.
The memory is `touch`, float32, or `packed`, codes of one byte
(:class:`majorica.kernels.codes.CodeTable`); the other is empty.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.choose import choose_samples, name_bits
from majorica.kernels.gaps import BLOCK, change_row, repeat_shapes
from majorica.kernels.rounding import repeat_cells, round_entries
from majorica.kernels.sweep import LATE, STRIP, catch_up, sweep_row
from majorica.kernels.team import PATIENCE, add_one, claim, let_others_run, look, post
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "96472872fbe7011b"
#: Where a team's numbers lie (each in a cache line of its own): parts allowed, taken and done; components
#: allowed and taken; whether all is over, or a thread failed. Components done follow from `DONE` on.
PARTS, PARTS_TAKEN, PARTS_DONE, COMPONENTS, COMPONENTS_TAKEN, OVER, DONE = 0, 8, 16, 24, 32, 40, 48


def count_parts(b: int) -> int:
    """Parts of a mini-batch of `b` samples: an even number, of 250 samples or so."""
    return 2 * max(1, -(-b // 512))


def make_rooms(
    p: int, f: int, q: int, length: int, parts: int, dtype: np.dtype, *, coded: bool
) -> tuple[np.ndarray, ...]:
    """The arrays a thread works in, made here so that compiled code need not count its views of them."""
    longest, block, cut = parts * length, max(1, BLOCK // p) * p, cut_at.py_func(p)
    return (
        np.empty(max(1, 1024 // f) * f, dtype),  # the mean, over and over
        np.empty(length * (f + p + 2), dtype),
        np.empty(length * (p + 1), np.float32),
        np.empty(p, np.int64 if dtype == np.float64 else np.int32),
        np.empty(q * length, np.int64 if dtype == np.float64 else np.int32),
        np.empty((6, block), dtype),
        np.empty((3, block if coded else 0), dtype),
        np.empty((5, longest)),
        np.empty(longest * (3 * p - cut), dtype),
        np.empty(longest, np.int16),
        np.empty(longest, np.uint32),
        np.empty(longest, dtype),
        np.empty(max(cut * p, (p - cut) ** 2), dtype),
        np.empty((6 + 2 * LATE, p)),
    )


@nb.njit(nogil=True, cache=True)
def cut_at(k):
    """The row of the moments, a multiple of `STRIP`, from which what lies left of it is never read."""
    return k if k <= STRIP else STRIP * max(1, (k + STRIP) // (2 * STRIP))


@nb.njit(nogil=True, cache=True)
def _take_samples(white, chosen, changes, cut, samples):
    """Chosen samples as they lie, from the `cut` on once more, and both times their weights' changes."""
    k, m = white.shape[1], chosen.size
    rest, white, samples = k - cut, borrow(white), borrow(samples)
    taken, later = samples[: m * k].reshape(m, k), samples[m * k : m * (k + rest)].reshape(m, rest)
    weighted = samples[m * (k + rest) : m * 2 * k].reshape(m, cut)
    weighted_later = samples[m * 2 * k : m * (2 * k + rest)].reshape(m, rest)
    for s in range(m):  # by indices: views are counted even if borrowed, and that takes as long as a short row
        at, change = np.uintp(chosen[s]), changes[s]
        for j in range(cut):
            value = white[at, j]
            taken[s, j] = value
            weighted[s, j] = change * value
        for j in range(rest):
            value = white[at, cut + j]
            taken[s, cut + j] = value
            later[s, j] = value
            weighted_later[s, j] = change * value
    return taken, later, weighted, weighted_later


@nb.njit(nogil=True, cache=True)
def _add_product(A, weighted, taken, product):
    """``A += weighted^T taken``, a symmetric sum to the last bit in the strips' squares on the diagonal."""
    rows, columns = A.shape
    sums = borrow(product)[: rows * columns].reshape(rows, columns)
    np.dot(weighted.T, taken, sums)
    A = borrow(A)
    for i in range(rows):
        for j in range(i // STRIP * STRIP, i):
            sums[i, j] = sums[j, i]
    for i in range(rows):
        row0, row1 = A[i], sums[i]
        for j in range(columns):
            row0[j] += row1[j]


@nb.njit(nogil=True, cache=True)
def _add_tilts(white, chosen, tilts, scale, tilt):
    """``tilt += sum_s scale tilts_s z_s`` over the chosen samples."""
    white = borrow(white)
    for s in range(chosen.size):
        z, change = white[chosen[s]], scale * tilts[s]
        for j in range(tilt.size):
            tilt[j] += change * z[j]


@nb.njit(nogil=True, cache=True)
def _mirror(moments):
    """Write what the M-step never reads, left of each strip's square on the diagonal, from what lies above it.

    Squares that fit in cache lines at a time.
    """
    p, k = moments.shape[0], moments.shape[1]
    for i in range(p):
        A = moments[i]
        for a in range(STRIP, k, 8):
            for b in range(0, a // STRIP * STRIP, 8):
                for r in range(a, min(a + 8, k)):
                    for j in range(b, b + 8):
                        A[r, j] = A[j, r]


@nb.njit(nogil=True, cache=True)
def _move_component(
    i, white, unmixed, ends, rows, code, shape, flat, scale, touch, packed, levels, edges, A, tilt, offsets, numbers,
    named, chosen, changes, samples, product,
):  # fmt: skip
    """Move component `i`'s chosen majorizers to its sources: Eq. (updateamem) in one product, and the memory."""
    k, p = A.shape[0], unmixed.shape[1]
    numbers, samples, rows, room = borrow(numbers), borrow(samples), borrow(rows), rows.size // ends.size
    old, y, weights, tilts = numbers[0], numbers[1], numbers[2], numbers[3]
    Y, memory, codes = unmixed.reshape(unmixed.size), touch.reshape(touch.size), packed.reshape(packed.size)
    points = levels[1 if flat > 0 else 0]
    m = 0
    for part in range(ends.shape[0]):
        first = (part * p + i) * room
        bucket, place = rows[first : np.intp(ends[part, i])], borrow(chosen)[m:]
        now, then = y[m:], old[m:]
        for s in range(bucket.size):
            at = np.uintp(bucket[s]) * np.uintp(p) + np.uintp(i)
            place[s], now[s] = bucket[s], Y[at]
            then[s] = points[codes[at]] if packed.size else memory[at]
        m += bucket.size
    if m == 0:
        return
    old, y, weights, tilts = old[:m], y[:m], weights[:m], tilts[:m]
    chosen, changes = borrow(chosen)[:m], borrow(changes)[:m]
    stored = y
    if packed.size:
        stored = numbers[4, :m]
        round_entries(y, old, levels, edges, 1 if flat > 0 else 0, stored, named)
    offsets[i] += scale * change_row(old, y, stored, code, shape, weights, tilts)
    if packed.size:
        for s in range(m):
            if named[s] >= 0 and old[s] == stored[s]:
                packed[chosen[s], i] = named[s]
    else:
        for s in range(m):
            touch[chosen[s], i] = old[s]
    if flat > 0:
        _add_tilts(white, chosen, tilts, scale, tilt)
        return
    for s in range(m):
        changes[s] = scale * weights[s]
    cut = cut_at(k)
    taken, later, weighted, weighted_later = _take_samples(white, chosen, changes, cut, samples)
    _add_product(A[:cut], weighted, taken, product)
    if cut < k:
        _add_product(A[cut:, cut:], weighted_later, later, product)


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    first, team, X, starts, stops, mean, K, W, inverse, log_det, codes, shapes, flat, covariance_inverse, keys,
    scale, touch, packed, levels, edges, cells, moments, tilts, offsets, iterations, log_normaliser, sweeps,
    refresh_every, q, rooms, now, white, origins, known, unmixed, ends, rows, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    All threads of a team call this with the same arrays but `rooms` (:func:`make_rooms`),
    and ``first`` is true for one of them, which moves the rows, each right
    after its moments if no other thread changed those. `log_det` is that of
    `W`; the first thread returns what it is afterwards. `now` (k, p) holds `W`
    in the samples' precision, transposed like `K`. The whitened mini-batch s
    lies in `white` from row ``origins[s]`` on, and is there already if
    ``known[s]``; `unmixed` (b, p) takes its sources, `rows` (parts times p times room) its
    buckets, `ends` (parts, p) where they end.
    """
    X, keys, touch, packed, moments, tilts, shapes = (
        borrow(X), borrow(keys), borrow(touch), borrow(packed), borrow(moments), borrow(tilts), borrow(shapes),
    )  # fmt: skip
    W, inverse, now, white, unmixed, ends, rows = (
        borrow(W), borrow(inverse), borrow(now), borrow(white), borrow(unmixed), borrow(ends), borrow(rows),
    )  # fmt: skip
    codes, flat, offsets, levels, edges, K = (
        borrow(codes), borrow(flat), borrow(offsets), borrow(levels), borrow(edges), borrow(K),
    )  # fmt: skip
    means, scratch, before, lows, ranks = (
        borrow(rooms[0]), borrow(rooms[1]), borrow(rooms[2]), borrow(rooms[3]), borrow(rooms[4]),
    )  # fmt: skip
    params, limits, numbers, samples, named = (
        borrow(rooms[5]), borrow(rooms[6]), borrow(rooms[7]), borrow(rooms[8]), borrow(rooms[9]),
    )  # fmt: skip
    chosen, changes, product, work = borrow(rooms[10]), borrow(rooms[11]), borrow(rooms[12]), borrow(rooms[13])
    p, k = W.shape
    f, parts, length = X.shape[1], ends.shape[0], ranks.size // q
    room, names = length + 1, name_bits(p)
    for j in range(means.size):
        means[j] = mean[j % f]
    for i in range(p):
        lows[i] = names - i
    shared = repeat_shapes(codes, shapes, params)
    repeat_cells(cells, flat, limits)
    s, row, idle, late, total = -1, p, 0, 0, 0.0
    while True:
        if first and row == p:  # the next mini-batch
            s, row, total = s + 1, 0, 0.0
            if s == starts.size:
                post(team, OVER, 1)
                _mirror(moments)
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
            own_keys, shift = keys[:, low - start : high - start], low - start
            whole = white[origins[task // parts] : origins[task // parts] + stop - start]
            for i in range(p):
                ends[part, i] = (part * p + i) * room
            if high > low:
                choose_samples(
                    X[low:high], shift, known[task // parts], means, K, now, codes, shapes, flat, shared, params,
                    own_keys, touch[low:high], packed[low:high], levels, limits, q, ranks, scratch, before, lows, whole,
                    unmixed, ends[part], rows,
                )  # fmt: skip
            if add_one(team, PARTS_DONE) + 1 == (task // parts + 1) * parts:
                post(team, COMPONENTS, (task // parts + 1) * p)
            continue
        if first and look(team, DONE + row) == s + 1:
            value, growth, late = sweep_row(
                row, W, inverse, moments[row], tilts[row], flat[row], covariance_inverse, iterations, work, late
            )
            idle = 0
            total += value
            log_det += growth
            row += 1
            if row == p:
                late = catch_up(inverse, work, late)
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
            start, stop = starts[task // p], stops[task // p]
            whole = white[origins[task // p] : origins[task // p] + stop - start]
            _move_component(
                i, whole, unmixed, ends, rows, codes[i], shapes[i], flat[i], scale, touch[start:stop],
                packed[start:stop], levels, edges, moments[i], tilts[i], offsets, numbers, named, chosen, changes,
                samples, product,
            )  # fmt: skip
            post(team, DONE + i, task // p + 1)
            continue
        if look(team, OVER) > 0:  # for the first thread: another one failed
            return np.nan
        idle += 1
        if idle > PATIENCE:
            let_others_run()
