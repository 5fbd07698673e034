"""Checks of the estimator's parameters and inputs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.errors import ParameterError, RankError
from majorica.fitting import DEFAULT_PASSES, DENSITIES, Options
from majorica.solvers.incremental.solver import default_batch_size
from majorica.solvers.incremental.touching import Precision
from majorica.sources import is_block

SOLVERS = ("auto", "progressive", "incremental", "incremental-codes", "online", "batch")
WHITENINGS = ("unit-variance", "arbitrary-variance")
#: What only has to be above zero must be at least this.
SMALLEST = 1e-300


def resolve(ica: Any, solver: str, *, n_samples: int | None = None, n_features: int = 1) -> Options:
    """Check the estimator's parameters for a fit with `solver`; every message says what is accepted.

    The size of the data, where known, decides what is "auto".
    """
    if ica.solver not in SOLVERS:
        raise ParameterError(f"solver={ica.solver!r} must be one of {', '.join(SOLVERS)}")
    if ica.whiten not in WHITENINGS:
        raise ParameterError(f"whiten={ica.whiten!r} must be one of {', '.join(WHITENINGS)}")
    if isinstance(ica.density, str) and ica.density != "adaptive" and ica.density not in DENSITIES:
        raise ParameterError(
            f"density={ica.density!r} must be 'adaptive', {', '.join(map(repr, DENSITIES))} or a Density object"
        )
    if not isinstance(ica.density, str | Density):
        raise ParameterError(
            f"density is a {type(ica.density).__name__}; pass a name or an instance of majorica.densities.Density"
        )
    memory: Precision = "codes" if solver == "incremental-codes" else "float32"
    solver = "incremental" if memory == "codes" else solver
    check_components(ica.n_components)
    pace = pace_of(ica, solver, n_samples=n_samples, n_features=n_features)
    check_number("max_iter", ica.max_iter, low=1, optional=True)
    check_number("tol", ica.tol, low=0, optional=True)
    check_number("verbose", ica.verbose, low=0, boolean=True)
    return Options(
        solver=solver,
        density=ica.density,
        n_components=ica.n_components,
        memory=memory,
        max_iter=DEFAULT_PASSES[solver] if ica.max_iter is None else ica.max_iter,
        tol=ica.tol,
        w_init=None if ica.w_init is None else start_matrix(ica.w_init),
        callbacks=callback_tuple(ica.callbacks),
        rng=generator(ica.random_state),
        seed=seed_text(ica.random_state),
        **pace,
    )


def pace_of(ica: Any, solver: str, *, n_samples: int | None = None, n_features: int = 1) -> dict[str, Any]:
    """How fast a fit learns, checked: the options that may change while a stream goes on."""
    batch_size = ica.batch_size
    if isinstance(batch_size, str) and batch_size == "auto":
        wanted = ica.n_components
        p = min(int(wanted), n_features) if isinstance(wanted, numbers.Integral) else n_features
        batch_size = default_batch_size(n_samples or 0, p) if solver == "incremental" else 1000
    check_number("batch_size", batch_size, low=1, integer=True)
    n_updates = ica.n_updates
    if isinstance(n_updates, str) and n_updates == "auto":
        n_updates = 2 if solver == "incremental" else None  # a stream's samples come once: learn all from each
    check_number("n_updates", n_updates, low=1, integer=True, optional=True)
    check_number("alpha", ica.alpha, low=0.5, high=1.0)
    check_number("half_life", ica.half_life, low=SMALLEST, optional=True)
    half_life, alpha = ica.half_life, float(ica.alpha)
    return {"batch_size": int(batch_size), "n_updates": n_updates, "alpha": alpha, "half_life": half_life}


def check_components(n_components: Any) -> None:
    """Refuse what can be neither a number of components nor a share of variance."""
    share = isinstance(n_components, numbers.Real) and 0 < float(n_components) < 1
    count = isinstance(n_components, numbers.Integral) and not isinstance(n_components, bool) and int(n_components) >= 1
    if not (n_components is None or share or count):
        raise ParameterError(
            f"n_components={n_components!r} must be None, a positive integer, or a share of variance between 0 and 1"
        )


def check_room(n_components: Any, n_features: int) -> None:
    """Refuse more components than there are features, before a stream's first samples are gathered in vain."""
    if isinstance(n_components, numbers.Integral) and int(n_components) > n_features:
        raise RankError(
            f"n_components={n_components} exceeds the number of features {n_features}; "
            f"pass n_components<={n_features} or leave it None."
        )


def start_matrix(w_init: Any) -> npt.NDArray[np.float64]:
    """A start as an array of real numbers; its shape is checked once the number of components is known."""
    needed = "pass an (n_components, n_components) array of real numbers, or None"
    try:
        array = np.asarray(w_init)
        if array.dtype.kind in "fiubO":
            return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"w_init={w_init!r:.60} is no matrix ({error}); {needed}") from error
    raise ParameterError(f"w_init={w_init!r:.60} is of dtype {array.dtype}; {needed}")


def callback_tuple(callbacks: Any) -> tuple[Any, ...]:
    """One callable, several or none, as a tuple."""
    if callbacks is None:
        return ()
    listed = (callbacks,) if callable(callbacks) or not isinstance(callbacks, Iterable) else tuple(callbacks)
    if not all(callable(callback) for callback in listed):
        raise ParameterError(f"callbacks={callbacks!r} must be a callable that takes a Step, or a list of such")
    return listed


def generator(random_state: Any) -> np.random.Generator:
    """A Generator from whatever scikit-learn users pass as a seed."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"random_state={random_state!r} must be None, a non-negative integer, a Generator or a RandomState"
        ) from error


def seed_text(random_state: Any) -> str:
    """A seed in words; of a generator only its kind, as its state has moved on when a fit is resumed."""
    return str(random_state) if isinstance(random_state, numbers.Integral) else type(random_state).__name__


def check_number(
    name: str,
    value: Any,
    *,
    low: float,
    high: float = math.inf,
    integer: bool = False,
    optional: bool = False,
    boolean: bool = False,
) -> None:
    """Refuse a `value` that is not a number from `low` to `high`; True and False only count as such if `boolean`."""
    if (value is None and optional) or (type(value) is int and low <= value <= high):
        return
    kind = numbers.Integral if integer else numbers.Real
    refused = isinstance(value, bool) and not boolean
    if refused or not isinstance(value, kind) or not low <= float(value) <= high:
        what = "an integer" if integer else "a number"
        span = "> 0" if low == SMALLEST else f">= {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
        raise ParameterError(f"{name}={value!r} must be {what} {span}{' or None' if optional else ''}")


def is_tabular(X: Any) -> bool:
    """Whether scikit-learn's validation should see `X` (arrays, data frames, nested lists, sparse matrices)."""
    if isinstance(X, np.ndarray):
        return True
    if isinstance(X, str | bytes) or hasattr(X, "__fspath__"):
        return False
    kind = type(X).__module__.split(".")[0]
    if kind in {"pandas", "polars", "scipy"} and type(X).__name__ != "LazyFrame":
        return True
    if isinstance(X, list | tuple):  # of blocks or paths, which a source joins, or of numbers
        return not (len(X) and is_block(X[0]))
    return isinstance(X, numbers.Number) or hasattr(X, "__array_namespace__")
