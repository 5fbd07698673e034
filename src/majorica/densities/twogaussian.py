"""Two Gaussians side by side: a smooth sub-Gaussian density."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from majorica.densities.base import TWO_GAUSSIAN, Array, Density
from majorica.densities.logcosh import log_cosh
from majorica.errors import ParameterError


@dataclass(frozen=True)
class TwoGaussian(Density):
    """:math:`G(y) = y^2/2 - \\log\\cosh(m y)`: the even mixture of N(-m, 1) and N(m, 1).

    :math:`-\\log\\cosh` is concave, so it lies below its tangent: the majorizer
    has weight 1 and tilt :math:`m \\tanh(m y_0)`.
    """

    m: float = 1.0
    name: str = "twogaussian"
    code = TWO_GAUSSIAN
    super_gaussian = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.m) and self.m >= 0):
            raise ParameterError(f"twogaussian: m={self.m} must be a finite number >= 0")

    @property
    def shape(self) -> tuple[float, ...]:
        """``(m,)``."""
        return (self.m,)

    @property
    def log_normaliser(self) -> float:
        """``m^2/2 + log(2 pi)/2``."""
        return 0.5 * self.m**2 + 0.5 * math.log(2 * math.pi)

    def loss(self, y: Array) -> Array:
        """:math:`G(y)`."""
        return 0.5 * y * y - log_cosh(self.m * y)

    def score(self, y: Array) -> Array:
        """:math:`y - m \\tanh(m y)`."""
        return y - self.m * np.tanh(self.m * y)

    def curvature(self, y: Array) -> Array:
        """:math:`1 - m^2 (1 - \\tanh^2(m y))`."""
        e = np.exp(-2 * np.abs(self.m * y))
        return 1 - self.m**2 * 4 * e / (1 + e) ** 2

    def weight(self, y: Array) -> Array:
        """1, whatever `y`."""
        return np.ones_like(np.asarray(y))

    def tilt(self, y: Array) -> Array:
        """:math:`m \\tanh(m y)`."""
        return self.m * np.tanh(self.m * y)

    def offset(self, y: Array) -> Array:
        """:math:`m y \\tanh(m y) - \\log\\cosh(m y)`."""
        z = self.m * y
        return z * np.tanh(z) - log_cosh(z)
