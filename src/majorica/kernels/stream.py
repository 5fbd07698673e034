"""A mini-batch of a stream, compiled: looked at before it is learnt from, then learnt from.

Twin: look_at, learn_from and settle of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels.elementwise import majorizer_rows
from majorica.kernels.machine import ZERO
from majorica.kernels.outer import add_samples, make_readable
from majorica.kernels.pairs import FEW_PAIRS, TOGETHER, add_pairs, between, beyond, fold_triangle
from majorica.kernels.panels import fill_panels, fold, in_panels, make_panels, sum_squares
from majorica.kernels.products import ROW, turn_samples, unmix_rows, whole_rows, whole_stride, whole_tiles, whole_width
from majorica.kernels.rows import mirror
from majorica.kernels.scores import loss_row
from majorica.kernels.scratch import aligned, workspace
from majorica.kernels.team import claim
from majorica.kernels.views import borrow
from majorica.statistics import F64, Glance

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "d2f746a0d36f6f4b"
Array = npt.NDArray[np.floating]
#: Samples that moments are summed over at a time.
AT_ONCE = 1024


@nb.njit(nogil=True, cache=True)
def _distances(sources, first, p, stride, m, precisions, far):
    """Fill `far` with the m samples' squared distances, from p rows of `sources` from `first` on."""
    for t in range(m):
        far[t] = 0.0
    for i in range(p):
        y = sources[first + i * stride :][:m]
        for t in range(m):
            far[t] += precisions[i] * np.float64(y[t]) * np.float64(y[t])


@nb.njit(nogil=True, cache=True)
def _look_at(X, means, B, precisions, allowed, answer, codes, shapes, tile, work, far, samples, sources, total, losses,
             power, ramps, reached):  # fmt: skip
    """Fill `samples` (b, k) and `sources` (p, b); add up the rest over tiles, in which components lie in rows."""
    b, k = X.shape
    many, p = losses.shape
    X, shapes, ramps = borrow(X), borrow(shapes), borrow(ramps)
    kind = samples.dtype.type
    numbers, matrix = X.reshape(X.size), B.reshape(B.size)
    stride = whole_stride(min(tile, b), X.itemsize)
    turned = work[: means.size * stride]
    rows = work[turned.size : turned.size + B.shape[0] * stride]
    score = work[turned.size + rows.size :][:stride]
    unused = np.zeros(4)
    for start in range(0, b, tile):
        m = min(tile, b - start)
        width = whole_width(m, X.itemsize)
        turn_samples(numbers, start, m, k, means, turned, stride, width)
        unmix_rows(matrix, many * p, k, turned, stride, ZERO, rows, stride, width, numbers, ZERO, ZERO)
        _distances(rows, (many - 1) * p * stride, p, stride, m, precisions, far)
        for t in range(m):
            for j in range(k):
                samples[start + t, j] = X[start + t, j] - means[j]
            distance = math.sqrt(far[t])
            reached[0] = max(reached[0], distance)
            if distance > allowed:
                share = kind(allowed / distance)
                for r in range(many * p):  # sources may be infinite, then the share is zero
                    rows[r * stride + t] = rows[r * stride + t] * share if share > 0 else kind(0)
                for j in range(k):
                    samples[start + t, j] *= share
            else:
                reached[1] = max(reached[1], distance)
            for j in range(k):
                total[j] += samples[start + t, j]
        for c in range(many):
            for i in range(p):
                y = rows[(c * p + i) * stride :][:m]
                loss, square = loss_row(y, score[:m], codes[i], shapes[i], ramps[i] if c == answer else unused)
                losses[c, i] += loss
                if c == answer:
                    power[i] += square
        for i in range(p):
            for t in range(m):
                sources[i, start + t] = rows[((many - 1) * p + i) * stride + t]


