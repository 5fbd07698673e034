"""From a source and options to a fitted model: the wiring between estimator and solvers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dgeqrf, dorgqr

from majorica.densities import Density, Huber, LogCosh, Student
from majorica.densities.table import Densities
from majorica.engines.base import Engine
from majorica.errors import ParameterError
from majorica.persistence.checkpoints import Checkpoint, identify
from majorica.persistence.touch import TouchFile
from majorica.problem import Problem, pass_block_length
from majorica.solvers import Batch, Callback, Incremental, Online, Progressive, State, StopReason, Trace, drive
from majorica.solvers.batch import BatchState
from majorica.solvers.incremental.solver import MOST_WHITE, IncrementalState
from majorica.solvers.incremental.touching import Precision
from majorica.solvers.progressive.gains import ProgressiveState
from majorica.solvers.progressive.levels import gather
from majorica.solvers.progressive.seeking import MOST_STEPS, most_steps
from majorica.sources.array import ArraySource
from majorica.sources.base import Block, Source, fingerprint, split_blocks
from majorica.statistics import F64
from majorica.whitening import Whitening, fit_whitening, whiten_block

#: Passes a solver may take when ``max_iter`` is None.
DEFAULT_PASSES = {"progressive": 500, "incremental": 100, "batch": 500, "online": 1}
#: What a checkpoint of each finite-data solver holds.
STATES: dict[str, type[State]] = {
    "progressive": ProgressiveState,
    "incremental": IncrementalState,
    "batch": BatchState,
}
DENSITIES: dict[str, Callable[[], Density]] = {"huber": Huber, "logcosh": LogCosh, "student": Student}


#: Longest row of a start, and one over the shortest, that stays as it is: white samples have variance one.
LONGEST_ROW = 1e4
#: Passes of the fit on a small subset that other solvers set out from, beside the steps that seek its own start.
START_PASSES = 50
#: Samples a stream's start is fitted on (paper, section 4.3); p^2 if that is more, up to so many bytes.
START_SAMPLES, MOST_START = 10_000, 2**28


@dataclass(frozen=True)
class Options:
    """The estimator's parameters, checked and resolved for one fit."""

    solver: str = "progressive"
    density: str | Density = "adaptive"
    n_components: int | float | None = None
    batch_size: int = 1000
    n_updates: int | None = 2
    memory: Precision = "float32"  #: of the incremental solver
    alpha: float = 0.5
    half_life: float | None = None
    max_iter: float = 500
    tol: float | None = None
    w_init: npt.NDArray[np.floating] | None = None
    callbacks: tuple[Callback, ...] = ()
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    seed: str = "None"  #: what was given as random_state, in words

    @property
    def adaptive(self) -> bool:
        """Whether shapes are fitted to the sources."""
        return isinstance(self.density, str) and self.density == "adaptive"

    def densities(self, p: int) -> Densities:
        """The densities at the start of a fit with `p` components."""
        if isinstance(self.density, str):
            name = "huber" if self.density == "adaptive" else self.density
            return Densities.same(DENSITIES[name](), p)
        return Densities.same(self.density, p)


@dataclass
class Fitted:
    """What every fit ends in: the one result type."""

    whitening: Whitening
    W: F64  #: unmixing in whitened coordinates, at the model's own scale, (k, k)
    densities: Densities
    covariance: F64  #: of the whitened samples, (k, k)
    loss: float
    passes: float
    n_samples: int
    stop: StopReason
    gradient: float
    trace: npt.NDArray[np.void]


def make_solver(
    options: Options, touch: TouchFile | None = None, spare: int | None = None
) -> Progressive | Incremental | Batch:
    """The finite-data solver of that name; `touch` keeps the memory of the incremental one on disk.

    `spare` is what a limit of memory leaves for whitened samples, None without a limit.
    """
    if options.solver == "progressive":
        seek = most_steps(options.max_iter) if options.w_init is None else 0
        return Progressive(tol=options.tol, adaptive=options.adaptive, seek=seek)
    if options.solver == "batch":
        return Batch(tol=options.tol, adaptive=options.adaptive)
    return Incremental(
        q=options.n_updates,
        batch_size=options.batch_size,
        tol=options.tol,
        store=touch,
        adaptive=options.adaptive,
        memory=options.memory,
        most_white=MOST_WHITE if spare is None else min(MOST_WHITE, spare),
    )


