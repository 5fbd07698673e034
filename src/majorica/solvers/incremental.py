"""Incremental majorization-minimization: the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.errors import ParameterError
from majorica.problem import Problem
from majorica.solvers.base import State, StopReason
from majorica.solvers.batch import gradient_threshold
from majorica.solvers.minibatch import run_compiled
from majorica.solvers.rounds import run_message, run_round
from majorica.solvers.shapes import Shapes
from majorica.sources.base import split_blocks
from majorica.statistics import F64, invert, unpack_symmetric
from majorica.surrogate import Surrogate

Selection = Literal["greedy", "random"]


def default_batch_size(n: int, p: int) -> int:
    """Samples in a mini-batch: 1000, and with many components 25 each, but at least 20 mini-batches a pass.

    The M-step costs p^3 a mini-batch, a sample p^2: wider ones bound its share.
    """
    return max(1000, min(25 * p, n // 20))


class TouchStore(Protocol):
    """Keeps the memory elsewhere, and is told before it changes."""

    def allocate(self, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Memory of that shape, all zero."""
        ...

    def before_change(self, ranges: Iterable[tuple[int, int]]) -> None:
        """These ranges of samples may change next."""
        ...


@dataclass
class IncrementalState(State):
    """State of the incremental solver.

    The memory holds, for every sample and component, the point where its
    majorizer touches (`touch`, the paper's U through u = u*(touch)). With all
    p components updated at each visit that point is ``ledger[block] @ x``, so
    p^2 numbers a block replace p numbers a sample.
    """

    inverse: F64 = field(default_factory=lambda: np.empty((0, 0)))
    log_det: float = np.nan  #: log|det W|, followed row by row in memory form; NaN before the first step
    surrogate: Surrogate | None = None
    touch: npt.NDArray[np.float32] | None = None  #: (n, p), None in ledger form
    ledger: F64 | None = None  #: (blocks, p, p), None in memory form
    order: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))  #: of this pass
    position: int = 0  #: next block in `order`
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    pass_start: float = np.inf  #: surrogate at the start of this pass
    shapes: Shapes | None = None  #: None for fixed densities


