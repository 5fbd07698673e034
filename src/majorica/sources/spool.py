"""Temporary files for containers that can only be read from front to back."""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import IO

import numpy as np

from majorica.sources.base import Array


class TemporaryFile:
    """A temporary file that is removed with this object, or when the interpreter ends."""

    def __init__(self, suffix: str) -> None:
        handle, self.path = tempfile.mkstemp(prefix="majorica-", suffix=suffix)
        os.close(handle)
        self.remove = weakref.finalize(self, _remove, self.path)


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)


class SpoolWriter:
    """Write blocks one after the other to an array file whose length is not known yet.

    Parameters
    ----------
    handle : binary file
    n_features : int
    dtype : numpy.dtype
    """

    def __init__(self, handle: IO[bytes], *, n_features: int, dtype: np.dtype[np.floating]) -> None:
        self._handle = handle
        self._n_features = n_features
        self._dtype = dtype
        self.n_samples = 0
        self._write_header()

    def append(self, block: Array) -> None:
        """Add a block ``(b, n_features)``."""
        self._handle.write(np.ascontiguousarray(block, dtype=self._dtype).data)
        self.n_samples += len(block)

    def finish(self) -> None:
        """Write the final length into the header."""
        self._handle.seek(0)
        self._write_header()
        self._handle.flush()

    def _write_header(self) -> None:
        # NumPy pads headers so that the first axis can grow in place.
        shape = (self.n_samples, self._n_features)
        np.lib.format.write_array_header_1_0(
            self._handle,
            {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape},
        )
