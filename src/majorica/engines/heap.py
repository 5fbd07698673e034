"""Memory that a kernel frees stays in the process until the next block needs it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from majorica.engines.guard import Guard

#: Parameters of glibc's ``mallopt``.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
#: While blocks are computed: bytes that may lie free at the end of the heap, and of the largest piece taken from it.
LARGEST_REST, LARGEST_PIECE = 2**28, 2**25


@contextmanager
def _keep_freed() -> Iterator[None]:
    """Hold on to freed memory.

    Dask's nannies start workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that
    memory goes back to the system at once. That also keeps glibc from learning
    that a program needs the same pieces again and again: every tile of every
    block is then mapped, faulted in and unmapped, which takes half as long as
    the arithmetic itself. Without that setting there is nothing to do.
    """
    before = None
    with suppress(KeyError, ValueError):
        before = (int(os.environ["MALLOC_TRIM_THRESHOLD_"]), int(os.environ.get("MALLOC_MMAP_THRESHOLD_", 2**17)))
    changed = before is not None and _set(LARGEST_REST, LARGEST_PIECE)
    try:
        yield
    finally:
        if changed and before is not None:
            _set(*before)


def _set(rest: int, piece: int) -> bool:
    """Tell the allocator; False where it is not glibc's."""
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, rest)
        mallopt(M_MMAP_THRESHOLD, piece)
        return True
    return False


#: Freed memory is kept inside, whatever the worker's settings; they hold again afterwards.
kept_heap = Guard(_keep_freed)
