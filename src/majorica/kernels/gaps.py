"""How far majorizers lie above the loss, and what changes when they move: the incremental solver's formulas, compiled.

Rows hold one component's samples. Blocks hold samples as they lie, component
after component; the shapes then stand in rows of the same length.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from majorica.densities.base import CLIPPED, PIECEWISE
from majorica.kernels.elementwise import D1, D2, D3, D4, FAST, majorizer, select_piece

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "f6ca58e34a2b369c"
#: Numbers in a block of the gaps, at most, beyond one sample's.
BLOCK = 1024


@nb.njit(nogil=True, cache=True)
def _any_gap_row(y, old, code, shape, gap):
    """:func:`gap_row` for any density."""
    for t in range(y.size):
        value = np.float64(y[t])
        w0, t0, r0 = majorizer(np.float64(old[t]), code, shape)
        w1, t1, r1 = majorizer(value, code, shape)
        gap[t] = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def gap_row(y, old, code, shape, gap):
    """How far each sample's majorizer, which touches at `old`, lies above the loss at `y`; Eq. (dualgap).

    As a square about `old` and the squares about the knots between `old` and
    `y`, so that gaps much smaller than the loss keep their digits.
    """
    b, d = shape[1], shape[2]
    kind = gap.dtype.type
    zero, half = kind(0), kind(0.5)
    if code == CLIPPED and b >= 0:
        half_b, knot = kind(0.5 * b), kind(d)
        for t in range(y.size):
            u, v = abs(y[t]), abs(kind(old[t]))
            far = v if v > knot else knot
            apart, beyond = u - v, u - knot
            old_half, new_half = half_b if v > knot else zero, half_b if u > knot else zero
            gap[t] = (new_half - old_half) * beyond * beyond + old_half * knot * apart * apart / far
    elif code == PIECEWISE:
        k0, flat = kind(shape[0]), kind(shape[5])
        j1, j2 = kind(shape[1] - shape[0]), kind(shape[2] - shape[1])
        j3, j4 = kind(shape[3] - shape[2]), kind(shape[4] - shape[3])
        d1, d2, d3, d4 = kind(D1), kind(D2), kind(D3), kind(D4)
        for t in range(y.size):
            value, value0 = y[t], kind(old[t])
            u, v = abs(value), abs(value0)
            b1, b2 = j1 if v > d1 else zero, j2 if v > d2 else zero
            b3, b4 = j3 if v > d3 else zero, j4 if v > d4 else zero
            c1, c2 = j1 if u > d1 else zero, j2 if u > d2 else zero
            c3, c4 = j3 if u > d3 else zero, j4 if u > d4 else zero
            t1, t2, t3, t4 = u - d1, u - d2, u - d3, u - d4
            knots = (b1 - c1) * t1 * t1 + (b2 - c2) * t2 * t2 + (b3 - c3) * t3 * t3 + (b4 - c4) * t4 * t4
            intercept = -(b1 * d1 + b2 * d2 + b3 * d3 + b4 * d4)
            apart = u - v
            if flat > 0:
                bend = flat - (k0 + b1 + b2 + b3 + b4)
                across = bend * v - intercept if value * value0 < zero else zero
                gap[t] = half * (bend * apart * apart + knots) + (u + u) * across
            else:
                far = v if v > d1 else d1
                gap[t] = half * (intercept * apart * apart / far + knots)
    else:
        _any_gap_row(y, old, code, shape, gap)


@nb.njit(nogil=True, cache=True)
def repeat_shapes(codes, shapes, out):
    """Fill `out` (6, length) with what :func:`gap_block` needs; returns the code all components share, else -1."""
    p, kind = codes.size, out.dtype.type
    shared = codes[0]
    for i in range(p):
        same = codes[i] == shared and (shared == PIECEWISE or (shared == CLIPPED and shapes[i, 1] >= 0))
        shared = shared if same else -1
    for s in range(out.shape[1]):
        shape = shapes[s % p]
        if shared == PIECEWISE:
            out[0, s] = kind(shape[0])
            for j in range(1, 5):
                out[j, s] = kind(shape[j] - shape[j - 1])
            out[5, s] = kind(shape[5])
        else:
            out[0, s], out[1, s] = kind(0.5 * shape[1]), kind(shape[2])
    return shared


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def gap_block(y, old, code, shape, gap):
    """:func:`gap_row` for samples as they lie, all of one `code`; `shape` is that of :func:`repeat_shapes`."""
    kind = gap.dtype.type
    zero, half = kind(0), kind(0.5)
    if code == CLIPPED:
        halves, knots = shape[0], shape[1]
        for t in range(y.size):
            half_b, knot = halves[t], knots[t]
            u, v = abs(y[t]), abs(kind(old[t]))
            far = v if v > knot else knot
            apart, beyond = u - v, u - knot
            old_half, new_half = half_b if v > knot else zero, half_b if u > knot else zero
            gap[t] = (new_half - old_half) * beyond * beyond + old_half * knot * apart * apart / far
    else:
        s0, s1, s2, s3, s4, s5 = shape[0], shape[1], shape[2], shape[3], shape[4], shape[5]
        d1, d2, d3, d4 = kind(D1), kind(D2), kind(D3), kind(D4)
        for t in range(y.size):
            value, value0, flat = y[t], kind(old[t]), s5[t]
            u, v = abs(value), abs(value0)
            b1, b2 = s1[t] if v > d1 else zero, s2[t] if v > d2 else zero
            b3, b4 = s3[t] if v > d3 else zero, s4[t] if v > d4 else zero
            c1, c2 = s1[t] if u > d1 else zero, s2[t] if u > d2 else zero
            c3, c4 = s3[t] if u > d3 else zero, s4[t] if u > d4 else zero
            t1, t2, t3, t4 = u - d1, u - d2, u - d3, u - d4
            knots = (b1 - c1) * t1 * t1 + (b2 - c2) * t2 * t2 + (b3 - c3) * t3 * t3 + (b4 - c4) * t4 * t4
            intercept = -(b1 * d1 + b2 * d2 + b3 * d3 + b4 * d4)
            apart, far = u - v, v if v > d1 else d1
            bend = flat - (s0[t] + b1 + b2 + b3 + b4)
            round_old = bend if flat > zero else intercept / far
            across = bend * v - intercept if value * value0 < zero else zero
            across = across if flat > zero else zero
            gap[t] = half * (round_old * apart * apart + knots) + (u + u) * across


@nb.njit(nogil=True, cache=True)
def _any_change_row(old, y, stored, code, shape, weights, tilts):
    """:func:`change_row` for any density."""
    total = 0.0
    for t in range(old.size):
        value, new = y[t], np.float64(np.float32(stored[t]))
        if new == old[t]:
            weights[t], tilts[t] = 0.0, 0.0
            continue
        w0, t0, r0 = majorizer(old[t], code, shape)
        w1, t1, r1 = majorizer(new, code, shape)
        fall = 0.5 * (w0 - w1) * value * value - (t0 - t1) * value + (r0 - r1)
        weights[t], tilts[t] = 0.0, 0.0
        if fall > 0:
            weights[t], tilts[t] = w1 - w0, t1 - t0
            total += r1 - r0
            old[t] = new
    return total


@nb.njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def change_row(old, y, stored, code, shape, weights, tilts):
    """Move majorizers from `old`, in place, to `y` as the memory will hold it, where that lowers the surrogate.

    That is `stored` in float32: `y` itself, or the points its codes name.
    Fills `weights` and `tilts` with what they change by (or leaves alone the
    one that never changes); returns the offsets' change.
    """
    b, d = shape[1], shape[2]
    total = 0.0
    if code == CLIPPED and b >= 0:
        for t in range(old.size):
            new = np.float64(np.float32(stored[t]))
            size0, size1 = abs(old[t]), abs(new)
            outer0 = size0 if size0 > d else d
            outer1 = size1 if size1 > d else d
            inside0 = d if size0 > d else size0
            inside1 = d if size1 > d else size1
            weight = d * (outer0 - outer1) / (outer0 * outer1)
            offset = inside1 * (size1 - inside1) - inside0 * (size0 - inside0)
            lower = weight * y[t] * y[t] + offset < 0.0
            weights[t] = b * weight if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        return 0.5 * b * total
    if code == PIECEWISE:
        kind = np.float64
        k0, j1, j2, j3, j4 = shape[0], b - shape[0], d - b, shape[3] - d, shape[4] - shape[3]
        flat = shape[5]
        for t in range(old.size if flat > 0 else 0):
            new = np.float64(np.float32(stored[t]))
            size0, size1 = abs(old[t]), abs(new)
            slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
            lean0 = (flat - slope0) * old[t] - (intercept0 if old[t] > 0 else -intercept0)
            lean1 = (flat - slope1) * new - (intercept1 if new > 0 else -intercept1)
            offset = 0.5 * ((flat - slope1) * size1 * size1 - (flat - slope0) * size0 * size0) + (level1 - level0)
            lower = (lean0 - lean1) * y[t] + offset < 0.0
            tilts[t] = lean1 - lean0 if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        for t in range(0 if flat > 0 else old.size):
            new = np.float64(np.float32(stored[t]))
            size0, size1 = abs(old[t]), abs(new)
            slope0, intercept0, level0 = select_piece(size0, k0, j1, j2, j3, j4, kind)
            slope1, intercept1, level1 = select_piece(size1, k0, j1, j2, j3, j4, kind)
            outer0 = size0 if size0 > D1 else D1
            outer1 = size1 if size1 > D1 else D1
            weight = (slope1 - slope0) + (intercept1 * outer0 - intercept0 * outer1) / (outer0 * outer1)
            offset = 0.5 * (intercept1 * size1 - intercept0 * size0) + (level1 - level0)
            lower = 0.5 * weight * y[t] * y[t] + offset < 0.0
            weights[t] = weight if lower else 0.0
            total += offset if lower else 0.0
            old[t] = new if lower else old[t]
        return total
    return _any_change_row(old, y, stored, code, shape, weights, tilts)
