r"""The adaptive default: densities whose score is piecewise linear with five slopes.

With knots :math:`0 = d_0 < d_1 < \dots < d_4` and slopes :math:`k_0, \dots, k_4`,

.. math:: G'(y) = \mathrm{sign}(y) \Big(k_0 |y| + \sum_{m \ge 1} (k_m - k_{m-1}) (|y| - d_m)_+ \Big).

All slopes equal to one is the Gaussian; falling slopes are super-Gaussian,
rising ones sub-Gaussian, a negative first slope two-humped. :math:`G` is
linear in the slopes, so this is an exponential family: the best slopes of a
source solve a convex problem that needs five averages over its samples.
Derivation and guarantee: ``docs/adaptive.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import erfcx

from majorica.densities.base import PIECEWISE, Array, Density
from majorica.errors import ParameterError

#: Where the score bends, in units of about one standard deviation of the source.
KNOTS = np.array([0.3, 0.8, 1.4, 2.8])
_KNOTS = KNOTS.tolist()
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def _intercepts(slopes: Sequence[float]) -> list[float]:
    found = [0.0]
    for m, knot in enumerate(_KNOTS):
        found.append(found[-1] - (slopes[m + 1] - slopes[m]) * knot)
    return found


def family_of(slopes: Sequence[float]) -> str:
    """``"super"`` if score(y)/y falls in abs(y), ``"sub"`` if it rises, ``"mixed"`` otherwise."""
    intercepts = _intercepts(slopes)
    if min(intercepts) >= 0:
        return "super" if any(intercepts) else "near"
    return "sub" if max(intercepts) <= 0 else "mixed"


@lru_cache(maxsize=4096)
def name_of(slopes: tuple[float, ...]) -> str:
    """Family and shape of a density with these slopes."""
    return "{}-gaussian({:.3g}, {:.3g}, {:.3g}, {:.3g}, {:.3g})".format(family_of(slopes), *slopes)


@dataclass(frozen=True)
class Piecewise(Density):
    """Density with a piecewise-linear score.

    Parameters
    ----------
    slopes : tuple of 5 floats
        Slopes of the score between the knots 0, 0.3, 0.8, 1.4, 2.8; the last
        one positive. Ones give the Gaussian.
    """

    slopes: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 1.0)
    code = PIECEWISE

    def __post_init__(self) -> None:
        if len(self.slopes) != 5 or not all(map(math.isfinite, self.slopes)) or not self.slopes[-1] > 0:
            raise ParameterError(f"piecewise: needs 5 finite slopes, the last one positive, got {self.slopes}")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Family and shape, as in ``densities_``."""
        return name_of(self.slopes)

    @cached_property
    def intercepts(self) -> Array:
        """Intercept of each linear piece of the score; zero or more everywhere if super-Gaussian."""
        return np.array(_intercepts(self.slopes))

    @property
    def family(self) -> str:
        """``"super"`` if score(y)/y falls in abs(y), ``"sub"`` if it rises, ``"mixed"`` otherwise."""
        return family_of(self.slopes)

    @cached_property
    def super_gaussian(self) -> bool:  # type: ignore[override]
        """Whether the majorizer is ``u*(y0) y^2 / 2``; else it is a tangent to a concave part."""
        return bool((self.intercepts >= 0).all())

    @property
    def flat(self) -> float:
        """Constant weight of the tangent majorizer: the largest slope."""
        return max(max(self.slopes), 1e-300)

    @property
    def shape(self) -> tuple[float, ...]:
        """The slopes, then the constant weight (0 if super-Gaussian)."""
        return (*self.slopes, 0.0 if self.super_gaussian else self.flat)

    @property
    def log_normaliser(self) -> float:
        """Piece by piece: Gauss-Legendre inside, exact to rounding, and a closed form for the tail."""
        edges = np.concatenate([[0.0], KNOTS])
        logs = []
        for m, (slope, start) in enumerate(zip(self.slopes, edges, strict=True)):
            level = float(self.loss(np.array([start]))[0])
            score = float(self.score(np.array([start]))[0])
            stop = edges[m + 1] if m < len(KNOTS) else math.inf
            logs.append(_log_integral(score, slope, stop - start) - level)
        top = max(logs)
        return math.log(2.0) + top + math.log(math.fsum(math.exp(value - top) for value in logs))

    def _ramps(self, y: Array) -> tuple[Array, Array, Array]:
        """Size, excess over each knot, and the jumps of the slope there."""
        size = np.abs(y)
        return size, np.maximum(size[..., None] - KNOTS.astype(size.dtype), 0), np.diff(self.slopes)

    def loss(self, y: Array) -> Array:
        """:math:`G(y)`."""
        size, ramps, jumps = self._ramps(np.asarray(y))
        return 0.5 * self.slopes[0] * size * size + 0.5 * (ramps * ramps) @ jumps

    def score(self, y: Array) -> Array:
        """:math:`G'(y)`."""
        size, ramps, jumps = self._ramps(np.asarray(y))
        return np.copysign(1.0, y) * (self.slopes[0] * size + ramps @ jumps)

    def curvature(self, y: Array) -> Array:
        """:math:`G''(y)`, the slope of the piece."""
        _, ramps, jumps = self._ramps(np.asarray(y))
        return self.slopes[0] + (ramps > 0) @ jumps

    def weight(self, y: Array) -> Array:
        """:math:`u^*(y)` if super-Gaussian, else the constant `flat`."""
        y = np.asarray(y)
        if not self.super_gaussian:
            return np.full_like(y, self.flat)
        at = np.searchsorted(KNOTS, np.abs(y))
        return np.asarray(self.slopes)[at] + self.intercepts[at] / np.maximum(np.abs(y), KNOTS[0])

    def tilt(self, y: Array) -> Array:
        """Slope of the concave part's tangent, zero if super-Gaussian."""
        if not self.super_gaussian:
            return self.flat * np.asarray(y) - self.score(y)
        return super().tilt(y)

    def offset(self, y: Array) -> Array:
        """:math:`r(y)`, from the linear piece of the score at `y`: no differences of large numbers."""
        size = np.abs(np.asarray(y))
        at = np.searchsorted(KNOTS, size)
        levels = np.concatenate([[0.0], 0.5 * np.cumsum(np.diff(self.slopes) * KNOTS**2)])
        if self.super_gaussian:
            return 0.5 * self.intercepts[at] * size + levels[at]
        return 0.5 * (self.flat - np.asarray(self.slopes)[at]) * size * size + levels[at]


def _log_integral(score: float, slope: float, width: float) -> float:
    """``log`` of the integral of ``exp(-score s - slope s^2 / 2)`` over ``0 <= s <= width``, which may be infinite."""
    if math.isinf(width):
        x = score / math.sqrt(2 * slope)
        if x < -5:  # erfcx grows as 2 exp(x^2)
            return x * x + math.log(2.0) + 0.5 * math.log(math.pi / (2 * slope))
        return 0.5 * math.log(math.pi / (2 * slope)) + math.log(float(erfcx(x)))
    s = 0.5 * width * (_NODES + 1)
    exponent = -score * s - 0.5 * slope * s * s
    top = exponent.max()
    return float(top + math.log(0.5 * width * (_WEIGHTS @ np.exp(exponent - top))))
