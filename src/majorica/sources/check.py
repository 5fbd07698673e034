"""A self-check for sources, the way scikit-learn's ``check_estimator`` tests an estimator."""

from __future__ import annotations

import numpy as np

from majorica.errors import DataError, DataTypeError
from majorica.sources.base import Source


def check_source(source: Source) -> None:
    """Raise if `source` breaks the contract of :class:`~majorica.sources.base.Source`.

    Reads a few short ranges; the data may be of any size.
    """
    if not isinstance(source, Source):
        missing = [
            name
            for name in ("n_samples", "n_features", "dtype", "in_memory", "feature_names", "read")
            if not hasattr(source, name)
        ]
        raise DataTypeError(f"{type(source).__name__} is no source: it lacks {', '.join(missing)}.")
    if source.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise DataTypeError(f"dtype is {source.dtype!r}; it must be numpy.dtype of float32 or float64.")
    if source.feature_names is not None and len(source.feature_names) != source.n_features:
        raise DataError(f"{len(source.feature_names)} feature names for {source.n_features} features.")
    n = source.n_samples
    middle, length = n // 2, min(5, n)
    for start, stop in ((0, length), (n - length, n), (middle, min(n, middle + 3)), (middle, middle)):
        block = source.read(start, stop)
        _check_block(source, block, start, stop)
        if not np.array_equal(block, source.read(start, stop), equal_nan=True):
            raise DataError(f"samples {start} to {stop} differ when read twice.")
    rows = [source.read(row, row + 1) for row in range(length)]
    if not np.array_equal(np.concatenate(rows), source.read(0, length), equal_nan=True):
        raise DataError("samples read one by one differ from the same samples read at once.")


def _check_block(source: Source, block: object, start: int, stop: int) -> None:
    where = f"read({start}, {stop})"
    if type(block) is not np.ndarray:
        raise DataTypeError(f"{where} gives a {type(block).__name__}, it must be a plain ndarray.")
    if block.shape != (stop - start, source.n_features):
        raise DataError(f"{where} has shape {block.shape}, it must be {(stop - start, source.n_features)}.")
    if block.dtype != source.dtype:
        raise DataTypeError(f"{where} is {block.dtype}, the source says {source.dtype}.")
    if not (block.flags.c_contiguous and block.flags.aligned):
        raise DataError(f"{where} is not C-contiguous and aligned.")
