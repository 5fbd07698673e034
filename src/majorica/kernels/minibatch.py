"""Mini-batches of the incremental solver, compiled: majorization, then minimisation.

Parts of a mini-batch choose their pairs (:mod:`majorica.kernels.choose`), then
the moments of one component after the other change, then the rows move in
order. Threads take parts and components as they come; which thread did what
changes no bit. Twin: the gaps, select_largest, update_moments and sweep of
:mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.blas import multiply
from majorica.kernels.choose import SHORT, choose_rows, choose_samples
from majorica.kernels.gaps import BLOCK, change_row
from majorica.kernels.sweep import catch_up, sweep_row
from majorica.kernels.team import PATIENCE, add_one, claim, let_others_run, look, post

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "b9c8fb9f716addb3"
#: Rows of moments a product: those left of the diagonal beyond them are spared.
STRIP = 32
#: Where a team's numbers lie (each in a cache line of its own): parts allowed, taken and done; components
#: allowed and taken; whether all is over. Components done follow from `DONE` on.
PARTS, PARTS_TAKEN, PARTS_DONE, COMPONENTS, COMPONENTS_TAKEN, OVER, DONE = 0, 8, 16, 24, 32, 40, 48


def count_parts(b: int) -> int:
    """Parts of a mini-batch of `b` samples: an even number, of 250 samples or so."""
    return 2 * max(1, -(-b // 512))


@nb.njit(nogil=True, cache=True)
def _take_samples(white, length, k, counts, rows, weights, scale, taken, weighted):
    """Chosen samples as they lie, and once more times their weights' changes."""
    kind, place = taken.dtype.type, 0
    for part in range(counts.size):
        begin = part * length * k
        for s in range(counts[part]):
            at = begin + rows[part, s] * k
            z, change = white[at : at + k], kind(scale * weights[place])
            row0, row1 = taken[place * k : place * k + k], weighted[place * k : place * k + k]
            for j in range(k):
                row0[j] = z[j]
                row1[j] = change * z[j]
            place += 1


@nb.njit(nogil=True, cache=True)
def _take_rows(white, length, b, k, counts, rows, weights, scale, taken, weighted):
    """Chosen samples with components as rows, and once more times their weights' changes."""
    kind, m = taken.dtype.type, weights.size
    for j in range(k):
        row0, row1, place = taken[j * m : j * m + m], weighted[j * m : j * m + m], 0
        for part in range(counts.size):
            own = min(length, b - part * length)
            z = white[part * length * k + j * own : part * length * k + (j + 1) * own]
            target, chosen = row0[place : place + counts[part]], rows[part]
            for s in range(target.size):
                target[s] = z[chosen[s]]
            place += counts[part]
        for s in range(m):
            row1[s] = kind(scale * weights[s]) * row0[s]


@nb.njit(nogil=True, cache=True)
def _add_upper(A, product, taken, weighted, m):
    """``A += weighted^T taken``, at least its upper triangle, `STRIP` rows at a time."""
    k = A.shape[0]
    flat = A.reshape(k * k)
    for a in range(0, k, STRIP):
        rows, columns = min(STRIP, k - a), k - a
        if product.dtype == A.dtype:
            multiply(rows, columns, m, weighted, a, k, 1, taken, a, k, flat, a * k + a, k, 1.0)
        else:
            multiply(rows, columns, m, weighted, a, k, 1, taken, a, k, product, 0, columns, 0.0)
            for i in range(rows):
                row0, row1 = A[a + i, a:], product[i * columns : (i + 1) * columns]
                for j in range(columns):
                    row0[j] += row1[j]


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
    i, white, b, length, counts, rows, sources, olds, code, shape, flat, scale, touch, A, tilt, offsets, numbers,
    samples, product,
):  # fmt: skip
    """Move component `i`'s chosen majorizers to its `sources`: Eq. (updateamem) in one product, and the memory."""
    k = A.shape[0]
    m = 0
    for part in range(counts.size):
        for s in range(counts[part]):
            numbers[0, m], numbers[1, m] = olds[part, s], sources[part, s]
            m += 1
    if m == 0:
        return
    old, y, weights, tilts = numbers[0, :m], numbers[1, :m], numbers[2, :m], numbers[3, :m]
    offsets[i] += scale * change_row(old, y, code, shape, weights, tilts)
    m = 0
    for part in range(counts.size):
        for s in range(counts[part]):
            touch[part * length + rows[part, s], i] = old[m]
            m += 1
    taken, weighted = samples[: k * m], samples[k * m : 2 * k * m]
    changes = tilts if flat > 0 else weights
    if k < SHORT:
        _take_rows(white, length, b, k, counts, rows, changes, scale, taken, weighted)
        if flat > 0:
            for j in range(k):
                row = weighted[j * m : j * m + m]
                for s in range(m):
                    tilt[j] += row[s]
        else:
            square = product[: k * k].reshape(k, k)
            np.dot(weighted.reshape(k, m), taken.reshape(k, m).T, square)
            for a in range(k):
                row0, row1 = A[a], square[a]
                for j in range(k):
                    row0[j] += row1[j]
    elif flat > 0:
        place = 0
        for part in range(counts.size):
            for s in range(counts[part]):
                at = (part * length + rows[part, s]) * k
                z, change = white[at : at + k], scale * tilts[place]
                for j in range(k):
                    tilt[j] += change * z[j]
                place += 1
    else:
        _take_samples(white, length, k, counts, rows, changes, scale, taken, weighted)
        _add_upper(A, product, taken, weighted, m)


