"""What the estimator is given: samples as a source, with the features of the fit; a bad one changes no model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from majorica.errors import DataError, DataTypeError
from majorica.lazy import is_dask
from majorica.parameters import is_tabular
from majorica.sources import Source, Stream, as_source
from majorica.sources.array import ArraySource
from majorica.sources.names import differences, quoted, some_of
from majorica.sources.rules import float_dtype, refuse_masked
from majorica.sources.units import unit_of
from majorica.units import in_unit_of, keep_unit

#: Features in other places that an error shows before it only counts them.
_SHOWN = 3
#: Who learns, and the lock of each: no part of a model, as locks cannot be pickled.
_LEARNING: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LEARNING.clear)  # whoever held them is not there


@contextmanager
def one_at_a_time(ica: Any) -> Iterator[None]:
    """Wait while another thread teaches this model: both would go on from the same state, and one's samples be lost."""
    with _LEARNING.setdefault(ica, threading.RLock()):
        yield


@contextmanager
def all_or_nothing(ica: Any) -> Iterator[None]:
    """Give a model back all its attributes if what is done to it fails, so that none is of other data than the rest."""
    before = dict(vars(ica))
    try:
        yield
    except BaseException:
        for name in set(vars(ica)) - set(before):
            delattr(ica, name)
        vars(ica).update(before)
        raise


def check_fitted(ica: Any) -> None:
    """Refuse a model that has none yet; a stream's says how many samples it had."""
    session = getattr(ica, "_stream", None)
    if session is not None and not hasattr(ica, "components_"):
        raise NotFittedError(
            f"the stream's {session.seen} sample(s) so far allow no model; give partial_fit more of them, two at least "
            "that differ"
        )
    check_is_fitted(ica, "components_")


def source_of(ica: Any, X: Any, *, reset: bool) -> Source | Stream:
    """`X` as a source; arrays and data frames go through scikit-learn's own checks.

    With `reset` the model's features and unit become those of `X`, else the
    features must be the same, and recordings in another unit are converted.
    """
    if not is_dask(X) and is_tabular(X):
        names = getattr(ica, "feature_names_in_", None)
        array = array_of(ica, X, reset=reset)
        if reset:
            names = getattr(ica, "feature_names_in_", None)
        source = ArraySource(array) if array.dtype.kind == "f" else as_source(array)
        source.feature_names = None if names is None else [str(name) for name in names]
        return source
    source = as_source(X)
    if reset:
        ica.n_features_in_ = source.n_features
        if source.feature_names is not None:
            ica.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
        elif hasattr(ica, "feature_names_in_"):
            del ica.feature_names_in_
        keep_unit(ica, unit_of(source))
    else:
        check_features(ica, source)
        source = in_unit_of(ica, source)
    return source


def block_of(ica: Any, X: Any, *, reset: bool) -> npt.NDArray[Any]:
    """All samples of `X` as one array of float32 or float64; what is no array is read through its source."""
    if not is_dask(X) and is_tabular(X):
        array = array_of(ica, X, reset=reset)
        return array.astype(float_dtype(array.dtype), copy=False)
    source = source_of(ica, X, reset=reset)
    if isinstance(source, Stream):
        raise DataTypeError(
            f"partial_fit takes one block of samples, not a stream ({type(X).__name__}); "
            "pass its blocks one by one, or the stream to fit"
        )
    return source.read(0, source.n_samples)


def array_of(ica: Any, X: Any, *, reset: bool) -> npt.NDArray[Any]:
    """An array or data frame as a 2-D array of numbers, after scikit-learn's checks."""
    if reset:
        keep_unit(ica, None)
    ready = type(X) is np.ndarray and X.ndim == 2 and X.size and X.dtype in (np.float64, np.float32)
    if ready and reset:  # what scikit-learn's checks come to for such an array; they take as long as a small fit
        vars(ica).pop("feature_names_in_", None)
        ica.n_features_in_ = X.shape[1]
        return cast("npt.NDArray[Any]", X)
    refuse_masked(X)
    if type(X).__module__.startswith("polars") and any(kind.is_temporal() for kind in getattr(X, "dtypes", ())):
        _refuse_columns(X)  # dates, of which polars makes numbers
    checks = {"skip_check_array": True} if ready else {"dtype": "numeric", "ensure_all_finite": False}
    try:
        array = _named(lambda: validate_data(ica, X, reset=reset, **checks))
    except (DataError, DataTypeError):
        _refuse_columns(X)
        raise
    if array.dtype.kind not in "fiub":  # categories, of text
        _refuse_columns(X)
    return array


