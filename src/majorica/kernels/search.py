"""A line search over one block of white samples in one call, compiled: small problems pay for calls, not for samples.

Twins in plain NumPy: ``reference.statistics`` for a pass, and for the search that of the progressive solver over
problems of several blocks.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.kernels.machine import ZERO, keep_short
from majorica.kernels.newton import digest
from majorica.kernels.products import correlate, unmix_rows, whole_rows, whole_stride, whole_width
from majorica.kernels.scores import piecewise_row, statistics_row
from majorica.kernels.views import borrow

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "6f690f0e367dd368"


def room_size(p: int, n: int, tile: int) -> int:
    """Numbers in the `work` of a search over n samples of p components."""
    rows = whole_rows.py_func(p, 8)  # not worth compiling by themselves
    return int(rows * (2 * whole_stride.py_func(min(tile, n), 8) + p + rows))


def _make(adaptive):
    """The search for densities of the adaptive family alone, or of any: formulas nobody asks for are not compiled."""

    @nb.njit(nogil=True, cache=True, error_model="numpy")
    def search(
        samples,
        apart,
        n,
        origin,
        direction,
        move,
        length,
        before,
        known,
        below,
        tries,
        floor,
        steps,
        changes,
        count,
        newest,
        codes,
        shapes,
        log_normalisers,
        tile,
        work,
        squares,
        sums,
    ):
        """Shorten the step from `origin` along `direction` until the loss is under `below`, `tries` times at most.

        The first step is `length` times `move`, the `direction` times `origin`.
        `before` is the relative gradient at `origin` and `known` the loss there.
        A step that is taken goes to the memory of pairs, as ``Memory.add`` puts
        it there, unless `newest` is below -1. With no `tries` evaluates at
        `origin`.

        Returns the evaluations made, whether the loss of the last one is low
        enough, that loss, the largest entry of the relative gradient, and `count`
        and `newest` of the memory. The last evaluation fills `squares` (5, p, p)
        with W, sums of the gradient, relative gradient and block Hessian, one is room, and
        `sums` (12 p,) with the sums of loss, curvature, power and diagonal, p
        each, and of ramps and reaches, 4 p each. `samples` are p flat rows of
        white ones, `apart` numbers each, at least ``whole_width(n)``, with zeros
        at their ends.
        """
        keep_short()  # what is worth it was compiled on its own
        p, item = origin.shape[0], samples.itemsize
        rows, stride = whole_rows(p, item), whole_stride(min(tile, n), item)
        sources, scores = work[: rows * stride], work[rows * stride : 2 * rows * stride]
        matrix, product = work[2 * rows * stride : rows * (2 * stride + p)], work[rows * (2 * stride + p) :]
        sources, scores, sums, shapes = borrow(sources), borrow(scores), borrow(sums), borrow(shapes)
        made, found, loss, largest, slope = 0, False, np.inf, np.inf, 0.0
        W, gradient, relative, upper = squares[0], squares[1], squares[2], squares[3]
        if tries > 0:
            for i in range(p):
                for j in range(p):
                    slope += direction[i, j] * before[i, j]
            if not slope < 0:
                return made, found, loss, largest, count, newest
        while made < max(tries, 1) and not found:
            for i in range(p):
                for j in range(p):
                    W[i, j] = origin[i, j] + length * move[i, j] if tries > 0 else origin[i, j]
                    matrix[i * p + j] = W[i, j]
                    gradient[i, j] = 0.0
            for i in range(sums.size):
                sums[i] = 0.0
            for start in range(0, n, tile):
                m = min(tile, n - start)
                width = whole_width(m, item)
                unmix_rows(matrix, p, p, samples, apart, start, sources, stride, width, samples, ZERO, ZERO)
                for i in range(p):
                    at, first = 4 * p + 4 * i, i * stride
                    ramps, reaches = sums[at : at + 4], sums[at + 4 * p : at + 4 * p + 4]
                    y, own = sources[first : first + m], scores[first : first + m]
                    if adaptive:  # the others need not be compiled
                        found_here = piecewise_row(y, own, shapes[i], ramps, reaches)
                    else:
                        found_here = statistics_row(y, own, codes[i], shapes[i], ramps, reaches)
                    sums[i] += found_here[0]
                    sums[p + i] += found_here[1]
                    sums[2 * p + i] += found_here[2]
                    sums[3 * p + i] += found_here[3]
                    for t in range(first + m, first + width):
                        scores[t] = 0.0
                correlate(scores, sources, p, stride, width, product, rows, samples, ZERO, ZERO)
                for i in range(p):
                    for j in range(p):
                        gradient[i, j] += product[i * rows + j]
            losses, curvature, power, diagonal = sums[:p], sums[p : 2 * p], sums[2 * p : 3 * p], sums[3 * p : 4 * p]
            loss, largest = digest(
                W, n, losses, gradient, curvature, power, diagonal, log_normalisers, floor, relative, upper, squares[4]
            )
            made += 1
            found = loss < below
            if not found:
                rise, best = loss - known - length * slope, 0.5 * length
                if np.isfinite(rise) and rise > 0:
                    best = -slope * length * length / (2 * rise)
                length = min(max(best, 0.1 * length), 0.5 * length)
        if found and newest >= -1:
            bend, size = 0.0, 0.0
            for i in range(p):
                for j in range(p):
                    step = length * direction[i, j]
                    bend += step * (relative[i, j] - before[i, j])
                    size += step * step
            if bend > 1e-2 * floor * size:
                newest = (newest + 1) % steps.shape[0]
                count = min(count + 1, steps.shape[0])
                for i in range(p):
                    for j in range(p):
                        steps[newest, i, j] = length * direction[i, j]
                        changes[newest, i, j] = relative[i, j] - before[i, j]
        return made, found, loss, largest, count, newest

    return search


#: For densities that adapt, all :class:`Piecewise`, and for any built-in densities.
search_adaptive, search_any = _make(True), _make(False)
