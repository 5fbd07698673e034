"""Checkpoints: a running fit on disk, from which the same call goes on to the same bits."""

from __future__ import annotations

import dataclasses
import hashlib
import numbers
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from majorica import __version__
from majorica.densities.base import Density
from majorica.errors import CheckpointError, MajoricaError, MajoricaWarning, ParameterError, warn
from majorica.persistence.atomic import remove_if_there, remove_leftovers, write_atomically
from majorica.persistence.codec import CodecError, Decoder, Encoder, custom_density, own_classes
from majorica.persistence.container import ContainerError, read_container, write_container
from majorica.persistence.layouts import Layout
from majorica.persistence.touch import TouchFile

SCHEMA, VERSION = "majorica checkpoint", 1
#: What values that lie may end in while objects are made of them.
REBUILDING = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


@dataclass
class Checkpoint:
    """One checkpoint file and the fit that writes it; a context manager that holds the file for one fit.

    Parameters
    ----------
    path : str or path-like
        The file. Beside it may lie ``PATH.touch`` and ``PATH.undo`` (the
        memory of the incremental solver) while a fit runs.
    every : float
        Seconds between two checkpoints; 0 writes one after every step.
    """

    path: str | os.PathLike[str]
    every: float = 30.0
    touch: TouchFile | None = None
    epoch: int = 0  #: checkpoints of this fit so far
    _identity: dict[str, str] = field(default_factory=dict)
    _written: float = -np.inf
    _lock: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.every, numbers.Real) or not self.every >= 0:
            raise ParameterError(f"checkpoint_every={self.every!r} must be a number of seconds >= 0")

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return os.fspath(self.path)

    # ------------------------------------------------------------------- holding

    def __enter__(self) -> Self:
        """Hold the file: a second fit with the same checkpoint is refused while this one runs."""
        if os.path.exists(self.name) and not os.path.isfile(self.name):  # finish() would remove it
            raise CheckpointError(f"checkpoint={self.name!r} is no regular file; name a file")
        directory, name = os.path.split(os.path.realpath(self.name))
        path = os.path.join(directory, f".{name}.lock")
        try:
            handle = open(path, "w")  # kept open: the lock lasts as long as the handle
        except OSError as error:
            raise CheckpointError(f"checkpoint={self.name!r}: cannot be written ({error.strerror})") from error
        locks = _locks()
        if locks is not None:
            try:
                locks.flock(handle, locks.LOCK_EX | locks.LOCK_NB)
            except OSError as error:
                handle.close()
                raise CheckpointError(
                    f"checkpoint={self.name!r} is in use by another fit; give each its own"
                ) from error
        self._lock = handle
        remove_leftovers(self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.touch is not None:
            self.touch.close()
        if self._lock is not None:
            remove_if_there(self._lock.name)
            self._lock.close()
            self._lock = None

    # ------------------------------------------------------------ reading, writing

    def resume(
        self,
        identity: Mapping[str, str],
        kinds: Mapping[str, type],
        lengths: Mapping[str, int],
        *,
        density: Density | None = None,
    ) -> dict[str, Any] | None:
        """What was saved by the same call, None if there is no checkpoint; CheckpointError if it is another's.

        It holds values of these `kinds`, whose arrays are checked against one
        another and the data's `lengths` before anything uses them.
        """
        self._identity = dict(identity)
        if not os.path.exists(self.path):
            return None
        try:
            content, arrays = read_container(self.path, schema=SCHEMA, version=VERSION)
            self._compare(content["identity"])
            external: dict[str, Any] = {}
            if content["touch"] is not None:
                self.touch = self.touch or TouchFile(self.name)
                external["touch"] = self.touch.recover(
                    content["epoch"], tuple(content["touch"]), content["touch_dtype"]
                )
            decoder = Decoder(arrays, own_classes(), density, external=external)
            values = {key: decoder.decode(content["values"][key]) for key in kinds}
            layout = Layout(dict(lengths))
            for key, kind in kinds.items():
                layout.check(values[key], kind, key)
            self.epoch = int(content["epoch"])
        except REBUILDING as error:
            why = str(error) if isinstance(error, ContainerError | CodecError) else f"{type(error).__name__}: {error}"
            raise CheckpointError(
                f"checkpoint={self.name!r} cannot be used: {why}; remove it to start from the beginning"
            ) from error
        except OSError as error:
            if isinstance(error, MajoricaError):
                raise
            raise CheckpointError(f"checkpoint={self.name!r}: cannot be read ({error.strerror or error})") from error
        self._written = time.monotonic()
        return values

    def _compare(self, stored: Mapping[str, str]) -> None:
        differing = [key for key in {**stored, **self._identity} if stored.get(key) != self._identity.get(key)]
        if differing:
            listed = "; ".join(f"{key} was {stored.get(key)}, now {self._identity.get(key)}" for key in differing)
            raise CheckpointError(
                f"checkpoint={self.name!r} belongs to another fit: {listed}; "
                "make the same call as before, or remove the file to start from the beginning"
            )

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self._written >= self.every

    def save(self, values: Mapping[str, Any]) -> None:
        """Write `values`; on any failure the last checkpoint stays and CheckpointError is raised."""
        encoder = Encoder()
        shape, dtype = None, None
        try:
            if self.touch is not None and self.touch.array is not None:
                encoder.external[id(self.touch.array)] = "touch"
                shape, dtype = list(self.touch.array.shape), self.touch.array.dtype.name
                self.touch.flush()
            content = {
                "identity": self._identity,
                "epoch": self.epoch + 1,
                "touch": shape,
                "touch_dtype": dtype,
                "values": {key: encoder.encode(value, key) for key, value in values.items()},
            }
            write_atomically(
                self.path,
                lambda file: write_container(
                    file, schema=SCHEMA, version=VERSION, content=content, arrays=encoder.arrays
                ),
            )
            self.epoch += 1
            if self.touch is not None:
                self.touch.begin(self.epoch)
        except (OSError, CodecError) as error:
            raise CheckpointError(
                f"checkpoint={self.name!r} could not be written ({getattr(error, 'strerror', None) or error}); "
                "the last checkpoint, if there was one, is intact"
            ) from error
        self._written = time.monotonic()

    def finish(self) -> None:
        """Remove the files of a fit that has ended: the next call starts from the beginning."""
        remove_if_there(self.name)
        if self.touch is not None:
            self.touch.remove()


def identify(options: Any) -> dict[str, str]:
    """Every parameter that a fit's bits depend on, as text to compare and to show."""
    out = {"version of majorica": __version__}
    for each in dataclasses.fields(options):
        if each.name in ("callbacks", "rng"):
            continue
        value = getattr(options, each.name)
        if isinstance(value, np.ndarray):
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
            value = f"array {value.shape} {value.dtype} {digest}"
        elif isinstance(value, Density) and not type(value).__module__.startswith("majorica."):
            known = custom_density(value)
            value = f"{known['repr']} ({hashlib.sha256(str(known['values']).encode()).hexdigest()[:16]})"
        out["random_state" if each.name == "seed" else each.name] = value if isinstance(value, str) else repr(value)
    return out


def warn_interrupted(trace: npt.NDArray[np.void], path: str | os.PathLike[str] | None) -> None:
    """Say what an interrupted fit leaves behind."""
    passes = trace["passes"][-1] if len(trace) else 0.0
    kept = (
        f"run the same call again to go on from checkpoint {os.fspath(path)!r}" if path is not None else "no checkpoint"
    )
    warn(f"interrupted after {passes:.3g} passes; the model is the best so far; {kept}", MajoricaWarning)


def _locks() -> ModuleType | None:
    """File locks, where the system has them."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl
