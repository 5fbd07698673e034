"""Fits of streams: a start from the first samples, then the online solver for as long as data comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from majorica.engines import Engine, ThreadEngine
from majorica.errors import DataError, FlatWarning, OutlierWarning, warn
from majorica.fitting import START_SAMPLES as START_SAMPLES
from majorica.fitting import Fitted, Options, fit_source, make_online, start_samples
from majorica.merging import match_components
from majorica.problem import Problem
from majorica.solvers import Callback, Step, StopReason, Trace
from majorica.solvers.base import ask
from majorica.solvers.online.outliers import distances, draw_in_all
from majorica.solvers.online.solver import OnlineState
from majorica.solvers.steps import on_steps
from majorica.sources.array import ArraySource
from majorica.sources.names import feature_label, some_of
from majorica.statistics import F64, invert, source_variances
from majorica.surrogate import Surrogate, stationary_surrogate
from majorica.whitening import Whitening

Array = npt.NDArray[np.floating]

#: Records of a stream's trace; once full, every other one is dropped.
TRACE_RECORDS = 4096
#: Standard deviations up to which samples of float32 are learnt from in float32: of a larger one's square float32 keeps
#: too few digits to add others to it.
SHORT_REACH = 1000.0
#: How many times as far out as any may be a sample is rather a fault than a source's own value, and worth a warning.
GLITCH = 100.0
VARIES = 1e-6  #: relative change of a feature that is no rounding of what was constant
#: Share in the flat directions from which on a feature is named.
NAMED = 0.2


@dataclass
class ThinningTrace(Trace):
    """A trace of bounded size: the latest steps all, earlier ones ever more thinly.

    The samples of a record that is dropped count in the next: all together stay those of the stream.
    """

    def append(self, record: tuple[float, float, int, float, float]) -> None:
        """Add one record."""
        if self.length == TRACE_RECORDS:
            dropped, self.records = self.records[::2], self.records[1::2].copy()
            self.records["n_samples"] += dropped["n_samples"]
            self.length //= 2
        super().append(record)


@dataclass
class Drift:
    """How far the unmixing moved over about the last half-life (half of the stream, if nothing is forgotten)."""

    older: F64 | None = None  #: W one to two half-lives ago
    newer: F64 | None = None
    turned: int = 0  #: samples seen when `newer` was taken
    inverse: F64 | None = field(default=None, metadata={"checkpoint": False})  #: of `older`, once it was needed

    def update(self, W: F64, seen: int, half_life: float | None) -> None:
        """Look at the unmixing after `seen` samples."""
        if self.newer is None:
            self.older, self.newer, self.turned = W.copy(), W.copy(), seen
        elif seen - self.turned >= (seen / 2 if half_life is None else half_life):
            self.older, self.newer, self.turned, self.inverse = self.newer, W.copy(), seen, None

    def index(self, W: F64) -> float:
        """Size of the rows' turn, the rows' own scales apart; 0 for none, about 1 for strangers."""
        if self.older is None:
            return 0.0
        if self.inverse is None:
            self.inverse = invert(self.older)
        turn = W @ self.inverse
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        return float(np.sqrt(np.mean(np.sum(turn**2, axis=1) - np.diag(turn) ** 2).clip(0)))


@dataclass
class StreamFit:
    """A fit that grows with its stream; p^3 memory and, until the start, the first samples.

    Until `START_SAMPLES` have come (or p^2, if that is more), they are kept
    and a provisional model is fitted on them, again each time they have doubled. From then on nothing
    of the stream is kept. Rows keep their identity: component i of one
    result is component i of the next.
    """

    options: Options = field(default_factory=Options, metadata={"checkpoint": False})
    names: Sequence[str] | None = field(default=None, metadata={"checkpoint": False})  #: of the features, for messages
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    total: int | None = None  #: samples in a pass, None for streams without an end
    buffer: list[Array] = field(default_factory=list)
    buffered: int = 0
    provisional: Fitted | None = None
    fitted_at: int = 0  #: samples the provisional model was fitted on
    whitening: Whitening | None = None
    state: OnlineState | None = None
    trace: ThinningTrace = field(default_factory=ThinningTrace)
    elapsed: float = 0.0  #: seconds spent learning
    clock: float = field(default=0.0, metadata={"checkpoint": False})  #: when learning began, pauses left out
    stopped: bool = False  #: a callback asked to stop
    drift: Drift = field(default_factory=Drift)
    excess: float = 1.0  #: the most that a sample of the provisional model was divided by to draw it in
    far: int | None = None  #: feature in which samples far out were farthest first, None if none was
    warned: bool = False  #: of samples far out
    flat: list[int] | None = None  #: features that went flat first, as far as they can be told; None if none has
    flat_at: int = 0  #: samples seen then
    warned_flat: bool = False
    awake: list[int] | None = None  #: features that began to vary, though constant when the model began; None if none
    awake_at: int = 0  #: samples seen then
    warned_awake: bool = False
    left_out: npt.NDArray[np.intp] | None = field(default=None, metadata={"checkpoint": False})  #: of the whitening
    #: Order and signs in which results show the state's rows. The state keeps its own, so that what it learns does
    #: not depend on which provisional models there were.
    order: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    signs: F64 = field(default_factory=lambda: np.empty(0))

    @classmethod
    def new(cls, options: Options, total: int | None = None) -> Self:
        """A fit that has seen nothing."""
        return cls(options=options, rng=options.rng, total=total)

    @classmethod
    def from_model(cls, fitted: Fitted, options: Options) -> Self:
        """Go on from a model fitted on finite data, which weighs as much as its samples did."""
        session = cls.new(options)
        surrogate = stationary_surrogate(fitted.W, fitted.covariance, fitted.densities)
        session.whitening = fitted.whitening
        session.state = make_online(options).init(fitted.W, fitted.densities, surrogate, fitted.n_samples, options.rng)
        session.state.loss = fitted.loss
        session.provisional = fitted
        session.order, session.signs = np.arange(len(fitted.W)), np.ones(len(fitted.W))
        session.drift.update(fitted.W, fitted.n_samples, options.half_life)
        return session

    @property
    def seen(self) -> int:
        """Samples seen so far."""
        return self.buffered if self.state is None else self.state.seen

    def update(self, X: Array, engine: Engine | None = None) -> None:
        """Learn from samples ``(b, f)``, on the threads of `engine`, or alone.

        If they cannot be used, DataError is raised and nothing has changed.
        """
        self._check(X)
        self.clock, engine = time.perf_counter() - self.elapsed, engine or ThreadEngine(1)
        while len(X) and not self.stopped:
            if self.state is None:
                taken = X[: start_samples(X.shape[1], self.options.n_components) - self.buffered]
                self._keep(taken, engine)
                X = X[len(taken) :]
            else:
                size = self.options.batch_size
                self._learn(X[:size], engine)
                X = X[size:]
            self.elapsed = time.perf_counter() - self.clock

    def settle(self) -> None:
        """Make the moments whole, of which learning needs about half: before they are stored."""
        if self.state is not None:
            self.state.settle()

    def begin(self, engine: Engine) -> None:
        """Start from the samples so far, unless that is done, though they are fewer than starts usually have."""
        if self.state is None:
            self.clock = time.perf_counter() - self.elapsed
            self._start(engine)

    def warn_far(self) -> None:
        """Say once that samples lie farther out than sources' own values do, that they went flat, or came alive."""
        self._warn_flat()
        self._warn_awake()
        excess = self.excess if self.state is None else self.state.excess
        if excess < GLITCH or self.warned:
            return
        self.warned = True
        where = "" if self.far is None else f", farthest in feature {feature_label(self.names, self.far)}"
        warn(
            f"one of the first {self.seen:,} samples of the stream lies {excess:.2g} times as far out as any may"
            f"{where}; such samples are drawn in before they are learnt from, drop them if they are a sensor's faults",
            OutlierWarning,
        )

    def _warn_flat(self) -> None:
        if self.flat is None or self.warned_flat:
            return
        self.warned_flat = True
        shown = some_of([feature_label(self.names, i) for i in self.flat])
        where = "a combination of features" if not self.flat else f"feature{'s' * (len(self.flat) > 1)} {shown}"
        warn(
            f"the stream went flat before sample {self.flat_at:,}: no variance along {where} (a sensor that came off, "
            "or the copy of another?); the model stays as it is until there is some again",
            FlatWarning,
        )

    def _warn_awake(self) -> None:
        if self.awake is None or self.warned_awake:
            return
        self.warned_awake = True
        which = some_of([feature_label(self.names, i) for i in self.awake])
        warn(
            f"feature{'s' * (len(self.awake) > 1)} {which} of the stream began to vary before sample {self.awake_at:,} "
            "but had been constant when the model began, so no component has a part of what is there now; start anew, "
            "or pass n_components=<number of features>, with which a stream waits until all vary",
            FlatWarning,
        )

    def _look_for_life(self, X: Array) -> None:
        """Notice features that vary though the whitening left them out as constant."""
        assert self.whitening is not None
        which = self.left_out = self.whitening.left_out if self.left_out is None else self.left_out
        if self.awake is None and len(which):
            constant = self.whitening.mean[which]
            varying = which[(np.abs(X[:, which] - constant) > VARIES * np.abs(constant)).any(axis=0)]
            if len(varying):
                self.awake, self.awake_at = varying.tolist(), self.seen

    def _check(self, X: Array) -> None:
        if _squares_are_finite(X, self.whitening):
            return
        bad = np.argwhere(~np.isfinite(X))
        if not len(bad):
            raise DataError(
                "Input X is finite but its squares overflow; the block was not used, rescale it or drop its outliers"
            )
        raise DataError(
            f"Input X contains NaN or infinity at sample {bad[0][0]} of this block, "
            f"feature {feature_label(self.names, int(bad[0][1]))}; the block was not used; "
            "drop such samples before fit, or go on with the next block by partial_fit"
        )

    def _keep(self, X: Array, engine: Engine) -> None:
        """Keep samples for the start; the block that completes them is let go of if they allow no model."""
        self.buffer.append(np.array(X))
        self.buffered += len(X)
        if self.buffered < start_samples(X.shape[1], self.options.n_components):
            return
        try:
            self._start(engine)
        except DataError:
            self.buffered -= len(self.buffer.pop())
            raise

    def _start(self, engine: Engine) -> None:
        """Fit the samples so far with the default solver and hand over to the online one."""
        source, excess = self._kept()
        fitted = fit_source(source, self._start_options(self.rng), engine)
        problem = Problem(source, fitted.whitening, engine)
        surrogate = Surrogate.from_moments(problem.moments(fitted.W, fitted.densities), problem.covariance)
        state = make_online(self.options).init(fitted.W, fitted.densities, surrogate, source.n_samples, self.rng)
        if state.shapes is not None:
            state.shapes.plain = on_steps(problem, fitted.W)
        far = distances(problem.read(((0, problem.n),)), fitted.W, problem.covariance)
        state.reach = min(state.reach, float(far.max()))
        state.excess, state.loss = excess, fitted.loss
        self.order, self.signs = self._alignment(fitted)
        self.whitening, self.provisional = fitted.whitening, _shown(fitted, self.order, self.signs)
        self.state = state  # when all else is there: whatever interrupts this leaves a stream before or after its start
        self.buffer.clear()
        self._record(source.n_samples)
        if fitted.stop is StopReason.INTERRUPTED:
            raise KeyboardInterrupt

    def _kept(self) -> tuple[ArraySource, float]:
        """The samples so far, none of them far out, and the most that one's distance was divided by."""
        kept = np.concatenate(self.buffer)
        X, excess = draw_in_all(kept)
        if excess >= GLITCH:
            self.far = farthest_feature(kept, X.mean(axis=0), X.std(axis=0))
        return ArraySource(X, names=self.names), excess

    def _start_options(self, rng: np.random.Generator) -> Options:
        return replace(self.options, solver="progressive", tol=None, max_iter=500, callbacks=(), rng=rng)

    def _alignment(self, fitted: Fitted) -> tuple[npt.NDArray[np.intp], F64]:
        """Order and signs that give the rows of `fitted` those of the last provisional model."""
        last = self.provisional
        if last is None or last.W.shape != fitted.W.shape:
            return np.arange(len(fitted.W)), np.ones(len(fitted.W))
        return match_components(fitted.W @ fitted.whitening.matrix, last.whitening.inverse, last.W)

    def _learn(self, X: Array, engine: Engine) -> None:
        assert self.state is not None
        assert self.whitening is not None
        Z: Array = (X - self.whitening.mean) @ self.whitening.matrix.T
        if X.dtype == np.float32 and np.abs(Z).max(initial=0.0) <= SHORT_REACH:
            Z = Z.astype(np.float32)
        make_online(self.options).update(self.state, Z, engine=engine, whole=False)
        self._look_for_life(X)
        if self.far is None and self.state.excess >= GLITCH:
            self.far = farthest_feature(X, self.whitening.mean, deviations(self.whitening))
        if self.flat is None and len(self.state.flat):
            self.flat, self.flat_at = flat_features(self.state.flat, self.whitening), self.seen
        self._record(len(X))

    def _record(self, samples: int) -> None:
        state = self.state
        assert state is not None
        self.drift.update(state.answer, state.seen, self.options.half_life)
        state.passes = 1.0 if self.total is None else state.seen / self.total
        self.elapsed = time.perf_counter() - self.clock
        record = (state.passes, self.elapsed, samples, state.loss, np.nan)
        self.trace.append(record)
        if self.options.callbacks:
            state.settle()
            step = Step(*record, unmixing=state.answer.copy(), densities=state.densities, state=state)
            self.stopped |= ask(self.options.callbacks, step)

    def serve(self) -> Fitted | None:
        """The model so far, or the last one there was; None while the samples allow none."""
        try:
            return self.result()
        except DataError:
            return self.provisional

    def result(self, callbacks: tuple[Callback, ...] = ()) -> Fitted:
        """The model of all samples so far; raises DataError if they allow none.

        Where they are too few for a start, their own fit and its verdict are the model, and `callbacks` see its steps.
        """
        if self.state is None:
            return self._provisional_result(callbacks)
        whitening, state = self.whitening, self.state
        assert whitening is not None
        centred = replace(whitening, mean=whitening.mean + whitening.inverse @ state.shift)
        start, verdict, gradient = self.provisional, StopReason.STREAM_END, np.nan
        if start is not None and start.n_samples == state.seen and not start.stop.converged:  # nothing came after it
            verdict, gradient = start.stop, start.gradient
        fitted = Fitted(
            whitening=centred,
            W=state.answer.copy(),
            densities=state.densities,
            covariance=_with_digits(state.covariance, state.answer),
            loss=state.loss,
            passes=1.0 if self.total is None else state.seen / self.total,
            n_samples=state.seen,
            stop=StopReason.CALLBACK if self.stopped else verdict,
            gradient=gradient,
            trace=self.trace.array(),
        )
        return _shown(fitted, self.order, self.signs)

    def _provisional_result(self, callbacks: tuple[Callback, ...]) -> Fitted:
        if self.buffered < 2:
            raise DataError(f"the stream gave n_samples={self.buffered} so far; at least 2 samples are needed")
        if self.provisional is None or self.buffered >= 2 * self.fitted_at:
            source, excess = self._kept()
            options = self._start_options(np.random.default_rng(self.buffered))
            fitted = fit_source(source, replace(options, callbacks=callbacks), ThreadEngine(1))
            self.provisional = _shown(fitted, *self._alignment(fitted))
            self.excess = excess
            self.fitted_at = self.buffered
        own = self.provisional.stop  # the stream's end is no verdict on a fit that did not converge
        return replace(self.provisional, n_samples=self.buffered, stop=StopReason.STREAM_END if own.converged else own)


