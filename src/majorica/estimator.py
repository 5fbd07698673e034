"""The estimator: validates, wires and publishes; all work is done elsewhere."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from majorica.densities.base import Density
from majorica.engines import Engine, ThreadEngine, engine_for, single_threaded_blas
from majorica.engines.threads import effective_n_jobs
from majorica.errors import DataError, DataTypeError
from majorica.fewsamples import warn_few
from majorica.fitting import Fitted, fit_source
from majorica.inputs import all_or_nothing, block_of, check_fitted, check_names, one_at_a_time, source_of, sources_of
from majorica.lazy import inverse_transform_lazily, is_dask, loss_of_block, transform_lazily
from majorica.memory import Plan, make_plan
from majorica.mergedmodels import merge_models
from majorica.origin import gone_on, origin_of
from majorica.parameters import callback_tuple, check_room, pace_of, resolve
from majorica.persistence import Checkpoint, load_model, save_model, warn_interrupted
from majorica.persistence.onnx import transform_to_onnx
from majorica.problem import InDouble
from majorica.progress import showing_progress
from majorica.publishing import attributes
from majorica.solvers import StopReason
from majorica.sources import Source, Stream, split_blocks
from majorica.sources.rules import text_names
from majorica.statistics import F64
from majorica.streamfit import fit_stream, learn_block
from majorica.streaming import StreamFit
from majorica.unconverged import warn_unconverged

Array = npt.NDArray[np.floating]


class ICA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Independent component analysis of large, long and live data.

    Parameters
    ----------
    n_components : int, float in (0, 1) or None, default=None
        Number of components, share of (standardised) variance to keep, or the
        numerical rank of the data.
    solver : {"auto", "progressive", "incremental", "incremental-codes", "online", "batch"}, default="auto"
        ``"progressive"``: quasi-Newton on growing subsets, the fastest;
        ``"incremental"``: the paper's Algorithm 1; ``"incremental-codes"``:
        the same with one byte of memory an entry instead of four;
        ``"online"``: its Algorithm 2, each sample seen once; ``"batch"``:
        full-batch MM. ``"auto"`` is progressive for finite data, online for
        streams.
    density : {"adaptive", "huber", "logcosh", "student"} or Density, default="adaptive"
        Model of the sources' distributions.
    whiten : {"unit-variance", "arbitrary-variance"}, default="unit-variance"
        Scale of the components: sources of unit variance, or the scale of
        the density, at which ``loss_`` can be recomputed.
    batch_size : int or "auto", default="auto"
        Samples in a mini-batch (incremental, online). ``"auto"`` is 1000,
        and for incremental 64 a component if that is more and leaves 10
        mini-batches a pass. Online ones are 250 at first and grow to it.
    n_updates : int, None or "auto", default="auto"
        The paper's q: statistics updated a sample (incremental, online);
        None for all. ``"auto"`` is 2 for incremental, all for online.
    alpha : float in [0.5, 1], default=0.5
        Forgetting power of the online solver, rate ``n ** -alpha``; n counts
        steps of ``max(20, n_components**2 / 200)`` samples.
    half_life : float, optional
        Samples after which the online solver has forgotten half, for
        streams that drift.
    max_iter : int, optional
        No step begins once so many passes over the data were made, and the
        last, which may take more than one, is made to its end; by default 500
        (progressive, batch), 100 (incremental) or 1 (online: how often the data
        is read; the fit of the samples it starts from passes over these up to
        500 times besides, and a stream is read once whatever this says).
    tol : float, optional
        Stop when no entry of the relative gradient over all data exceeds
        `tol`. By default at the statistical floor: when what is left to gain
        is a small share of ``n_components**2 / (2 n_samples)``, the error
        that sampling leaves in the loss anyway. 0 runs all passes.
    w_init : array (n_components, n_components), optional
        Start, in whitened coordinates; by default the identity, or a random
        rotation for adaptive densities.
    random_state : int, Generator, RandomState or None
        Seed of the order in which samples are visited.
    n_jobs : int, optional
        Threads; None is the cores this process may use. Does not change the
        result, not even in the last bit.
    memory_limit : int or str, optional
        Most memory a fit may take over the data's own, such as ``"500MB"``.
    callbacks : callable or list of callables, optional
        Called after each step with a ``Step`` (``passes, seconds, n_samples,
        loss, gradient, unmixing``); returning True stops the fit.
    verbose : int, default=0
        1 shows progress, 2 the plan too.

    Attributes
    ----------
    components_ : ndarray (n_components, n_features)
        Unmixing matrix, components in descending explained variance, signs
        fixed by the largest mixing entry.
    mixing_ : ndarray (n_features, n_components)
        Mixing matrix.
    mean_ : ndarray (n_features,)
        Mean of the features.
    whitening_ : ndarray (n_components, n_features)
        From centred features to white coordinates.
    n_components_ : int
        Components.
    rank_ : int
        Numerical rank of the data.
    n_features_in_ : int
        Features.
    n_iter_ : int
        Passes over the data, rounded up.
    n_samples_seen_ : int
        Samples the fit has seen.
    feature_names_in_ : ndarray of str
        Feature names, where the input has them.
    unit_ : str
        Unit of the samples, where the input knows it: ``"V"`` for recordings
        read by MNE (SI units), ``"uV"`` for EEGLAB datasets. Recordings in the other one
        are converted.
    loss_ : float
        Mean negative log-likelihood of the whitened samples (the surrogate
        for incremental).
    trace_ : structured ndarray
        One record a step: ``passes, seconds, n_samples, loss, gradient``.
    converged_ : bool
        Whether the stopping rule was met.
    stop_reason_ : str
        Why the fit ended.
    densities_ : list of str
        Density of each component.
    drift_ : float
        After online fits and ``partial_fit``: how far the components turned
        over about the last half-life; 0 for not at all.

    Examples
    --------
    >>> import numpy as np
    >>> from majorica import ICA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(5000, 3)) @ rng.normal(size=(3, 3))
    >>> ICA(random_state=0).fit_transform(X).shape
    (5000, 3)
    """

    #: Where the HTML repr's link to the documentation goes.
    _doc_link_module = "majorica"
    _doc_link_template = "https://majorica.readthedocs.io/en/stable/api/"

    _order: npt.NDArray[np.intp]  #: of the solver's rows, as published
    _signs: F64

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        solver: str = "auto",
        density: str | Density = "adaptive",
        whiten: str = "unit-variance",
        batch_size: int | str = "auto",
        n_updates: int | str | None = "auto",
        alpha: float = 0.5,
        half_life: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        w_init: npt.ArrayLike | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        memory_limit: int | str | None = None,
        callbacks: Callable[..., Any] | Iterable[Callable[..., Any]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.density = density
        self.whiten = whiten
        self.batch_size = batch_size
        self.n_updates = n_updates
        self.alpha = alpha
        self.half_life = half_life
        self.max_iter = max_iter
        self.tol = tol
        self.w_init = w_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.memory_limit = memory_limit
        self.callbacks = callbacks
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 30.0,
        engine: Engine | Any | None = None,
    ) -> Self:
        """Find the components of `X`: an array, a file's path, a recording, a Dask array, a stream of blocks.

        Passes run on `engine`: a ``distributed.Client``, an engine, or by
        default the Dask client in force for Dask collections and the threads
        of this machine for all else.
        """
        with all_or_nothing(self):
            source = source_of(self, X, reset=True)
            self._origin = origin_of(source)
            stream = source.n_samples is None
            solver = self.solver
            if solver == "auto":
                solver = "online" if stream else "progressive"
            options = resolve(self, solver, n_samples=source.n_samples, n_features=source.n_features)
            if stream and solver != "online":
                raise DataTypeError(
                    f"solver={solver!r} passes over the data many times, a stream can be read once; "
                    "use solver='online', or an array or file"
                )
            if solver == "online":
                check_room(self.n_components, source.n_features)
            n_jobs = effective_n_jobs(self.n_jobs)
            if self.memory_limit is None and self.verbose < 2:
                plan = Plan(n_jobs=n_jobs)  # nothing to keep to, nobody to tell
            else:
                plan = make_plan(source, options, n_jobs=n_jobs, memory_limit=self.memory_limit)
            if self.verbose >= 2:
                print(plan, file=sys.stderr)
            for name in ("_stream", "drift_"):
                self.__dict__.pop(name, None)
            progress = showing_progress(options, n_samples=source.n_samples, verbose=self.verbose)
            held = nullcontext(None) if checkpoint is None else Checkpoint(checkpoint, checkpoint_every)
            with single_threaded_blas(), held as keeper, progress as options:
                if solver == "online":
                    with closing(ThreadEngine(plan.n_jobs)) as threads:
                        session, fitted = fit_stream(source, options, threads, checkpoint=keeper)
                    session.options = replace(session.options, callbacks=())  # live things, no part of a model
                    self._publish(fitted, session=session)
                else:
                    source = cast("Source", source)
                    with engine_for(source, engine, n_jobs=plan.n_jobs) as own:
                        on_disk, spare = plan.touch_on_disk, plan.spare
                        fitted = fit_source(source, options, own, checkpoint=keeper, touch_on_disk=on_disk, spare=spare)
                        self._publish(fitted)
        warn_few(self._fitted, self.n_features_in_)
        warn_unconverged(self._fitted, self.tol)
        if self.stop_reason_ == StopReason.INTERRUPTED.value:
            warn_interrupted(self.trace_, checkpoint)
        if solver == "online":
            session.warn_far()
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit to `X` and return its sources."""
        return self.fit(X, y, **fit_params).transform(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more block of a stream (the online algorithm): an array, a file, a recording.

        The first 10,000 samples are kept for the start (more for over 100
        components); a provisional model serves ``transform`` until they have come. After ``fit`` this goes on
        from the fitted model. With many components `n_jobs` threads share the work. If a callback or Ctrl-C
        ends it midway, the model is that of the samples learnt so far, as ``n_samples_seen_`` says.
        """
        shape = tuple(getattr(X, "shape", ()))
        empty = len(shape) == 2 and isinstance(shape[0], int) and shape[0] == 0  # Dask frames do not know their length
        if empty and shape[1] == getattr(self, "n_features_in_", shape[1]):
            return self  # a live source with nothing new
        with one_at_a_time(self):
            with all_or_nothing(self):
                self._origin = gone_on(self)
                block = block_of(self, X, reset=not hasattr(self, "n_features_in_"))
                session: StreamFit | None = getattr(self, "_stream", None)
                if session is None:
                    session = self._new_session()
                session.names = getattr(self, "feature_names_in_", None)
                live: dict[str, Any] = {"callbacks": callback_tuple(self.callbacks), "pace": pace_of(self, "online")}
                result, failure = learn_block(session, block, n_jobs=self.n_jobs, **live)
            self._stream = session
            if result is not None:
                self._publish(result, session=session)
        if failure is not None:
            raise failure
        session.warn_far()
        return self

    def _new_session(self) -> StreamFit:
        """A stream that starts anew, or from the model fitted so far."""
        options = resolve(self, "online")
        fitted: Fitted | None = getattr(self, "_fitted", None)
        if fitted is None:
            check_room(self.n_components, self.n_features_in_)
            return StreamFit.new(options)
        self._order, self._signs = np.arange(len(fitted.W)), np.ones(len(fitted.W))
        return StreamFit.from_model(fitted, options)

    @classmethod
    def merge(cls, models: Iterable[ICA]) -> ICA:
        """One model of several that were fitted on disjoint data, as good as one fit of all of it.

        Components are matched and the moments averaged by samples seen; the
        parameters are those of the first. ``partial_fit`` goes on from it.
        """
        return merge_models(list(models))

    # ---------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that is safe to open, whole or not at all; callbacks are left out."""
        check_is_fitted(self, "n_features_in_")
        with one_at_a_time(self):  # what partial_fit changes meanwhile would be of two models
            save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, density: Density | None = None) -> ICA:
        """The model saved at `path`; pass your own `density` again if it was fitted with one."""
        loaded: ICA = load_model(cls, path, density=density)
        return loaded

    def to_onnx(self) -> Any:
        """``transform`` as an ONNX model: input ``X``, output ``sources``, float32."""
        check_fitted(self)
        return transform_to_onnx(self.mean_, self.components_)

    # ------------------------------------------------------------ using the model

    def transform(self, X: Any) -> Any:
        """Sources of `X`, ``(n_samples, n_components)``; float32 stays float32, Dask arrays stay lazy."""
        check_fitted(self)
        if is_dask(X):
            check_names(self, text_names(getattr(X, "columns", None)))
            return transform_lazily(X, self.mean_, self.components_)
        source = source_of(self, X, reset=False)
        if isinstance(source, Stream):
            return np.concatenate([self._apply(block) for block in source])
        if source.in_memory:
            return self._apply(source.read(0, source.n_samples))
        out = np.empty((source.n_samples, self.n_components_), source.dtype)
        for ((start, stop),) in split_blocks(source.n_samples, 65536):
            out[start:stop] = self._apply(source.read(start, stop))
        return out

    def _apply(self, X: Array) -> Array:
        if not np.isfinite(X).all():
            raise DataError("Input X contains NaN or infinity; drop or interpolate such samples first")
        now = vars(self).copy()  # one look: partial_fit in another thread replaces both at once
        return (X - now["mean_"].astype(X.dtype)) @ now["components_"].T.astype(X.dtype)

    def inverse_transform(self, X: Any) -> Any:
        """Samples from their sources ``(n_samples, n_components)``; Dask arrays stay lazy."""
        check_fitted(self)
        if is_dask(X):
            return inverse_transform_lazily(X, self.mean_, self.mixing_)
        now = vars(self).copy()
        sources = sources_of(X, len(now["components_"]))
        dtype = sources.dtype
        return sources @ now["mixing_"].T.astype(dtype) + now["mean_"].astype(dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of `X` under the model, in input units (nats a sample).

        That of the `n_components_` dimensions kept: scores of models with different numbers of components do not
        compare, and a search over ``n_components`` by it follows the data's unit.
        """
        check_fitted(self)
        source = source_of(self, X, reset=False)
        fitted: Fitted = self._fitted
        model = (fitted.whitening.mean, fitted.W @ fitted.whitening.matrix, fitted.densities)
        loss_of = InDouble(loss_of_block) if fitted.whitening.wide else loss_of_block
        loss, n = 0.0, 0
        with single_threaded_blas():
            if isinstance(source, Stream):
                for block in source:
                    loss, n = loss + loss_of(block, *model), n + len(block)
            else:
                blocks, n = split_blocks(source.n_samples, 10_000), source.n_samples
                with engine_for(source, n_jobs=self.n_jobs) as engine:
                    for part in engine.run(loss_of, source, blocks, *model):
                        loss += part
        if not math.isfinite(loss):
            raise DataError("Input X contains NaN or infinity; drop or interpolate such samples first")
        log_det = np.linalg.slogdet(fitted.W)[1] + fitted.whitening.log_volume
        return float(log_det - loss / n - fitted.densities.log_normalisers.sum())

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    # ----------------------------------------------------------------- publishing

    def _publish(self, fitted: Fitted, *, session: StreamFit | None = None, keep_order: bool = False) -> None:
        """Set the fitted attributes, components in canonical order and sign; all at once for other threads.

        With `keep_order`, and for a stream that goes on (`session` is that of
        the last call), order and signs stay.
        """
        goes_on = session is not None and session is getattr(self, "_stream", None)
        kept = (self._order, self._signs) if (keep_order or goes_on) and hasattr(self, "_order") else None
        published = attributes(fitted, whiten=self.whiten, kept=kept)
        if session is not None:
            published["_stream"] = session
            published["drift_"] = session.drift.index(session.state.answer) if session.state is not None else 0.0
        self.__dict__.update(published)