def look_at(
    X: Array, mean: F64, candidates: F64, answer: int, precisions: F64, allowed: float, densities: Densities
) -> Glance:
    """What samples ``(b, k)`` show before they are learnt from, drawn in where they lie far out."""
    many, p, k = candidates.shape
    b, item = len(X), X.itemsize
    tile, length = ROW // item, min(ROW // item, b)
    means, matrix = np.zeros(whole_rows(k, item), X.dtype), np.zeros((whole_tiles(many * p), k), X.dtype)
    means[:k], matrix[: many * p] = mean, candidates.reshape(many * p, k)
    work = workspace((len(means) + len(matrix) + 1) * whole_stride(length, item), X.dtype)
    found = Glance(
        make_readable(b, k, X.dtype),
        np.empty((p, b), X.dtype),
        np.zeros(k),
        np.zeros((many, p)),
        np.zeros(p),
        np.zeros((p, 4)),
        np.zeros(2),
    )
    formulas = (densities.codes, densities.shapes, tile, work, np.empty(length))
    _look_at(np.ascontiguousarray(X), means, matrix, precisions, allowed, answer, *formulas, *found.arrays)
    return found


@nb.njit(nogil=True, cache=True)
def _learn_row(y, i, codes, shapes, kept, share, weights, tilts, leans, all_tilts, k, offsets):
    """What component i learns but for squares; `weights` are left as moments take them, `leans` as tilts do."""
    m, offset, kind = y.size, np.zeros(1), y.dtype.type
    formula = (codes[i : i + 1], shapes[i : i + 1])
    majorizer_rows(y.reshape(1, m), *formula, weights.reshape(1, m), tilts.reshape(1, m), offset)
    offsets[i] = kept * offsets[i] + share * offset[0]
    for j in range(i * k, (i + 1) * k):
        all_tilts[j] *= kept
    for t in range(m):
        weights[t] *= kind(share)
        leans[t] = share * tilts[t]


@nb.njit(nogil=True, cache=True)
def _learn_from(samples, sources, codes, shapes, flat, keep, share, tasks, order, weights, tilts, leans, panels,
                weighted, product, moments, tilt_means, offsets):  # fmt: skip
    """One component after the other, as long as there are `tasks`, AT_ONCE samples at a time."""
    b, k = samples.shape
    p = sources.shape[0]
    samples, sources, shapes, moments = borrow(samples), borrow(sources), borrow(shapes), borrow(moments)
    codes, offsets, panels = borrow(codes), borrow(offsets), borrow(panels)
    numbers, all_moments, all_tilts = samples.reshape(b * k), moments.reshape(p * k * k), tilt_means.reshape(p * k)
    width = in_panels(k, samples.itemsize)
    i, filled = claim(tasks, 0, 1), False
    while i >= 0:
        if not (filled or flat[i] > 0):
            filled = True
            for start in range(0, b, AT_ONCE):
                fill_panels(numbers, start * k, min(AT_ONCE, b - start), k, panels[start * width :])
        kept = keep[i]
        for start in range(0, b, AT_ONCE):
            m = min(AT_ONCE, b - start)
            own = (weights[:m], tilts[:m], leans[:m])
            _learn_row(sources[i, start : start + m], i, codes, shapes, kept, share[i], *own, all_tilts, k, offsets)
            if flat[i] > 0:
                add_samples(numbers, start * k, order, leans, m, k, all_tilts, i * k, ZERO, ZERO)
            else:
                sum_squares(panels[start * width :], m, k, weights, weighted, product)
                fold(product, k, kept, all_moments, i * k * k)
            kept = 1.0
        i = claim(tasks, 0, 1)


