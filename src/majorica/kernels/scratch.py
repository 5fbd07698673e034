"""Scratch memory of threads: those that allocate in every block wait for each other and for fresh pages."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

_BUFFERS = threading.local()


def workspace(size: int, dtype: np.dtype[np.floating]) -> npt.NDArray[np.floating]:
    """At least `size` numbers that this thread may write to until it asks again."""
    found: npt.NDArray[np.floating] | None = getattr(_BUFFERS, dtype.char, None)
    if found is None or found.size < size:
        found = np.empty(size, dtype)
        setattr(_BUFFERS, dtype.char, found)
    return found
