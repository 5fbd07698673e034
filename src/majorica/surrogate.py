"""The surrogate of the MM solvers: its statistics, its value and its M-step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorica.densities.base import Density
from majorica.densities.table import Densities
from majorica.kernels import Backend, kernels_for, reference
from majorica.statistics import F64, Moments, invert, source_variances, unpack_symmetric

#: Sweeps between two fresh inversions of W.
REFRESH_EVERY = 20


@dataclass
class Surrogate:
    """The surrogate loss as a function of W, Eq. (quad_form), with everything to minimise it.

    ``L(W) = -log|det W| + sum_i [w_i A^i w_i / 2 - b_i w_i + r_i + log Z_i]``
    where ``A^i = E[w x x^T]`` (`moments`), ``b_i = E[t x]`` (`tilts`) and
    ``r_i = E[r]`` (`offsets`) average the majorizers of the samples. Memory
    p^3.
    """

    moments: F64  #: A^i, (p, k, k)
    tilts: F64  #: b_i, (p, k), zero for super-Gaussian rows
    offsets: F64  #: r_i, (p,)
    covariance: F64  #: C of the whitened samples, (k, k)
    sweeps: int = 0

    @classmethod
    def start(cls, covariance: F64, densities: Densities) -> Surrogate:
        """All majorizers touching at 0: ``A^i = w_i(0) C``; a valid bound for every density."""
        p, k = len(densities), len(covariance)
        weights = np.array([float(density.weight(np.zeros(1))[0]) for density in densities])
        return cls(weights[:, None, None] * covariance, np.zeros((p, k)), np.zeros(p), covariance.copy())

    @classmethod
    def from_moments(cls, sums: Moments, covariance: F64) -> Surrogate:
        """The surrogate of a full E-step."""
        return cls(
            unpack_symmetric(sums.packed) / sums.n, sums.tilts / sums.n, sums.offsets / sums.n, covariance.copy()
        )

    def value(self, W: F64, densities: Densities) -> float:
        """The surrogate loss at `W`; O(p^3)."""
        return reference.surrogate(W, self.moments, self.tilts, self.offsets, densities.log_normalisers)

    def gradient(self, W: F64) -> F64:
        """Relative gradient of the surrogate at `W`: that of the loss where the majorizers touch."""
        rows = np.einsum("ijk,ik->ij", self.moments, W) - self.tilts
        return rows @ W.T - np.eye(len(W))

    def minimise(self, W: F64, inverse: F64, densities: Densities, *, iterations: int, backend: Backend = None) -> None:
        """One M-step sweep over the rows, in place on `W` and its `inverse`; Eq. (minw)."""
        flat = densities.flat_weights
        covariance_inverse = invert(self.covariance) if flat.any() else self.covariance
        kernels = kernels_for(densities, backend)
        kernels.sweep(W, inverse, self.moments, self.tilts, flat, covariance_inverse, iterations)
        if self.sweeps % REFRESH_EVERY == 0:  # the first too: from a bad start it is the longest
            inverse[:] = invert(W)
        self.sweeps += 1


def stationary_surrogate(W: F64, covariance: F64, densities: Densities) -> Surrogate:
    """The surrogate of independent sources that is minimal at `W`, for models whose data is gone.

    In source coordinates the moments of independent sources are diagonal:
    ``E[w_i] E[y_j^2]``, and ``E[w_i y_i^2] = 1`` at a minimum. ``E[w_i]`` is
    that of the density itself: it weighs directions, the minimiser does not
    depend on it.
    """
    p = len(W)
    inverse = invert(W)
    power = source_variances(W, covariance)
    moments, tilts, offsets = np.empty((p, p, p)), np.zeros((p, p)), np.zeros(p)
    means: dict[Density, tuple[float, float]] = {}
    for i, density in enumerate(densities):
        if density not in means:
            means[density] = _density_means(density)
        weight, offsets[i] = means[density]
        if density.super_gaussian:
            diagonal = weight * power
            diagonal[i] = 1.0
            moments[i] = (inverse * diagonal) @ inverse.T
        else:
            moments[i] = _weight_at_zero(density) * covariance
            tilts[i] = moments[i] @ W[i] - inverse[:, i]
    return Surrogate(moments, tilts, offsets, covariance.copy())


def _weight_at_zero(density: Density) -> float:
    return float(density.weight(np.zeros(1))[0])


def _density_means(density: Density) -> tuple[float, float]:
    """``E[w(y)]`` and ``E[r(y)]`` for y of that density, by the trapezoidal rule."""
    y = np.linspace(0.0, 40.0, 8001)
    mass = np.exp(-density.loss(y) + float(density.loss(np.zeros(1))[0]))
    total = np.trapezoid(mass, y)
    return float(np.trapezoid(mass * density.weight(y), y) / total), float(
        np.trapezoid(mass * density.offset(y), y) / total
    )
