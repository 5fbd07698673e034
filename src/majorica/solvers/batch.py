"""Full-batch majorization-minimization (paper, section 4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.solvers.base import State, StopReason, stalled
from majorica.solvers.shapes import Shapes
from majorica.solvers.steps import on_steps
from majorica.statistics import F64, invert
from majorica.surrogate import Surrogate


@dataclass
class BatchState(State):
    """State of the batch solver: the surrogate that touches the loss at `W`."""

    surrogate: Surrogate | None = None
    shapes: Shapes | None = None  #: None for fixed densities
    smallest: float = np.inf  #: smallest gradient so far
    idle: int = 0  #: steps since the loss or the gradient last fell


#: What the loss may rise by for it to be rounding.
ROUNDING = 1e-9
#: Steps without a fall of the loss or the gradient that count as a stall.
PATIENCE = 10


@dataclass(frozen=True)
class Batch:
    """Alternate a full E-step (one pass, p^3 operations a sample) and one M-step sweep.

    Every step lowers the empirical loss. ``state.loss`` is exact: at the
    end of a step the surrogate touches the loss at ``state.W``.
    """

    tol: float | None = None
    iterations: int = 10  #: conjugate-gradient iterations a row
    adaptive: bool = False  #: refit piecewise shapes on the way

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> BatchState:
        """First E-step at the start."""
        shapes = Shapes.of(densities, adaptive=self.adaptive)
        if shapes is not None:
            shapes.plain = on_steps(problem, W)
        state = BatchState(W=W.copy(), densities=densities, n_samples=problem.n, shapes=shapes)
        self._majorize(problem, state)
        return state

    def step(self, problem: Problem, state: BatchState) -> None:
        """Minimise the surrogate over each row, then touch the loss again at the new `W`."""
        assert state.surrogate is not None
        before, W, densities, surrogate = state.loss, state.W.copy(), state.densities, state.surrogate
        inverse = invert(state.W)
        state.surrogate.minimise(state.W, inverse, state.densities, iterations=self.iterations, backend=problem.backend)
        self._adapt(problem, state)
        self._majorize(problem, state)
        if not state.loss <= before + ROUNDING * max(1.0, abs(before)):  # W is all but singular
            state.W, state.densities, state.surrogate, state.loss = W, densities, surrogate, before
            state.gradient = float(np.abs(surrogate.gradient(W)).max())
            state.stop = stalled(state.gradient, self.tol, problem.n)
            return
        threshold = gradient_threshold(self.tol, problem.n)
        if state.gradient <= threshold:
            state.stop = StopReason.GRADIENT if self.tol is not None else StopReason.FLOOR
        elif self.tol != 0 and self._idle(state, before - state.loss) >= PATIENCE:
            state.stop = stalled(state.gradient, self.tol, problem.n)

    def _idle(self, state: BatchState, fall: float) -> int:
        """Steps without progress: near a minimum the gradient still falls when the loss, its square, no longer can."""
        moved = fall > 1e-15 * abs(state.loss) or state.gradient < 0.99 * state.smallest
        state.idle = 0 if moved else state.idle + 1
        state.smallest = min(state.smallest, state.gradient)
        return state.idle

    def _adapt(self, problem: Problem, state: BatchState) -> None:
        """Refit adaptive shapes when due: at fixed `W` that lowers the loss, and the next E-step touches it again."""
        shapes = state.shapes
        if shapes is None:
            return
        shapes.since += 1
        if shapes.due:
            shapes.back_off()
            shapes.refit(problem.statistics(state.W, state.densities), 0.05 / problem.n)
            state.passes += 1
            state.densities = shapes.densities()

    def _majorize(self, problem: Problem, state: BatchState) -> None:
        sums = problem.moments(state.W, state.densities)
        state.surrogate = Surrogate.from_moments(sums, problem.covariance)
        state.passes += 1
        state.loss = state.surrogate.value(state.W, state.densities)
        state.gradient = float(np.abs(state.surrogate.gradient(state.W)).max())


def gradient_threshold(tol: float | None, n: int) -> float:
    """The largest relative-gradient entry to stop at: `tol`, or a tenth of the gradient's own sampling error."""
    return 0.1 / math.sqrt(n) if tol is None else tol
