"""Data frames in memory: pandas, polars and Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.errors import DataTypeError, ParameterError
from majorica.sources.array import ArraySource, ColumnsSource
from majorica.sources.names import some_of


def frame_source(frame: Any, *, picks: Sequence[Any] | None = None) -> ArraySource | ColumnsSource:
    """A source of the columns of a pandas, polars or Arrow table, without copying them.

    Every column must hold real numbers; `picks` chooses columns by name.
    Missing values read as NaN.
    """
    library = type(frame).__module__.partition(".")[0]
    names = list(frame.column_names if library == "pyarrow" else frame.columns)
    chosen = range(len(names)) if picks is None else [names.index(name) for name in pick_columns(library, names, picks)]
    column_of = {"pandas": _pandas_column, "polars": _polars_column, "pyarrow": _arrow_column}[library]
    columns = [column_of(frame, j) for j in chosen]
    for j, column in zip(chosen, columns, strict=True):
        if column.dtype.kind not in "fiubc":
            raise DataTypeError(
                f"The column {names[j]!r} does not hold real numbers ({column.dtype}); "
                "convert it, or choose columns with picks= (as_source takes it)."
            )
    kept = [names[j] for j in chosen]
    if library == "pandas" and picks is None and columns and _is_one_block(frame, columns):
        return ArraySource(frame.to_numpy(), names=kept)
    return ColumnsSource(columns, names=kept)


def pick_columns(label: str, names: Sequence[Any], picks: Sequence[Any]) -> list[Any]:
    """`picks` as a list, after checking that each is one of `names`."""
    wanted = [picks] if isinstance(picks, str) else list(picks)
    missing = [name for name in wanted if name not in names]
    if missing or not wanted:
        raise ParameterError(
            f"{label}: picks names no column {some_of([repr(name) for name in missing])}; "
            f"the columns are {some_of([repr(name) for name in names], 20)}."
        )
    return wanted


def _is_one_block(frame: Any, columns: list[npt.NDArray[Any]]) -> bool:
    """Whether pandas stores all columns in one array, which then needs no putting together."""
    if any(not isinstance(dtype, np.dtype) or dtype != columns[0].dtype for dtype in frame.dtypes):
        return False
    head = frame.iloc[:1].to_numpy()
    return all(np.shares_memory(head, column) for column in (columns[0], columns[-1]))


def _pandas_column(frame: Any, j: int) -> npt.NDArray[Any]:
    series = frame.iloc[:, j]
    if str(series.dtype) == "category":
        return np.empty(0, dtype=object)
    if getattr(series.dtype, "kind", "O") in "mM":  # with a time zone they would become Python objects, then numbers
        return np.empty(0, dtype=f"{series.dtype.kind}8[ns]")
    values = np.asarray(series.to_numpy())
    if values.dtype.kind == "O" and not any(isinstance(value, str | bytes) for value in values):
        try:
            values = np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise DataTypeError(
                f"The column {frame.columns[j]!r} does not hold real numbers ({error}); "
                "convert it, or choose columns with picks= (as_source takes it)."
            ) from error
    return values


def _polars_column(frame: Any, j: int) -> npt.NDArray[Any]:
    series = frame.get_columns()[j]
    if series.null_count() and str(series.dtype) == "Boolean":
        return np.asarray(series.to_physical().cast(float).to_numpy())
    return np.asarray(series.to_numpy())


def _arrow_column(table: Any, j: int) -> npt.NDArray[Any]:
    column = table.column(j)
    if column.null_count and str(column.type) == "bool":
        column = column.cast("int8")
    # Record batches hold arrays, tables hold chunked arrays.
    return np.asarray(column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy())