def start_samples(n_features: int, n_components: float | None) -> int:
    """Samples to fit a stream's start on: too few for many components end in a basin that the stream does not leave."""
    if n_components is None:
        p = n_features
    else:
        p = min(n_features, int(n_components))  # a share of variance gives no number: 0
    return max(START_SAMPLES, min(p * p, MOST_START // (8 * n_features)))


def make_online(options: Options) -> Online:
    """The online solver with these options."""
    return Online(
        q=options.n_updates,
        batch_size=options.batch_size,
        alpha=options.alpha,
        half_life=options.half_life,
        selection="turn",
        adaptive=options.adaptive,
        averaged=True,
    )


def start_matrix(options: Options, p: int) -> F64:
    """The start in whitened coordinates: the user's, the identity (the whitening itself) or a random rotation.

    Adaptive densities start from a rotation: the axes of the whitening can be
    a saddle of their likelihood. Rows of the user's matrix that no model could
    want as long or as short are brought to unit variance.
    """
    if options.w_init is None:
        if not options.adaptive:
            return np.eye(p)
        packed, scales, _, _ = dgeqrf(options.rng.standard_normal((p, p)))  # NumPy's qr takes longer than a pass
        return np.ascontiguousarray(dorgqr(packed, scales)[0] * np.sign(packed.diagonal()), np.float64)
    W = np.array(options.w_init, dtype=np.float64)
    if W.shape != (p, p):
        raise ParameterError(
            f"w_init has shape {W.shape}; needed is {(p, p)}, one row a component, whitened coordinates"
        )
    largest = np.abs(W).max(axis=1, keepdims=True)
    if np.isfinite(W).all() and (largest > 0).all():
        unit = W / largest  # first: squares of numbers like 1e200 overflow
        length = np.linalg.norm(unit, axis=1, keepdims=True)
        absurd = np.abs(np.log(largest) + np.log(length)) > math.log(LONGEST_ROW)
        W = np.where(absurd, unit / length, W)
        if np.linalg.cond(W) <= 1e12:
            return W
    raise ParameterError("w_init must be an invertible matrix of finite numbers")


def adaptive_start(
    problem: Problem, W: F64, densities: Densities, rng: np.random.Generator, *, seek: int
) -> tuple[F64, Densities]:
    """Unmixing and shapes fitted on a small random subset: where MM solvers with adaptive densities set out.

    From Gaussian shapes they would not move: that likelihood does not change
    under rotations. `seek` fixed-point steps come first, more where samples are few.
    """
    solver = Progressive(adaptive=True, first_level_only=True, seek=seek)
    state = solver.init(problem, W, densities, rng)
    drive(solver, problem, state, max_iter=START_PASSES + max(seek, state.seeking))
    return state.W, state.densities


def fit_source(
    source: Source,
    options: Options,
    engine: Engine,
    *,
    checkpoint: Checkpoint | None = None,
    touch_on_disk: bool = False,
    spare: int | None = None,
) -> Fitted:
    """Whiten, solve, and gather the result of a fit on finite data; goes on from `checkpoint` if it has one."""
    blocks = split_blocks(source.n_samples, pass_block_length(source.n_features))
    touch = TouchFile(None if checkpoint is None else checkpoint.name) if touch_on_disk else None
    solver = make_solver(options, touch, spare)
    resumed = None
    if checkpoint is not None:
        checkpoint.touch = touch
        density = options.density if isinstance(options.density, Density) else None
        kinds: dict[str, type] = {
            "whitening": Whitening,
            "state": STATES[options.solver],
            "trace": Trace,
            "seconds": float,
        }
        lengths = {"n": source.n_samples, "f": source.n_features, "m": -(-source.n_samples // options.batch_size)}
        identity = {**identify(options), "data": fingerprint(source)}
        resumed = checkpoint.resume(identity, kinds, lengths, density=density)
    if resumed is None:
        whitening = fit_whitening(source, blocks, engine, n_components=options.n_components, adaptive=options.adaptive)
        problem = problem_of(source, whitening, engine, blocks)
        start = start_matrix(options, problem.p)
        densities = options.densities(problem.p)
        if options.adaptive and not isinstance(solver, Progressive):
            seek = MOST_STEPS if options.w_init is None else 0
            start, densities = adaptive_start(problem, start, densities, options.rng, seek=seek)
        state: State = solver.init(problem, start, densities, options.rng)
        trace, seconds = Trace(), 0.0
    else:
        whitening = resumed["whitening"]
        problem = problem_of(source, whitening, engine, blocks)
        if checkpoint is not None and isinstance(solver, Incremental):
            solver = replace(solver, store=checkpoint.touch)  # it may lie on disk though it need not any more
        state, trace, seconds = resumed["state"], resumed["trace"], resumed["seconds"]
    save = None if checkpoint is None else _saver(checkpoint, whitening)
    if save is not None and resumed is None:
        save(state, trace, seconds)
    drive(
        solver,
        problem,
        state,
        max_iter=options.max_iter,
        callbacks=options.callbacks,
        trace=trace,
        after_step=save,
        seconds=seconds,
    )
    if checkpoint is not None and state.stop is not StopReason.INTERRUPTED:
        checkpoint.finish()
    return finish(problem, whitening, state, trace)


def problem_of(source: Source, whitening: Whitening, engine: Engine, blocks: Sequence[Block]) -> Problem:
    """The problem to solve: passes whiten samples as they go, but those of more features than samples only once.

    White ones have no more components than there are samples, and take less memory than the whitening did; a pass over
    thousands of features for a few components costs a thousand times what the components do.
    """
    n, k = source.n_samples, whitening.k
    if source.n_features <= n:
        return Problem(source, whitening, engine, blocks)
    white = gather(engine.run(whiten_block, source, blocks, whitening.mean, whitening.matrix), n, k)
    return Problem(ArraySource(white), Whitening.identity(k), getattr(engine, "threads", engine))


def _saver(checkpoint: Checkpoint, whitening: Whitening) -> Callable[[State, Trace, float], None]:
    """What the driver calls after each step: writes a checkpoint when it is time, or when the user interrupts."""

    def save(state: State, trace: Trace, seconds: float) -> None:
        stop = state.stop
        if stop not in (None, StopReason.INTERRUPTED) or not (stop or checkpoint.due()):
            return
        state.stop = None  # a resumed fit goes on
        try:
            checkpoint.save({"whitening": whitening, "state": state, "trace": trace, "seconds": seconds})
        finally:
            state.stop = stop

    return save


def finish(problem: Problem, whitening: Whitening, state: State, trace: Trace) -> Fitted:
    """The result of a driven fit."""
    assert state.stop is not None
    return Fitted(
        whitening=whitening,
        W=state.W,
        densities=state.densities,
        covariance=problem.covariance,
        loss=state.loss,
        passes=state.passes,
        n_samples=problem.n,
        stop=state.stop,
        gradient=state.gradient,
        trace=trace.array(),
    )
