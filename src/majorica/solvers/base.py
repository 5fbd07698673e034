"""What a solver is, and the driver loop that runs every one of them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.statistics import F64

TRACE_DTYPE = np.dtype([("passes", "f8"), ("seconds", "f8"), ("n_samples", "i8"), ("loss", "f8"), ("gradient", "f8")])


#: Steps a solver may make at a time when no callback watches each one.
BURST = 50


class StopReason(Enum):
    """Why a fit ended; the value is what the user reads."""

    GRADIENT = "converged: the relative gradient is below tol"
    FLOOR = "converged: what is left to gain is below the statistical floor"
    STALLED = "converged: no step lowers the loss at working precision"
    COARSE = (
        "not converged: no step lowers the loss at the precision of the samples or of the memory, but its gradient is "
        "above what was asked for; pass float64 samples or solver='progressive' (codes: or 'incremental'), or raise tol"
    )
    STUCK = (
        "not converged: the loss falls no further, but its gradient is far from zero; "
        "it may have no minimum for these samples (too few, or many of them equal?): try another density"
    )
    MAX_ITER = "not converged: max_iter passes were made; raise max_iter or tol"
    CALLBACK = "stopped by a callback"
    INTERRUPTED = "interrupted by the user; the model is the best so far"
    STREAM_END = "the stream ended"

    @property
    def converged(self) -> bool:
        """Whether this counts as success."""
        return self in (StopReason.GRADIENT, StopReason.FLOOR, StopReason.STALLED, StopReason.STREAM_END)


#: Largest entries of the relative gradient: up to which working precision, be it of float32, may end a fit; up to which
#: precision may at all; and up to which a fit that ends at the floor has little left to gain.
PRECISE, STEEP, STEEPEST = 1e-3, 0.1, 1.0


def steepest(n: int, p: int) -> float:
    """Largest entry of the gradient at which the floor of n samples of p components counts as convergence.

    With at most two samples a component the floor is a quarter of a nat a component or more, and says nothing of
    gradients beyond their sampling error.
    """
    return STEEPEST if n > 2 * p else min(STEEPEST, 3 / math.sqrt(n))


def stalled(gradient: float, tol: float | None, n: int) -> StopReason:
    """Why a fit ends that no step takes further: without a `tol` its gradient may be a sampling error of n samples."""
    enough = max(PRECISE, 1 / math.sqrt(n) if tol is None else tol)
    if gradient <= min(enough, STEEP):
        return StopReason.STALLED
    return StopReason.COARSE if gradient <= STEEP else StopReason.STUCK


@dataclass
class State:
    """Everything a solver needs to go on; arrays, numbers and strings only, so it checkpoints and pickles."""

    W: F64  #: unmixing in whitened coordinates, (p, p)
    densities: Densities
    passes: float = 0.0  #: passes over the data so far
    loss: float = np.nan  #: of the samples in play (the surrogate for incremental)
    gradient: float = np.nan  #: largest entry of the relative gradient, NaN where not computed
    n_samples: int = 0  #: samples in play
    stop: StopReason | None = None
    burst: int = 1  #: steps a solver may make before it returns to the driver
    skipped: list[tuple[float, float]] = field(default_factory=list)  #: passes and loss after each but the last


@dataclass(frozen=True)
class Step:
    """What a callback sees after each step."""

    passes: float
    seconds: float
    n_samples: int
    loss: float
    gradient: float
    unmixing: F64 = field(repr=False)  #: (k, k), whitened coordinates
    densities: Densities = field(repr=False)
    state: State = field(repr=False)  #: the solver's own state; look, do not touch


Callback = Callable[[Step], Any]


class Solver(Protocol):
    """``init`` makes the state, ``step`` advances it in place and sets ``state.stop`` when done."""

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> State:
        """State at the start `W`."""
        ...

    def step(self, problem: Problem, state: Any) -> None:
        """One step; sets passes, loss, gradient, n_samples and, at the end, stop."""
        ...


@dataclass
class Trace:
    """One record a step, in a growing structured array."""

    records: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(64, TRACE_DTYPE))
    length: int = 0

    def append(self, record: tuple[float, float, int, float, float]) -> None:
        """Add one record; amortised O(1)."""
        if self.length == len(self.records):
            self.records = np.concatenate([self.records, np.zeros_like(self.records)])
        self.records[self.length] = record
        self.length += 1

    def array(self) -> npt.NDArray[np.void]:
        """The records so far."""
        return self.records[: self.length].copy()


def ask(callbacks: Iterable[Callback], step: Step) -> bool:
    """Show all callbacks a step; whether one of them answers True, Python's or NumPy's, to stop."""
    answers = [callback(step) for callback in callbacks]
    return any(isinstance(answer, bool | np.bool_) and bool(answer) for answer in answers)


def drive(
    solver: Solver,
    problem: Problem,
    state: State,
    *,
    max_iter: float,
    callbacks: Iterable[Callback] = (),
    trace: Trace | None = None,
    after_step: Callable[[State, Trace, float], None] | None = None,
    seconds: float = 0.0,
) -> Trace:
    """Run `solver` until it stops; the one loop behind every fit.

    Does the tracing, callbacks, the limit of passes and Ctrl-C. `after_step`
    is called with the state, the trace and the seconds so far (checkpoints);
    `trace` and `seconds` are given when a fit is resumed.
    """
    trace = Trace() if trace is None else trace
    callbacks = tuple(callbacks)
    state.burst = 1 if callbacks else BURST
    started = time.perf_counter() - seconds
    within = False
    try:
        while state.stop is None:
            if state.passes >= max_iter:
                state.stop = StopReason.MAX_ITER
                break
            within = True
            solver.step(problem, state)
            within = False
            elapsed = time.perf_counter() - started
            for passes, loss in state.skipped:
                trace.append((passes, elapsed, state.n_samples, loss, np.nan))
            state.skipped.clear()
            record = (state.passes, elapsed, state.n_samples, state.loss, state.gradient)
            trace.append(record)
            if callbacks:
                seen = Step(*record, unmixing=state.W.copy(), densities=state.densities, state=state)
                if ask(callbacks, seen) and state.stop is None:
                    state.stop = StopReason.CALLBACK
            if after_step is not None:
                after_step(state, trace, elapsed)
    except KeyboardInterrupt:
        state.stop = StopReason.INTERRUPTED
        if after_step is not None and not within:  # half a step would not resume to the same bits
            after_step(state, trace, time.perf_counter() - started)
    return trace
