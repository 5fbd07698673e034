"""Model files: everything a fitted estimator is, in a file that is safe to open."""

from __future__ import annotations

import numbers
import os
import re
from dataclasses import replace
from typing import Any

import numpy as np

from majorica.densities import Clipped, Huber, LogCosh, Student, TwoGaussian
from majorica.densities.base import Density
from majorica.errors import MajoricaError, ModelFileError
from majorica.persistence.atomic import write_atomically
from majorica.persistence.codec import CodecError, Decoder, Encoder
from majorica.persistence.container import ContainerError, read_container, write_container

SCHEMA, VERSION = "majorica model", 1
#: Attributes that are not public but needed to go on learning, or to say how to repeat the fit.
_PRIVATE = ("_fitted", "_stream", "_order", "_signs", "_origin")
_PUBLIC = re.compile(r"[a-z][a-z0-9_]*_\Z")
#: Parameters that live in a process only.
_LIVE = ("callbacks",)


def model_classes() -> dict[str, type]:
    """All a model file can make, by name."""
    from majorica.fitting import Fitted
    from majorica.origin import FileUse, Origin
    from majorica.solvers.averages import Averages
    from majorica.solvers.base import StopReason, Trace
    from majorica.solvers.online import OnlineState
    from majorica.solvers.shapes import Shapes
    from majorica.streaming import Drift, StreamFit, ThinningTrace
    from majorica.surrogate import Surrogate
    from majorica.whitening import Whitening

    kinds: list[type] = [
        Fitted,
        StopReason,
        Trace,
        Averages,
        OnlineState,
        Shapes,
        Drift,
        StreamFit,
        ThinningTrace,
        Surrogate,
        Whitening,
        FileUse,
        Origin,
    ]
    kinds += [Clipped, Huber, LogCosh, Student, TwoGaussian]
    kinds += [kind for kind in _density_kinds(Density) if kind not in kinds]
    return {kind.__name__: kind for kind in kinds}


def _density_kinds(base: type) -> list[type]:
    """The package's own densities, as far as they are loaded."""
    found: list[type] = []
    kinds: list[type] = base.__subclasses__()
    for kind in kinds:
        if kind.__module__.startswith("majorica."):
            found.append(kind)
        found.extend(_density_kinds(kind))
    return found


def save_model(ica: Any, path: str | os.PathLike[str]) -> None:
    """Write the fitted estimator `ica` to `path`, atomically; an older file stays until the new one is whole.

    Callbacks are not stored, and of a density from outside the package only
    what is needed to recognise it.
    """
    parameters = {name: value for name, value in ica.get_params(deep=False).items() if name not in _LIVE}
    skip = set(ica.get_params(deep=False))
    fitted = {
        name: value
        for name, value in sorted(
            vars(ica).items(), key=lambda item: item[0].startswith("_")
        )  # public names for arrays
        if name not in skip and (name in _PRIVATE or _PUBLIC.match(name))
    }
    encoder = Encoder()
    try:
        content = {
            "parameters": {name: encoder.encode(value, f"parameter.{name}") for name, value in parameters.items()},
            "fitted": {name: encoder.encode(value, name) for name, value in fitted.items()},
        }
    except CodecError as error:
        raise ModelFileError(f"{os.fspath(path)}: the model cannot be saved: {error}") from error
    try:
        write_atomically(
            path,
            lambda file: write_container(file, schema=SCHEMA, version=VERSION, content=content, arrays=encoder.arrays),
        )
    except OSError as error:
        raise ModelFileError(
            f"{os.fspath(path)}: cannot be written ({error.strerror or error}); a file that was there is untouched"
        ) from error


