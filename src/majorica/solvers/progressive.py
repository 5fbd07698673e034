"""The default solver for finite data: quasi-Newton on growing random subsets, with MM steps as a safety net."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.solvers.base import State, StopReason
from majorica.solvers.quasinewton import Curvature, Memory
from majorica.sources.base import Block
from majorica.statistics import F64, Statistics, unpack_symmetric


@dataclass
class ProgressiveState(State):
    """State of the progressive solver."""

    order: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))  #: units, shuffled
    unit: int = 256  #: samples a unit
    size: int = 0  #: units in play
    statistics: Statistics | None = None  #: at `W`, over the samples in play
    memory: Memory = field(default_factory=Memory)
    row: int = 0  #: next row for an MM step


@dataclass(frozen=True)
class Progressive:
    """Quasi-Newton in relative coordinates on nested random subsets (1,000 or 20 p samples, then x `growth`).

    A step that does not lower the loss is shortened; if that fails, MM row
    steps, which cannot fail, take its place. Memory p^2.
    """

    tol: float | None = None
    growth: int = 4
    first: int = 1000
    per_component: int = 20

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> ProgressiveState:
        """First subset, first evaluation."""
        n = problem.n
        unit = int(min(256, max(1, n // 64)))
        units = -(-n // unit)
        state = ProgressiveState(W=W.copy(), densities=densities, order=rng.permutation(units), unit=unit)
        wanted = max(self.first, self.per_component * problem.p)
        state.size = units if wanted * 2 >= n else -(-wanted // unit)
        self._evaluate_level(problem, state)
        return state

    def step(self, problem: Problem, state: ProgressiveState) -> None:
        """One accepted step, or the move to the next level."""
        assert state.statistics is not None
        full = state.size == len(state.order)
        if state.gradient <= self._threshold(state, full):
            if full:
                state.stop = StopReason.GRADIENT if self.tol is not None else StopReason.FLOOR
                return
            state.size = min(len(state.order), state.size * self.growth)
            if 2 * state.size >= len(state.order):
                state.size = len(state.order)
            self._evaluate_level(problem, state)
            state.memory.clear()
            return
        if not self._quasi_newton(problem, state) and not self._rows(problem, state):
            if full:
                state.stop = StopReason.STALLED
            else:
                state.size = len(state.order)
                self._evaluate_level(problem, state)
                state.memory.clear()

    def _threshold(self, state: ProgressiveState, full: bool) -> float:
        noise = 1 / math.sqrt(state.n_samples)
        if not full:
            return noise
        return 0.1 * noise if self.tol is None else self.tol

    def _blocks(self, problem: Problem, state: ProgressiveState) -> list[Block]:
        if state.size == len(state.order):
            return list(problem.blocks)
        return problem.subset(np.sort(state.order[: state.size]), state.unit)

    def _evaluate_level(self, problem: Problem, state: ProgressiveState) -> None:
        self._accept(state, state.W, self._evaluate(problem, state, state.W))

    def _evaluate(self, problem: Problem, state: ProgressiveState, W: F64) -> Statistics:
        statistics = problem.statistics(W, state.densities, self._blocks(problem, state))
        state.passes += statistics.n / problem.n
        return statistics

    def _accept(self, state: ProgressiveState, W: F64, statistics: Statistics) -> None:
        state.W = W
        state.statistics = statistics
        state.n_samples = statistics.n
        state.loss = loss_of(W, statistics, state.densities)
        state.gradient = float(np.abs(relative_gradient_of(statistics)).max())

    def _quasi_newton(self, problem: Problem, state: ProgressiveState) -> bool:
        """One L-BFGS step with backtracking; False if no step lowered the loss."""
        assert state.statistics is not None
        gradient = relative_gradient_of(state.statistics)
        curvature = Curvature.of(state.statistics)
        direction = state.memory.direction(gradient, curvature)
        slope = float((direction * gradient).sum())
        if slope >= 0:
            state.memory.clear()
            direction = -curvature.solve(gradient)
            slope = float((direction * gradient).sum())
        length = 1.0
        p = len(state.W)
        for _ in range(10):
            move = np.eye(p) + length * direction
            W = move @ state.W
            statistics = self._evaluate(problem, state, W)
            loss = loss_of(W, statistics, state.densities)
            if loss < state.loss:
                self._accept(state, W, statistics)
                state.memory.add(length * direction, relative_gradient_of(statistics) - gradient)
                return True
            length *= (
                0.5
                if not np.isfinite(loss)
                else max(0.1, min(0.5, -slope * length / (2 * (loss - state.loss - slope * length))))
            )
        state.memory.clear()
        return False

    def _rows(self, problem: Problem, state: ProgressiveState) -> bool:
        """One MM sweep, a row a pass: a descent step from any point; False if nothing moved."""
        before, W = state.loss, state.W.copy()
        for i in range(len(W)):
            moments = problem.row_moments(W[i], state.densities[i], self._blocks(problem, state))
            state.passes += moments.n / problem.n
            A = unpack_symmetric(moments.packed)[0] / moments.n
            from majorica.kernels.reference import minimise_row

            W[i] = minimise_row(A, moments.tilts[0] / moments.n, np.linalg.inv(W)[:, i])
        statistics = self._evaluate(problem, state, W)
        if not loss_of(W, statistics, state.densities) < before:
            return False
        self._accept(state, W, statistics)
        return True


def relative_gradient_of(statistics: Statistics) -> F64:
    """``E[G'(y) y^T] - I``."""
    return statistics.gradient / statistics.n - np.eye(len(statistics.gradient))


def loss_of(W: F64, statistics: Statistics, densities: Densities) -> float:
    """Mean negative log-likelihood of whitened samples, Eq. (emp_risk), normalisers included."""
    return float(statistics.loss.sum() / statistics.n + densities.log_normalisers.sum() - np.linalg.slogdet(W)[1])
