"""Model files: everything a fitted estimator is, in a file that is safe to open."""

from __future__ import annotations

import numbers
import os
import re
from dataclasses import replace
from typing import Any

from majorica.densities import Clipped, Huber, LogCosh, Student, TwoGaussian
from majorica.densities.base import Density
from majorica.errors import MajoricaError, ModelFileError
from majorica.persistence.atomic import write_atomically
from majorica.persistence.checkpoints import REBUILDING
from majorica.persistence.codec import CodecError, Decoder, Encoder
from majorica.persistence.container import ContainerError, read_container, write_container
from majorica.persistence.layouts import Layout

SCHEMA, VERSION = "majorica model", 1
#: Attributes that are not public but needed to go on learning, or to say how to repeat the fit.
_PRIVATE = ("_fitted", "_stream", "_order", "_signs", "_origin")
_PUBLIC = re.compile(r"[a-z][a-z0-9_]*_\Z")
#: What every fitted model has.
_NEEDED = ("mixing_", "mean_", "whitening_", "_fitted")
#: Parameters that live in a process only.
_LIVE = ("callbacks",)


def model_classes() -> dict[str, type]:
    """All a model file can make, by name."""
    from majorica.fitting import Fitted
    from majorica.origin import FileUse, Origin
    from majorica.solvers.base import StopReason, Trace
    from majorica.solvers.online.averages import Averages
    from majorica.solvers.online.solver import OnlineState
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
    session = vars(ica).get("_stream")
    if session is not None:
        session.settle()
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
    except (*REBUILDING, MajoricaError) as error:
        raise ModelFileError(f"{name}: not a consistent model ({type(error).__name__}: {error})") from error
    return ica


def _decode_table(decoder: Decoder, stored: dict[str, Any]) -> dict[str, Any]:
    return {name: decoder.decode(item) for name, item in stored.items()}


def _check(ica: Any) -> None:
    """Shapes and types that must agree, and numbers that must be finite, for the model to be used."""
    from majorica.parameters import resolve

    options = resolve(ica, "online")
    lengths = {"f": _count(ica.n_features_in_, "features")}
    if "components_" in vars(ica):
        lengths["p"] = _count(ica.n_components_, "components")
        missing = [name for name in _NEEDED if name not in vars(ica)]
        if missing:
            raise ContainerError(f"it has no {', '.join(missing)}")
    Layout(lengths).check_model(vars(ica))
    session = vars(ica).get("_stream")
    if session is not None:
        session.options = replace(options, rng=session.rng)


def _count(value: Any, name: str) -> int:
    if not isinstance(value, numbers.Integral) or value < 1:
        raise ContainerError(f"it claims {value!r} {name}")
    return int(value)
