"""The file format of models and checkpoints: an uncompressed ``.npz`` with a JSON header and a checksum.

Members, in order: ``header.json`` (schema, version, content, and the dtype and
shape of every array), one ``NAME.npy`` an array, ``sha256``. ``numpy.load``
opens it too. Reading trusts nothing: each size is compared with the file's
before memory is taken.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

HEADER, CHECKSUM = "header.json", "sha256"
#: Largest header taken, in bytes; that of a model of 1,000 components has about 0.3 MB.
MAX_HEADER = 64 * 2**20
_NAME = re.compile(r"[A-Za-z0-9_](?:\.?[A-Za-z0-9_])*\Z")


class ContainerError(ValueError):
    """The file is not what it should be; the message says in what."""


def write_container(
    file: IO[bytes], *, schema: str, version: int, content: Any, arrays: Mapping[str, npt.NDArray[Any]]
) -> None:
    """Write header, arrays and checksum to an empty, seekable file."""
    described = {name: _describe(array) for name, array in arrays.items()}
    header = {"schema": schema, "version": version, "arrays": described, "content": content}
    data = json.dumps(header, allow_nan=False, separators=(",", ":")).encode()
    digest = hashlib.sha256(data)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_member(HEADER), data)
        for name, array in arrays.items():
            _write_array(archive, name, array, digest)
        archive.writestr(_member(CHECKSUM), digest.hexdigest())


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # no clock: equal models are equal files


def _describe(array: npt.NDArray[Any]) -> dict[str, Any]:
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    descr = np.lib.format.dtype_to_descr(array.dtype)
    return {"dtype": descr, "shape": list(array.shape), "fortran_order": fortran}


def _write_array(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any], digest: Any) -> None:
    preamble = io.BytesIO()
    described = _describe(array)
    np.lib.format.write_array_header_2_0(
        preamble,
        {"descr": described["dtype"], "fortran_order": described["fortran_order"], "shape": array.shape},
    )
    flat = np.ascontiguousarray(array.T if described["fortran_order"] else array).reshape(-1)
    body = flat.view(np.uint8).data if flat.size else b""
    digest.update(preamble.getvalue())
    digest.update(body)
    with archive.open(_member(f"{name}.npy"), "w", force_zip64=array.nbytes > 2**30) as member:
        member.write(preamble.getvalue())
        for start in range(0, len(body), 2**24):
            member.write(body[start : start + 2**24])


def read_container(
    path: str | os.PathLike[str], *, schema: str, version: int
) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Content and arrays of a file; ContainerError says what is wrong with any other.

    Nothing in the file is executed, unpickled or unpacked: members must be
    stored as they are, be exactly those the header names, and have the sizes
    it says.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            if not {HEADER, CHECKSUM} & set(archive.namelist()):
                raise ContainerError(f"not a {_title(schema)}, but another archive")
            members = _check_members(archive, os.fstat(file.fileno()).st_size)
            data = archive.read(HEADER)
            header = _check_header(data, schema, version)
            _check_sizes(header["arrays"], members)
            digest = hashlib.sha256(data)
            arrays = {name: _read_array(archive, name, item, digest) for name, item in header["arrays"].items()}
            if archive.read(CHECKSUM).decode("ascii") != digest.hexdigest():
                raise ContainerError("its checksum does not match; the file is damaged")
            return header["content"], arrays
    except (ContainerError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except RecursionError as error:
        raise ContainerError("its header is nested too deeply") from error
    except Exception as error:  # zipfile and json answer damage with a dozen kinds of exception
        kind = f"not a {_title(schema)}, or a damaged one"
        raise ContainerError(f"{kind} ({type(error).__name__}: {error})") from error


def _title(schema: str) -> str:
    """The kind of file in words, such as "Majorica model"."""
    return schema[:1].upper() + schema[1:]


def _check_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    claimed = 0
    for info in archive.infolist():
        if info.filename in members:
            raise ContainerError(f"it has two members named {info.filename!r}")
        if info.filename not in (HEADER, CHECKSUM) and not (
            info.filename.endswith(".npy") and _NAME.match(info.filename)
        ):
            raise ContainerError(f"it has a member with the unexpected name {info.filename[:80]!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 0x1:
            raise ContainerError(f"its member {info.filename!r} is compressed or encrypted; it should be stored")
        members[info.filename] = info
        claimed += info.file_size
    if claimed > size:
        raise ContainerError(f"its members claim {claimed} bytes but the file has {size}")
    for name, limit in ((HEADER, MAX_HEADER), (CHECKSUM, 64)):
        if name not in members:
            raise ContainerError(f"it has no {name}; it is not a file of this kind")
        if members[name].file_size > limit:
            raise ContainerError(f"its {name} claims {members[name].file_size} bytes, more than {limit}")
    return members


def _check_header(data: bytes, schema: str, version: int) -> dict[str, Any]:
    header = json.loads(data)
    if not isinstance(header, dict) or header.get("schema") != schema:
        raise ContainerError(f"not a {_title(schema)}")
    found = header.get("version")
    if found != version:
        raise ContainerError(f"it has version {found!r} of the format, this release reads {version}; update majorica")
    if set(header) != {"schema", "version", "arrays", "content"} or not isinstance(header["arrays"], dict):
        raise ContainerError("its header is malformed")
    return header


def _check_sizes(described: dict[str, Any], members: dict[str, zipfile.ZipInfo]) -> None:
    """Names, dtypes, shapes and sizes against the directory, before any memory is taken."""
    expected = {f"{name}.npy" for name in described}
    present = set(members) - {HEADER, CHECKSUM}
    if expected != present:
        odd = sorted(expected ^ present)[0]
        raise ContainerError(f"its header and members disagree about {odd[:80]!r}")
    for name, item in described.items():
        shape, dtype = item["shape"], item["dtype"] = tuple(item["shape"]), _plain_dtype(item["dtype"], name)
        if any(type(length) is not int or length < 0 for length in shape) or type(item["fortran_order"]) is not bool:
            raise ContainerError(f"its array {name!r} claims the shape {shape}")
        body = math.prod(shape) * dtype.itemsize
        size = members[f"{name}.npy"].file_size
        if not 0 <= size - body <= 2**16:
            raise ContainerError(f"its array {name!r} should have {body} bytes but {size} are there")


def _plain_dtype(descr: Any, name: str) -> np.dtype[Any]:
    """A dtype of plain numbers, or of named fields of plain numbers; never objects."""
    if isinstance(descr, list):
        descr = [(str(field_name), str(kind)) for field_name, kind in descr]
    elif not isinstance(descr, str):
        raise ContainerError(f"its array {name!r} has no plain dtype")
    dtype = np.dtype(descr)
    parts = [dtype] if dtype.fields is None else [part[0] for part in dtype.fields.values()]
    if dtype.hasobject or any(part.kind not in "biufc" or part.shape for part in parts):
        raise ContainerError(f"its array {name!r} holds {dtype}; only numbers are loaded")
    return dtype


def _read_array(archive: zipfile.ZipFile, name: str, item: dict[str, Any], digest: Any) -> npt.NDArray[Any]:
    shape, dtype = item["shape"], item["dtype"]
    with archive.open(f"{name}.npy") as member:
        preamble = _Recorder(member)
        if np.lib.format.read_magic(preamble) != (2, 0):
            raise ContainerError(f"its array {name!r} is of an unexpected version")
        found = np.lib.format.read_array_header_2_0(preamble)
        if found != (shape, item["fortran_order"], dtype):
            raise ContainerError(f"its array {name!r} is not what the header says")
        digest.update(preamble.bytes)
        flat = np.empty(math.prod(shape), dtype)
        view = flat.view(np.uint8).data if flat.size else memoryview(bytearray())
        filled = 0
        while filled < len(view):
            piece = member.read(min(2**24, len(view) - filled))
            if not piece:
                raise ContainerError(f"its array {name!r} is truncated")
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        if member.read(1):
            raise ContainerError(f"its array {name!r} is longer than the header says")
        digest.update(view)
    return flat.reshape(shape[::-1]).T if item["fortran_order"] else flat.reshape(shape)


class _Recorder:
    """A reader that remembers what it has read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.bytes = b""

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.bytes += data
        return data
