"""Parquet and Arrow tables: files, directories of files, and tables in memory."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from majorica.errors import DataTypeError, MajoricaWarning, SourceError, optional_import, warn
from majorica.sources.base import Array
from majorica.sources.chunks import ChunkCache, bounds_of
from majorica.sources.columns import pick_columns
from majorica.sources.matrix import FileSource
from majorica.sources.rules import float_dtype

#: Rows that can be decoded on their own: how many, and how to load some columns of them.
Unit = tuple[int, Callable[[list[str]], Any]]


class ArrowSource(FileSource):
    """Numeric columns of a Parquet or Arrow IPC (Feather) file, or of a directory of them.

    One row group (record batch) is decoded at a time; the files of a directory
    follow each other in the order of their names. Columns that are not numbers
    are left out with a warning; `picks` chooses columns by name. Missing
    values read as NaN.
    """

    kind = "Parquet or Arrow table"
    fixed_layout = "samples-first"
    takes_picks = True
    _cache: ChunkCache | None = None

    def _open(self) -> None:
        arrow = optional_import("pyarrow", extra="io", purpose="reading Parquet and Arrow files")
        units: list[Unit] = []
        schema = None
        for path in _files_of(self.path):
            found, more = _parquet_units(path) if _is_parquet(path) else _ipc_units(path)
            if schema is not None and not found.equals(schema):
                raise SourceError(f"{path}: its columns differ from those of the first file of {self.path}.")
            schema = found
            units += more
        numeric = {field.name: _numpy_dtype(arrow, field.type) for field in schema} if schema is not None else {}
        names = choose_columns(self.path, numeric, self.picks)
        self.feature_names = tuple(names)
        self.n_features = len(names)
        self.n_samples = sum(rows for rows, _ in units)
        self.dtype = float_dtype(*(numeric[name] for name in names))
        self._units = units
        self._cache = ChunkCache(bounds_of([rows for rows, _ in units]), self._decode)

    def _decode(self, k: int) -> Array:
        assert self.feature_names is not None
        return table_block(self._units[k][1](list(self.feature_names)), self.feature_names, self.dtype)

    def _load(self, start: int, stop: int) -> Array:
        assert self._cache is not None
        return self._cache.read(start, stop)

    def close(self) -> None:
        """Forget the decoded rows."""
        super().close()
        if self._cache is not None:
            self._cache.clear()


def choose_columns(label: str, dtypes: dict[str, Any], picks: Sequence[str] | None) -> list[str]:
    """Names of the columns to use: `picks`, or all that are numbers, with a warning for the others."""
    if picks is not None:
        names = pick_columns(label, list(dtypes), picks)
        wrong = [name for name in names if dtypes[name] is None]
        if wrong:
            raise DataTypeError(f"{label}: the column(s) {', '.join(map(repr, wrong))} do not hold real numbers.")
        return names
    names = [name for name, dtype in dtypes.items() if dtype is not None]
    left_out = [name for name in dtypes if name not in names]
    if left_out and names:
        warn(
            f"{label}: the column(s) {', '.join(map(repr, left_out[:10]))} do not hold real numbers and are left out; "
            "pass picks= to choose columns (as_source takes it).",
            MajoricaWarning,
        )
    if not names:
        raise DataTypeError(f"{label}: no column holds real numbers; found {', '.join(map(repr, dtypes)) or 'none'}.")
    return names


def table_block(table: Any, names: Sequence[str], dtype: np.dtype[np.floating]) -> Array:
    """Columns `names` of an Arrow table or record batch as ``(rows, len(names))``; nulls become NaN."""
    block = np.empty((table.num_rows, len(names)), dtype)
    for j, name in enumerate(names):
        column = table.column(name)
        if column.null_count and str(column.type) == "bool":
            column = column.cast("int8")
        block[:, j] = column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy()
    return block


def _numpy_dtype(arrow: Any, kind: Any) -> Any:
    """The NumPy dtype of an Arrow type, None if it is not a real number."""
    types = arrow.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return np.dtype(kind.to_pandas_dtype()) if is_number else None


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as handle:
        magic = handle.read(6)
    if magic[:4] == b"PAR1":
        return True
    if magic == b"ARROW1":
        return False
    raise SourceError(f"{path}: neither a Parquet nor an Arrow (IPC file) file.")


def _files_of(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    found = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(TABLE_SUFFIXES) and not name.startswith((".", "_"))
    ]
    if not found:
        raise SourceError(f"{path}: the directory has no Parquet or Arrow file.")
    return sorted(found)


TABLE_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")


def _parquet_units(path: str) -> tuple[Any, list[Unit]]:
    parquet = optional_import("pyarrow.parquet", extra="io", purpose="reading Parquet files")
    with parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    units: list[Unit] = []
    for k in range(metadata.num_row_groups):
        rows = metadata.row_group(k).num_rows
        if rows:
            units.append((rows, functools.partial(_read_row_group, path, k)))
    return schema.remove_metadata(), units


def _read_row_group(path: str, k: int, names: list[str]) -> Any:
    parquet = optional_import("pyarrow.parquet", extra="io", purpose="reading Parquet files")
    with parquet.ParquetFile(path) as file:
        return file.read_row_group(k, columns=names, use_threads=False)


def _ipc_units(path: str) -> tuple[Any, list[Unit]]:
    arrow = optional_import("pyarrow", extra="io", purpose="reading Arrow files")
    ipc = optional_import("pyarrow.ipc", extra="io", purpose="reading Arrow files")
    units: list[Unit] = []
    # One column is enough to learn the lengths of the batches.
    with arrow.memory_map(path) as file:
        schema = ipc.open_file(file).schema
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        for k in range(reader.num_record_batches):
            rows = reader.get_batch(k).num_rows
            if rows:
                units.append((rows, functools.partial(_read_batch, path, k)))
    return schema.remove_metadata(), units


def _read_batch(path: str, k: int, names: list[str]) -> Any:
    arrow = optional_import("pyarrow", extra="io", purpose="reading Arrow files")
    ipc = optional_import("pyarrow.ipc", extra="io", purpose="reading Arrow files")
    with arrow.memory_map(path) as file:
        schema = ipc.open_file(file).schema
        fields = [schema.get_field_index(name) for name in names]
        return ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields)).get_batch(k)
