"""Scale and shape of one source together, compiled: in turn they creep, as each nearly makes up for the other.

At a fixed direction the loss of a source depends on its scale alone once the
best shape is taken at every scale, and the slope of that profile needs no
derivative of the shape. Twin in plain NumPy: :func:`majorica.solvers.progressive.ridges.profile`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from majorica.kernels.partition import BEST, SAMPLE, room
from majorica.kernels.shapes import FIT_TOLERANCE, scaled_means, search_shape
from majorica.statistics import F64

#: Digest of the modules compiled into this one (tools/stamp_kernels.py): Numba's cache looks at this file alone.
INLINED_DIGEST = "a547453ccffc3cd4"
#: Longest step, and longest way, of the logarithm of a scale.
LONGEST_STEP, LONGEST_WAY = 0.1, 0.75


@nb.njit(nogil=True, cache=True, error_model="numpy")
def _settle_scale(y, k, fine, allow_fine, rising, curvature, enough, c, work):
    """:func:`settle_scale` from the slopes `k`, in place; `c` (5,) is room to work in."""
    n, t, best = float(y.size), work[SAMPLE], work[BEST]
    at, step, loss, slope, log_z, is_fine = 0.0, 0.0, np.inf, 0.0, 0.0, fine
    for point in range(41):
        scaled_means(y, math.exp(at + step), t, c)
        for m in range(5):
            best[m] = k[m]
        loss_new, log_z_new, fine_new = search_shape(work, is_fine, allow_fine, rising, n, FIT_TOLERANCE / n)
        loss_new -= at + step
        slope_new = -1.0
        for m in range(5):
            slope_new += best[m] * c[m]
        change = slope_new - slope
        secant = -slope_new * step / change if change * step > 0 else 4 * step
        if point == 0 or loss_new < loss:
            longest = 4 * abs(step)
            at, loss, log_z, is_fine, slope = at + step, loss_new, log_z_new, fine_new, slope_new
            for m in range(5):
                k[m] = best[m]
            step = min(max(secant, -longest), longest) if point > 0 else -slope / curvature
        else:  # the minimum is nearer
            back = secant + step
            step = back if 0.1 < back / step < 0.5 else 0.3 * step
        step = min(max(step, -LONGEST_STEP), LONGEST_STEP)
        if abs(slope * step) < enough or abs(at + step) > LONGEST_WAY:
            break
    return math.exp(at), log_z, is_fine, loss


def settle_scale(
    y: F64, slopes: F64, fine: bool, allow_fine: bool, curvature: float, enough: float, rising: bool = False
) -> tuple[float, F64, float, bool, float]:
    """Walk downhill along the scale of the source `y`, its best shape at every point, until less than `enough` is left.

    `curvature` is the second derivative of its loss in the logarithm of the
    scale at its present shape, which sets the first step; without end
    `enough`, the scale stays. The score is to be `rising` or not as in
    ``best_shape``. Returns the scale, slopes, log normaliser, whether they are
    fine ones, and the loss.
    """
    k = slopes.copy()
    own = (k, fine, allow_fine, rising)
    scale, log_z, is_fine, loss = _settle_scale(y, *own, curvature, enough, np.empty(5), room())
    return scale, k, log_z, is_fine, loss
