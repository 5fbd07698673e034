"""NumPy files: ``.npy`` and the members of ``.npz``, memory-mapped.

Headers are parsed and checked against the size of the file before anything is
mapped; pickled objects are never loaded.
"""

from __future__ import annotations

import math
import os
import shutil
import struct
import tempfile
import zipfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from majorica.errors import DataError, DataTypeError, SourceError
from majorica.sources.matrix import FileSource
from majorica.sources.names import some_of
from majorica.sources.rules import file_layout, float_dtype
from majorica.sources.spool import TemporaryFile


class NpySource(FileSource):
    """A ``.npy`` file, memory-mapped; blocks of a samples-first float file are views of the map."""

    kind = ".npy file"
    in_memory = True

    def _open(self) -> None:
        self._use(map_npy(self.path))

    def _use(self, array: npt.NDArray[Any]) -> None:
        self.dtype = float_dtype(array.dtype)
        self.layout = file_layout(array.shape, self.layout)
        self._array: npt.NDArray[Any] | None = array.T if self.layout == "channels-first" else array
        self.n_samples, self.n_features = self._array.shape

    def _load(self, start: int, stop: int) -> npt.NDArray[Any]:
        assert self._array is not None
        return self._array[start:stop]

    def close(self) -> None:
        """Unmap the file once no block of it is used any more."""
        super().close()
        self._array = None


class NpzSource(NpySource):
    """One array of a ``.npz`` file.

    A member that is stored uncompressed (:func:`numpy.savez`) is mapped where
    it lies; a compressed one is first unpacked to a temporary file.
    """

    kind = ".npz file"
    takes_member = True
    _unpacked: TemporaryFile | None = None

    def _open(self) -> None:
        with zipfile.ZipFile(self.path) as archive:
            info = self._find(archive)
            if info.compress_type == zipfile.ZIP_STORED:
                self._use(map_npy(self.path, offset=_member_offset(self.path, info), size=info.file_size))
            else:
                self._unpacked = _unpack(archive, info)
                self._use(map_npy(self._unpacked.path))

    def _find(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        listed = some_of(sorted(members)) or "nothing"
        if self.member is None:
            if len(members) != 1:
                raise DataError(
                    f"{self.path}: holds {len(members)} arrays ({listed}); name one of them as '{self.path}:NAME'."
                )
            return next(iter(members.values()))
        if self.member.removesuffix(".npy") not in members:
            raise DataError(f"{self.path}: has no array {self.member!r}; it holds {listed}.")
        return members[self.member.removesuffix(".npy")]

    def close(self) -> None:
        """Unmap the file and remove the unpacked copy if there is one."""
        super().close()
        if self._unpacked is not None:
            self._unpacked.remove()


def map_npy(path: str, *, offset: int = 0, size: int | None = None) -> npt.NDArray[Any]:
    """Memory-map the array that starts at byte `offset` of `path`, read-only.

    `size` is how many bytes the array file has, by default all that follow.
    """
    available = os.path.getsize(path) - offset
    with open(path, "rb") as handle:
        handle.seek(offset)
        shape, fortran_order, dtype = read_header(handle)
        start = handle.tell()
    if dtype.hasobject:
        raise DataTypeError(
            f"{path}: holds Python objects, which are never loaded from files; save it again with astype(float)."
        )
    float_dtype(dtype)
    if any(type(length) is not int or length < 0 for length in shape):
        raise SourceError(f"{path}: damaged, its header claims the shape {shape}.")
    needed = start - offset + math.prod(shape) * dtype.itemsize
    present = available if size is None else min(available, size)
    if needed > present:
        raise SourceError(
            f"{path}: truncated, its header promises an array of shape {shape} ({needed} bytes) "
            f"but {present} bytes are there."
        )
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    mapped = np.memmap(path, dtype=dtype, mode="r", offset=start, shape=shape, order="F" if fortran_order else "C")
    return mapped.view(np.ndarray)


def read_header(handle: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype of an array file, its handle left at the first sample."""
    version = np.lib.format.read_magic(handle)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(handle)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(handle)
    raise DataTypeError(f"version {version} of the .npy format is for tables with named fields; save a plain matrix.")


def _member_offset(path: str, info: zipfile.ZipInfo) -> int:
    """Where the bytes of an uncompressed member start: after its local header, name and extra field."""
    with open(path, "rb") as handle:
        handle.seek(info.header_offset)
        header = handle.read(30)
    if len(header) != 30 or header[:4] != b"PK\x03\x04":
        raise SourceError(f"{path}: damaged, the archive has no {info.filename!r} where its directory says.")
    name_length, extra_length = struct.unpack("<HH", header[26:30])
    return int(info.header_offset + 30 + name_length + extra_length)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> TemporaryFile:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if info.file_size > free:
        raise SourceError(
            f"{archive.filename}: {info.filename!r} unpacks to {info.file_size} bytes but only {free} are free in "
            f"{tempfile.gettempdir()}; set TMPDIR to a larger disk."
        )
    spool = TemporaryFile(".npy")
    try:
        with archive.open(info) as packed, open(spool.path, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, 2**20)
    except BaseException:
        spool.remove()
        raise
    return spool
