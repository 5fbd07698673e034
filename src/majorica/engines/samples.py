"""Which samples are on the cluster, and in which pieces a pass takes them."""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from majorica.engines.base import FAN
from majorica.engines.cluster import Watch
from majorica.engines.placement import Base, ChunkBase, HeldBase, Holder, Namer, Run, arrange, share_out
from majorica.engines.worker import Range, Ranges, ascending, cut, merge_ranges, overlap
from majorica.sources.base import Block, Source, block_length, split_blocks

#: Most bytes of samples in one leaf that is held.
LEAF_BYTES = 2**27
#: Leaves a thread at least, so that equal numbers of them are equal work.
LEAVES_PER_THREAD = 8
#: Tasks a thread in a pass over held samples: one would leave a slow worker alone with its share.
TASKS_PER_THREAD = 2
#: Chunks of a Dask array are held as they are if no task has more than this many times its fair share.
UNFAIR = 1.1


class Leaves:
    """The blocks of a pass in leaves, and the runs of leaves that are one task.

    Parameters
    ----------
    samples : ClusterSamples
    blocks : sequence of Block
        What the pass reads.
    edges : sequence of int
        Numbers of the blocks where leaves begin, and of all blocks. The tree
        of sums may be cut anywhere, but has fewer loose ends where leaves
        have a power of ``FAN`` blocks.
    """

    def __init__(self, samples: ClusterSamples, blocks: Sequence[Block], edges: Sequence[int]) -> None:
        self.samples, self.blocks, self.edges = samples, blocks, edges
        self.held: list[Any] | None = None  #: futures of the samples of each leaf
        self.beyond: dict[int, Any] = {}  #: by the end of a leaf, what its last block needs of the next one
        self.held_blocks = blocks  #: the blocks in the numbers of what is held
        self.homes: list[Run] = []  #: where the held leaves are

    def __len__(self) -> int:
        return len(self.edges) - 1

    def bounds(self, first: int, end: int) -> tuple[int, int]:
        """First and end number of the blocks of leaves `first` to `end`."""
        return self.edges[first], self.edges[end]

    def ranges(self, first: int, end: int) -> list[list[Range]]:
        """The samples of each of the leaves `first` to `end`."""
        bounds = [self.bounds(i, i + 1) for i in range(first, end)]
        return [merge_ranges(self.blocks[start:stop]) for start, stop in bounds]

    def runs(self, *, add: bool) -> list[tuple[int, int]]:
        """The leaves of each task: whole runs where they are held and only sums come back, else one leaf."""
        if self.held is not None and add:
            return [(run.first, run.end) for run in self.homes]
        return [(i, i + 1) for i in range(len(self))]

    def window(self, multiple: int) -> int:
        """Tasks to submit at once: enough to keep every thread busy, a multiple of `multiple`."""
        wanted = 2 * LEAVES_PER_THREAD * self.samples.watch.threads()
        return multiple * max(1, -(-wanted // multiple))

    def inputs(self, runs: Sequence[tuple[int, int]]) -> tuple[Source | None, list[Any]]:
        """The source the workers read, or the futures each of the `runs` needs."""
        if self.held is not None:
            more = [[self.beyond[end]] if end in self.beyond else [] for _, end in runs]
            return None, [self.held[slice(*run)] + next_ for run, next_ in zip(runs, more, strict=True)]
        base = self.samples.base
        if base is None:
            return self.samples.source, [None] * len(runs)
        ranges = [merge_ranges(self.blocks[slice(*self.bounds(*run))]) for run in runs]
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
        self._whole: Leaves | None = None  # of a full pass, where all samples are held
        self._subset: Leaves | None = None  # of the last random subset
        self._ahead: Leaves | None = None  # of the next one
        self._threads: dict[str, int] = {}  # of the workers the samples were shared out to

    def forget(self, source: Source) -> None:
        """Let go of what is held of `source`, so that it is placed again."""
        self.clear()

    def leaves(self, source: Source, blocks: Sequence[Block]) -> Leaves:
        """The leaves of a pass over `blocks`; places the samples when this is the first pass."""
        self._ready(source, blocks)
        if self._whole is not None:
            if not _same(self._whole.blocks, blocks) and _cover(blocks, source.n_samples):
                self._hold_all(source, blocks)  # a fit that goes on from a checkpoint may begin with a subset
            if _same(self._whole.blocks, blocks):
                return self._whole
        if any(len(block) > 1 for block in blocks):
            if self._ahead is not None and _same(self._ahead.blocks, blocks):
                self._subset, self._ahead = self._ahead, None
            elif self._subset is None or not _same(self._subset.blocks, blocks):
                self._subset = None  # before another one takes its memory
                self._subset = self._hold_subset(source, blocks)
            if self._subset is not None:
                return self._subset
        return Leaves(self, blocks, self._edges(source, blocks, held=self.base is not None))

    def expect(self, source: Source, blocks: Sequence[Block]) -> None:
        """Begin to put together a random subset that a pass will soon ask for."""
        self._ready(source, blocks)
        if self._ahead is None or not _same(self._ahead.blocks, blocks):
            self._ahead = None
            self._ahead = self._hold_subset(source, blocks)

    def holds(self, source: Source) -> bool:
        """Whether the workers hold all samples of `source`."""
        return self.source is source and self._whole is not None

    def fetch(self, source: Source, blocks: Sequence[Block]) -> list[Any]:
        """Futures of the samples of `blocks` in ascending order, each put together where its samples are."""
        self._ready(source, blocks)
        wanted = merge_ranges(blocks)
        if self._whole is None or self.base is None:
            holder = Holder(self.client, self.name, share_out([1], self._threads, 1))
            return holder.from_source(source, [wanted]) if self.base is None else holder.from_base(self.base, [wanted])
        bounds = self.base.bounds
        pieces = [(run, overlap([(bounds[run.first], bounds[run.end])], wanted)) for run in self._whole.homes]
        pieces = [(run, ranges) for run, ranges in pieces if ranges]
        homes = [Run(run.home, i, i + 1) for i, (run, _) in enumerate(pieces)]
        return Holder(self.client, self.name, homes).from_base(self.base, [ranges for _, ranges in pieces])

    def _ready(self, source: Source, blocks: Sequence[Block]) -> None:
        """The samples are placed, and shared out to the workers of now."""
        if self.source is not source:
            self.clear()
            self._place(source, blocks)
            self.source = source
        elif self._threads != self.watch.workers():
            self._share_again()

    def _place(self, source: Source, blocks: Sequence[Block]) -> None:
        """Decide where the samples of `source` are during the fit, and start to bring them there."""
        from majorica.sources.dask import DaskSource

        size = source.n_samples * source.n_features * source.dtype.itemsize
        sent = source.in_memory or not _travels(source)
        hold = sent or (self._fits(size) if self.hold is None else self.hold)
        self._threads = self.watch.workers()
        if isinstance(source, DaskSource):
            self.base = ChunkBase(self.client, source, self.name)
        if not hold:
            return
        length = max(1, block_length(blocks[0]))
        self._hold_all(source, split_blocks(source.n_samples, length), sent=sent)

    def _hold_all(self, source: Source, blocks: Sequence[Block], *, sent: bool = False) -> None:
        """Hold all samples in the leaves of a pass over `blocks`."""
        if isinstance(self.base, ChunkBase) and self._hold_chunks(self.base, blocks):
            return
        whole = Leaves(self, blocks, self._edges(source, blocks, held=True))
        holder = self._holder(whole)
        ranges = whole.ranges(0, len(whole))
        if self.base is not None:
            whole.held = holder.from_base(self.base, ranges)
        elif sent:
            whole.held = holder.from_here(source, ranges)
        else:
            whole.held = holder.from_source(source, ranges)
        self._whole = whole
        self.base = HeldBase([0, *(one[-1][1] for one in ranges)], whole.held)

    def _hold_chunks(self, base: ChunkBase, blocks: Sequence[Block]) -> bool:
        """Hold the chunks of a Dask array as they are, without a copy; False where they make no fair shares.

        A leaf is then the blocks that begin in a chunk; the last of them may end in the next one.
        """
        starts = [block[0][0] for block in blocks]
        edges = [bisect_left(starts, bound) for bound in base.bounds]
        if any(first >= end for first, end in pairwise(edges)):
            return False
        whole = Leaves(self, blocks, edges)
        holder = self._holder(whole)
        shares = [edges[run.end] - edges[run.first] for run in whole.homes]
        if max(shares) > UNFAIR * len(blocks) / (TASKS_PER_THREAD * sum(self._threads.values())):
            return False
        whole.held = holder.from_chunks(base)
        self._whole, self.base = whole, HeldBase(base.bounds, whole.held)
        self._join(whole)
        return True

    def _join(self, leaves: Leaves) -> None:
        """Where a leaf's last block ends in the next one: that leaf, or a cut of it from another worker."""
        assert leaves.held is not None
        assert self.base is not None
        homes = {k: run.home for run in leaves.homes for k in range(run.first, run.end)}
        leaves.beyond = {}
        for end in range(1, len(leaves)):
            bound, stop = self.base.bounds[end], leaves.blocks[leaves.edges[end] - 1][-1][1]
            if stop > bound:
                next_ = leaves.held[end]
                if homes[end] != homes[end - 1]:
                    next_ = self.client.submit(cut, next_, Ranges([(bound, stop)]), key=self.name("cut"), pure=False)
                leaves.beyond[end] = next_

    def _share_again(self) -> None:
        """Workers came or went: give each its share of what is held, in the same leaves."""
        self._threads = self.watch.workers()
        self._subset = self._ahead = None
        if self._whole is not None and self._whole.held is not None:
            self._whole.held = self._holder(self._whole).move(self._whole.held)
            self.base = HeldBase(self.base.bounds if self.base is not None else [], self._whole.held)
            self._join(self._whole)

    def _hold_subset(self, source: Source, blocks: Sequence[Block]) -> Leaves | None:
        """The samples of a random subset together, since a solver passes over it several times; None if too many."""
        row = source.n_features * source.dtype.itemsize
        lengths = [block_length(block) for block in blocks]
        if self.hold is False or not self._fits(row * sum(lengths)):
            return None
        shares = TASKS_PER_THREAD * sum(self._threads.values())
        size = max(1, min(-(-len(blocks) // shares), LEAF_BYTES // (row * max(lengths))))
        leaves = Leaves(self, tuple(blocks), _even_edges(len(blocks), size))
        ranges = leaves.ranges(0, len(leaves))
        rows = None
        if ascending(blocks):
            edges = [0, *accumulate(lengths)]
            leaves.held_blocks = [(ends,) for ends in pairwise(edges)]
            rows = [edges[first] for first in leaves.edges[:-1]]
        holder = self._holder(leaves)
        if self.base is None:
            leaves.held = holder.from_source(source, ranges, rows)
        else:
            leaves.held = holder.from_base(self.base, ranges, rows)
        return leaves

    def _holder(self, leaves: Leaves) -> Holder:
        sizes = [end - first for first, end in pairwise(leaves.edges)]
        leaves.homes = share_out(sizes, self._threads, TASKS_PER_THREAD)
        return Holder(self.client, self.name, leaves.homes)

    def _edges(self, source: Source, blocks: Sequence[Block], *, held: bool) -> list[int]:
        """Leaves of the most blocks, a power of ``FAN``, that keep every thread busy and fit a worker's memory."""
        wanted = LEAVES_PER_THREAD * self.watch.threads()
        length = max(block_length(blocks[0]), 1) * source.n_features * source.dtype.itemsize
        size = 1
        while len(blocks) // (FAN * size) >= wanted and (not held or FAN * size * length <= LEAF_BYTES):
            size *= FAN
        return _even_edges(len(blocks), size)

    def _fits(self, size: int) -> bool:
        return 2 * size <= self.watch.free_memory()


def _even_edges(count: int, size: int) -> list[int]:
    """Leaves of `size` blocks each, the last maybe fewer."""
    return [*range(0, count, size), count]


def _same(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))


def _cover(blocks: Sequence[Block], n: int) -> bool:
    """Whether `blocks` are all `n` samples in order, each one range."""
    bounds = [0, *(block[0][1] for block in blocks)]
    return bounds[-1] == n and all(block == (ends,) for block, ends in zip(blocks, pairwise(bounds), strict=True))


def _travels(source: Source) -> bool:
    """Whether the source can be sent to a worker and opened there (as a path, not as its samples)."""
    try:
        return len(pickle.dumps(source)) < 2**24
    except Exception:  # pickling runs code of any library
        return False
