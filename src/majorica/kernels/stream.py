"""A mini-batch of a stream, compiled: looked at before it is learnt from, then learnt from.

Twin: look_at, learn_from and settle of :mod:`majorica.kernels.reference`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels.elementwise import majorizer_rows
from majorica.kernels.moments import squares_from
from majorica.kernels.outer import OUTER, add_outer, add_samples, make_readable, product_size
from majorica.kernels.products import turn_samples, unmix_rows, whole_rows, whole_stride, whole_tiles, whole_width
from majorica.kernels.rows import LANES
from majorica.kernels.scores import statistics_row
from majorica.kernels.scratch import aligned, workspace
from majorica.kernels.views import borrow
from majorica.statistics import F64, Glance

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a36cbc102978bf4e"
Array = npt.NDArray[np.floating]
#: Bytes of a component's samples in a tile.
ROW = 4096
#: Bytes of the samples that moments are summed over at a time, which stay in the second-level cache; fewest samples,
#: and fewest where all components' squares are BLAS's, which likes long products.
AT_ONCE, FEWEST, LONG = 2**17, 128, 512


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
    unused, reaches = np.zeros((2, 4))
    for start in range(0, b, tile):
        m = min(tile, b - start)
        width = whole_width(m, X.itemsize)
        turn_samples(numbers, start, m, k, means, turned, stride, width)
        unmix_rows(matrix, many * p, k, turned, stride, 0, rows, stride, width, numbers, 0, 0)
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
                own = statistics_row(y, score[:m], codes[i], shapes[i], ramps[i] if c == answer else unused, reaches)
                losses[c, i] += own[0]
                if c == answer:
                    power[i] += own[2]
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
def _learn_from(samples, sources, codes, shapes, flat, keep, share, order, weights, tilts, leans, product,
                moments, tilt_means, offsets):  # fmt: skip
    """For each part of the samples, as many of them as `order` is long, one component after the other.

    Squares are summed in registers, or by BLAS for all components at once where `product` is empty.
    """
    b, k = samples.shape
    p = sources.shape[0]
    samples, sources, shapes, moments = borrow(samples), borrow(sources), borrow(shapes), borrow(moments)
    codes, offsets = borrow(codes), borrow(offsets)
    numbers, all_moments, all_tilts = samples.reshape(b * k), moments.reshape(p * k * k), tilt_means.reshape(p * k)
    kind, tiled = samples.dtype.type, product.size > 0
    for i in range(p):
        offsets[i] *= keep[i]
        for j in range(k):
            all_tilts[i * k + j] *= keep[i]
        for a in range(0 if flat[i] > 0 else k):
            row = all_moments[(i * k + a) * k + a // LANES * LANES : (i * k + a + 1) * k]
            for c in range(row.size):
                row[c] *= keep[i]
    for start in range(0, b, order.size):
        m, heavy = min(order.size, b - start), 0
        for i in range(p):
            y, factors, lean = sources[i, start : start + m], weights[heavy * m : (heavy + 1) * m], tilts[:m]
            own, offset = (codes[i : i + 1], shapes[i : i + 1]), np.zeros(1)
            majorizer_rows(y.reshape(1, m), *own, factors.reshape(1, m), lean.reshape(1, m), offset)
            offsets[i] += share[i] * offset[0]
            if flat[i] > 0:
                for t in range(m):
                    leans[t] = share[i] * lean[t]
                add_samples(numbers, start * k, order, leans, m, k, all_tilts, i * k)
                continue
            for t in range(m):
                factors[t] *= kind(share[i])
            if tiled:
                add_outer(numbers, start * k, order, factors, m, k, all_moments, i * k * k, product, 0, 0)
            else:
                heavy += 1
        if heavy > 0:
            _add_squares(samples, start, m, weights[: heavy * m].reshape(heavy, m), flat, moments)


@nb.njit(nogil=True, cache=True)
def _add_squares(samples, start, m, weights, flat, moments):
    """Add the weighted squares of m samples to the moments of components that are not `flat`, from the diagonal on."""
    k = samples.shape[1]
    Z = np.empty((k, m), samples.dtype)
    for t in range(m):
        for j in range(k):
            Z[j, t] = samples[start + t, j]
    for a in range(k):
        sums, first = squares_from(a, Z, weights), a // LANES * LANES
        heavy = 0
        for i in range(flat.size):
            if flat[i] > 0:
                continue
            for c in range(k - a):
                moments[i, a, a + c] += sums[heavy, c]
            for c in range(first, a):  # the square on the diagonal stays symmetric
                moments[i, a, c] = moments[i, c, a]
            heavy += 1


def learn_from(
    glance: Glance, densities: Densities, keep: F64, share: F64, moments: F64, tilts: F64, offsets: F64
) -> None:
    """``A^i <- keep_i A^i + share_i sum u x x^T`` over the samples, tilts and offsets alike; Eq. (updateastream).

    In place. Moments are right where the M-step reads them; :func:`settle` makes them whole.
    """
    samples = glance.samples
    b, k = samples.shape
    item, dtype, tiled = samples.itemsize, samples.dtype, k <= OUTER
    length = min(b, max(FEWEST if tiled else LONG, AT_ONCE // (k * item)))
    rooms = (
        np.arange(length, dtype=np.uint32),
        np.empty(length * (1 if tiled else len(densities)), dtype),
        np.empty(length, dtype),
        np.empty(length),
        aligned(product_size(k, item) if tiled else 0, dtype),
    )
    formulas = (densities.codes, densities.shapes, densities.flat_weights, keep, share)
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
        for a in range(0, k, LANES):  # squares that fit in cache lines, one after the other
            for c in range(a, k, LANES):
                for r in range(c, min(c + LANES, k)):
                    for j in range(a, min(a + LANES, r)):
                        A[r, j] = A[j, r]


def settle(moments: F64, flat: F64, covariance: F64) -> None:
    """Make moments whole: symmetric, and ``flat_i C`` for sub-Gaussian components."""
    _settle(moments, flat, covariance)
