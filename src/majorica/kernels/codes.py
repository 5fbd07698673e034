"""The incremental solver's memory in one byte an entry: which touching points a byte can name.

Any touching point gives a valid bound, so a coarse one costs tightness, never
the guarantee: an entry changes only if the surrogate falls with the point it
is *rounded* to. Points are equally far apart in ``asinh(y / UNIT)``: evenly
near 0, where all densities are smooth, and by a constant factor further out,
where weights are proportional to ``1 / |y|``. Super-Gaussian majorizers depend
on ``|y|`` alone and use all 256 codes for it; the others spend one bit on the
sign. Code 0 is the point 0.

Plain NumPy definitions; :mod:`majorica.kernels.rounding` has their compiled twins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from majorica.statistics import F64

#: Where the spacing of the points goes from even to proportional.
UNIT = 0.5
#: Largest points over sqrt(n), super-Gaussian and other; no white sample is further than sqrt(n) from the mean.
REACH = (100.0, 10.0)
#: Sign of a touching point.
SIGN = 128

CodeArray = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class CodeTable:
    """What the 256 codes stand for; row 0 for super-Gaussian components, row 1 for the others."""

    levels: npt.NDArray[np.float32]  #: points, (2, 256)
    edges: F64  #: sizes at which codes change, (2, 255), ascending, infinite after the last
    cells: F64  #: ``(y - y0)^2 <= cells[0] + cells[1] y y0`` where y rounds to y0; and the largest size; (2, 3)

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, n: int) -> CodeTable:
        """The table for `n` white samples."""
        levels, edges, cells = np.zeros((2, 256), np.float32), np.full((2, 255), np.inf), np.empty((2, 3))
        for row, count in enumerate((256, SIGN)):
            step = np.arcsinh(REACH[row] * np.sqrt(n) / UNIT) / (count - 1)
            levels[row, :count] = UNIT * np.sinh(step * np.arange(count))
            edges[row, : count - 1] = UNIT * np.sinh(step * (np.arange(count - 1) + 0.5))
            slope = 4 * np.sinh(step / 4) ** 2  # half a step, by the addition theorems
            cells[row] = slope * UNIT**2 * (1 + slope / 4), slope, levels[row, count - 1]
        levels[1, SIGN:] = -levels[1, :SIGN]
        return cls(levels, edges, cells)

    @classmethod
    @lru_cache(maxsize=1)
    def none(cls) -> CodeTable:
        """What the kernels get if the memory holds numbers."""
        return cls(np.empty((0, 0), np.float32), np.empty((0, 0)), np.empty((0, 0)))

    def encode(self, Y: npt.NDArray[np.floating], super_gaussian: npt.NDArray[np.bool_]) -> CodeArray:
        """Codes of the points nearest to `Y` ``(b, p)`` or, for one component, ``(b,)``."""
        out = np.empty(Y.shape, np.uint8)
        columns = Y[:, None] if Y.ndim == 1 else Y
        for i, heavy in enumerate(np.atleast_1d(super_gaussian)):
            code = np.searchsorted(self.edges[0 if heavy else 1], np.abs(columns[:, i]))
            out.reshape(columns.shape)[:, i] = code if heavy else code + SIGN * ((columns[:, i] < 0) & (code > 0))
        return out

    def decode(self, codes: CodeArray, super_gaussian: npt.NDArray[np.bool_]) -> F64:
        """The points that `codes` ``(b, p)`` or ``(b,)`` name."""
        return self.levels[np.where(super_gaussian, 0, 1), codes].astype(np.float64)

    def settled(self, Y: F64, old: F64, super_gaussian: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which `Y` ``(b, p)`` still round to the points `old`: moving them would gain nothing."""
        constant, slope, largest = self.cells[np.where(super_gaussian, 0, 1)].T
        clipped = np.clip(np.where(super_gaussian, np.abs(Y), Y), -largest, largest)
        return np.asarray((clipped - old) ** 2 <= constant + slope * clipped * old)
