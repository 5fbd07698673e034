"""Dask arrays and data frames, read chunk by chunk and never computed as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from majorica.errors import DataError, DataTypeError
from majorica.sources.base import Array
from majorica.sources.chunks import ChunkCache, bounds_of
from majorica.sources.columns import pick_columns
from majorica.sources.matrix import MatrixSource
from majorica.sources.paths import reading
from majorica.sources.rules import Layout, as_block, check_shape, check_two_dimensional, float_dtype, text_names


class DaskSource(MatrixSource):
    """A Dask array; ``read`` computes one of its chunks at a time and keeps the last ones.

    Parameters
    ----------
    array : dask.array.Array
        The matrix. Unknown chunk lengths are computed first, which runs the
        graph once but keeps lengths only.
    layout : {"samples-first", "channels-first"}
    names : sequence of str, optional
        Feature names.

    Attributes
    ----------
    array : dask.array.Array
        Lazy, samples first, of dtype ``dtype``, each chunk all features wide.
        Engines that compute on a cluster work on this (or on
        :meth:`with_blocks`) instead of calling ``read``.
    client : distributed.Client or None
        Set by such engines, so that what is read here is cut on the workers.
    """

    kind = "Dask array"
    #: The client whose workers compute what is read here; None for this machine's threads.
    client: Any = None

    def __init__(self, array: Any, *, layout: Layout | None = None, names: Iterable[Any] | None = None) -> None:
        check_two_dimensional(array.shape)
        self.dtype = float_dtype(array.dtype)
        if any(math.isnan(length) for length in array.shape):
            with reading("Dask array", self.kind):
                # On a copy: the method changes the array it is called on.
                array = array.copy().compute_chunk_sizes()
        if layout == "channels-first":
            array = array.T
        if array.dtype != self.dtype:
            array = array.astype(self.dtype)
        if array.numblocks[1] > 1:
            array = array.rechunk({1: -1})
        self.array = array
        self.n_samples, self.n_features = (int(length) for length in array.shape)
        self.feature_names = text_names(names)
        check_shape(self.n_samples, self.n_features)
        self._cache = ChunkCache(bounds_of(array.chunks[0]), self._compute)

    def with_blocks(self, length: int) -> Any:
        """The array in chunks of `length` samples, lazily: chunk ``k`` is block ``k``."""
        return self.array.rechunk({0: length, 1: -1})

    def _compute(self, k: int) -> Array:
        return as_block(self.array.blocks[k].compute(), self.dtype)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> Array:
        """Samples of several ranges, one after the other; on a cluster cut by the workers, all at once."""
        if self.client is None:
            return np.concatenate([self.read(start, stop) for start, stop in ranges])
        index = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        with reading(self._label(), self.kind):
            return as_block(self.client.compute(self.array[index], sync=True), self.dtype)

    def _load(self, start: int, stop: int) -> Array:
        if self.client is None:
            return self._cache.read(start, stop)
        # On a cluster the range is cut by the workers: a chunk may be larger than this machine's memory.
        return as_block(self.client.compute(self.array[start:stop], sync=True), self.dtype)

    def close(self) -> None:
        """Forget the computed chunks."""
        super().close()
        self._cache.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.array, self.feature_names)


def _rebuild(array: Any, names: Iterable[Any] | None) -> DaskSource:
    return DaskSource(array, names=names)


def dask_frame_source(frame: Any, *, picks: Sequence[Any] | None = None) -> DaskSource:
    """A source of the columns of a Dask data frame; the lengths of its partitions are computed."""
    if picks is not None:
        frame = frame[pick_columns("Dask data frame", list(frame.columns), picks)]
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if not isinstance(dtype, np.dtype) or dtype.kind not in "fiubc":
            raise DataTypeError(
                f"The column {name!r} does not hold real numbers ({dtype}); convert it, or choose columns with "
                "picks= (as_source takes it)."
            )
    with reading("Dask data frame", "Dask data frame"):
        # One dtype for all columns, else every block would be of Python objects.
        array = frame.astype(float_dtype(*frame.dtypes)).to_dask_array(lengths=True)
    return DaskSource(array, names=list(frame.columns))


def delayed_source(blocks: Sequence[Any]) -> DaskSource:
    """A source of delayed 2-D blocks, one after the other; only their shapes and dtypes are computed here."""
    import dask
    import dask.array as da

    with reading("list of delayed blocks", "a list of delayed blocks"):
        described = dask.compute(*(dask.delayed(_describe)(block) for block in blocks))
    for k, (shape, _) in enumerate(described):
        if len(shape) != 2 or shape[1] != described[0][0][1]:
            raise DataError(
                f"Delayed blocks must be 2-D and of one width: block {k} has shape {shape}, "
                f"block 0 has shape {described[0][0]}."
            )
    parts = [
        da.from_delayed(block, shape=shape, dtype=dtype)
        for block, (shape, dtype) in zip(blocks, described, strict=True)
    ]
    return DaskSource(da.concatenate(parts, axis=0))


def _describe(block: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    array = np.asarray(block)
    return array.shape, array.dtype
