"""The two abstract classes that random-access sources are written with.

:class:`MatrixSource` checks ranges, turns errors of the container into
:class:`~majorica.errors.SourceError` and gives each source ``close``, ``with``
and a repr. :class:`FileSource` adds a path and pickles as that path, so a
source can be sent to another process without its samples.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from majorica.errors import DataError, DataTypeError, ParameterError, SourceError
from majorica.sources.base import Array
from majorica.sources.chanlocs import Sensors
from majorica.sources.paths import reading
from majorica.sources.rules import Layout, as_block, check_layout, check_shape


class MatrixSource(ABC):
    """A random-access source: subclasses set the attributes and write ``_load``.

    Attributes
    ----------
    n_samples, n_features : int
    dtype : numpy.dtype
        float32 or float64, see :func:`~majorica.sources.rules.float_dtype`.
    in_memory : bool
        Whether several threads may read at once, nearly for free.
    feature_names : tuple of str or None
    unit : str or None
        ``"V"`` or ``"uV"`` where it is known.
    sfreq : float or None
        Samples a second, of recordings.
    """

    n_samples: int
    n_features: int
    dtype: np.dtype[np.floating]
    in_memory: bool = False
    feature_names: Sequence[str] | None = None
    unit: str | None = None
    sfreq: float | None = None
    #: What it is, in messages and in the repr.
    kind: str = "array"
    _closed: bool = False

    @abstractmethod
    def _load(self, start: int, stop: int) -> Any:
        """Samples `start` to `stop` as an array ``(stop - start, n_features)`` of any real dtype."""

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors of a recording are, by name: to the right ear, to the nose, up."""
        return None

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop` as ``(stop - start, n_features)``, not to be written to."""
        if not 0 <= start <= stop <= self.n_samples:
            raise ParameterError(f"samples {start} to {stop} are not within 0 to {self.n_samples} of {self!r}.")
        if self._closed:
            raise SourceError(f"{self!r} is closed; open it again with as_source.")
        with reading(self._label(), self.kind):
            return as_block(self._load(start, stop), self.dtype)

    def close(self) -> None:
        """Let go of the container; reading is an error from here on."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _label(self) -> str:
        return self.kind

    def __repr__(self) -> str:
        label = "" if self._label() == self.kind else f" {self._label()!r}"
        return f"<{type(self).__name__}{label}: {self.n_samples} samples x {self.n_features} features, {self.dtype}>"


class FileSource(MatrixSource):
    """A source that is a file: it pickles as its path and options, and reopens.

    Parameters
    ----------
    path : str or path-like
    member : str, optional
        Name of the array inside the file, for containers of several.
    layout : {"samples-first", "channels-first"}, optional
    picks : sequence of str or int, optional
        Columns or channels to use.
    """

    #: The only layout this format can have, or None if it can have both.
    fixed_layout: ClassVar[Layout | None] = None
    takes_member: ClassVar[bool] = False
    takes_picks: ClassVar[bool] = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        member: str | None = None,
        layout: str | None = None,
        picks: Any = None,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.member = member
        self.layout = check_layout(layout)
        self.picks = picks
        check_options(self, member=member, layout=self.layout, picks=picks)
        try:
            with reading(self._label(), self.kind):
                self._open()
                check_shape(self.n_samples, self.n_features)
        except BaseException as error:
            self.close()
            if isinstance(error, DataError | DataTypeError) and self.path not in str(error):
                raise type(error)(f"{self._label()}: {error}") from error
            raise

    @abstractmethod
    def _open(self) -> None:
        """Open the file, set the attributes of the source; never read the samples."""

    def _label(self) -> str:
        return self.path if self.member is None else f"{self.path}:{self.member}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self.path, self.member, self.layout, self.picks)


def _reopen(kind: type[FileSource], path: str, member: str | None, layout: str | None, picks: Any) -> FileSource:
    return kind(path, member=member, layout=layout, picks=picks)


def check_options(source: FileSource, *, member: str | None, layout: Layout | None, picks: Any) -> None:
    """Refuse options that the format of `source` has no use for."""
    if member is not None and not source.takes_member:
        raise ParameterError(f"{source.path}: {source.kind}s have no members; leave out ':{member}'.")
    if picks is not None and not source.takes_picks:
        raise ParameterError("picks= chooses channels of recordings or columns of tables, not of plain arrays.")
    if layout is not None and source.fixed_layout not in (None, layout):
        raise ParameterError(
            f"layout={layout!r} contradicts {source.path}: {source.kind}s are always {source.fixed_layout}; "
            "leave layout out."
        )
