"""Sources: every container of samples behind one small interface.

:func:`as_source` turns what users have (arrays, files, recordings, data
frames, Dask arrays, streams) into a :class:`Source` or a :class:`Stream`.
Libraries that are not installed are only missed when their files are opened.
"""

from __future__ import annotations

import importlib
import numbers
import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from majorica.errors import DataTypeError, ParameterError, SourceError
from majorica.sources.array import ArraySource, numeric_array
from majorica.sources.base import (
    Array,
    Block,
    Source,
    Stream,
    block_length,
    fingerprint,
    read_block,
    split_blocks,
)
from majorica.sources.blocks import JoinedSource
from majorica.sources.check import check_source
from majorica.sources.matrix import FileSource
from majorica.sources.paths import check_readable, split_member
from majorica.sources.prefetch import prefetch
from majorica.sources.rules import Layout, check_layout, file_layout
from majorica.sources.stream import BlockStream, first_tensor, raw_stream

__all__ = [
    "Array",
    "Block",
    "Layout",
    "Source",
    "Stream",
    "as_source",
    "block_length",
    "check_source",
    "fingerprint",
    "prefetch",
    "read_block",
    "split_blocks",
]

_RECORDING = "mne:RecordingSource"
_TABLE = "arrow:ArrowSource"

#: Which class reads which file, by the end of its name.
FORMATS: dict[str, str] = {
    ".npy": "npy:NpySource",
    ".npz": "npy:NpzSource",
    ".zarr": "zarr:ZarrSource",
    ".h5": "hdf5:Hdf5Source",
    ".hdf5": "hdf5:Hdf5Source",
    ".hdf": "hdf5:Hdf5Source",
    ".he5": "hdf5:Hdf5Source",
    ".parquet": _TABLE,
    ".pq": _TABLE,
    ".arrow": _TABLE,
    ".feather": _TABLE,
    ".ipc": _TABLE,
    ".csv": "csv:CsvSource",
    ".tsv": "csv:CsvSource",
    ".set": "eeglab:EeglabSource",
    ".fif": _RECORDING,
    ".fif.gz": _RECORDING,
    ".edf": _RECORDING,
    ".bdf": _RECORDING,
    ".gdf": _RECORDING,
    ".vhdr": _RECORDING,
    ".ahdr": _RECORDING,
    ".cnt": _RECORDING,
    ".mff": _RECORDING,
    ".ds": _RECORDING,
    ".sqd": _RECORDING,
    ".con": _RECORDING,
    ".nxe": _RECORDING,
    ".nedf": _RECORDING,
    ".lay": _RECORDING,
    ".snirf": _RECORDING,
}

#: Files that belong to another one, which is the one to open.
_COMPANIONS = {".fdt": ".set", ".eeg": ".vhdr", ".vmrk": ".vhdr"}

