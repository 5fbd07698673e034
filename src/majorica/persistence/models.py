"""Model files: everything a fitted estimator is, in a file that is safe to open."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from majorica.densities import Clipped, Huber, LogCosh, Student, TwoGaussian
from majorica.densities.base import Density
from majorica.errors import MajoricaError, ModelFileError
from majorica.persistence.atomic import write_atomically
from majorica.persistence.codec import CodecError, Decoder, Encoder
from majorica.persistence.container import ContainerError, read_container, write_container

SCHEMA, VERSION = "majorica model", 1
#: Attributes that are not public but needed to go on learning.
_PRIVATE = ("_fitted", "_stream", "_order", "_signs")
_PUBLIC = re.compile(r"[a-z][a-z0-9_]*_\Z")
#: Parameters that live in a process only.
_LIVE = ("callbacks",)


def model_classes() -> dict[str, type]:
    """All a model file can make, by name."""
    from majorica.fitting import Fitted
    from majorica.solvers.base import StopReason, Trace
    from majorica.solvers.online import OnlineState
    from majorica.streaming import Drift, StreamFit, ThinningTrace
    from majorica.surrogate import Surrogate
    from majorica.whitening import Whitening

    kinds: list[type] = [Fitted, StopReason, Trace, OnlineState, Drift, StreamFit, ThinningTrace, Surrogate, Whitening]
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
        for name, value in vars(ica).items()
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
    from majorica.parameters import resolve
    from majorica.streaming import StreamFit

    options = resolve(ica, "online")
    session = vars(ica).get("_stream")
    if session is not None:
        if not isinstance(session, StreamFit):
            raise ContainerError("its stream is not one")
        session.options = options
    if "components_" not in vars(ica):
        return
    k, f = int(ica.n_components_), int(ica.n_features_in_)
    fitted = ica._fitted
    expected = {
        "components_": (ica.components_, (k, f)),
        "mixing_": (ica.mixing_, (f, k)),
        "mean_": (ica.mean_, (f,)),
        "whitening_": (ica.whitening_, (k, f)),
        "unmixing": (fitted.W, (k, k)),
        "whitening matrix": (fitted.whitening.matrix, (k, f)),
        "whitening inverse": (fitted.whitening.inverse, (f, k)),
    }
    for name, (array, shape) in expected.items():
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype.kind != "f":
            raise ContainerError(f"its {name} has not the shape {shape}")
        if not np.isfinite(array).all():
            raise ContainerError(f"its {name} is not finite")
    if len(fitted.densities) != k:
        raise ContainerError(f"it has {len(fitted.densities)} densities for {k} components")
