"""Fits of streams: a start from the first samples, then the online solver for as long as data comes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from majorica.engines import ThreadEngine
from majorica.errors import DataError
from majorica.fitting import Fitted, Options, fit_source, make_online
from majorica.problem import Problem
from majorica.solvers import Step, StopReason, Trace
from majorica.solvers.online import OnlineState
from majorica.sources.array import ArraySource
from majorica.statistics import F64
from majorica.surrogate import Surrogate
from majorica.whitening import Whitening

Array = npt.NDArray[np.floating]

#: Samples the start is fitted on (paper, section 4.3).
START_SAMPLES = 10_000


@dataclass
class StreamFit:
    """A fit that grows with its stream; p^3 memory and, until the start, the first samples.

    Until `START_SAMPLES` have come, they are kept and a provisional model is
    fitted on them, again each time they have doubled. From then on nothing
    of the stream is kept.
    """

    options: Options
    buffer: list[Array] = field(default_factory=list)
    buffered: int = 0
    provisional: Fitted | None = None
    fitted_at: int = 0  #: samples the provisional model was fitted on
    whitening: Whitening | None = None
    state: OnlineState | None = None
    trace: Trace = field(default_factory=Trace)
    started: float = field(default_factory=time.perf_counter)
    stopped: bool = False  #: a callback asked to stop

    @classmethod
    def from_model(cls, fitted: Fitted, options: Options) -> StreamFit:
        """Go on from a model fitted on finite data."""
        session = cls(options)
        session.whitening = fitted.whitening
        surrogate = Surrogate.start(fitted.covariance, fitted.densities)
        session.state = make_online(options).init(fitted.W, fitted.densities, surrogate, fitted.n_samples, options.rng)
        session.provisional = fitted
        return session

    @property
    def seen(self) -> int:
        """Samples seen so far."""
        return self.buffered if self.state is None else self.state.seen

    def update(self, X: Array) -> None:
        """Learn from samples ``(b, f)``; raises DataError before anything has changed if they are not finite."""
        if not np.isfinite(X).all():
            row, column = (int(v) for v in np.argwhere(~np.isfinite(X))[0])
            raise DataError(
                f"Input X contains NaN or infinity at sample {row} of this block, feature {column}; "
                "the block was not used, go on with the next one"
            )
        while len(X) and not self.stopped:
            if self.state is None:
                taken = X[: START_SAMPLES - self.buffered]
                self.buffer.append(np.array(taken))
                self.buffered += len(taken)
                X = X[len(taken) :]
                if self.buffered == START_SAMPLES:
                    self.start()
            else:
                size = self.options.batch_size
                self._learn(X[:size])
                X = X[size:]

    def start(self) -> None:
        """Fit the samples so far with the default solver and hand over to the online one."""
        with_engine = ThreadEngine(1)
        source = ArraySource(np.concatenate(self.buffer))
        options = replace(self.options, solver="progressive", tol=None, max_iter=500, callbacks=())
        fitted = fit_source(source, options, with_engine)
        problem = Problem(source, fitted.whitening, with_engine)
        surrogate = Surrogate.from_moments(problem.moments(fitted.W, fitted.densities), problem.covariance)
        self.state = make_online(self.options).init(
            fitted.W, fitted.densities, surrogate, source.n_samples, self.options.rng
        )
        self.whitening, self.provisional = fitted.whitening, fitted
        self.state.loss = fitted.loss
        self._record(source.n_samples)
        self.buffer.clear()

    def _learn(self, X: Array) -> None:
        assert self.state is not None
        assert self.whitening is not None
        Z = (X - self.whitening.mean) @ self.whitening.matrix.T
        make_online(self.options).update(self.state, Z)
        self._record(len(X))

    def _record(self, samples: int) -> None:
        state = self.state
        assert state is not None
        record = (float(state.seen), time.perf_counter() - self.started, samples, state.loss, np.nan)
        self.trace.append(record)
        if self.options.callbacks:
            step = Step(*record, unmixing=state.W.copy(), densities=state.densities, state=state)
            answers = [callback(step) for callback in self.options.callbacks]
            self.stopped |= any(answer is True for answer in answers)

    def result(self) -> Fitted | None:
        """The model so far; None while there are too few samples for one."""
        if self.state is None:
            return self._provisional_result()
        whitening, state = self.whitening, self.state
        assert whitening is not None
        assert state.surrogate is not None
        centred = replace(whitening, mean=whitening.mean + whitening.inverse @ state.shift)
        return Fitted(
            whitening=centred,
            W=state.W,
            densities=state.densities,
            covariance=state.surrogate.covariance,
            loss=state.loss,
            passes=1.0,
            n_samples=state.seen,
            stop=StopReason.CALLBACK if self.stopped else StopReason.STREAM_END,
            gradient=np.nan,
            trace=self.trace.array(),
        )

    def _provisional_result(self) -> Fitted | None:
        if self.buffered < 2:
            return self.provisional
        if self.provisional is None or self.buffered >= 2 * self.fitted_at:
            source = ArraySource(np.concatenate(self.buffer))
            rng = np.random.default_rng(self.buffered)
            options = replace(self.options, solver="progressive", tol=None, max_iter=500, callbacks=(), rng=rng)
            self.provisional = fit_source(source, options, ThreadEngine(1))
            self.fitted_at = self.buffered
        return replace(self.provisional, n_samples=self.buffered, stop=StopReason.STREAM_END)


def unit_variance(W: F64, covariance: F64) -> F64:
    """Standard deviation of each source ``W z``."""
    return np.sqrt(np.einsum("ij,jk,ik->i", W, covariance, W))
