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

from majorica.kernels.choose import choose_samples
from majorica.kernels.gaps import BLOCK, change_row, repeat_shapes
from majorica.kernels.machine import add_row, multiply, take_row
from majorica.kernels.outer import OUTER, add_outer, add_samples, product_size
from majorica.kernels.ranks import name_bits
from majorica.kernels.rounding import repeat_cells, round_entries
from majorica.kernels.rows import LANES
from majorica.kernels.scratch import aligned, begin_with_line
from majorica.kernels.sweep import catch_up, make_work, sweep_row
from majorica.kernels.team import PATIENCE, add_one, claim, let_others_run, look, post
from majorica.kernels.views import address, borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "8218bde8958c7389"
#: Rows of moments that one product changes, from the first one's diagonal on.
STRIP = 32
#: Where a team's numbers lie (each in a cache line of its own): parts allowed, taken and done; components
#: allowed and taken; whether all is over, or a thread failed. Components done follow from `DONE` on.
PARTS, PARTS_TAKEN, PARTS_DONE, COMPONENTS, COMPONENTS_TAKEN, OVER, DONE = 0, 8, 16, 24, 32, 40, 48


def count_parts(b: int) -> int:
    """Parts of a mini-batch of `b` samples: an even number, of at most 512 samples."""
    return 2 * max(1, -(-b // 1024))


def make_rooms(
    p: int, f: int, q: int, length: int, parts: int, dtype: np.dtype, *, coded: bool
) -> tuple[np.ndarray, ...]:
    """The arrays a thread works in, made here so that compiled code need not count its views of them."""
    longest, block = parts * length, max(1, BLOCK // p) * p
    return (
        np.empty(max(1, 1024 // f) * f, dtype),  # the mean, over and over
        aligned(length * (f + p + 2), dtype),
        np.empty(length * (p + 1), np.float32),
        np.empty(p, np.int64 if dtype == np.float64 else np.int32),
        np.empty(q * length, np.int64 if dtype == np.float64 else np.int32),
        np.empty((6, block), dtype),
        np.empty((3, block if coded else 0), dtype),
        np.empty((5, longest)),
        np.empty(longest if p <= OUTER else 2 * longest * p, dtype),
        np.empty(longest, np.int16),
        np.empty(longest, np.uint32),
        np.empty(product_size(p, dtype.itemsize) if p <= OUTER else STRIP * p, dtype),
        begin_with_line(make_work(p)),
    )


@nb.njit(nogil=True, cache=True)
def _add_strips(gemm, white, chosen, weights, scale, sums, samples, product):
    """:func:`_add_products` for many components: two copies of a sample, so that `sums` are read and written once."""
    k, m, kind = white.shape[1], chosen.size, samples.dtype.type
    numbers, one, none = borrow(white.reshape(white.size)), kind(1), kind(0)
    for s in range(m):
        at = np.intp(chosen[s]) * k
        take_row(numbers, at, one, samples, s * k, k)
        take_row(numbers, at, kind(scale * weights[s]), samples, (m + s) * k, k)
    for start in range(0, k, STRIP):
        rows, columns, to = min(STRIP, k - start), k - start, start * (k + 1)
        if not multiply(gemm, one, samples, m * k + start, start, k, m, rows, columns, sums, to, k, none, product):
            for i in range(rows):
                add_row(product, i * columns, 1.0, sums, to + i * k, columns)


@nb.njit(nogil=True, cache=True)
def _add_products(gemm, white, chosen, weights, scale, A, samples, product, ahead, until):
    """``A += sum_s scale weights_s z_s z_s^T`` over the chosen samples, from the squares on the diagonal on.

    Those are symmetric to the last bit.
    """
    k, kind, A, samples = A.shape[0], samples.dtype.type, borrow(A), borrow(samples)
    sums = A.reshape(A.size)
    if k <= OUTER:
        for s in range(chosen.size):
            samples[s] = kind(scale * weights[s])
        add_outer(borrow(white.reshape(white.size)), chosen, samples, k, sums, product, ahead, until)
    else:
        _add_strips(gemm, white, chosen, weights, scale, sums, samples, product)
        for i in range(k):
            for j in range(i // STRIP * STRIP, i):
                A[i, j] = A[j, i]


@nb.njit(nogil=True, cache=True)
def _mirror(moments):
    """Write what the M-step never reads, left of the squares on the diagonal, from what lies above it.

    Squares that fit in cache lines at a time.
    """
    p, k = moments.shape[0], moments.shape[1]
    for i in range(p):
        A = moments[i]
        for a in range(LANES, k, LANES):
            for b in range(0, a, LANES):
                for r in range(a, min(a + LANES, k)):
                    for j in range(b, b + LANES):
                        A[r, j] = A[j, r]


@nb.njit(nogil=True, cache=True)
def _move_component(
    gemm, i, white, unmixed, ends, rows, code, shape, flat, scale, touch, packed, levels, edges, A, tilt, offsets,
    numbers, named, chosen, samples, product, ahead, until,
):  # fmt: skip
    """Move component `i`'s chosen majorizers to its sources: Eq. (updateamem) in one product, and the memory."""
    p = unmixed.shape[1]
    numbers, samples, rows, room = borrow(numbers), borrow(samples), borrow(rows), rows.size // ends.size
    old, y, weights, tilts = numbers[0], numbers[1], numbers[2], numbers[3]
    Y, memory, codes = unmixed.reshape(unmixed.size), touch.reshape(touch.size), packed.reshape(packed.size)
    points = levels[1 if flat > 0 else 0]
    m, chosen = 0, borrow(chosen)
    for part in range(ends.shape[0]):
        first = (part * p + i) * room
        for s in range(first, np.intp(ends[part, i])):
            sample = np.uintp(rows[s])
            at = sample * np.uintp(p) + np.uintp(i)
            chosen[m], y[m] = sample, Y[at]
            old[m] = points[codes[at]] if packed.size else memory[at]
            m += 1
    if m == 0:
        return
    old, y, weights, tilts = old[:m], y[:m], weights[:m], tilts[:m]
    chosen = chosen[:m]
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
        add_samples(borrow(white.reshape(white.size)), chosen, tilts, scale, p, borrow(tilt))
        return
    _add_products(gemm, white, chosen, weights, scale, A, samples, product, ahead, until)


@nb.njit(nogil=True, cache=True)
def _coming(i, p, s, X, starts, stops, touch, packed, white, origins, known):
    """Addresses between which a p-th of what mini-batch `s` will read lies, samples or memory."""
    if s >= starts.size:
        return address(white), address(white)
    half, length = p // 2, stops[s] - starts[s]
    if i >= half:  # memory
        part, parts = i - half, p - half
        row = p * (1 if packed.size else touch.itemsize)
        at = (address(packed) if packed.size else address(touch)) + starts[s] * row
    else:
        part, parts = i, half
        row = X.shape[1] * X.itemsize
        at = address(X) + starts[s] * row
        if known[s]:
            row = p * white.itemsize
            at = address(white) + origins[s] * row
    return at + length * row * part // parts, at + length * row * (part + 1) // parts


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    first, team, gemm, X, starts, stops, mean, K, W, inverse, log_det, codes, shapes, flat, covariance_inverse, keys,
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
    chosen, product, work = borrow(rooms[10]), borrow(rooms[11]), borrow(rooms[12])
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
            ahead, until = _coming(i, p, task // p + 1, X, starts, stops, touch, packed, white, origins, known)
            _move_component(
                gemm, i, whole, unmixed, ends, rows, codes[i], shapes[i], flat[i], scale, touch[start:stop],
                packed[start:stop], levels, edges, moments[i], tilts[i], offsets, numbers, named, chosen, samples,
                product, ahead, until,
            )  # fmt: skip
            post(team, DONE + i, task // p + 1)
            continue
        if look(team, OVER) > 0:  # for the first thread: another one failed
            return np.nan
        idle += 1
        if idle > PATIENCE:
            let_others_run()