#: What may be joined in a list though it has no ``ndim``, by module and class.
_BLOCKS = (
    ("mne.io", "BaseRaw"),
    ("mne", "BaseEpochs"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
)

_FILES = ".npy .npz .zarr .h5 .parquet .arrow .csv .set .fif .edf .bdf .vhdr"
_ACCEPTED = (
    "an array, a data frame, a Dask array, an xarray DataArray, an MNE Raw or Epochs object, the path of a file "
    f"({_FILES}), a list or an iterable of 2-D blocks, or a binary file object"
)
#: What to do with files that other programs write, by the end of their name.
_ELSEWHERE = {
    ".mat": "read it with scipy.io.loadmat or h5py and pass the array, or read an EEGLAB dataset as .set",
    ".txt": "if it is a table of numbers, name it .csv (or .tsv)",
    ".xlsx": "read it with pandas.read_excel and pass the frame, or save it as .csv",
}
#: What to do with a file whose name ends in none of these.
_UNKNOWN = (
    f"known are {_FILES}; if it holds raw samples, open it in binary mode and pass the file object with n_features="
)


def as_source(
    x: Any, *, layout: Layout | None = None, n_features: int | None = None, picks: Any = None
) -> Source | Stream:
    """Whatever holds samples, as a source; samples are not loaded.

    Parameters
    ----------
    x : object
        An array or anything NumPy converts, a data frame (pandas, polars,
        Arrow, Dask), a Dask array, an xarray ``DataArray``, an open HDF5
        dataset or Zarr array, an MNE ``Raw`` or ``Epochs``, a path
        (``file.npz:name``, ``file.h5:/path`` and ``store.zarr:/path`` name one
        of several arrays), a list of any of these (joined), an iterable of 2-D blocks or a
        torch ``DataLoader`` (a stream), ``"-"`` or a binary file object (a
        stream of raw little-endian float32). A source or stream is returned as
        it is.
    layout : {"samples-first", "channels-first"}, optional
        Which axis is which. Arrays in memory default to samples first. An array
        file with fewer rows than columns has no default. Recordings and tables
        know their layout.
    n_features : int, optional
        Values in a sample of a raw binary stream; of other data the width to
        insist on.
    picks : optional
        Channels of a recording (as in MNE) or columns of a table, of each one in a list.

    Returns
    -------
    Source or Stream

    Raises
    ------
    SourceError
        The file is missing, not readable or damaged.
    DataError, DataTypeError
        The content cannot be samples, or `x` is of an unknown kind.
    ParameterError
        An option does not go with `x`.
    """
    source = _source_of(x, check_layout(layout), n_features, picks)
    if n_features is not None and source.n_features != n_features:
        raise ParameterError(
            f"n_features={n_features} contradicts the data, which has {source.n_features} features; leave it out."
        )
    return source


def _source_of(x: Any, layout: Layout | None, n_features: int | None, picks: Any) -> Source | Stream:
    if _is_source(x) or _is_stream(x):
        _refuse(x, layout=layout, picks=picks)
        passed: Source | Stream = x
        return passed
    if isinstance(x, str | os.PathLike):
        return _from_path(os.fspath(x), layout, n_features, picks)
    if isinstance(x, np.ndarray | np.generic):
        _refuse(x, picks=picks)
        return ArraySource(numeric_array(x), layout=layout)
    source = _from_library(x, layout, n_features, picks)
    if source is not None:
        return source
    if isinstance(x, list | tuple):
        return _from_list(x, layout, picks)
    _refuse(x, picks=picks)
    if callable(getattr(x, "read", None)):
        _refuse(x, layout=layout)
        return raw_stream(x, n_features=n_features)
    if isinstance(x, memoryview) or any(hasattr(x, name) for name in ("__array__", "__array_interface__")):
        return ArraySource(numeric_array(x), layout=layout)
    if hasattr(x, "__dlpack__"):
        return ArraySource(np.from_dlpack(x), layout=layout)
    if isinstance(x, Iterable) and not isinstance(x, bytes | bytearray | dict | set | frozenset):
        return BlockStream(x, n_features=n_features, layout=layout)
    raise DataTypeError(f"Cannot read samples from a {type(x).__module__}.{type(x).__qualname__}; pass {_ACCEPTED}.")


def _is_source(x: Any) -> bool:
    """Whether `x` is a source; objects that answer to every name (mocks, delayed values) are not."""
    return hasattr(x, "n_samples") and isinstance(x, Source) and isinstance(x.n_samples, numbers.Integral)


def _is_stream(x: Any) -> bool:
    return hasattr(x, "n_samples") and isinstance(x, Stream) and x.n_samples is None and not isinstance(x, type)


def _refuse(x: Any, **options: Any) -> None:
    """Raise if an option is given that has no meaning for `x`."""
    for name, value in options.items():
        if value is not None:
            raise ParameterError(f"{name}={value!r} has no meaning for a {type(x).__name__}; leave it out.")


def _from_path(text: str | bytes, layout: Layout | None, n_features: int | None, picks: Any) -> Source | Stream:
    text = os.fsdecode(text)
    if text == "-":
        _refuse(text, layout=layout, picks=picks)
        return raw_stream(sys.stdin.buffer, n_features=n_features)
    path, member = split_member(text)
    is_directory = check_readable(path)
    name = os.path.basename(path.rstrip("/\\")).lower()
    suffix = next((end for end in sorted(FORMATS, key=len, reverse=True) if name.endswith(end)), None)
    if is_directory and suffix not in (".zarr", ".mff", ".ds"):
        kind = _directory_format(path)
    elif suffix == ".zarr" and not is_directory:
        raise SourceError(f"{path}: is a file, but a Zarr store is a directory.")
    elif suffix is not None:
        kind = FORMATS[suffix]
    else:
        extension = os.path.splitext(name)[1]
        hint = f"open the {_COMPANIONS[extension]} file beside it" if extension in _COMPANIONS else _UNKNOWN
        hint = _ELSEWHERE.get(extension, hint)
        raise SourceError(f"{path}: unknown format {extension or '(no extension)'!r}; {hint}.")
    return _open_format(kind, path, member=member, layout=layout, picks=picks)


def _directory_format(path: str) -> str:
    names = os.listdir(path)
    if {"zarr.json", ".zgroup", ".zarray"} & set(names):
        return FORMATS[".zarr"]
    if any(name.lower().endswith((".parquet", ".pq", ".arrow", ".feather", ".ipc")) for name in names):
        return _TABLE
    if path.lower().rstrip("/\\").endswith((".parquet", ".arrow")):
        return _TABLE
    raise SourceError(f"{path}: is a directory, but neither a Zarr store nor Parquet or Arrow files.")


def _open_format(kind: str, path: str, **options: Any) -> FileSource:
    module, _, name = kind.partition(":")
    opened: FileSource = getattr(importlib.import_module(f"majorica.sources.{module}"), name)(path, **options)
    return opened


def is_block(x: Any) -> bool:
    """Whether `x`, an item of a list, holds samples of its own (a 2-D array, path, recording, table or source)."""
    return (
        isinstance(x, os.PathLike | str)
        or str(getattr(x, "ndim", None)) == "2"
        or any(_is_a(x, *kind) for kind in _BLOCKS)
        or _is_source(x)
    )


def _from_list(x: list[Any] | tuple[Any, ...], layout: Layout | None, picks: Any) -> Source:
    """A matrix of numbers, or blocks (delayed values too) to join; `picks` chooses features of each."""
    if x and all(_is_a(item, "dask.delayed", "Delayed") for item in x):
        from majorica.sources.dask import delayed_source

        _refuse(x, picks=picks)
        return delayed_source(x)
    if not x or not all(map(is_block, x)):
        _refuse(x, picks=picks)
        return ArraySource(numeric_array(x), layout=layout)
    axis = 1 if layout == "channels-first" else 0
    filled = [item for item in x if getattr(item, "ndim", 0) != 2 or item.shape[axis] != 0]  # as in streams of blocks
    parts = []
    for item in filled or x[:1]:
        part = as_source(item, layout=None if _is_source(item) else layout, picks=picks)
        if not isinstance(part, Source):
            raise DataTypeError("A list of blocks cannot hold a stream.")
        parts.append(part)
    return JoinedSource(parts)


def _from_library(x: Any, layout: Layout | None, n_features: int | None, picks: Any) -> Source | Stream | None:
    """Objects of optional libraries, recognised without importing any of them."""
    library = type(x).__module__.partition(".")[0]
    if "scipy.sparse" in type(x).__module__ or library == "sparse":
        raise DataTypeError("Sparse data is not supported: centring makes it dense; pass x.toarray() if that fits.")
    if _is_a(x, "polars", "LazyFrame"):
        raise DataTypeError("A polars LazyFrame holds no samples yet; call .collect() first.")
    if _is_a(x, "dask.delayed", "Delayed"):
        raise DataTypeError(
            "A Delayed value has no known shape; pass a list of delayed blocks, or "
            "dask.array.from_delayed(x, shape=..., dtype=...)."
        )
    if _is_a(x, "mne.io", "BaseRaw"):
        from majorica.sources.mne import RawSource

        if layout == "samples-first":
            raise ParameterError(
                "layout='samples-first' contradicts an MNE Raw object, which is always channels-first."
            )
        return RawSource(x, picks=picks)
    if _is_a(x, "mne", "BaseEpochs"):
        from majorica.sources.mne import epochs_source

        if layout == "samples-first":
            raise ParameterError("layout='samples-first' contradicts MNE epochs, which are always channels-first.")
        return epochs_source(x, picks=picks)
    if (
        _is_a(x, "pandas", "DataFrame")
        or _is_a(x, "polars", "DataFrame")
        or _is_a(x, "pyarrow", "Table")
        or _is_a(x, "pyarrow", "RecordBatch")
    ):
        from majorica.sources.columns import frame_source

        _refuse(x, layout=None if layout == "samples-first" else layout)
        return frame_source(x, picks=picks)
    if library == "dask" and hasattr(x, "to_dask_array"):
        from majorica.sources.dask import dask_frame_source

        _refuse(x, layout=None if layout == "samples-first" else layout)
        return dask_frame_source(x, picks=picks)
    if picks is not None:
        return None
    if _is_a(x, "dask.array", "Array"):
        from majorica.sources.dask import DaskSource

        return DaskSource(x, layout=layout)
    if _is_a(x, "xarray", "DataArray"):
        from majorica.sources.labelled import labelled_source

        return labelled_source(x, layout=layout)
    if _is_a(x, "h5py", "Dataset") or _is_a(x, "zarr", "Array"):
        from majorica.sources.sliced import SlicedSource

        return SlicedSource(x, layout=file_layout(x.shape or (), layout))
    if library == "torch" and type(x).__name__ == "DataLoader":
        return BlockStream(x, n_features=n_features, layout=layout, unpack=first_tensor)
    if library == "torch" and hasattr(x, "detach"):
        return ArraySource(numeric_array(first_tensor(x)), layout=layout)
    return None


def _is_a(x: Any, module: str, name: str) -> bool:
    """Whether `x` is an instance of a class of a library, which is imported already if it is."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, getattr(loaded, name, ()))
