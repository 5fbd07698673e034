"""Curvature of the loss in relative coordinates, and limited memory on top."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from majorica.statistics import F64, Statistics


@dataclass(frozen=True)
class Curvature:
    """The block-diagonal Hessian of Zibulevsky: entries (i, j) and (j, i) of a relative step interact, no others.

    ``upper[i, j] = E[G_i''] E[y_j^2]``, diagonal ``E[G_i'' y_i^2] + 1``;
    the smallest eigenvalue of each 2 x 2 block is raised to `floor`.
    """

    upper: F64

    @classmethod
    def of(cls, statistics: Statistics, floor: float = 1e-2) -> Curvature:
        """From one pass's statistics."""
        n = statistics.n
        upper = np.outer(statistics.curvature / n, statistics.power / n)
        np.fill_diagonal(upper, np.maximum(statistics.diagonal / n + 1, floor))
        smallest = 0.5 * (upper + upper.T - np.sqrt((upper - upper.T) ** 2 + 4))
        lift = np.where(smallest < floor, floor - smallest, 0.0)
        np.fill_diagonal(lift, 0.0)
        return cls(upper + lift)

    def solve(self, gradient: F64) -> F64:
        """The Newton direction's matrix: the blocks solved for `gradient`."""
        determinant = self.upper * self.upper.T - 1
        np.fill_diagonal(determinant, 1)
        out = (self.upper.T * gradient - gradient.T) / determinant
        np.fill_diagonal(out, np.diag(gradient) / np.diag(self.upper))
        return out


@dataclass
class Memory:
    """The last few steps and gradient changes of L-BFGS, in relative coordinates."""

    length: int = 7
    steps: list[F64] = field(default_factory=list)
    changes: list[F64] = field(default_factory=list)

    def add(self, step: F64, change: F64) -> None:
        """Remember a step if its curvature is positive."""
        product = float((step * change).sum())
        if product <= 1e-10 * float((step * step).sum()):
            return
        self.steps.append(step)
        self.changes.append(change)
        if len(self.steps) > self.length:
            self.steps.pop(0)
            self.changes.pop(0)

    def clear(self) -> None:
        """Forget."""
        self.steps.clear()
        self.changes.clear()

    def direction(self, gradient: F64, curvature: Curvature) -> F64:
        """Two-loop recursion with the block Hessian inside."""
        q = gradient.copy()
        coefficients = []
        for step, change in zip(reversed(self.steps), reversed(self.changes), strict=True):
            rho = 1 / (step * change).sum()
            a = rho * (step * q).sum()
            coefficients.append((rho, a))
            q -= a * change
        z = curvature.solve(q)
        for step, change, (rho, a) in zip(self.steps, self.changes, reversed(coefficients), strict=True):
            b = rho * (change * z).sum()
            z += (a - b) * step
        return -z