def _squares_are_finite(X: Array, whitening: Whitening | None) -> bool:
    """Whether squares of samples, and of whitened ones, can be added up."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.sqrt(np.einsum("ij,ij->", X, X, dtype=np.float64))
        if whitening is None or not np.isfinite(size):
            return bool(np.isfinite(size))
        most = (size + np.sqrt(len(X)) * np.linalg.norm(whitening.mean)) * np.linalg.norm(whitening.matrix)
        if np.isfinite(most * most):  # a bound, and no copy
            return True
        Z = (X - whitening.mean) @ whitening.matrix.T  # features of very different units
        return bool(np.isfinite(np.einsum("ij,ij->", Z, Z)))


def _with_digits(covariance: F64, W: F64) -> F64:
    """A copy of `covariance`, with a floor where rounding leaves nothing of the variance of a source ``W z``."""
    floor = 8 * len(W) * float(np.finfo(np.float64).eps) * np.trace(covariance)
    lost = np.any(source_variances(W, covariance) < floor * np.einsum("ij,ij->i", W, W))
    return covariance + floor * np.eye(len(W)) if lost else covariance.copy()


def flat_features(directions: F64, whitening: Whitening) -> list[int]:
    """Features that whitened samples flat in these `directions` ``(r, k)`` are flat in, as far as they can be told."""
    weights = (directions @ whitening.matrix) * deviations(whitening)
    shares = np.sum(np.linalg.qr((weights / np.linalg.norm(weights, axis=1, keepdims=True)).T)[0] ** 2, axis=1)
    return [int(i) for i in np.flatnonzero(shares >= NAMED)]


def deviations(whitening: Whitening) -> F64:
    """Standard deviation of each feature, as far as white samples tell."""
    return np.sqrt(np.einsum("ij,ij->i", whitening.inverse, whitening.inverse))


def farthest_feature(X: Array, mean: F64, scales: F64) -> int:
    """Feature of the largest single value of `X` ``(b, f)``, in units of `scales`; those of scale 0 do not count."""
    far = np.maximum(X.max(axis=0) - mean, mean - X.min(axis=0))
    return int(np.argmax(np.divide(far, scales, out=np.zeros(len(far)), where=scales > 0)))


def _shown(fitted: Fitted, order: npt.NDArray[np.intp], signs: F64) -> Fitted:
    """`fitted` with its rows in another order and with other signs."""
    return replace(fitted, W=signs[:, None] * fitted.W[order], densities=fitted.densities.take(order))
