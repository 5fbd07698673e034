"""The memory in codes, compiled; twin: :class:`majorica.kernels.codes.CodeTable`.

`kind` is the row of the table: 0 for super-Gaussian components, 1 for others.
"""

from __future__ import annotations

import numba as nb
import numpy as np

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)


@nb.njit(nogil=True, cache=True, inline="always")
def _code(size, edges):
    """Number of `edges` (255,) below `size`, by halving."""
    low, step = 0, 128
    while step:
        if size > edges[low + step - 1]:
            low += step
        step //= 2
    return low


@nb.njit(nogil=True, cache=True)
def decode_block(packed, flat, levels, memory):
    """Fill `memory` (b, p) with the points the codes `packed` (b, p) name; sub-Gaussian where `flat` (p,) > 0."""
    b, p = packed.shape
    table = levels.reshape(levels.size)
    starts = np.empty(p, np.intp)
    for i in range(p):
        starts[i] = 256 if flat[i] > 0 else 0
    for t in range(b):
        codes, row = packed[t], memory[t]
        for i in range(p):
            row[i] = table[starts[i] + np.intp(codes[i])]


@nb.njit(nogil=True, cache=True)
def round_row(y, levels, edges, kind, new):
    """Fill `new` with the points nearest to `y` (m,)."""
    points, limits = levels[kind], edges[kind]
    for t in range(y.size):
        point = np.float64(points[_code(abs(y[t]), limits)])
        new[t] = -point if kind == 1 and y[t] < 0 else point


@nb.njit(nogil=True, cache=True)
def encode_entries(memory, i, rows, edges, kind, packed):
    """Write the codes of component `i`'s points in the samples `rows` of `memory` (b, p) to `packed` (b, p)."""
    limits = edges[kind]
    for s in range(rows.size):
        value = np.float64(memory[rows[s], i])
        packed[rows[s], i] = _code(abs(value), limits) + (128 if kind == 1 and value < 0 else 0)


@nb.njit(nogil=True, cache=True)
def hide_settled(y, old, cells, kind, gap):
    """Set the `gap` of every y to 0 that still rounds to its `old` point."""
    real = gap.dtype.type
    constant, slope, largest = real(cells[kind, 0]), real(cells[kind, 1]), real(cells[kind, 2])
    for t in range(y.size):
        value = min(abs(y[t]), largest)
        at = abs(old[t])
        apart = value - at
        product = value * at
        if kind == 1 and y[t] * old[t] < 0:
            apart = value + at
            product = -product
        gap[t] = gap[t] if apart * apart > constant + slope * product else real(0)
