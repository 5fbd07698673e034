"""The memory in codes, compiled; twin: :class:`majorica.kernels.codes.CodeTable`.

`kind` is the row of the table: 0 for super-Gaussian components, 1 for others.
"""

from __future__ import annotations

import numba as nb

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)


@nb.njit(nogil=True, cache=True)
def decode(packed, flat, levels, out):
    """Put the points the codes `packed` (m, p) name into `out`, samples as they lie.

    Components with `flat` (p,) > 0 are sub-Gaussian.
    """
    m, p = packed.shape
    for t in range(m):
        row = packed[t]
        for i in range(p):
            out[t * p + i] = levels[1 if flat[i] > 0 else 0, row[i]]


@nb.njit(nogil=True, cache=True)
def round_entries(y, old, levels, edges, kind, stored, named):
    """Fill `stored` with the points nearest to `y` and `named` with their codes; -1 where y is `old`, a point itself.

    By halving: a code is the number of `edges` (255,) below a size.
    """
    points, limits = levels[kind], edges[kind]
    for s in range(y.size):
        if y[s] == old[s]:
            stored[s], named[s] = old[s], -1
            continue
        size, code, step = abs(y[s]), 0, 128
        while step:
            code += step if size > limits[code + step - 1] else 0
            step >>= 1
        if kind == 1 and y[s] < 0 and code > 0:
            code += 128
        stored[s], named[s] = points[code], code


@nb.njit(nogil=True, cache=True)
def repeat_cells(cells, flat, out):
    """Fill `out` (3, length) with what :func:`hide_settled` needs, component after component, over and over."""
    kind, p = out.dtype.type, flat.size
    for s in range(out.shape[1]):
        i = s % p
        row = cells[1 if flat[i] > 0 else 0]
        out[0, s], out[1, s], out[2, s] = kind(row[0]), kind(row[1]), kind(-row[2] if flat[i] > 0 else row[2])


@nb.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, forceinline=True)
def hide_settled(y, old, constants, slopes, ends, gap):
    """Set the `gap` of every y to 0 that still rounds to its `old` point; signs count where `ends` are negative."""
    kind = gap.dtype.type
    zero = kind(0)
    for t in range(y.size):
        size, largest, at = abs(y[t]), abs(ends[t]), kind(old[t])
        value = size if size < largest else largest
        value = -value if (ends[t] < zero) & (y[t] <= zero) else value
        apart = value - at
        gap[t] = gap[t] if apart * apart > constants[t] + slopes[t] * value * at else zero
