"""The incremental solver's memory on disk, with an undo journal, for data whose memory does not fit.

The memory is changed in place between checkpoints. Before a block is first
changed its old content goes to the journal, which is synced; so the memory as
it was at the last checkpoint can always be put back together.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from typing import IO

import numpy as np
import numpy.typing as npt

from majorica.errors import CheckpointError
from majorica.persistence.atomic import remove_if_there

_MAGIC = b"MJUNDO1\n"
_HEAD = struct.Struct("<8sQ")  # magic, epoch
_RECORD = struct.Struct("<QQI")  # start, stop, crc of what follows

Memory = npt.NDArray[np.float32] | npt.NDArray[np.uint8]
#: What a memory may hold.
_DTYPES = ("float32", "uint8")


class TouchFile:
    """Memory ``(n, p)`` of float32 or one-byte codes in ``PATH.touch``, journal in ``PATH.undo``.

    Parameters
    ----------
    path : str, optional
        The checkpoint it belongs to. Without one the memory is in an unnamed
        temporary file and there is no journal.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.array: Memory | None = None
        self._journal: IO[bytes] | None = None
        self._saved: set[int] = set()

    def allocate(self, shape: tuple[int, int], dtype: npt.DTypeLike = np.float32) -> Memory:
        """New memory, all zero; its space is reserved at once, so that a full disk shows before the fit begins."""
        size = max(np.dtype(dtype).itemsize * shape[0] * shape[1], 1)
        where = tempfile.gettempdir() if self.path is None else f"{self.path}.touch"
        try:
            file = tempfile.TemporaryFile() if self.path is None else open(where, "w+b")  # noqa: SIM115
        except OSError as error:
            raise CheckpointError(f"{where}: cannot be written ({error.strerror})") from error
        with file:
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
            except OSError as error:
                if self.path is not None:
                    remove_if_there(where)
                raise CheckpointError(
                    f"{where}: no room for the {size / 1e6:.0f} MB memory of the incremental solver "
                    f"({error.strerror}); free some, or raise memory_limit"
                ) from error
            self.array = np.memmap(file, dtype=dtype, mode="r+", shape=shape)
        return self.array

    def before_change(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Note the present content of these rows, once between two checkpoints; synced on return."""
        if self._journal is None or self.array is None:
            return
        new = [(start, stop) for start, stop in ranges if start not in self._saved]
        if not new:
            return
        for start, stop in new:
            data = self.array[start:stop].tobytes()
            self._journal.write(_RECORD.pack(start, stop, zlib.crc32(data)) + data)
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._saved.update(start for start, _ in new)

    def flush(self) -> None:
        """Sync the memory itself, before a checkpoint."""
        if isinstance(self.array, np.memmap):
            self.array.flush()

    def begin(self, epoch: int) -> None:
        """Start the journal of the time after checkpoint `epoch`."""
        if self.path is None:
            return
        if self._journal is None:
            self._journal = open(f"{self.path}.undo", "w+b")  # noqa: SIM115
        self._journal.seek(0)
        self._journal.truncate()
        self._journal.write(_HEAD.pack(_MAGIC, epoch))
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self._saved.clear()

    def recover(self, epoch: int, shape: tuple[int, ...], dtype: str = "float32") -> Memory:
        """The memory as it was at checkpoint `epoch`: blocks changed since are put back."""
        name = f"{self.path}.touch"
        size = os.path.getsize(name) if os.path.exists(name) else -1
        if dtype not in _DTYPES or len(shape) != 2 or size != np.dtype(dtype).itemsize * shape[0] * shape[1]:
            raise CheckpointError(
                f"{name}: the memory that belongs to the checkpoint is missing or of another size; "
                f"remove {self.path} to start from the beginning"
            )
        array: Memory = np.memmap(name, dtype=dtype, mode="r+", shape=shape)
        self.array = array
        for start, stop, data in reversed(self._records(epoch)):
            array[start:stop] = np.frombuffer(data, array.dtype).reshape(-1, shape[1])
        self.flush()
        self.begin(epoch)
        return array

    def _records(self, epoch: int) -> list[tuple[int, int, bytes]]:
        """Whole records of the journal of `epoch`; a half-written last one changed nothing yet."""
        assert self.array is not None
        name = f"{self.path}.undo"
        records: list[tuple[int, int, bytes]] = []
        if not os.path.exists(name):
            return records
        with open(name, "rb") as journal:
            head = journal.read(_HEAD.size)
            if len(head) != _HEAD.size or _HEAD.unpack(head) != (_MAGIC, epoch):
                return records
            while len(head := journal.read(_RECORD.size)) == _RECORD.size:
                start, stop, crc = _RECORD.unpack(head)
                if not start <= stop <= len(self.array):
                    break
                data = journal.read(self.array.itemsize * (stop - start) * self.array.shape[1])
                if zlib.crc32(data) != crc:
                    break
                records.append((start, stop, data))
        return records

    def close(self) -> None:
        """Let go of the files."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        self.array = None

    def remove(self) -> None:
        """Remove the files."""
        self.close()
        if self.path is not None:
            remove_if_there(f"{self.path}.touch")
            remove_if_there(f"{self.path}.undo")
