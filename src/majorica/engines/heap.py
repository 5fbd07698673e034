"""Memory that a kernel frees stays in the process until the next block needs it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Parameters of glibc's ``mallopt``.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: While blocks are computed: the largest piece taken from the heap, and how much may lie free at its end, in bytes.
LARGEST_PIECE, LARGEST_REST = 2**25, 2**28


class _HeapGuard:
    """Holds on to freed memory while at least one task runs.

    Dask's nannies start workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that
    memory goes back to the system at once. That also keeps glibc from learning
    that a program needs the same pieces again and again: every tile of every
    block is then mapped, faulted in and unmapped, which takes half as long as
    the arithmetic itself. Without that setting there is nothing to do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._found: tuple[int, int] | None = None  # what to go back to
        trim = os.environ.get("MALLOC_TRIM_THRESHOLD_")
        with suppress(AttributeError, ValueError, OSError, TypeError):
            self._mallopt = ctypes.CDLL(None).mallopt
            self._found = None if trim is None else (int(trim), int(os.environ.get("MALLOC_MMAP_THRESHOLD_", 2**17)))

    def enter(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1 and self._found is not None:
                self._set(LARGEST_REST, LARGEST_PIECE)

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._found is not None:
                self._set(*self._found)

    def _set(self, trim: int, piece: int) -> None:
        self._mallopt(M_TRIM_THRESHOLD, trim)
        self._mallopt(M_MMAP_THRESHOLD, piece)


_guard = _HeapGuard()


def _reset_guard() -> None:
    """A forked child starts with a free lock and no task under way."""
    global _guard
    _guard = _HeapGuard()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_guard)


@contextmanager
def kept_heap() -> Iterator[None]:
    """Freed memory is kept inside, whatever the worker's settings; they hold again afterwards."""
    guard = _guard
    guard.enter()
    try:
        yield
    finally:
        guard.leave()
