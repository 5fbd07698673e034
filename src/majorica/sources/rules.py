"""What every container must obey: dtypes, shapes and layouts.

The rules look at dtypes and shapes only, never at samples, so they cost
nothing and give the same answer for every container of the same matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from majorica.errors import DataError, DataTypeError, ParameterError
from majorica.sources.base import Array

Layout = Literal["samples-first", "channels-first"]


def float_dtype(*dtypes: Any) -> np.dtype[np.floating]:
    """The float dtype in which samples of `dtypes` are read: float32 or float64.

    It is NumPy's promotion of `dtypes` with float32: float32, float16, bool
    and integers of at most 16 bits fit float32 exactly and become float32, all
    other numbers become float64. Native byte order.
    """
    found = [np.dtype(dtype) for dtype in dtypes]
    for dtype in found:
        if dtype.kind == "c":
            raise DataError(
                f"Complex data not supported: the samples are {dtype}; "
                "pass the real part, or real and imaginary parts as separate features."
            )
        if dtype.kind not in "fiub":
            raise DataTypeError(f"The samples must be real numbers, not {dtype}; convert or leave out such columns.")
    common = np.result_type(np.float32, *found)
    return np.dtype(np.float32) if common == np.float32 else np.dtype(np.float64)


def refuse_masked(x: Any) -> None:
    """Refuse a masked array with masked entries, or rows of such: NumPy's conversions forget the mask."""
    rows = x if isinstance(x, list | tuple) else (x,)
    if any(isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in rows):
        raise DataTypeError(
            "Masked entries are not supported; drop the samples that hold them, or fill them: x.filled(value)."
        )


def check_shape(n_samples: int, n_features: int) -> None:
    """Refuse a matrix without samples or without features."""
    for count, what in ((n_samples, "sample(s)"), (n_features, "feature(s)")):
        if count < 1:
            raise DataError(
                f"The data has 0 {what} (shape=({n_samples}, {n_features})) while a minimum of 1 is required."
            )


def check_two_dimensional(shape: Sequence[int]) -> tuple[int, int]:
    """`shape` itself if it has two dimensions, else an error that says what to do."""
    if len(shape) == 2:
        return shape[0], shape[1]
    if len(shape) < 2:
        raise DataError(
            f"Expected 2D data (samples, features), got {len(shape)}D of shape {tuple(shape)}. Reshape your data using "
            "reshape(-1, 1) if it has a single feature or reshape(1, -1) if it is a single sample."
        )
    raise DataError(
        f"Expected 2D data (samples, features), got {len(shape)}D of shape {tuple(shape)}; "
        "pass one matrix, for epochs their samples one after the other."
    )


def check_layout(layout: str | None) -> Layout | None:
    """`layout` if it is one of the two names or None, else an error."""
    if layout is None or layout in get_args(Layout):
        return layout  # type: ignore[return-value]
    raise ParameterError(f"layout={layout!r} is unknown; use 'samples-first', 'channels-first' or None.")


def file_layout(shape: Sequence[int], layout: Layout | None) -> Layout:
    """The layout of an array file of `shape`: `layout`, or samples first where that is plausible."""
    rows, columns = check_two_dimensional(shape)
    if layout is not None:
        return layout
    check_shape(rows, columns)
    if rows < columns:
        s = "s" if rows > 1 else ""
        raise DataError(
            f"The array of shape ({rows}, {columns}) has fewer rows than columns, so its layout is ambiguous: "
            f"pass layout='channels-first' (as_source takes it) if it holds {rows} channel{s}, or "
            f"layout='samples-first' if it really holds {rows} sample{s} of {columns} features."
        )
    return "samples-first"


def as_block(block: Any, dtype: np.dtype[np.floating]) -> Array:
    """`block` as a plain C-contiguous, aligned array of `dtype`; a view where it already is."""
    if type(block) is np.ndarray and block.dtype == dtype and block.flags.c_contiguous and block.flags.aligned:
        return block
    refuse_masked(block)
    return np.require(np.asarray(block), dtype=dtype, requirements=["C", "A"])


def text_names(names: Iterable[Any] | None) -> tuple[str, ...] | None:
    """`names` as a tuple if all are text, else None: scikit-learn's rule for feature names."""
    if names is None:
        return None
    listed = list(names)
    return tuple(str(name) for name in listed) if all(isinstance(name, str) for name in listed) else None
