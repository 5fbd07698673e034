"""The Student density, for very heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from majorica.densities.base import STUDENT, Array, Density
from majorica.errors import ParameterError


@dataclass(frozen=True)
class Student(Density):
    """:math:`G(y) = \\frac{v+1}{2} \\log(1 + y^2/v)` with `dof` degrees of freedom :math:`v`.

    The paper's own form, :math:`\\log(1 + y^2)/2`, is the limit of a density
    that is not integrable: :math:`E[u^* y^2] < 1` whatever the scale, so the
    loss has no minimiser. It is not offered for fitting.
    """

    dof: float = 3.0
    name: str = "student"
    code = STUDENT

    def __post_init__(self) -> None:
        if not (math.isfinite(self.dof) and self.dof > 0):
            raise ParameterError(
                f"student: dof={self.dof} must be a positive finite number; "
                "dof=0 (the form printed in the paper) is not integrable and has no minimiser"
            )

    @property
    def shape(self) -> tuple[float, ...]:
        """``(dof,)``."""
        return (self.dof,)

    @property
    def log_normaliser(self) -> float:
        """The t distribution's normaliser."""
        v = self.dof
        return float(gammaln(v / 2) - gammaln((v + 1) / 2) + 0.5 * math.log(v * math.pi))

    def _radius(self, y: Array) -> Array:
        """``sqrt(v + y^2)`` without overflow."""
        return np.hypot(math.sqrt(self.dof), y)

    def loss(self, y: Array) -> Array:
        """:math:`G(y)`."""
        size = np.abs(y) / math.sqrt(self.dof)
        near = np.minimum(size, 1e8)  # beyond, log(1 + size^2) is 2 log(size) to the last bit
        return 0.5 * (self.dof + 1) * (np.log1p(near * near) + 2 * np.log(np.maximum(size / 1e8, 1)))

    def score(self, y: Array) -> Array:
        """:math:`(v+1) y / (v + y^2)`."""
        radius = self._radius(y)
        return (self.dof + 1) * (y / radius) / radius

    def curvature(self, y: Array) -> Array:
        """:math:`(v+1) (v - y^2) / (v + y^2)^2`."""
        radius = self._radius(y)
        unit = y / radius
        return (self.dof + 1) / radius * (1 - 2 * unit * unit) / radius

    def weight(self, y: Array) -> Array:
        """:math:`u^*(y) = (v+1) / (v + y^2)`."""
        radius = self._radius(y)
        return (self.dof + 1) / radius / radius

    def offset(self, y: Array) -> Array:
        """:math:`f(u^*(y))`."""
        unit = y / self._radius(y)
        return self.loss(y) - 0.5 * (self.dof + 1) * unit * unit