@dataclass(frozen=True)
class Incremental:
    """Algorithm 1: visit mini-batches in random order, update the `q` best majorizers of each sample, then each row.

    Every half-step lowers the surrogate, Eq. (newcost_emp). A step is one
    mini-batch. Memory: n p numbers of 4 bytes (p^2 n / batch_size of 8 bytes
    when ``q = p``) and p^3.
    """

    q: int | None = 2  #: updates a sample, None for all p
    batch_size: int = 1000
    tol: float | None = None
    selection: Selection = "greedy"
    iterations: int = 2  #: conjugate-gradient iterations a row
    store: TouchStore | None = None  #: where the memory lies if not in RAM
    adaptive: bool = False  #: refit piecewise shapes at the end of passes

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> IncrementalState:
        """All majorizers touch at 0, a valid bound whose moments are ``w(0) C``."""
        n, p = problem.n, problem.p
        full = self.q is None or self.q >= p
        if not full and getattr(problem.engine, "remote", False):
            raise ParameterError(
                f"n_updates={self.q} keeps a memory of every sample, which stays on one machine; "
                "on a cluster pass n_updates=None (all components at each visit), or use solver='progressive'"
            )
        blocks = -(-n // self.batch_size)
        state = IncrementalState(
            W=W.copy(),
            densities=densities,
            n_samples=n,
            inverse=invert(W),
            surrogate=Surrogate.start(problem.covariance, densities),
            touch=None if full else self._allocate((n, p)),
            ledger=np.zeros((blocks, p, p)) if full else None,
            rng=rng,
            shapes=Shapes.of(densities, adaptive=self.adaptive),
        )
        assert state.surrogate is not None
        state.loss = state.surrogate.value(state.W, densities)
        return state

    def step(self, problem: Problem, state: IncrementalState) -> None:
        """One mini-batch: majorization for its samples, then minimisation over every row.

        Makes up to ``state.burst`` of them in one go where the samples lie in
        memory, and notes the surrogate after each in ``state.skipped``. In
        ledger form a step is one round, see :mod:`majorica.solvers.rounds`.
        """
        assert state.surrogate is not None
        if state.position == 0:
            state.order = state.rng.permutation(-(-problem.n // self.batch_size))
            state.pass_start = state.loss
        if self.store is not None:
            numbers = state.order[state.position : state.position + state.burst].tolist()
            self.store.before_change((i * self.batch_size, min((i + 1) * self.batch_size, problem.n)) for i in numbers)
        if state.ledger is not None:
            messages = getattr(problem.engine, "asynchronous", False)
            losses = (run_message if messages else run_round)(self, problem, state)
        elif problem.kernels(state.densities).__name__.endswith("compiled"):
            losses = run_compiled(self, problem, state)
        else:
            losses = np.array([self._step_plain(problem, state)])
        state.gradient = np.nan
        for loss in losses:
            number = int(state.order[state.position])
            state.position += 1
            state.passes += (min((number + 1) * self.batch_size, problem.n) - number * self.batch_size) / problem.n
            state.loss = float(loss)
            state.skipped.append((state.passes, state.loss))
        del state.skipped[-(1 if state.ledger is None else len(losses)) :]
        if state.position == len(state.order):
            state.position = 0
            state.passes = float(round(state.passes))
            if not self._adapt(problem, state):
                self._check(problem, state)

    def _allocate(self, shape: tuple[int, int]) -> npt.NDArray[np.float32]:
        return np.zeros(shape, np.float32) if self.store is None else self.store.allocate(shape)

    def _step_plain(self, problem: Problem, state: IncrementalState) -> float:
        """One mini-batch through the kernels one by one, for densities only Python knows."""
        assert state.surrogate is not None
        number = int(state.order[state.position])
        start = number * self.batch_size
        self._majorize(problem, state, start, min(start + self.batch_size, problem.n))
        state.surrogate.minimise(
            state.W, state.inverse, state.densities, iterations=self.iterations, backend=problem.backend
        )
        return state.surrogate.value(state.W, state.densities)

    def _majorize(self, problem: Problem, state: IncrementalState, start: int, stop: int) -> None:
        """Descent in U: move the `q` majorizers with the largest gaps, Eq. (dualgap) and (updateamem)."""
        assert state.surrogate is not None
        surrogate, densities = state.surrogate, state.densities
        kernels = problem.kernels(densities)
        Z = problem.read(((start, stop),)).astype(np.float64)
        Y = Z @ state.W.T
        assert state.touch is not None
        memory = state.touch[start:stop]
        old, new = memory.astype(np.float64), Y.astype(np.float32).astype(np.float64)
        gap = kernels.gaps(Y, new, old, densities)
        chosen = self._select(kernels, gap, state.rng) & (gap > 0)
        memory[chosen] = new[chosen]
        scales = np.full(problem.p, 1 / problem.n)
        kernels.update_moments(
            Z, new, old, chosen, densities, scales, surrogate.moments, surrogate.tilts, surrogate.offsets
        )

    def _select(self, kernels: object, gap: F64, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
        """Mask of the `q` entries of each sample to update."""
        assert self.q is not None
        if self.selection == "random":
            gap = rng.random(gap.shape)
        return kernels.select_largest(gap, self.q)  # type: ignore[attr-defined]

    def _adapt(self, problem: Problem, state: IncrementalState) -> bool:
        """At the end of a pass, when due: refit adaptive shapes; True if any changed.

        A changed component's majorizers are made anew for all samples, to
        touch its new density at the current row: at fixed `W` its part of the
        surrogate falls to its part of the loss.
        """
        shapes = state.shapes
        if shapes is None:
            return False
        shapes.since += 1
        if not shapes.due:
            return False
        shapes.back_off()
        gains = shapes.refit(problem.statistics(state.W, state.densities), 0.05 / problem.n)
        state.passes += 1
        state.densities = shapes.densities()
        for i in np.flatnonzero(gains).tolist():
            touch_again(self, problem, state, i)
        assert state.surrogate is not None
        state.loss = state.surrogate.value(state.W, state.densities)
        return bool(gains.any())

    def _check(self, problem: Problem, state: IncrementalState) -> None:
        """At the end of a pass: measure the gradient once the surrogate has all but stopped falling."""
        threshold = gradient_threshold(self.tol, problem.n)
        fall = state.pass_start - state.loss
        if fall > 100 * problem.p * max(threshold, 1e-12) ** 2 * problem.p:
            return
        statistics = problem.statistics(state.W, state.densities)
        relative = statistics.gradient / statistics.n - np.eye(problem.p)
        state.gradient = float(np.abs(relative).max())
        if state.gradient <= threshold:
            state.stop = StopReason.GRADIENT if self.tol is not None else StopReason.FLOOR
        elif self.tol != 0 and fall <= 1e-15 * abs(state.loss):
            state.stop = StopReason.STALLED


def touch_again(solver: Incremental, problem: Problem, state: IncrementalState, i: int) -> None:
    """Make component `i`'s majorizers anew, touching at the current row over all samples; one pass."""
    assert state.surrogate is not None
    surrogate, density, w = state.surrogate, state.densities[i], state.W[i]
    if state.ledger is not None:
        state.ledger[:, i] = w
        sums = problem.row_moments(w, density)
        surrogate.moments[i] = unpack_symmetric(sums.packed)[0] / sums.n
        surrogate.tilts[i], surrogate.offsets[i] = sums.tilts[0] / sums.n, sums.offsets[0] / sums.n
    else:
        assert state.touch is not None
        A, b, r = np.zeros_like(surrogate.moments[i]), np.zeros_like(w), 0.0
        for block in split_blocks(problem.n, solver.batch_size):
            start, stop = block[0]
            if solver.store is not None:
                solver.store.before_change([(start, stop)])
            Z = problem.read(block).astype(np.float64)
            state.touch[start:stop, i] = Z @ w
            y = state.touch[start:stop, i].astype(np.float64)  # as the memory holds it: rounded
            A += (Z * density.weight(y)[:, None]).T @ Z
            b += density.tilt(y) @ Z
            r += float(density.offset(y).sum())
        surrogate.moments[i], surrogate.tilts[i], surrogate.offsets[i] = A / problem.n, b / problem.n, r / problem.n
    if not density.super_gaussian:
        surrogate.moments[i] = float(density.weight(np.zeros(1))[0]) * surrogate.covariance