@nb.njit(nogil=True, cache=True)
def run_minibatches(
    first, team, X, starts, stops, mean, K, W, inverse, log_det, codes, shapes, flat, covariance_inverse, keys,
    scale, touch, moments, tilts, offsets, iterations, log_normaliser, sweeps, refresh_every, ranks, now, white,
    counts, rows, sources, olds, losses,
):  # fmt: skip
    """Several mini-batches in a row, ``X[starts[s]:stops[s]]`` each; fills `losses` with the surrogate after each.

    All threads of a team call this with the same arrays but `ranks` (q,
    part), and ``first`` is true for one of them, which moves the rows, each
    right after its moments if no other thread changed those. `log_det` is
    that of `W`; the first thread returns what it is afterwards. `now` (p, k)
    holds `W` in the samples' precision, transposed like `K` from `SHORT` components on, `white` the whitened mini-batch,
    `counts` (parts, p), `rows`, `sources` and `olds` (parts, p, part + 1) its buckets.
    """
    p, k = W.shape
    f, parts, length = X.shape[1], counts.shape[0], ranks.shape[1]
    longest = parts * length
    means = np.empty(max(1, 1024 // f) * f, X.dtype)
    for j in range(means.size):
        means[j] = mean[j % f]
    scratch = np.empty(length * (f + 2 * p + 2) + 6 * (BLOCK + p), X.dtype)
    before, lows = np.empty(length * p, touch.dtype), np.empty(p, ranks.dtype)
    numbers, samples = np.empty((4, longest)), np.empty(2 * longest * k, X.dtype)
    product, work = np.empty(max(SHORT, STRIP) * k, X.dtype), np.zeros((10, k))
    s, row, idle, late, total = -1, p, 0, 8, 0.0
    while True:
        if first and row == p:  # the next mini-batch
            s, row, total = s + 1, 0, 0.0
            if s == starts.size:
                post(team, OVER, 1)
                if k >= SHORT:
                    _mirror(moments)
                return log_det
            for i in range(p):
                for j in range(k):
                    if k < SHORT:
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
            Z, n_low = white[part * size * k : (part + 1) * size * k], low - start
            own_keys = keys[:, n_low : n_low + high - low]
            if high == low:
                counts[part] = 0
            elif k < SHORT:
                choose_rows(
                    X[low:high], means, K, now, codes, shapes, own_keys, touch[low:high], ranks[:, : high - low],
                    scratch, before, Z, counts[part], rows[part], sources[part], olds[part],
                )  # fmt: skip
            else:
                choose_samples(
                    X[low:high], means, K, now, codes, shapes, own_keys, touch[low:high], ranks[:, : high - low],
                    scratch, before, lows, Z, counts[part], rows[part], sources[part], olds[part],
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
                if (sweeps + s + 1) % refresh_every == 0:
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
            _move_component(
                i, white, stop - start, -(-(stop - start) // parts), counts[:, i], rows[:, i], sources[:, i],
                olds[:, i], codes[i], shapes[i], flat[i], scale, touch[start:stop], moments[i], tilts[i], offsets,
                numbers, samples, product,
            )  # fmt: skip
            post(team, DONE + i, task // p + 1)
            continue
        if not first and look(team, OVER) > 0:
            return 0.0
        idle += 1
        if idle > PATIENCE:
            let_others_run()