def load_model(kind: type, path: str | os.PathLike[str], *, density: Density | None = None) -> Any:
    """The estimator of class `kind` that was saved to `path`; ModelFileError says why a file was refused."""
    name = os.fspath(path)
    try:
        content, arrays = read_container(path, schema=SCHEMA, version=VERSION)
        decoder = Decoder(arrays, model_classes(), density)
        parameters = _decode_table(decoder, content["parameters"])
        fitted = _decode_table(decoder, content["fitted"])
        ica = kind(**parameters)
        for key in fitted:
            if not (key in _PRIVATE or _PUBLIC.match(key)) or hasattr(kind, key):
                raise ContainerError(f"it sets the unexpected attribute {key!r}")
        vars(ica).update(fitted)
        _check(ica)
    except FileNotFoundError as error:
        raise ModelFileError(f"{name}: there is no such file") from error
    except (IsADirectoryError, PermissionError) as error:
        raise ModelFileError(f"{name}: cannot be read ({error.strerror})") from error
    except (ContainerError, CodecError) as error:
        raise ModelFileError(f"{name}: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError, MajoricaError) as error:
        raise ModelFileError(f"{name}: not a consistent model ({type(error).__name__}: {error})") from error
    return ica


def _decode_table(decoder: Decoder, stored: dict[str, Any]) -> dict[str, Any]:
    return {name: decoder.decode(item) for name, item in stored.items()}


def _check(ica: Any) -> None:
    """Shapes that must agree, and numbers that must be finite, for the model to be used."""
    from majorica.origin import Origin
    from majorica.parameters import resolve
    from majorica.streaming import StreamFit

    options = resolve(ica, "online")
    f = _count(ica.n_features_in_, "features")
    if not isinstance(vars(ica).get("unit_", ""), str):
        raise ContainerError("its unit has no name")
    if not isinstance(vars(ica).get("_origin", Origin("unknown")), Origin):
        raise ContainerError("its origin is not one")
    session = vars(ica).get("_stream")
    if session is not None:
        if not isinstance(session, StreamFit):
            raise ContainerError("its stream is not one")
        _check_stream(session, f)
        session.options = replace(options, rng=session.rng)
    if "components_" not in vars(ica):
        return
    k = _count(ica.n_components_, "components")
    shapes = {"components_": (k, f), "mixing_": (f, k), "mean_": (f,), "whitening_": (k, f)}
    _check_arrays({name: (vars(ica).get(name), shape) for name, shape in shapes.items()})
    _check_fitted(ica._fitted, k, f)


def _count(value: Any, name: str) -> int:
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ContainerError(f"it claims {value!r} {name}")
    return int(value)


def _check_fitted(fitted: Any, k: int, f: int) -> None:
    _check_whitening(fitted.whitening, k, f)
    _check_arrays({"unmixing": (fitted.W, (k, k)), "covariance": (fitted.covariance, (k, k))})
    if len(fitted.densities) != k:
        raise ContainerError(f"it has {len(fitted.densities)} densities for {k} components")


def _check_whitening(whitening: Any, k: int, f: int) -> None:
    _check_arrays(
        {
            "mean": (whitening.mean, (f,)),
            "whitening matrix": (whitening.matrix, (k, f)),
            "whitening inverse": (whitening.inverse, (f, k)),
        }
    )


def _check_stream(session: Any, f: int) -> None:
    """The compiled kernels trust shapes, so a file must not be able to lie about them."""
    if not isinstance(session.rng, np.random.Generator):
        raise ContainerError("its stream has no random generator")
    for X in session.buffer:
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.shape[1] != f or X.dtype.kind != "f":
            raise ContainerError(f"its first samples have not {f} features")
    if sum(len(X) for X in session.buffer) != (session.buffered if session.state is None else 0):
        raise ContainerError("its first samples are not all there")
    named = [*(session.flat or []), *([] if session.far is None else [session.far])]
    if any(type(i) is not int or not 0 <= i < f for i in named):
        raise ContainerError(f"it names features that are not among its {f}")
    if session.provisional is not None:
        _check_fitted(session.provisional, len(session.provisional.W), f)
    state = session.state
    if state is None:
        return
    k = len(state.W)
    _check_whitening(session.whitening, k, f)
    surrogate = state.surrogate
    _check_arrays(
        {
            "unmixing": (state.W, (k, k)),
            "inverse": (state.inverse, (k, k)),
            "moments": (surrogate.moments, (k, k, k)),
            "tilts": (surrogate.tilts, (k, k)),
            "offsets": (surrogate.offsets, (k,)),
            "covariance": (surrogate.covariance, (k, k)),
            "shift": (state.shift, (k,)),
            "visits": (state.visits, (k,)),
            "running covariance": (state.covariance, (k, k)),
            "signs": (session.signs, (k,)),
        }
    )
    if any(type(number) is not float or not number >= 0 for number in (state.reach, state.excess, session.excess)):
        raise ContainerError("its distances are not consistent")
    if state.averages is not None:
        means = state.averages
        _check_arrays({"averages": (means.candidates, (3, k, k)), "losses": (means.losses, (3,))})
        if type(means.compared) not in (int, float) or not means.compared >= 0:
            raise ContainerError("its averages are not consistent")
    if state.shapes is not None:
        shapes, rows = state.shapes, len(state.means)
        _check_arrays(
            {
                "slopes": (shapes.slopes, (k, 5)),
                "normalisers": (shapes.log_normalisers, (k,)),
                "means of shapes": (state.means, (k if rows else 0, 5)),
            }
        )
        marks = (shapes.fine, shapes.rising)
        if any(not isinstance(m, np.ndarray) or m.shape != (k,) or m.dtype != np.bool_ for m in marks):
            raise ContainerError("its shapes are not consistent")
    if session.order.shape != (k,) or sorted(session.order.tolist()) != list(range(k)):
        raise ContainerError("its components have no order")
    if len(state.densities) != k or type(state.seen) is not int or state.seen < 0:
        raise ContainerError("its stream is not consistent")


def _check_arrays(expected: dict[str, tuple[Any, tuple[int, ...]]]) -> None:
    for name, (array, shape) in expected.items():
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float64:
            raise ContainerError(f"its {name} is not a float64 array of shape {shape}")
        if not np.isfinite(array).all():
            raise ContainerError(f"its {name} is not finite")
