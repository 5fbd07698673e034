"""What runs inside the workers of a cluster: pure functions of samples and a job."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from majorica.engines.base import FAN, TreeSum
from majorica.engines.heap import kept_heap
from majorica.engines.threads import single_threaded_blas
from majorica.errors import DataError
from majorica.sources.base import Array, Block, Source, block_length, read_block, rows_of
from majorica.sources.rules import as_block

Range = tuple[int, int]


@dataclass(frozen=True)
class Ranges:
    """Ranges of samples in one object, which Dask sends as it is."""

    of: list[Range]


class HeldSamples:
    """Some ranges of the samples, one after the other in one array; reads like the whole source.

    Parameters
    ----------
    ranges : sequence of (start, stop)
        Ascending, not touching one another (see :func:`merge_ranges`).
    array : ndarray (total length of the ranges, n_features)
    """

    in_memory = True
    feature_names = None

    def __init__(self, ranges: Sequence[Range], array: Array) -> None:
        self.ranges = list(ranges)
        self.array = array
        self._starts = [start for start, _ in self.ranges]
        self._rows = np.cumsum([0, *(stop - start for start, stop in self.ranges)]).tolist()
        if self._rows[-1] != len(array):
            raise DataError(f"a chunk has {len(array)} samples where its array promised {self._rows[-1]}")
        self.n_samples = self.ranges[-1][1]
        self.n_features = array.shape[1]
        self.dtype = array.dtype

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop`, a view."""
        k = bisect_right(self._starts, start) - 1
        row = self._rows[k] + start - self._starts[k]
        return self.array[row : row + stop - start]

    def __sizeof__(self) -> int:
        return int(self.array.nbytes) + 200


class Parts:
    """Held samples in several parts, ascending; reads like the whole source, and copies only what lies across parts."""

    in_memory = True
    feature_names: Sequence[str] | None = None

    def __init__(self, parts: Sequence[HeldSamples]) -> None:
        pieces = sorted(((one, part) for part in parts for one in part.ranges), key=lambda piece: piece[0])
        self._starts = [start for (start, _), _ in pieces]
        self._pieces = pieces
        self.n_samples = pieces[-1][0][1]
        self.n_features, self.dtype = parts[0].n_features, parts[0].dtype

    def read(self, start: int, stop: int) -> Array:
        """Samples `start` to `stop`; a view where one part has them."""
        k = bisect_right(self._starts, start) - 1
        found = []
        while start < stop:
            (_, end), part = self._pieces[k]
            found.append(part.read(start, min(stop, end)))
            start, k = end, k + 1
        return found[0] if len(found) == 1 else np.concatenate(found)

    def read_ranges(self, block: Block) -> Array:
        """The samples of a block of many short ranges, gathered part by part."""
        ranges = np.array(block, dtype=np.intp)
        number = np.searchsorted(self._starts, ranges[:, 0], side="right") - 1
        ends = np.array([end for (_, end), _ in self._pieces])[number]
        number[ranges[:, 1] > ends] = -1  # across parts
        out = np.empty((block_length(block), self.n_features), self.dtype)
        row = 0
        for some in np.split(np.arange(len(ranges)), np.flatnonzero(np.diff(number)) + 1):
            k, length = number[some[0]], int(np.diff(ranges[some]).sum())
            if k >= 0:
                start, stop = self._pieces[k][0]
                held = self._pieces[k][1].read(start, stop)
                np.take(held, rows_of(ranges[some] - start), axis=0, out=out[row : row + length], mode="clip")
            else:
                out[row : row + length] = np.concatenate([self.read(*block[i]) for i in some])
            row += length
        return out


@dataclass(frozen=True)
class Job:
    """What to compute on some blocks: ``function(X, *each, *shared)`` for each, listed or added up."""

    function: Callable[..., Any]
    blocks: Sequence[Block]
    each: Sequence[Any] | None
    shared: tuple[Any, ...] | None  #: None where they come as a future
    add: bool
    first: int = 0  #: number of the first block, where they are added
    fan: int = FAN  #: of the tree of sums, where they are added