@nb.njit(nogil=True, cache=True)
def learn_of_few(samples, sources, codes, shapes, flat, keep, share, tasks, order, weights, tilts, leans, means,
                 turned, chosen, product, moments, tilt_means, offsets):  # fmt: skip
    """:func:`_learn_from`, TOGETHER components at a time, whose `weights` are rows; `means` are zeros.

    `turned` and `weights` are rows for AT_ONCE samples, ``beyond`` k and TOGETHER, zeros where nothing is.
    """
    b, k = samples.shape
    p = sources.shape[0]
    samples, sources, shapes, moments = borrow(samples), borrow(sources), borrow(shapes), borrow(moments)
    codes, offsets, weights, chosen = borrow(codes), borrow(offsets), borrow(weights), borrow(chosen)
    numbers, all_moments, all_tilts = samples.reshape(b * k), moments.reshape(p * k * k), tilt_means.reshape(p * k)
    stride = whole_stride(min(AT_ONCE, b), samples.itemsize)
    while True:
        count, heavy = 0, 0
        while count < TOGETHER:
            i = claim(tasks, 0, 1)
            if i < 0:
                break
            chosen[count] = i
            count += 1
        if count == 0:
            break
        for start in range(0, b, AT_ONCE):
            m = min(AT_ONCE, b - start)
            width, heavy = whole_width(m, samples.itemsize), 0
            turn_samples(numbers, start, m, k, means, turned, stride, width)
            for i in chosen[:count]:
                own, kept = weights[heavy * stride : heavy * stride + m], keep[i] if start == 0 else 1.0
                y, rest = sources[i, start : start + m], (tilts[:m], leans[:m])
                _learn_row(y, i, codes, shapes, kept, share[i], own, *rest, all_tilts, k, offsets)
                if flat[i] > 0:
                    add_samples(numbers, start * k, order, leans, m, k, all_tilts, i * k, ZERO, ZERO)
                    continue
                for t in range(heavy * stride + m, heavy * stride + width):
                    weights[t] = 0
                heavy += 1
            for j in range(heavy * between(k)):
                product[j] = 0
            add_pairs(weights, heavy, turned, k, stride, width, product)
            heavy = 0
            for i in chosen[:count]:
                if not flat[i] > 0:
                    fold_triangle(product, heavy, k, keep[i] if start == 0 else 1.0, 1.0, all_moments, i * k * k)
                    heavy += 1


def make_few(b: int, k: int, dtype: np.dtype[np.floating]) -> tuple[npt.NDArray[Any], ...]:
    """What :func:`learn_of_few` works in, from `order` to `product`, for mini-batches of b samples at most."""
    length, many = min(b, AT_ONCE), int(beyond(TOGETHER))
    stride = int(whole_stride(length, dtype.itemsize))
    return (
        np.arange(length, dtype=np.uint32),
        aligned(many * stride, dtype, zero=True),
        np.empty(length, dtype),
        np.empty(length),
        np.zeros(int(whole_rows(k, dtype.itemsize)), dtype),
        aligned(int(beyond(k)) * stride, dtype, zero=True),
        np.empty(TOGETHER, np.intp),
        np.empty(many * int(between(k)), dtype),
    )


def learn_from(
    glance: Glance,
    densities: Densities,
    keep: F64,
    share: F64,
    moments: F64,
    tilts: F64,
    offsets: F64,
    tasks: npt.NDArray[np.int64] | None = None,
) -> None:
    """``A^i <- keep_i A^i + share_i sum u x x^T`` over the samples, tilts and offsets alike; Eq. (updateastream).

    In place. Moments are right where the M-step reads them; :func:`settle`
    makes them whole. `tasks` are the next component and the one to stop at:
    threads that call this with the same ones share the components.
    """
    samples = glance.samples
    b, k = samples.shape
    dtype, length = samples.dtype, min(b, AT_ONCE)
    tasks = np.array([0, len(densities)], np.int64) if tasks is None else tasks
    formulas = (densities.codes, densities.shapes, densities.flat_weights, keep, share, tasks)
    if k <= FEW_PAIRS:
        learn_of_few(samples, glance.sources, *formulas, *make_few(b, k, dtype), moments, tilts, offsets)
        return
    rooms = (
        np.arange(length, dtype=np.uint32),
        np.empty(length, dtype),
        np.empty(length, dtype),
        np.empty(length),
        *make_panels(b, k, dtype),
    )
    _learn_from(samples, glance.sources, *formulas, *rooms, moments, tilts, offsets)


@nb.njit(nogil=True, cache=True)
def _settle(moments, flat, covariance):
    p, k, _ = moments.shape
    for i in range(p):
        A = moments[i]
        if flat[i] > 0:
            for a in range(k):
                for c in range(k):
                    A[a, c] = flat[i] * covariance[a, c]
            continue
        mirror(A)


def settle(moments: F64, flat: F64, covariance: F64) -> None:
    """Make moments whole: symmetric, as above the diagonal, and ``flat_i C`` for sub-Gaussian components.

    Squares on the diagonal, which the M-step reads, are symmetric already.
    """
    _settle(moments, flat, covariance)
