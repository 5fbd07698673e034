"""Matrices in memory: arrays, and columns of data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.errors import DataTypeError
from majorica.sources.base import Array, Block, rows_of
from majorica.sources.matrix import MatrixSource
from majorica.sources.rules import (
    Layout,
    as_block,
    check_shape,
    check_two_dimensional,
    float_dtype,
    refuse_masked,
    text_names,
)


class ArraySource(MatrixSource):
    """A NumPy array or memory map; blocks are views of it where dtype and order allow.

    Parameters
    ----------
    array : ndarray
        The matrix. It is neither copied nor written to.
    layout : {"samples-first", "channels-first"}
        A channels-first matrix is transposed block by block.
    names : sequence of str, optional
        Feature names.
    """

    in_memory = True

    def __init__(
        self, array: npt.NDArray[Any], *, layout: Layout | None = None, names: Iterable[Any] | None = None
    ) -> None:
        check_two_dimensional(array.shape)
        refuse_masked(array)
        plain = array.view(np.ndarray)
        self.array = plain.T if layout == "channels-first" else plain
        self.dtype = float_dtype(array.dtype)
        self.n_samples, self.n_features = self.array.shape
        self.feature_names = text_names(names)
        check_shape(self.n_samples, self.n_features)

    def _load(self, start: int, stop: int) -> npt.NDArray[Any]:
        return self.array[start:stop]

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop`; small fits read so often that the care files need would show."""
        if self.dtype == self.array.dtype and 0 <= start <= stop <= self.n_samples and not self._closed:
            return as_block(self.array[start:stop], self.dtype)
        return super().read(start, stop)

    def read_ranges(self, block: Block) -> Array:
        """The samples of a block of many short ranges, in one gather."""
        ranges = np.array(block, dtype=np.intp)
        unit = int(np.gcd.reduce(ranges, axis=None))
        if unit > 1 and self.array.flags.c_contiguous:  # copies whole units instead of samples
            whole = self.array[: self.n_samples // unit * unit].reshape(-1, unit * self.n_features)
            taken = np.take(whole, rows_of(ranges // unit), axis=0).reshape(-1, self.n_features)
        else:
            taken = self.array[rows_of(ranges)]  # np.take would first copy all of an array in another order
        return as_block(taken, self.dtype)


class ColumnsSource(MatrixSource):
    """Columns of a data frame, each an array of its own; blocks are put together on reading.

    Parameters
    ----------
    columns : sequence of ndarray
        One-dimensional, of one length.
    names : sequence of str, optional
        Feature names.
    """

    in_memory = True
    kind = "data frame"

    def __init__(self, columns: Sequence[npt.NDArray[Any]], *, names: Iterable[Any] | None = None) -> None:
        self.columns = list(columns)
        self.n_samples = len(self.columns[0]) if self.columns else 0
        self.n_features = len(self.columns)
        check_shape(self.n_samples, self.n_features)
        self.dtype = float_dtype(*(column.dtype for column in self.columns))
        self.feature_names = text_names(names)

    def _load(self, start: int, stop: int) -> Array:
        block = np.empty((stop - start, self.n_features), self.dtype)
        for j, column in enumerate(self.columns):
            block[:, j] = column[start:stop]
        return block


def numeric_array(x: Any) -> npt.NDArray[Any]:
    """`x` (array, nested list, tensor, anything with ``__array__``) as an array of numbers.

    Arrays of Python objects are converted to float64 if all are numbers.
    """
    refuse_masked(x)
    try:
        array = np.asarray(x)
    except Exception as error:
        raise DataTypeError(
            f"A {type(x).__name__} could not be turned into an array of numbers ({error}); "
            "rows must have one length and hold numbers."
        ) from error
    if array.dtype.kind != "O":
        return array
    if any(isinstance(value, str | bytes) for value in array.flat):
        raise DataTypeError("The samples must be real numbers, not strings; convert or leave out such columns.")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"The samples must be real numbers, but an array of Python objects was given ({error}); "
            "convert it with astype(float)."
        ) from error
