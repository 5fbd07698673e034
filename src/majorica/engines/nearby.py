"""Small random subsets in the client's own memory: a pass over a few megabytes is shorter than a cluster's answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from majorica.engines.worker import ascending
from majorica.sources.array import ArraySource
from majorica.sources.base import Array, Block, Source, block_length, read_block

if TYPE_CHECKING:
    from majorica.engines.samples import ClusterSamples

#: Subsets up to this many bytes, and up to this share of the data, are brought here.
NEARBY_BYTES, NEARBY_SHARE = 2**25, 0.13
#: Subsets up to this many bytes are, whatever their share.
ALWAYS_BYTES = 2**20


class Nearby:
    """The samples of the last small subset, under numbers of their own.

    Parameters
    ----------
    samples : ClusterSamples
        Where the samples are.
    """

    def __init__(self, samples: ClusterSamples) -> None:
        self.samples = samples
        self._ahead: tuple[Source, tuple[Block, ...], list[Any]] | None = None
        self.clear()

    def clear(self) -> None:
        """Let go of the subset."""
        self._whole: Source | None = None
        self._wanted: tuple[Block, ...] = ()
        self._places: dict[Block, Block] = {}
        self._array: ArraySource | None = None

    def subset(self, source: Source, blocks: Sequence[Block]) -> tuple[Source, list[Block]] | None:
        """A source of the samples of `blocks` in this process and its blocks, or None if they are better left there."""
        if not any(len(block) > 1 for block in blocks):
            return None
        if self._whole is not source or len(self._wanted) != len(blocks) or self._wanted != tuple(blocks):
            self.clear()
            found = self.once(source, blocks)
            if found is None:
                return None
            self._array, places = found
            self._whole, self._wanted = source, tuple(blocks)
            self._places = dict(zip(blocks, places, strict=True))
        assert self._array is not None
        return self._array, [self._places[block] for block in blocks]

    def once(self, source: Source, blocks: Sequence[Block]) -> tuple[ArraySource, list[Block]] | None:
        """The same for one pass: nothing is kept."""
        if not any(len(block) > 1 for block in blocks) or not self._small(source, blocks) or not ascending(blocks):
            return None
        edges = [0, *accumulate(map(block_length, blocks))]
        return ArraySource(self._fetch(source, blocks)), [(ends,) for ends in pairwise(edges)]

    def expect(self, source: Source, blocks: Sequence[Block]) -> bool:
        """Begin to put together a subset that will soon be asked for; False if it is better left on the workers."""
        if not self._small(source, blocks) or not ascending(blocks):
            return False
        if not source.in_memory:
            self._ahead = (source, tuple(blocks), self.samples.fetch(source, blocks))
        return True

    def forget(self) -> None:
        """Let go of what was begun, which may be lost with its workers."""
        self._ahead = None

    def read(self, source: Source, block: Block) -> Array:
        """The samples of `block`: from the subset, from what workers hold, or from the source itself."""
        if self._whole is source and self._array is not None and block in self._places:
            return read_block(self._array, self._places[block])
        if len(block) > 1 and ascending([block]) and self.samples.holds(source):
            return self._fetch(source, [block])
        return read_block(source, block)

    def _small(self, source: Source, blocks: Sequence[Block]) -> bool:
        row = source.n_features * source.dtype.itemsize
        most = max(ALWAYS_BYTES, min(NEARBY_BYTES, NEARBY_SHARE * row * source.n_samples))
        return row * sum(map(block_length, blocks)) <= most

    def _fetch(self, source: Source, blocks: Sequence[Block]) -> Array:
        """The samples of `blocks`, which are ascending, as one array."""
        if source.in_memory:
            return read_block(source, tuple(one for block in blocks for one in block))
        if self._ahead is not None and self._ahead[0] is source and self._ahead[1] == tuple(blocks):
            futures = self._ahead[2]
        else:
            futures = self.samples.fetch(source, blocks)
        self.forget()
        watch = self.samples.watch
        watch.wait(futures)
        for future in futures:
            if future.status == "error":
                watch.raise_failure(future, "read", (0, len(blocks), len(blocks)), blocks)
        return np.concatenate([held.array for held in watch.results(futures)])