def run_job(
    job: Job, shared: tuple[Any, ...] | None, source: Source | None, parts: Sequence[HeldSamples] | None
) -> list[Any] | TreeSum[Any]:
    """The results of `job`, or the tree of their sums; BLAS on one thread, since workers share the cores already.

    The samples come from `source`, opened here, or from held `parts`.
    """
    samples: Any = Parts(parts or ()) if source is None else source
    given = shared if job.shared is None else job.shared
    assert given is not None
    results = []
    tree: TreeSum[Any] = TreeSum(job.fan, job.first)
    with single_threaded_blas(), kept_heap():
        for i, block in enumerate(job.blocks):
            try:
                X = read_block(samples, block)
                result = job.function(X, *given) if job.each is None else job.function(X, job.each[i], *given)
            except Exception as error:
                error.__dict__["majorica_block"] = i  # for the message; a task has many blocks
                raise
            if job.add:
                tree.add(result)
            else:
                results.append(result)
    return tree if job.add else results


def add_trees(trees: Sequence[TreeSum[Any]]) -> TreeSum[Any]:
    """The trees of consecutive stretches as one; they stay as they are, since a retry may need them."""
    whole: TreeSum[Any] = TreeSum(trees[0].fan, trees[0].first)
    for tree in trees:
        whole.extend(tree)
    return whole


def size_of(result: Any) -> int:
    """Bytes of the arrays in a result."""
    parts = vars(result).values() if hasattr(result, "__dict__") else (result,)
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def pass_on(*values: Any) -> tuple[Any, ...]:
    """The values: a task that holds what all tasks of a pass share."""
    return values


def hold_chunk(chunk: Any, start: int, stop: int, dtype: Any) -> HeldSamples:
    """A chunk of the user's array as held samples; no copy where dtype and order fit."""
    array = as_block(chunk, np.dtype(dtype))
    if array.ndim != 2:
        raise DataError(f"a chunk has shape {array.shape} where (samples, features) is needed")
    return HeldSamples([(start, stop)], array)


def read_ranges(ranges: Ranges, source: Source) -> HeldSamples:
    """Ranges of a source that the worker opens itself."""
    return HeldSamples(ranges.of, read_block(source, tuple(ranges.of)))


def read_rows(ranges: Ranges, source: Source, start: int) -> HeldSamples:
    """Ranges of a source under new numbers from `start` on (see :func:`gather_rows`)."""
    array = read_ranges(ranges, source).array
    return HeldSamples([(start, start + len(array))], array)


def stay(held: HeldSamples) -> HeldSamples:
    """`held` as it is: a task that brings it to another worker."""
    return held


def cut(held: HeldSamples, ranges: Ranges) -> HeldSamples:
    """The part of `held` within `ranges`; a copy, so that what is not needed is let go."""
    inside = overlap(held.ranges, ranges.of)
    return HeldSamples(inside, np.concatenate([held.read(*one) for one in inside]))


def gather_ranges(parts: Sequence[HeldSamples], ranges: Ranges) -> HeldSamples:
    """Exactly `ranges` of `parts`, ascending, for a task that keeps its result."""
    if len(parts) == 1 and parts[0].ranges == ranges.of:
        return parts[0]
    array = read_block(Parts(parts), tuple(ranges.of))
    return HeldSamples(ranges.of, array if array.base is None else array.copy())


def gather_rows(parts: Sequence[HeldSamples], ranges: Ranges, start: int) -> HeldSamples:
    """`ranges` of `parts` under new numbers from `start` on, one after the other: no pass has to gather them again."""
    array = gather_ranges(parts, ranges).array
    return HeldSamples([(start, start + len(array))], array)


def merge_ranges(blocks: Sequence[Block]) -> list[Range]:
    """The ranges of `blocks`, ascending, touching or overlapping ones made one."""
    merged: list[Range] = []
    for start, stop in sorted(one for block in blocks for one in block):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def ascending(blocks: Sequence[Block]) -> bool:
    """Whether the ranges of all blocks come in order and do not overlap."""
    return all(a[1] <= b[0] for a, b in pairwise(one for block in blocks for one in block))


def overlap(held: Sequence[Range], wanted: Sequence[Range]) -> list[Range]:
    """Parts of `wanted` inside `held`; both ascending, the ranges of each apart."""
    out: list[Range] = []
    i, j = 0, max(0, bisect_right(wanted, held[0]) - 1) if held else 0
    while i < len(held) and j < len(wanted):
        start, stop = max(held[i][0], wanted[j][0]), min(held[i][1], wanted[j][1])
        if start < stop:
            out.append((start, stop))
        if held[i][1] < wanted[j][1]:
            i += 1
        else:
            j += 1
    return out


def span(blocks: Sequence[Block]) -> str:
    """The samples of `blocks` in words, for messages."""
    ranges = merge_ranges(blocks)
    more = f" ({sum(map(block_length, blocks))} of them)" if len(ranges) > 1 else ""
    return f"samples {ranges[0][0]} to {ranges[-1][1]}{more}"
