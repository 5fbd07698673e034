"""Every error Majorica raises on purpose.

Each subclasses :class:`MajoricaError` and the built-in that callers of NumPy
or scikit-learn code already catch. Messages say what was given, what is
needed and what to do.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from types import FrameType, ModuleType

#: Packages whose frames lie between a caller and what warns.
_BETWEEN = {"majorica", "sklearn", "joblib", "contextlib"}


class MajoricaError(Exception):
    """Base of all errors raised on purpose by Majorica."""


class DataError(MajoricaError, ValueError):
    """The samples cannot be used: NaN, infinity, wrong width, no variance."""


class DataTypeError(MajoricaError, TypeError):
    """The input is of a kind that Majorica does not read (sparse, strings)."""


class ParameterError(MajoricaError, ValueError):
    """A parameter has a value it cannot take."""


class RankError(DataError):
    """More components were asked for than the data has dimensions."""


class DensityError(MajoricaError, ValueError):
    """A density breaks one of the properties the guarantees rest on."""


class SourceError(MajoricaError, OSError):
    """A file or container cannot be read."""


class OutputExistsError(MajoricaError, FileExistsError):
    """A file is there that would be replaced, and ``overwrite=True`` was not said."""


class ModelFileError(MajoricaError, ValueError):
    """A model file is damaged, hostile, or of an unknown version."""


class CheckpointError(MajoricaError, OSError):
    """A checkpoint cannot be written, or does not belong to this fit."""


class MemoryLimitError(MajoricaError, MemoryError):
    """The fit does not fit in ``memory_limit``; the message says what would."""


class WorkerError(MajoricaError, RuntimeError):
    """The workers of a cluster were lost, or one of their blocks failed."""


class MissingDependencyError(MajoricaError, ImportError):
    """An optional package is needed; the message names the pip extra."""


class MajoricaWarning(UserWarning):
    """Base of Majorica's own warnings."""


class RankWarning(MajoricaWarning):
    """The data has fewer dimensions than features; components were reduced."""


class FewSamplesWarning(MajoricaWarning):
    """Samples are too few for their components, as they are where rows are channels instead of samples."""


class OutlierWarning(MajoricaWarning):
    """Samples lie so far out that they are hardly the sources' own."""


class RepeatWarning(MajoricaWarning):
    """Many samples equal the one before, as padding or a lost connection leave them."""


class FlatWarning(MajoricaWarning):
    """A stream has no variance along some direction, and is not learnt from until it has; or had none when it began."""


class DriftWarning(MajoricaWarning):
    """Most of a recording's variance is slower than a second: it was not high-pass filtered."""


class UnitWarning(MajoricaWarning):
    """Samples of an unknown unit are taken to be in another package's, which their size makes unlikely."""


class TruncatedWarning(MajoricaWarning):
    """A raw stream ended within a sample, whose bytes were dropped."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the caller, however deep within this package, or scikit-learn, it is noticed."""
    level, frame = 1, sys._getframe(0)
    outer: FrameType | None = frame
    while outer is not None and outer.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        level, outer = level + 1, outer.f_back
    warnings.warn(message, category, stacklevel=level if outer is not None else 2)


def optional_import(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise MissingDependencyError(
            f"{purpose} needs the package {package!r}: pip install 'majorica[{extra}]'"
        ) from error
