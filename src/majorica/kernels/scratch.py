"""Scratch memory of threads: those that allocate in every block wait for each other and for fresh pages."""

from __future__ import annotations

import threading
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)
#: Bytes of a cache line.
LINE = 64
_BUFFERS = threading.local()


def aligned(size: int, dtype: np.dtype[Number], beyond: int = 0, *, zero: bool = False) -> npt.NDArray[Number]:
    """So many numbers that begin where a cache line does, and `beyond` bytes behind them that may be read."""
    item = np.dtype(dtype).itemsize
    room = (np.zeros if zero else np.empty)(size + (LINE + beyond) // item, dtype)
    first = -room.ctypes.data % LINE // item
    return room[first : first + size]


def begin_with_line(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The same numbers, where a cache line begins: `array` itself if it does."""
    if array.ctypes.data % LINE == 0:
        return array
    moved = aligned(array.size, array.dtype).reshape(array.shape)
    moved[:] = array
    return moved


def workspace(size: int, dtype: np.dtype[Number]) -> npt.NDArray[Number]:
    """At least `size` numbers that this thread may write to until it asks again; they begin with a cache line."""
    found: npt.NDArray[np.float64] | None = getattr(_BUFFERS, "room", None)
    if found is None or found.nbytes < size * dtype.itemsize:
        _BUFFERS.room = None  # first, or both would be there for a moment
        found = _BUFFERS.room = aligned(-(-size * dtype.itemsize // 8), np.dtype(np.float64))
    return found.view(dtype)
