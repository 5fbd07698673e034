"""Incremental majorization-minimization: the paper's Algorithm 1."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.errors import ParameterError
from majorica.kernels.codes import CodeTable
from majorica.kernels.scratch import aligned
from majorica.problem import Problem
from majorica.solvers.base import State, StopReason, stalled
from majorica.solvers.batch import gradient_threshold
from majorica.solvers.incremental.minibatch import KeptWhite, run_compiled
from majorica.solvers.incremental.rounds import run_message, run_round
from majorica.solvers.incremental.touching import Memory, Precision, decode, encode, touch_again
from majorica.solvers.shapes import Shapes
from majorica.solvers.steps import on_steps
from majorica.statistics import F64, invert
from majorica.surrogate import Surrogate

Selection = Literal["greedy", "random"]
#: Bytes of whitened samples that are kept unless a limit of memory is set: whitening them anew is a sixth of a pass.
MOST_WHITE = 2**28
#: Products in a call of compiled mini-batches, some 50 ms, unless a callback wants each step.
CALL = 1_000_000_000


def default_batch_size(n: int, p: int) -> int:
    """Samples in a mini-batch: 1000, and with many components 64 each, but at least 10 mini-batches a pass.

    The M-step costs p^3 a mini-batch, a sample p^2: wider ones bound its
    share, and a pass gains as much. From 30 to 80 each a loss is reached in about the same time.
    """
    return max(1000, min(64 * p, n // 10))


class TouchStore(Protocol):
    """Keeps the memory elsewhere, and is told before it changes."""

    def allocate(self, shape: tuple[int, int], dtype: npt.DTypeLike = np.float32) -> Memory:
        """Memory of that shape and type, all zero."""
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
    touch: Memory | None = None  #: (n, p), float32 or codes; None in ledger form
    ledger: F64 | None = None  #: (blocks, p, p), None in memory form
    order: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))  #: of this pass
    position: int = 0  #: next block in `order`
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    pass_start: float = np.inf  #: surrogate at the start of this pass
    shapes: Shapes | None = None  #: None for fixed densities
    white: KeptWhite | None = field(default=None, metadata={"checkpoint": False})  #: a cache
    #: What threads worked in, for their next call: fresh pages cost a hundredth of a pass or two.
    rooms: deque[tuple[npt.NDArray[Any], ...]] = field(default_factory=deque, metadata={"checkpoint": False})

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "white": None, "rooms": deque()}  # copies would lack the room that kernels read


@dataclass(frozen=True)
class Incremental:
    """Algorithm 1: visit mini-batches in random order, update the `q` best majorizers of each sample, then each row.

    Every half-step lowers the surrogate, Eq. (newcost_emp). A step is one
    mini-batch. Memory: n p numbers of 4 bytes, or codes of 1 byte (p^2 n /
    batch_size numbers of 8 bytes when ``q = p``), and p^3.
    """

    q: int | None = 2  #: updates a sample, None for all p
    batch_size: int = 1000
    tol: float | None = None
    selection: Selection = "greedy"
    iterations: int = 2  #: conjugate-gradient iterations a row
    store: TouchStore | None = None  #: where the memory lies if not in RAM
    adaptive: bool = False  #: refit piecewise shapes at the end of passes
    most_white: int = MOST_WHITE  #: bytes of whitened samples kept from visit to visit, if that holds them all
    memory: Precision = "float32"  #: "codes" for a byte an entry; descent all the same, see kernels/codes.py

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> IncrementalState:
        """All majorizers touch at 0, a valid bound whose moments are ``w(0) C``.

        Rows of super-Gaussian components keep their directions there. Adaptive
        sub-Gaussian ones are fitted already, and to touch at 0 would take them
        out of the reach of their shapes: theirs touch at the start, one pass.
        """
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
        if state.shapes is not None:
            state.shapes.plain = on_steps(problem, W)
        flat = np.flatnonzero(~densities.super_gaussian)
        if self.adaptive and len(flat):
            touch_again(self, problem, state, flat, densities)
            state.passes += 1
        state.loss = state.surrogate.value(state.W, densities)
        return state

    def step(self, problem: Problem, state: IncrementalState) -> None:
        """One mini-batch: majorization for its samples, then minimisation over every row.

        Makes several in one go (:meth:`_burst`) where the samples lie in
        memory, and notes the surrogate after each in ``state.skipped``. In
        ledger form a step is one round, see :mod:`majorica.solvers.incremental.rounds`.
        """
        assert state.surrogate is not None
        if state.position == 0:
            state.order = state.rng.permutation(-(-problem.n // self.batch_size))
            state.pass_start = state.loss
        numbers = state.order[state.position : state.position + self._burst(problem, state)]
        if self.store is not None:
            ends = np.minimum((numbers + 1) * self.batch_size, problem.n)
            self.store.before_change(zip((numbers * self.batch_size).tolist(), ends.tolist(), strict=True))
        if state.ledger is not None:
            messages = getattr(problem.engine, "asynchronous", False)
            losses = (run_message if messages else run_round)(self, problem, state)
        elif problem.kernels(state.densities).__name__.endswith("compiled"):
            losses = run_compiled(self, problem, state, numbers)
        else:
            losses = np.array([self._step_plain(problem, state)])
        state.gradient = np.nan
        numbers = state.order[state.position : state.position + len(losses)]
        lengths = np.minimum((numbers + 1) * self.batch_size, problem.n) - numbers * self.batch_size
        passes = np.add.accumulate(np.concatenate([[state.passes], lengths / problem.n]))[1:]
        state.position += len(losses)
        state.passes, state.loss = float(passes[-1]), float(losses[-1])
        if state.ledger is None:
            state.skipped += zip(passes[:-1].tolist(), losses[:-1].tolist(), strict=True)
        if state.position == len(state.order):
            state.position = 0
            state.passes = float(round(state.passes))
            if not self._adapt(problem, state):
                self._check(problem, state)

    def _burst(self, problem: Problem, state: IncrementalState) -> int:
        """Mini-batches of the next call: with few components so many that beginning it does not count."""
        if state.burst == 1:
            return 1
        return max(state.burst, CALL // (self.batch_size * problem.p**2))

    def _allocate(self, shape: tuple[int, int]) -> Memory:
        if self.store is not None:
            return self.store.allocate(shape, np.uint8 if self.memory == "codes" else np.float32)
        if self.memory == "codes":
            return np.zeros(shape, np.uint8)
        return aligned(shape[0] * shape[1], np.dtype(np.float32), zero=True).reshape(shape)

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
        kinds = densities.super_gaussian
        stored = encode(Y, memory.dtype, problem.n, kinds)
        old, new = decode(memory, problem.n, kinds), decode(stored, problem.n, kinds)
        gap = kernels.gaps(Y, new, old, densities)
        rank = gap
        if memory.dtype == np.uint8:  # by the gap that could be closed, of those entries where the memory can tell
            rank = np.where(CodeTable.of(problem.n).settled(Y, old, kinds), 0.0, kernels.gaps(Y, Y, old, densities))
        chosen = self._select(kernels, rank, state.rng) & (gap > 0)
        memory[chosen] = stored[chosen]
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
        surrogate falls to its part of the loss, but for the memory's rounding.
        A component whose part would rise by that keeps its shape.
        """
        shapes = state.shapes
        if shapes is None:
            return False
        shapes.since += 1
        if not shapes.due:
            return False
        shapes.back_off()
        before = shapes.copy()
        gains = shapes.refit(problem.statistics(state.W, state.densities), 0.05 / problem.n)
        state.passes += 1
        better = np.flatnonzero(gains)
        changed = touch_again(self, problem, state, better, shapes.densities()) if len(better) else better
        for i in np.setdiff1d(better, changed).tolist():
            shapes.restore(i, before)
        state.densities = shapes.densities()
        assert state.surrogate is not None
        state.loss = state.surrogate.value(state.W, state.densities)
        return bool(len(changed))

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
            state.stop = stalled(state.gradient, self.tol, problem.n)
