"""Arrays that live elsewhere and are read by slicing: HDF5, Zarr, xarray."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from majorica.errors import DataError
from majorica.sources.base import Array
from majorica.sources.chunks import ChunkCache, slab_bounds
from majorica.sources.matrix import MatrixSource
from majorica.sources.names import some_of
from majorica.sources.rules import Layout, as_block, check_shape, check_two_dimensional, float_dtype, text_names


class SlicedMatrix:
    """Read ranges of samples from an array-like by slicing it along its sample axis.

    Parameters
    ----------
    data : array-like
        Has ``shape`` and ``dtype``; slicing it gives something NumPy converts.
        If it has ``chunks`` (lengths along both axes), whole chunks are read
        and kept, so that each is decoded once in a sequential pass.
    layout : {"samples-first", "channels-first"}
    """

    def __init__(self, data: Any, layout: Layout) -> None:
        if data.shape is None:
            raise DataError("The dataset is empty.")
        rows, columns = check_two_dimensional(data.shape)
        self._data = data
        self._transposed = layout == "channels-first"
        self.n_samples, self.n_features = (columns, rows) if self._transposed else (rows, columns)
        self.dtype = float_dtype(data.dtype)
        chunks = getattr(data, "chunks", None)
        self._cache: ChunkCache | None = None
        if chunks and self.n_samples:
            row_bytes = self.n_features * self.dtype.itemsize
            self._bounds = slab_bounds(self.n_samples, int(chunks[1 if self._transposed else 0]), row_bytes)
            self._cache = ChunkCache(self._bounds, self._slab)

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop` as ``(stop - start, n_features)``."""
        return self._slice(start, stop) if self._cache is None else self._cache.read(start, stop)

    def _slab(self, k: int) -> Array:
        return self._slice(self._bounds[k], self._bounds[k + 1])

    def _slice(self, start: int, stop: int) -> Array:
        block = np.asarray(self._data[:, start:stop]).T if self._transposed else self._data[start:stop]
        return as_block(block, self.dtype)


class SlicedSource(MatrixSource):
    """An open HDF5 dataset, Zarr array or xarray ``DataArray``; its owner closes it.

    Parameters
    ----------
    data : array-like
        See :class:`SlicedMatrix`.
    layout : {"samples-first", "channels-first"}
    names : sequence of str, optional
        Feature names.
    """

    def __init__(self, data: Any, *, layout: Layout, names: Iterable[Any] | None = None) -> None:
        self.kind = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
        self.data = data
        self._layout = layout
        self._matrix = SlicedMatrix(data, layout)
        self.n_samples, self.n_features = self._matrix.n_samples, self._matrix.n_features
        self.dtype = self._matrix.dtype
        self.feature_names = text_names(names)
        check_shape(self.n_samples, self.n_features)

    def _load(self, start: int, stop: int) -> Array:
        return self._matrix.read(start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.data, self._layout, self.feature_names)


def _rebuild(data: Any, layout: Layout, names: Iterable[Any] | None) -> SlicedSource:
    return SlicedSource(data, layout=layout, names=names)


def choose(label: str, arrays: dict[str, Any]) -> Any:
    """The only matrix of a container, or an error that lists what there is."""
    matrices = {name: array for name, array in arrays.items() if array.shape is not None and len(array.shape) == 2}
    if len(matrices) == 1:
        return next(iter(matrices.values()))
    if matrices:
        listed = some_of([f"{name} {tuple(array.shape)}" for name, array in sorted(matrices.items())])
        raise DataError(f"{label}: holds {len(matrices)} matrices ({listed}); name one of them as '{label}:NAME'.")
    listed = some_of([f"{name} {array.shape}" for name, array in sorted(arrays.items())]) or "nothing"
    raise DataError(f"{label}: holds no matrix; found {listed}.")
