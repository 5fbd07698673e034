"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Parts of a mini-batch choose their pairs (:mod:`majorica.kernels.choose`; few
components: :mod:`majorica.kernels.few`), then the moments of one component
after the other change, and the rows move in order. Threads take parts and
components as they come; which thread did what changes no bit. Twin: the gaps,
select_largest, update_moments and sweep of :mod:`majorica.kernels.reference`.
The memory is `touch`, float32, or `packed`, codes of one byte
(:class:`majorica.kernels.codes.CodeTable`); the other is empty.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.choose import choose_samples, name_bits
from majorica.kernels.few import add_parts, move_rows
from majorica.kernels.gaps import BLOCK, change_row, repeat_shapes
from majorica.kernels.rounding import repeat_cells, round_entries
from majorica.kernels.sweep import LATE, SHORT, STRIP, catch_up, sweep_row
from majorica.kernels.team import PATIENCE, add_one, claim, let_others_run, look, post
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "2393376b13200997"
#: Where a team's numbers lie (each in a cache line of its own): parts allowed, taken and done; components
#: allowed and taken; whether all is over. Components done follow from `DONE` on.
PARTS, PARTS_TAKEN, PARTS_DONE, COMPONENTS, COMPONENTS_TAKEN, OVER, DONE = 0, 8, 16, 24, 32, 40, 48


def count_parts(b: int) -> int:
    """Parts of a mini-batch of `b` samples: an even number, of 250 samples or so."""
    return 2 * max(1, -(-b // 512))


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
    """``A += weighted^T taken``."""
    rows, columns = A.shape
    sums = borrow(product)[: rows * columns].reshape(rows, columns)
    np.dot(weighted.T, taken, sums)
    A = borrow(A)
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
    """Write all upper triangles into the lower ones, squares that fit in cache lines at a time."""
    p, k = moments.shape[0], moments.shape[1]
    for i in range(p):
        A = moments[i]
        for a in range(0, k, 8):
            for b in range(0, a + 8, 8):
                for r in range(a, min(a + 8, k)):
                    for j in range(b, min(b + 8, r)):
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
    refresh_every, q, ranks, now, white, unmixed, ends, rows, sums, part_tilts, part_offsets, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    All threads of a team call this with the same arrays but `ranks` (q times
    a part's samples), and ``first`` is true for one of them, which moves the rows, each
    right after its moments if no other thread changed those. `log_det` is
    that of `W`; the first thread returns what it is afterwards. `now` (p, k)
    holds `W` in the samples' precision, transposed like `K` from `SHORT` components on, `white` (b, k) the whitened
    mini-batch, `unmixed` (b, p) its sources, `rows` (parts times p times room) its buckets, `ends` (parts, p) where
    they end. Below `SHORT` components `sums`, `part_tilts` and `part_offsets` take what each part changes instead.
    """
    X, keys, touch, packed, moments, tilts, shapes = (
        borrow(X), borrow(keys), borrow(touch), borrow(packed), borrow(moments), borrow(tilts), borrow(shapes),
    )  # fmt: skip
    ends, sums, part_tilts, part_offsets = borrow(ends), borrow(sums), borrow(part_tilts), borrow(part_offsets)
    p, k = W.shape
    f, parts, length = X.shape[1], ends.shape[0], ranks.size // q
    room = length + 1
    longest = parts * length
    means = np.empty(max(1, 1024 // f) * f, X.dtype)
    for j in range(means.size):
        means[j] = mean[j % f]
    few = k < SHORT
    scratch = np.empty(length * (f + 1 + k + 3 * p + sums.shape[2] if few else f + p + 2), X.dtype)
    before, lows = np.empty(length * (p + 1), touch.dtype), np.empty(p, ranks.dtype)
    params, names = np.empty((6, max(1, BLOCK // p) * p), X.dtype), name_bits(p)
    shared = repeat_shapes(codes, shapes, params)
    for i in range(p):
        lows[i] = names - i
    limits = np.empty((3, 0 if packed.size == 0 else p * length if few else params.shape[1]), X.dtype)
    repeat_cells(cells, flat, length if few else 1, limits)
    numbers, samples = np.empty((5, longest)), np.empty(0 if few else longest * (3 * k - cut_at(k)), X.dtype)
    named = np.empty(longest, np.int16)
    chosen, changes = np.empty(longest, rows.dtype), np.empty(longest, X.dtype)
    product, work = np.empty(cut_at(k) * k, X.dtype), np.empty((6 + 2 * LATE, k))
    s, row, idle, late, total = -1, p, 0, 0, 0.0
    while True:
        if first and row == p:  # the next mini-batch
            s, row, total = s + 1, 0, 0.0
            if s == starts.size:
                post(team, OVER, 1)
                if not few:
                    _mirror(moments)
                return log_det
            for i in range(p):
                for j in range(k):
                    if few:
                        now[i, j] = W[i, j]
                    else:
                        now[j, i] = W[i, j]
            post(team, PARTS, (s + 1) * parts)
        task = claim(team, PARTS_TAKEN, PARTS)
        if task >= 0:
            idle, part = 0, task % parts
            start, stop = starts[task // parts], stops[task // parts]
            size = -(-(stop - start) // parts)
            low, high = min(start + part * size, stop), min(start + (part + 1) * size, stop)
            own_keys, shift = keys[:, low - start : high - start], low - start
            for i in range(0 if few else p):
                ends[part, i] = (part * p + i) * room
            if few and high > low:
                move_rows(
                    X[low:high], mean, K, now, codes, shapes, flat, own_keys, touch[low:high], packed[low:high],
                    levels, edges, limits, q, ranks, scratch, before, numbers, named, sums[part], part_tilts[part],
                    part_offsets[part],
                )  # fmt: skip
            elif few:
                sums[part], part_tilts[part], part_offsets[part] = 0, 0, 0
            elif high > low:
                choose_samples(
                    X[low:high], shift, means, K, now, codes, shapes, flat, shared, params, own_keys, touch[low:high],
                    packed[low:high], levels, limits, q, ranks, scratch, before, lows, white, unmixed, ends[part], rows,
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
            if few:
                add_parts(i, flat[i], scale, sums, part_tilts, part_offsets, moments[i], tilts[i], offsets)
                post(team, DONE + i, task // p + 1)
                continue
            _move_component(
                i, white, unmixed, ends, rows, codes[i], shapes[i], flat[i], scale, touch[start:stop],
                packed[start:stop], levels, edges, moments[i], tilts[i], offsets, numbers, named, chosen, changes,
                samples, product,
            )  # fmt: skip
            post(team, DONE + i, task // p + 1)
            continue
        if not first and look(team, OVER) > 0:
            return 0.0
        idle += 1
        if idle > PATIENCE:
            let_others_run()
