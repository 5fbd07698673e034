"""Rows of a container that stores chunks, each decoded once in a sequential pass."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from majorica.sources.base import Array

#: Decoded chunks kept at most, in bytes; one chunk is always kept, whatever its size.
CACHE_BYTES = 64 * 2**20
#: Chunks smaller than this are read several at a time.
SLAB_BYTES = 2**20


class ChunkCache:
    """Read any range of rows from chunks that can only be decoded whole.

    Blocks are seldom as long as chunks. Without a cache a pass over blocks of
    1,000 rows would decode a chunk of 100,000 rows a hundred times.

    Parameters
    ----------
    bounds : sequence of int
        Chunk ``k`` holds rows ``bounds[k]`` to ``bounds[k + 1]``.
    load : callable
        ``load(k)`` decodes chunk ``k`` as ``(rows, n_features)``, C-contiguous.
    """

    def __init__(self, bounds: Sequence[int], load: Callable[[int], Array]) -> None:
        self._bounds = list(bounds)
        self._load = load
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> Array:
        """Rows `start` to `stop`; a view of a kept chunk if they lie in one."""
        k = min(bisect_right(self._bounds, start), len(self._bounds) - 1) - 1
        parts = [self._part(k, start, stop)]
        while self._bounds[k + 1] < stop:
            k += 1
            parts.append(self._part(k, start, stop))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def clear(self) -> None:
        """Forget all chunks."""
        with self._lock:
            self._kept.clear()

    def _part(self, k: int, start: int, stop: int) -> Array:
        first, last = self._bounds[k], self._bounds[k + 1]
        return self._chunk(k)[max(start, first) - first : min(stop, last) - first]

    def _chunk(self, k: int) -> Array:
        with self._lock:
            if k not in self._kept:
                self._kept[k] = self._load(k)
            self._kept.move_to_end(k)
            while len(self._kept) > 1 and sum(chunk.nbytes for chunk in self._kept.values()) > CACHE_BYTES:
                self._kept.popitem(last=False)
            return self._kept[k]


def slab_bounds(n_rows: int, chunk_rows: int, row_bytes: int) -> list[int]:
    """Bounds of slabs of whole chunks, each of at least about a megabyte."""
    chunk_rows = max(1, chunk_rows)
    slab = chunk_rows * max(1, -(-SLAB_BYTES // max(1, chunk_rows * row_bytes)))
    return [*range(0, n_rows, slab), n_rows]


def bounds_of(lengths: Sequence[int]) -> list[int]:
    """Bounds of consecutive chunks of `lengths`."""
    return [0, *np.cumsum(np.asarray(lengths, dtype=np.intp)).tolist()]
