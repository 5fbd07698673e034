"""The log-cosh density of Infomax."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from majorica.densities.base import LOGCOSH, Array, Density


def log_cosh(y: Array) -> Array:
    """``log(cosh(y))`` without overflow, and without cancellation near 0."""
    size = np.abs(y)
    near = np.sinh(0.5 * np.minimum(size, 1))
    return np.where(size < 1, np.log1p(2 * near * near), size + np.log1p(np.exp(-2 * size)) - math.log(2))


@dataclass(frozen=True)
class LogCosh(Density):
    """:math:`G(y) = \\log\\cosh y`, :math:`u^*(y) = \\tanh(y) / y`, :math:`Z = \\pi`."""

    name: str = "logcosh"
    code = LOGCOSH

    @property
    def log_normaliser(self) -> float:
        """``log(pi)``."""
        return math.log(math.pi)

    def loss(self, y: Array) -> Array:
        """:math:`G(y)`."""
        return log_cosh(y)

    def score(self, y: Array) -> Array:
        """``tanh(y)``."""
        return np.tanh(y)

    def curvature(self, y: Array) -> Array:
        """``1 - tanh(y)**2``, without cancellation."""
        e = np.exp(-2 * np.abs(y))
        return 4 * e / (1 + e) ** 2

    def weight(self, y: Array) -> Array:
        """``tanh(y) / y``, 1 at 0."""
        size = np.abs(y)
        small = size < 1e-4
        safe = np.where(small, 1, size)
        near = np.minimum(size, 1)  # the series is not used beyond, where it would overflow
        return np.where(small, 1 - near * (near / 3), np.tanh(safe) / safe)

    def offset(self, y: Array) -> Array:
        """:math:`f(u^*(y))`; a series near 0, where the difference cancels."""
        size = np.abs(y)
        small = size < 1e-2
        series = np.minimum(size, 1) ** 4 / 12
        return np.where(small, series, log_cosh(y) - 0.5 * np.tanh(size) * size)
