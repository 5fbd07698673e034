"""Mini-batches of a stream in which nothing is odd, several in one call, compiled.

With few components what is done once a mini-batch takes longer than its
samples, if it is done in Python. A mini-batch with samples far out or flat,
or sources of another size than their shapes, is left as it is to the caller.
Twin: the mini-batches of :class:`majorica.solvers.online.solver.Online`.
"""

from __future__ import annotations

import math
import threading
from typing import Any, cast

import numba as nb
import numpy as np

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.kernels.algebra import invert, is_positive, log_determinant
from majorica.kernels.elementwise import FAST, majorizer_rows
from majorica.kernels.machine import ZERO
from majorica.kernels.pairs import TOGETHER, add_pairs, between, beyond, fold_triangle
from majorica.kernels.products import (
    add_squares,
    tile_of,
    turn_samples,
    unmix_rows,
    whole_rows,
    whole_stride,
    whole_tiles,
    whole_width,
)
from majorica.kernels.scores import loss_row
from majorica.kernels.scratch import aligned
from majorica.kernels.sweep import sweep_rows
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "32f434efad5191f4"
#: Why a call ends: no samples are left, the next mini-batch is not plain, or it is time to look at the shapes, before
#: the M-step of the last one.
OVER, ODD, REFIT = range(3)
_ROOMS = threading.local()
#: Distances that are compared side by side.
ABREAST = 32
#: Places of the state's single numbers.
(
    SEEN, REACH, EXCESS, LOSS, COMPARED, GATHERED, UNFITTED, SIZED, SWEEPS, LEARNT, REMEMBERED,
) = range(11)  # fmt: skip
#: Places of what the caller has set: the rates of the solver and the limits of what is plain.
(
    ALPHA, HALF_LIFE, UNIT, LEAST_SEEN, SHORTEST, LONGEST, SLOW_UNIT, SLOW_ALPHA, BULK, SHARE, FAR, LATELY, LEAST,
    ENOUGH, PLAIN, MOST, COMPARED_OVER, AVERAGED_OVER, WORSE, FAR_OFF, TOO_SMALL, SIZES_ENOUGH, REFIT_AFTER, REFRESH,
    FOLLOWS, SETTINGS,
) = range(26)  # fmt: skip


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _log_kept(visits, samples, unit, alpha, half_life):
    """``Online._log_kept``: logarithm of the weight that is left to what was there before."""
    rho = min((1.0 + visits) ** -alpha, 1 - 1e-12)
    return min(math.log1p(-rho) * (samples / unit), -math.log(2.0) * samples / half_life)


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _memory(seen, given):
    """``Online.memory``: samples that statistics remember."""
    count = max(seen, given[LEAST_SEEN]) / given[UNIT]
    return -1 / _log_kept(count, 1.0, given[UNIT], given[ALPHA], given[HALF_LIFE])


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def _sum(numbers):
    total = 0.0
    for t in range(numbers.size):
        total += np.float64(numbers[t])
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def _dot(one, other):
    total = 0.0
    for t in range(one.size):
        total += np.float64(one[t]) * np.float64(other[t])
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def _farthest(sources, p, stride, first, m, precisions, far):
    """The largest squared distance of m samples; `far` is room for them, of whole ABREAST."""
    width = -(-m // ABREAST) * ABREAST
    for t in range(width):
        far[t] = 0.0
    for i in range(p):
        y = sources[first + i * stride :][:m]
        for t in range(m):
            far[t] += precisions[i] * np.float64(y[t]) * np.float64(y[t])
    best = far[:ABREAST]
    for at in range(ABREAST, width, ABREAST):  # each of them by itself: a single largest would wait for itself
        some = far[at : at + ABREAST]
        for t in range(ABREAST):
            best[t] = some[t] if some[t] > best[t] else best[t]
    most = 0.0
    for t in range(ABREAST):
        most = max(most, best[t])
    return most


@nb.njit(nogil=True, cache=True, fastmath=FAST)
def _count_sizes(sources, i, stride, b, large, small, found):
    """Add how many of a source's values are `large` and `small`, and their sizes."""
    above, below, size = 0.0, 0.0, 0.0
    y = sources[i * stride :][:b]
    for t in range(b):
        one = abs(np.float64(y[t]))
        above += one > large
        below += one < small
        size += one
    found[0, i], found[1, i], found[2, i] = above, below, size


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _look(numbers, start, b, p, means, others, own, precisions, answer, codes, shapes, tile, stride, turned, sources,
          rows, score, far, losses, power, ramps, total, scatter, products):  # fmt: skip
    """Fill `turned` and `sources` with the mini-batch's samples and sources, and what these show.

    Returns their largest squared distance. Rows of `turned` and `sources` are
    `stride` apart. `losses` are of the other candidates, of which `others`
    has the rows, and last of W, which is `own`.
    """
    many, item = losses.shape[0], turned.itemsize
    apart = rows.size // whole_tiles((many - 1) * p)
    unused = np.zeros(4)
    farthest = 0.0
    for j in range(products.size):
        products[j] = 0
    for i in range(p):
        power[i] = total[i] = 0.0
        for j in range(4):
            ramps[i, j] = 0.0
        for c in range(many):
            losses[c, i] = 0.0
    for at in range(0, b, tile):
        m = min(tile, b - at)
        width = whole_width(m, item)
        turn_samples(numbers, start + at, m, p, means, turned[at:], stride, width)
        unmix_rows(own, p, p, turned, stride, at, sources[at:], stride, width, numbers, ZERO, ZERO)
        unmix_rows(others, (many - 1) * p, p, turned, stride, at, rows, apart, width, numbers, ZERO, ZERO)
        farthest = max(farthest, _farthest(sources, p, stride, at, m, precisions, far))
        add_squares(turned[at:], p, stride, width, products, whole_tiles(p))
        for i in range(p):
            total[i] += _sum(turned[at + i * stride :][:m])
            for c in range(many):
                y = sources[at + i * stride :][:m] if c == many - 1 else rows[(c * p + i) * apart :][:m]
                kept = ramps[i] if c == answer else unused
                loss, square = loss_row(y, score[:m], codes[i], shapes[i], kept)
                losses[c, i] += loss
                if c == answer:
                    power[i] += square
    for i in range(p):
        for j in range(i, p):
            scatter[i, j] = scatter[j, i] = np.float64(products[i * whole_tiles(p) + j]) / b
    return farthest


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _learn(b, p, turned, sources, stride, codes, shapes, flat, keep, share, together, weights, tilts, product, moments,
           tilt_means, offsets):  # fmt: skip
    """Eq. (updateastream) for all components, some of them `together`."""
    width = whole_width(b, turned.itemsize)
    all_moments, offset = moments.reshape(moments.size), np.zeros(1)
    for first in range(0, p, together):
        last, heavy = min(p, first + together), ZERO
        for i in range(first, last):
            own, lean = weights[heavy * stride :][:width], tilts[:b]
            y, formula = sources[i * stride :][:b], (codes[i : i + 1], shapes[i : i + 1])
            offset[0] = 0.0
            majorizer_rows(y.reshape(1, b), *formula, own[:b].reshape(1, b), lean.reshape(1, b), offset)
            offsets[i] = keep[i] * offsets[i] + share[i] * offset[0]
            for j in range(p):
                tilt_means[i, j] *= keep[i]
                if flat[i] > 0:
                    tilt_means[i, j] += share[i] * _dot(lean, turned[j * stride :][:b])
            if flat[i] > 0:
                continue
            for t in range(b, width):
                own[t] = 0
            heavy += 1
        for j in range(heavy * between(p)):
            product[j] = 0
        add_pairs(weights, heavy, turned, p, stride, width, product)
        heavy = ZERO
        for i in range(first, last):
            if not flat[i] > 0:
                fold_triangle(product, heavy, p, keep[i], share[i], all_moments, i * p * p)
                heavy += 1


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _move(b, state, given, W, inverse, candidates, moments, tilts, flat, covariance, iterations, room):
    """The M-step after a mini-batch, and the averages after it; W stays where it is if it would be no number."""
    p = W.shape[0]
    before, behind, known, work = room[0], room[1], room[2], room[3]
    fine, any_flat = True, False
    for i in range(p):
        any_flat |= flat[i] > 0
        for j in range(p):
            before[i, j], behind[i, j], known[i, j] = W[i, j], inverse[i, j], 0.0
    if any_flat:
        fine = invert(covariance, known, work)
    if fine:
        sweep_rows(W, inverse, moments, tilts, flat, known, iterations)
        if state[SWEEPS] % given[REFRESH] == 0:
            fine = invert(W, inverse, work)
        state[SWEEPS] += 1
    for i in range(p):
        for j in range(p):
            fine &= math.isfinite(W[i, j]) and math.isfinite(inverse[i, j])
    if not fine:
        for i in range(p):
            for j in range(p):
                W[i, j], inverse[i, j] = before[i, j], behind[i, j]
    for i in range(p):  # rows that were turned round turn back: densities are symmetric
        along = 0.0
        for j in range(p):
            along += W[i, j] * behind[j, i]
        if along < 0:
            for j in range(p):
                W[i, j], inverse[j, i], tilts[i, j] = -W[i, j], -inverse[j, i], -tilts[i, j]
    state[SEEN] += b
    seen, memory = state[SEEN], _memory(state[SEEN], given)
    longest = given[HALF_LIFE] / math.log(2.0)
    for c in range(candidates.shape[0] - 1):
        length = longest if c == 0 else min(longest, given[AVERAGED_OVER] * memory)
        rate = max(b / seen, -math.expm1(-b / length))
        for i in range(p):
            for j in range(p):
                candidates[c, i, j] += rate * (W[i, j] - candidates[c, i, j])
    for i in range(p):
        for j in range(p):
            candidates[-1, i, j] = W[i, j]


@nb.njit(nogil=True, cache=True, error_model="numpy")
def run_plain(Z, start, pending, state, given, W, inverse, shift, covariance, known, moments, tilts, offsets, visits,
              candidates, lost, basis_means, sizes, codes, shapes, log_normalisers, flat, iterations, tile, stride,
              together, turned, sources, rows, score, far, weights, leans, product, products, small, room):  # fmt: skip
    """Learn from samples ``(n, p)`` from `start` on, mini-batch after mini-batch, as long as these are plain.

    `pending` samples were learnt before, but their M-step is still to come.
    Returns how far it came and why it ended. All of the model is changed in
    place; `known` is the covariance of the moments, `covariance` the slower
    one. `small` and `room` are for single numbers and for matrices.
    """
    n, p = Z.shape
    codes, shapes, offsets = borrow(codes), borrow(shapes), borrow(offsets)
    turned, sources, rows, score = borrow(turned), borrow(sources), borrow(rows), borrow(score)
    weights, leans, moments, ramps = borrow(weights), borrow(leans), borrow(moments), np.empty((p, 4))
    numbers, kind, many = Z.reshape(Z.size), Z.dtype.type, lost.size
    precisions, total, power, keep, share = small[0], small[1], small[2], small[3], small[4]
    losses, predicted, found = np.empty((many, p)), np.empty(many), np.empty((3, p))
    means = np.zeros(whole_rows(p, Z.itemsize), Z.dtype)
    others, own = np.zeros(whole_tiles((many - 1) * p) * p, Z.dtype), np.zeros(whole_tiles(p) * p, Z.dtype)
    scatter, work, normaliser, any_flat = room[4], room[5], 0.0, False
    for i in range(p):
        normaliser += log_normalisers[i]
        any_flat |= flat[i] > 0
    while True:
        if pending:
            _move(pending, state, given, W, inverse, candidates, moments, tilts, flat, known, iterations, room)
            pending = 0
        if start == n:
            return start, OVER
        memory, length = _memory(state[SEEN], given), given[SHORTEST]
        while length < given[LONGEST] and 4 * length <= memory:
            length *= 2
        b = int(min(length, given[LONGEST], n - start))
        if b < given[ENOUGH]:
            return start, ODD
        reach = state[REACH] if state[REACH] > 0 else math.sqrt(given[BULK] * p + given[SHARE] * memory)
        reach, answer = max(reach, math.sqrt(p)), 0 * start
        allowed = given[FAR] * reach
        for i in range(p):
            variance = 0.0
            for j in range(p):
                along = 0.0
                for k in range(p):
                    along += known[j, k] * W[i, k]
                variance += W[i, j] * along
            precisions[i] = 1 / max(variance, given[LEAST])
            means[i] = kind(shift[i])
            for j in range(p):
                own[i * p + j] = kind(W[i, j])
                for c in range(many - 1):
                    others[(c * p + i) * p + j] = kind(candidates[c, i, j])
        for c in range(many):
            answer = c if lost[c] < lost[answer] else answer
        square = _look(
            numbers, start, b, p, means, others, own, precisions, answer, codes, shapes, tile, stride, turned, sources,
            rows, score, far, losses, power, ramps, total, scatter, products,
        )  # fmt: skip
        plain, largest = square <= allowed * allowed, 0.0
        for i in range(p):
            largest = max(largest, scatter[i, i])
            for j in range(p):
                work[i, j] = scatter[i, j] - given[PLAIN] * known[i, j] - total[i] / b * (total[j] / b)
        if not (plain and largest <= given[MOST] and is_positive(work)):
            return start, ODD
        judged = given[FOLLOWS] > 0 and any_flat
        if judged:
            for i in range(p):
                _count_sizes(sources, i, stride, b, given[FAR_OFF], given[TOO_SMALL], found)
            counted = state[SIZED] + b
            for i in range(p):
                for r in range(3):
                    found[r, i] += sizes[r, i] if state[SIZED] > 0 else 0.0
                if flat[i] > 0 and counted >= given[SIZES_ENOUGH] and max(found[0, i], found[1, i]) > 0.5 * counted:
                    return start, ODD
            for i in range(p):
                for r in range(3):
                    sizes[r, i] = found[r, i]
            state[SIZED] = counted if counted < given[SIZES_ENOUGH] else 0.0

        # nothing odd: from here on the model changes
        farthest = math.sqrt(square)
        state[EXCESS] = max(state[EXCESS], farthest / allowed)
        state[REACH] = max(math.exp(-b / (given[LATELY] * memory)) * reach, farthest)
        finite = True
        for c in range(many):
            predicted[c] = normaliser - log_determinant(candidates[c], work)
            for i in range(p):
                predicted[c] += losses[c, i] / b
            finite &= math.isfinite(predicted[c])
        state[LOSS] = predicted[answer]
        if finite:
            state[COMPARED] += b
            rate = max(b / state[COMPARED], -math.expm1(-b / (given[COMPARED_OVER] * memory)))
            least = predicted[0]
            for c in range(1, many):
                least = min(least, predicted[c])
            worst = least + given[WORSE] * (p * p) / memory
            for c in range(many):
                lost[c] += rate * (min(predicted[c], worst) - lost[c])
        slow_alpha, unit = max(given[ALPHA], given[SLOW_ALPHA]), given[SLOW_UNIT]
        slow = -math.expm1(_log_kept(state[SEEN] / unit, float(b), unit, slow_alpha, given[HALF_LIFE]))
        count = max(state[SEEN], given[LEAST_SEEN]) / given[UNIT]
        rate = -math.expm1(_log_kept(count, float(b), given[UNIT], given[ALPHA], given[HALF_LIFE]))
        for i in range(p):
            shift[i] += slow / b * total[i]
            for j in range(p):
                covariance[i, j] += slow * (scatter[i, j] - covariance[i, j])
                known[i, j] += rate * (scatter[i, j] - known[i, j])
            share[i] = -math.expm1(_log_kept(visits[i], float(b), given[UNIT], given[ALPHA], given[HALF_LIFE]))
            keep[i] = 1 - share[i]
            share[i] /= b
            visits[i] += b / given[UNIT]
        _learn(
            b, p, turned, sources, stride, codes, shapes, flat, keep, share, together, weights, leans, product,
            moments, tilts, offsets,
        )  # fmt: skip
        start, pending, state[LEARNT] = start + b, b, b
        if given[FOLLOWS] > 0:
            state[GATHERED] += b
            slow = max(slow, b / state[GATHERED])
            for i in range(p):
                above = 0.5 * power[i]
                for m in range(5):
                    beyond = ramps[i, m] if m < 4 else 0.0
                    mean = (above - beyond) / b
                    basis_means[i, m] += slow * (mean - basis_means[i, m])
                    above = beyond
            state[UNFITTED] += b
            state[REMEMBERED] = b / max(slow, 1e-12)
            if state[UNFITTED] >= max(given[REFIT_AFTER], 0.5 * state[REMEMBERED]):
                return start, REFIT


def make_rooms(p: int, b: int, dtype: np.dtype[np.floating]) -> tuple[Any, ...]:
    """What :func:`run_plain` works in for mini-batches of b samples at most: from `tile` to `room`, in its order.

    This thread's last ones if they fit: to make them takes as long as a short mini-batch.
    """
    known = getattr(_ROOMS, "known", None)
    if known is not None and known[0] == (p, b, dtype):
        return cast("tuple[Any, ...]", known[1])
    item, many = dtype.itemsize, 3
    tile = tile_of(p, item)
    stride, apart = int(whole_stride(b, item)), int(whole_stride(min(tile, b), item))
    rooms = (
        tile,
        stride,
        TOGETHER,
        *(aligned(int(beyond(p)) * stride, dtype, zero=True) for _ in range(2)),
        aligned(int(whole_tiles((many - 1) * p)) * apart, dtype, zero=True),
        aligned(apart, dtype),
        np.empty(-(-min(tile, b) // ABREAST) * ABREAST),
        aligned(int(beyond(TOGETHER)) * stride, dtype, zero=True),
        aligned(b, dtype),
        aligned(int(beyond(TOGETHER)) * int(between(p)), dtype),
        aligned(int(whole_tiles(p)) ** 2, dtype),
        np.empty((5, p)),
        np.empty((6, p, p)),
    )
    _ROOMS.known = (p, b, dtype), rooms
    return rooms