def _refuse_columns(X: Any) -> None:
    """Name the columns of a data frame that cannot be read as numbers, if there are any."""
    found = _no_numbers(X)
    if found:
        s = "s hold" if len(found) > 1 else " holds"
        listed = some_of([quoted(name) for name in found], _SHOWN)
        raise DataTypeError(f"column{s} no numbers: {listed}; leave such columns out or convert them") from None


def _no_numbers(X: Any) -> list[str]:
    """Columns of a data frame that cannot be read as numbers, by name; missing numbers are numbers."""
    found = []
    for j, name in enumerate(getattr(X, "columns", ())):
        values = np.asarray(X.iloc[:, j].dropna() if hasattr(X, "iloc") else X[name])
        try:
            if values.dtype.kind in "mM":  # of some units NumPy would make numbers
                raise TypeError
            if values.dtype.kind not in "fiub":
                values.astype(object).astype(np.float64)
        except (TypeError, ValueError):
            found.append(str(name))
    return list(dict.fromkeys(found))


def sources_of(X: Any, n_components: int) -> npt.NDArray[np.floating]:
    """Sources ``(n_samples, n_components)`` given back, checked as samples are; float32 stays float32."""
    refuse_masked(X)
    checks = {"dtype": "numeric", "ensure_all_finite": False, "ensure_2d": False, "allow_nd": True}
    array = _named(lambda: check_array(X, **checks, ensure_min_samples=0, input_name="X", estimator="ICA"))
    if array.ndim != 2 or array.shape[1] != n_components:
        raise DataError(f"sources have shape {array.shape}; needed is (n_samples, {n_components})")
    array = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    if not np.isfinite(array).all():
        raise DataError("Input X contains NaN or infinity; drop or interpolate such samples first")
    return array


def _named(check: Callable[[], Any]) -> npt.NDArray[Any]:
    """What `check` returns, its errors as those of this package."""
    try:
        array: npt.NDArray[Any] = check()
    except TypeError as error:
        raise DataTypeError(str(error)) from error
    except ValueError as error:
        raise DataError(str(error)) from error
    return array


def check_features(ica: Any, source: Source | Stream) -> None:
    """Refuse data of another width than the model's, by name where both have names, or of other names."""
    if source.n_features != ica.n_features_in_:
        which = differences(getattr(ica, "feature_names_in_", None), source.feature_names)
        advice = (
            f": {which}; pass picks=NAMES to choose those of feature_names_in_ (as_source takes it); without it "
            "channels marked bad are left out; or fit again"
        )
        raise DataError(
            f"X has {source.n_features} features, but ICA is expecting {ica.n_features_in_} features as input"
            f"{advice if which else ''}"
        )
    check_names(ica, source.feature_names)


def check_names(ica: Any, names: Sequence[str] | None) -> None:
    """Refuse data whose features have other names than those the model was fitted on, or another order.

    Where either side has no names there is nothing to compare.
    """
    fitted = getattr(ica, "feature_names_in_", None)
    if fitted is None or names is None:
        return
    known, given = [str(name) for name in fitted], [str(name) for name in names]
    if known == given:
        return
    said = "The feature names should match those that were passed during fit"
    if sorted(known) == sorted(given):
        pairs = zip(range(len(known)), given, known, strict=True)
        moved = [f"feature {j} is {quoted(new)} and was {quoted(old)}" for j, new, old in pairs if new != old]
        raise DataError(
            f"{said}, but their order differs: {some_of(moved, _SHOWN)}; reorder its columns or channels, or pass "
            "picks=NAMES in the order of feature_names_in_ (as_source takes it), or fit again"
        )
    raise DataError(
        f"{said}, but the set of names differs: {differences(known, given)}; "
        "rename its columns or channels if they are the same, choose those of feature_names_in_, or fit again"
    )
