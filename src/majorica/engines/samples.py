"""Which samples are on the cluster, and in which pieces a pass takes them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from majorica.engines.base import FAN
from majorica.engines.cluster import Watch
from majorica.engines.placement import (
    Base,
    ChunkBase,
    HeldBase,
    Namer,
    arrange,
    hold_from_base,
    hold_from_source,
)
from majorica.engines.worker import merge_ranges
from majorica.sources.base import Block, Source, block_length

#: Most bytes of samples in one task that holds them all at once.
LEAF_BYTES = 2**27
#: Tasks a thread at least, so that uneven workers end together.
LEAVES_PER_THREAD = 8


class Leaves:
    """The blocks of a pass in runs of ``FAN ** level``, one task each."""

    def __init__(self, samples: ClusterSamples, blocks: Sequence[Block], level: int, held: list[Any] | None) -> None:
        self.samples, self.blocks, self.held = samples, blocks, held
        self.run = FAN**level

    def __len__(self) -> int:
        return -(-len(self.blocks) // self.run)

    def bounds(self, i: int) -> tuple[int, int]:
        """First and end number of the blocks of leaf `i`."""
        return i * self.run, min((i + 1) * self.run, len(self.blocks))

    def leaf(self, i: int) -> Sequence[Block]:
        """The blocks of leaf `i`."""
        first, end = self.bounds(i)
        return self.blocks[first:end]

    def window(self, multiple: int) -> int:
        """Leaves to submit at once: enough to keep every thread busy, a multiple of `multiple`."""
        wanted = 2 * LEAVES_PER_THREAD * self.samples.watch.threads()
        return multiple * max(1, -(-wanted // multiple))

    def inputs(self, start: int, stop: int) -> tuple[Source | None, list[Any]]:
        """The source the workers read, or the futures each of the leaves `start` to `stop` needs."""
        if self.held is not None:
            return None, [[future] for future in self.held[start:stop]]
        base = self.samples.base
        if base is None:
            return self.samples.source, [None] * (stop - start)
        ranges = [merge_ranges(self.leaf(i)) for i in range(start, stop)]
        return None, list(arrange(self.samples.client, base, ranges, self.samples.name))


class ClusterSamples:
    """The samples of one source on the cluster: held by workers, or read again for each pass.

    Parameters
    ----------
    client : distributed.Client
    watch : Watch
    name : callable
        Makes task names.
    hold : bool, optional
        Hold samples between passes; None if they fit into half the free memory.
    """

    def __init__(self, client: Any, watch: Watch, name: Namer, *, hold: bool | None) -> None:
        self.client, self.watch, self.name, self.hold = client, watch, name, hold
        self.clear()

    def clear(self) -> None:
        """Let go of everything."""
        self.source: Source | None = None
        self.base: Base | None = None
        self._subset: tuple[tuple[Block, ...], Leaves] | None = None
        self._level = 0

    def forget(self, source: Source) -> None:
        """Let go of what is held of `source`, so that it is placed again."""
        self.clear()

    def leaves(self, source: Source, blocks: Sequence[Block]) -> Leaves:
        """The tasks of a pass over `blocks`; places the samples when this is the first pass."""
        if self.source is not source:
            self.clear()
            self._place(source, blocks)
            self.source = source
        if self._subset is not None and len(self._subset[0]) == len(blocks) and self._subset[0] == tuple(blocks):
            return self._subset[1]
        full = sum(map(block_length, blocks)) == source.n_samples
        level = self._level if full and self._level else self._choose_level(source, blocks, held=self.base is not None)
        leaves = Leaves(self, blocks, level, None)
        if any(len(block) > 1 for block in blocks):
            self._hold_subset(source, leaves)
        return leaves

    def _place(self, source: Source, blocks: Sequence[Block]) -> None:
        """Decide where the samples of `source` are during the fit, and start to bring them there."""
        from majorica.sources.dask import DaskSource

        size = source.n_samples * source.n_features * source.dtype.itemsize
        sent = source.in_memory or not _travels(source)
        hold = sent or (self._fits(size) if self.hold is None else self.hold)
        if isinstance(source, DaskSource):
            self.base = ChunkBase(self.client, source, self.name)
        self._level = self._choose_level(source, blocks, held=hold or self.base is not None)
        if not hold:
            return
        whole: list[Block] = [((start, stop),) for start, stop in self._whole(source, blocks)]
        if self.base is not None:
            futures = hold_from_base(self.client, self.base, [[one] for one in whole], self.name)
        else:
            futures = hold_from_source(self.client, source, [[one] for one in whole], self.name, sent=sent)
        self.base = HeldBase([0, *(one[0][1] for one in whole)], futures)

    def _whole(self, source: Source, blocks: Sequence[Block]) -> list[tuple[int, int]]:
        """All samples in the runs of a full pass over blocks as long as the first of `blocks`."""
        length = max(1, block_length(blocks[0])) * FAN**self._level
        return [(start, min(start + length, source.n_samples)) for start in range(0, source.n_samples, length)]

    def _hold_subset(self, source: Source, leaves: Leaves) -> None:
        """Keep the samples of a random subset together, since a solver passes over it several times."""
        row = source.n_features * source.dtype.itemsize
        if self.hold is False or not self._fits(row * sum(map(block_length, leaves.blocks))):
            return
        blocks = [leaves.leaf(i) for i in range(len(leaves))]
        self._subset = None
        if self.base is None:
            leaves.held = hold_from_source(self.client, source, blocks, self.name, sent=False)
        else:
            leaves.held = hold_from_base(self.client, self.base, blocks, self.name)
        self._subset = (tuple(leaves.blocks), leaves)

    def _choose_level(self, source: Source, blocks: Sequence[Block], *, held: bool) -> int:
        """The longest runs of blocks that still keep every thread busy and fit a worker's memory."""
        wanted = LEAVES_PER_THREAD * self.watch.threads()
        length = max(block_length(blocks[0]), 1) * source.n_features * source.dtype.itemsize
        level = 0
        while len(blocks) // FAN ** (level + 1) >= wanted and (not held or length * FAN ** (level + 1) <= LEAF_BYTES):
            level += 1
        return level

    def _fits(self, size: int) -> bool:
        return 2 * size <= self.watch.free_memory()


def _travels(source: Source) -> bool:
    """Whether the source can be sent to a worker and opened there (as a path, not as its samples)."""
    try:
        return len(pickle.dumps(source)) < 2**24
    except Exception:  # pickling runs code of any library
        return False
