"""The memory in codes, compiled; twin: :class:`majorica.kernels.codes.CodeTable`.

`kind` is the row of the table: 0 for super-Gaussian components, 1 for others.
"""

from __future__ import annotations

import numba as nb
import numpy as np

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)


@nb.njit(nogil=True, cache=True)
def _code(size, edges):
    """Number of `edges` (255,) below `size`, by halving."""
    low, step = 0, 128
    while step:
        if size > edges[low + step - 1]:
            low += step
        step //= 2
    return low


@nb.njit(nogil=True, cache=True)
def decode_columns(packed, flat, levels, old):
    """Fill `old` (p, m) with the points the codes `packed` (m, p) name; sub-Gaussian where `flat` (p,) > 0."""
    m, p = packed.shape
    for i in range(p):
        points, row = levels[1 if flat[i] > 0 else 0], old[i]
        for t in range(m):
            row[t] = points[packed[t, i]]


@nb.njit(nogil=True, cache=True)
def read_entries(packed, i, rows, y, levels, edges, kind, old, new):
    """Fill `old` with component `i`'s points in the samples `rows` of `packed`, `new` with those nearest to `y`."""
    points, limits = levels[kind], edges[kind]
    for s in range(rows.size):
        old[s] = points[packed[rows[s], i]]
        point = np.float64(points[_code(abs(y[s]), limits)])
        new[s] = -point if kind == 1 and y[s] < 0 else point


@nb.njit(nogil=True, cache=True)
def encode_entries(old, i, rows, edges, kind, packed):
    """Write the codes of the points `old` (m,) of component `i` to the samples `rows` (m,) of `packed` (b, p)."""
    limits = edges[kind]
    for s in range(rows.size):
        packed[rows[s], i] = _code(abs(old[s]), limits) + (128 if kind == 1 and old[s] < 0 else 0)


@nb.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def hide_settled(y, old, cells, kind, gap):
    """Set the `gap` of every y to 0 that still rounds to its `old` point."""
    real = gap.dtype.type
    constant, slope, largest, zero = real(cells[kind, 0]), real(cells[kind, 1]), real(cells[kind, 2]), real(0)
    for t in range(y.size):
        size = abs(y[t])
        value = size if size < largest else largest
        at = real(old[t])
        if kind == 1:
            value = value if y[t] > zero else -value
        apart = value - at
        gap[t] = gap[t] if apart * apart > constant + slope * value * at else zero
