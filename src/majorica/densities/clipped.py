r"""Densities with a clipped-linear score: the family behind Huber.

.. math:: G(y) = \tfrac12 \alpha y^2 + \beta H_d(y), \qquad
          G'(y) = \alpha y + \beta\, \mathrm{clip}(y, -d, d),

with :math:`H_d(y) = y^2/2` for :math:`|y| < d` and :math:`d|y| - d^2/2`
beyond. One formula without a transcendental function covers

- the Gaussian (:math:`\beta = 0`),
- the paper's Huber density (:math:`\alpha = 0, \beta = d = 1`),
- every super-Gaussian in between (:math:`\beta > 0`), and
- flat, box-like and two-humped sub-Gaussians (:math:`\beta < 0`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import dawsn, erf, erfcx

from majorica.densities.base import CLIPPED, Array, Density
from majorica.errors import ParameterError


@dataclass(frozen=True)
class Clipped(Density):
    """Density whose score is ``alpha * y + beta * clip(y, -d, d)``.

    Parameters
    ----------
    alpha, beta : float
        ``alpha >= 0``; ``beta > 0`` gives a super-Gaussian, ``beta < 0`` a
        sub-Gaussian density (it then needs ``alpha > 0``).
    d : float
        Threshold, positive.
    name : str
        Shown in ``densities_``.
    """

    alpha: float = 0.0
    beta: float = 1.0
    d: float = 1.0
    name: str = "clipped"
    code = CLIPPED

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and self.d > 0 and math.isfinite(self.alpha + self.beta + self.d)):
            raise ParameterError(f"{self.name}: needs alpha >= 0 and d > 0, got alpha={self.alpha}, d={self.d}")
        if self.alpha == 0 and self.beta <= 0:
            raise ParameterError(f"{self.name}: alpha=0 needs beta > 0 to be integrable, got beta={self.beta}")

    @property
    def super_gaussian(self) -> bool:  # type: ignore[override]
        """Whether ``beta >= 0``."""
        return self.beta >= 0

    @property
    def shape(self) -> tuple[float, ...]:
        """``(alpha, beta, d)``."""
        return (self.alpha, self.beta, self.d)

    @property
    def log_normaliser(self) -> float:
        """Closed form: a truncated Gaussian (or its inverse) inside, a Gaussian or exponential tail outside."""
        alpha, d = self.alpha, self.d
        inner = alpha + self.beta
        edge = math.exp(-0.5 * inner * d * d)
        if inner > 0:
            centre = math.sqrt(2 * math.pi / inner) * erf(d * math.sqrt(inner / 2))
        elif inner == 0:
            centre = 2 * d
        else:
            centre = 2 * math.sqrt(2 / -inner) * edge * dawsn(d * math.sqrt(-inner / 2))
        if alpha == 0:
            tail = 2 * edge / (self.beta * d)
        else:
            tail = 2 * edge * math.sqrt(math.pi / (2 * alpha)) * erfcx(d * inner / math.sqrt(2 * alpha))
        return float(math.log(centre + tail))

    def loss(self, y: Array) -> Array:
        """:math:`G(y)`."""
        size = np.abs(y)
        inside = np.minimum(size, self.d)
        huber = inside * (size - 0.5 * inside)
        return huber * self.beta if self.alpha == 0 else 0.5 * self.alpha * y * y + self.beta * huber

    def score(self, y: Array) -> Array:
        """:math:`G'(y)`."""
        return self.alpha * y + self.beta * np.clip(y, -self.d, self.d)

    def curvature(self, y: Array) -> Array:
        """:math:`G''(y)`, the indicator of ``abs(y) < d`` in place of the kink's derivative."""
        return self.alpha + self.beta * (np.abs(y) < self.d).astype(np.asarray(y).dtype)

    def weight(self, y: Array) -> Array:
        """:math:`w(y)`; :math:`u^*` if super-Gaussian, the constant `alpha` if sub-Gaussian."""
        if self.beta < 0:
            return np.full_like(np.asarray(y), self.alpha)
        return self.alpha + self.beta * (self.d / np.maximum(self.d, np.abs(y)))

    def tilt(self, y: Array) -> Array:
        """:math:`t(y)`, the slope of the concave part's tangent if sub-Gaussian."""
        if self.beta < 0:
            return -self.beta * np.clip(y, -self.d, self.d)
        return np.zeros_like(np.asarray(y))

    def offset(self, y: Array) -> Array:
        """:math:`r(y)`, without the cancellation of the general formula."""
        size = np.abs(y)
        inside = np.minimum(size, self.d)
        if self.beta < 0:
            return -0.5 * self.beta * inside * inside
        return 0.5 * self.beta * inside * (size - inside)


class Huber(Clipped):
    """The paper's density (section 2.3): quadratic centre, linear tails beyond the threshold `d`.

    :math:`u^*(y) = \\min(1, d/|y|)` and :math:`f(u) = d^2 (1/u - 1) / 2`.
    """

    def __init__(self, d: float = 1.0) -> None:
        super().__init__(alpha=0.0, beta=1.0, d=float(d), name="huber")
