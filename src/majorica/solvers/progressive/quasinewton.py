"""Curvature of the loss in relative coordinates, and limited memory on top.

These NumPy functions are the definitions; :mod:`majorica.kernels.newton` has
the compiled twins that solvers run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from majorica.densities.table import Densities
from majorica.kernels import newton
from majorica.statistics import F64, Statistics

#: Smallest eigenvalue allowed in a 2 x 2 block of the Hessian.
FLOOR = 1e-2
#: Condition from which on rows count as nearly dependent: along a step, whose model of the loss is that of
#: independent sources, W would become singular first.
CROOKED = 100.0


def is_crooked(W: F64) -> bool:
    """Whether rows are nearly dependent; of rotations, the usual starts, that is seen without their singular values."""
    products = W @ W.T
    products.ravel()[:: len(W) + 1] -= 1.0
    return bool(np.vdot(products, products) > 0.25 and np.linalg.cond(W) > CROOKED)


def relative_gradient_of(statistics: Statistics) -> F64:
    """``E[G'(y) y^T] - I``."""
    relative = statistics.gradient / statistics.n
    relative.flat[:: len(relative) + 1] -= 1.0
    return relative


def loss_of(W: F64, statistics: Statistics, densities: Densities) -> float:
    """Mean negative log-likelihood of whitened samples, Eq. (emp_risk), normalisers included."""
    return float(statistics.loss.sum() / statistics.n + densities.log_normalisers.sum() - np.linalg.slogdet(W)[1])


def block_curvature(statistics: Statistics, floor: float = FLOOR) -> F64:
    """The block-diagonal Hessian of Zibulevsky: entries (i, j) and (j, i) of a relative step interact, no others.

    Off the diagonal ``E[G_i''] E[y_j^2]``, on it ``E[G_i'' y_i^2] + 1``; the
    smallest eigenvalue of each 2 x 2 block is raised to `floor`.
    """
    n = statistics.n
    upper = np.outer(statistics.curvature / n, statistics.power / n)
    smallest = 0.5 * (upper + upper.T - np.sqrt((upper - upper.T) ** 2 + 4))
    upper = upper + np.maximum(floor - smallest, 0.0)
    np.fill_diagonal(upper, np.maximum(statistics.diagonal / n + 1, floor))
    return upper


def block_solve(upper: F64, gradient: F64) -> F64:
    """The blocks solved for `gradient`."""
    determinant = upper * upper.T - 1
    np.fill_diagonal(determinant, 1)
    out = (upper.T * gradient - gradient.T) / determinant
    np.fill_diagonal(out, np.diag(gradient) / np.diag(upper))
    return out


@dataclass
class Memory:
    """The last few steps and gradient changes of L-BFGS, in relative coordinates, as ring buffers."""

    steps: F64 = field(default_factory=lambda: np.empty((0, 0, 0)))
    changes: F64 = field(default_factory=lambda: np.empty((0, 0, 0)))
    count: int = 0
    newest: int = -1

    @classmethod
    def of_size(cls, p: int) -> Memory:
        """Room for 20 pairs, fewer where p^2 numbers are many (5 at p = 1000)."""
        length = min(max(5_000_000 // p**2, 5), 20)
        return cls(np.zeros((length, p, p)), np.zeros((length, p, p)))

    def add(self, step: F64, change: F64) -> None:
        """Remember a pair if its curvature is clearly positive."""
        if not np.vdot(step, change) > 1e-2 * FLOOR * np.vdot(step, step):
            return
        self.newest = (self.newest + 1) % len(self.steps)
        self.steps[self.newest], self.changes[self.newest] = step, change
        self.count = min(self.count + 1, len(self.steps))

    def clear(self) -> None:
        """Forget."""
        self.count = 0

    def direction(self, gradient: F64, upper: F64) -> tuple[F64, float]:
        """A descent direction, and the gain a step of the block Hessian alone promises."""
        direction, room = np.empty((2, *gradient.shape))
        given = (gradient, upper, self.steps, self.changes, self.count, self.newest)
        return direction, newton.descent_direction(*given, direction, room, np.empty((2, self.count)))


def descent_direction(gradient: F64, upper: F64, steps: list[F64], changes: list[F64]) -> F64:
    """Two-loop recursion, oldest pair first, with the block Hessian inside: what :class:`Memory` computes."""
    q, kept = gradient.copy(), []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        rho = 1 / np.vdot(step, change)
        weight = rho * np.vdot(step, q)
        q -= weight * change
        kept.append((step, change, rho, weight))
    out = block_solve(upper, q)
    for step, change, rho, weight in reversed(kept):
        out += (weight - rho * np.vdot(change, out)) * step
    return -out
