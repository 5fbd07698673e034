"""The surrogate of the MM solvers: its statistics, its value and its M-step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorica.densities.table import Densities
from majorica.kernels import Backend, kernels_for, reference
from majorica.statistics import F64, Moments, invert, unpack_symmetric

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
        flat = flat_weights(densities)
        covariance_inverse = invert(self.covariance) if flat.any() else self.covariance
        kernels = kernels_for(densities, backend)
        kernels.sweep(W, inverse, self.moments, self.tilts, flat, covariance_inverse, iterations)
        self.sweeps += 1
        if self.sweeps % REFRESH_EVERY == 0:
            inverse[:] = invert(W)


def flat_weights(densities: Densities) -> F64:
    """Constant majorizer weight of each sub-Gaussian row, 0 for super-Gaussian ones."""
    return np.array([0.0 if density.super_gaussian else float(density.weight(np.zeros(1))[0]) for density in densities])
