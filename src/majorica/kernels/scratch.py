"""Scratch memory of threads: those that allocate in every block wait for each other and for fresh pages."""

from __future__ import annotations

import math
import mmap
import threading
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)
#: Bytes of a cache line.
LINE = 64
#: Bytes from which an array is worth pages of its own, and from which those may be huge.
OWN_PAGES, HUGE_PAGES = 2**18, 2**22
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
_BUFFERS = threading.local()


def aligned(size: int, dtype: np.dtype[Number], beyond: int = 0, *, zero: bool = False) -> npt.NDArray[Number]:
    """So many numbers that begin where a cache line does, and `beyond` bytes behind them that may be read."""
    item = np.dtype(dtype).itemsize
    room = (np.zeros if zero else np.empty)(size + (LINE + beyond) // item, dtype)
    first = -room.ctypes.data % LINE // item
    return room[first : first + size]


def on_own_pages(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array that goes back to the system when it is freed: the heap would keep a hole under later ones."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < OWN_PAGES:
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, size, **_PRIVATE)
    if size >= HUGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


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
