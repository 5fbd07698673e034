"""What runs inside the workers of a cluster: pure functions of samples and a job."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from majorica.engines.base import TreeSum
from majorica.engines.threads import single_threaded_blas
from majorica.errors import DataError
from majorica.sources.base import Array, Block, Source, block_length, read_block
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


@dataclass(frozen=True)
class Job:
    """What to compute on some blocks: ``function(X, *each, *shared)`` for each, listed or added up."""

    function: Callable[..., Any]
    blocks: Sequence[Block]
    each: Sequence[Any] | None
    shared: tuple[Any, ...] | None  #: None where they come as a future
    fan: int  #: of the tree of sums
    add: bool


def run_job(
    job: Job, shared: tuple[Any, ...] | None, source: Source | None, parts: Sequence[HeldSamples] | None
) -> Any:
    """The results of `job`, or their sum; BLAS on one thread, since workers share the cores already.

    The samples come from `source`, opened here, or from held `parts`.
    """
    samples: Any = source if source is not None else join(parts or (), merge_ranges(job.blocks))
    given = shared if job.shared is None else job.shared
    assert given is not None
    results = []
    tree: TreeSum[Any] = TreeSum(job.fan)
    with single_threaded_blas():
        for i, block in enumerate(job.blocks):
            X = read_block(samples, block)
            result = job.function(X, *given) if job.each is None else job.function(X, job.each[i], *given)
            if job.add:
                tree.add(result)
            else:
                results.append(result)
    return tree.sum() if job.add else results


def add_results(results: Sequence[Any]) -> Any:
    """Sum in order; the results stay as they are, since a retry may need them."""
    sum_ = copy.deepcopy(results[0])
    for other in results[1:]:
        sum_ += other
    return sum_


def pass_on(*values: Any) -> tuple[Any, ...]:
    """The values: a task that holds what all tasks of a pass share."""
    return values


def hold_chunk(chunk: Any, start: int, stop: int, dtype: Any) -> HeldSamples:
    """A chunk of the user's array as held samples; no copy where dtype and order fit."""
    array = as_block(np.asarray(chunk), np.dtype(dtype))
    if array.ndim != 2:
        raise DataError(f"a chunk has shape {array.shape} where (samples, features) is needed")
    return HeldSamples([(start, stop)], array)


def read_ranges(ranges: Ranges, source: Source) -> HeldSamples:
    """Ranges of a source that the worker opens itself."""
    return HeldSamples(ranges.of, read_block(source, tuple(ranges.of)))


def cut(held: HeldSamples, ranges: Ranges) -> HeldSamples:
    """The part of `held` within `ranges`; a copy, so that what is not needed is let go."""
    inside = overlap(held.ranges, ranges.of)
    return HeldSamples(inside, np.concatenate([held.read(*one) for one in inside]))


def join(parts: Sequence[HeldSamples], ranges: Sequence[Range]) -> HeldSamples:
    """`parts`, ascending, as one; only `ranges` of them when there are several."""
    if len(parts) == 1:
        return parts[0]
    pieces = [one for part in parts for one in overlap(part.ranges, ranges)]
    arrays = [part.read(*one) for part in parts for one in overlap(part.ranges, ranges)]
    return HeldSamples(merge_ranges([tuple(pieces)]), np.concatenate(arrays))


def gather_ranges(parts: Sequence[HeldSamples], ranges: Ranges) -> HeldSamples:
    """Exactly `ranges` of `parts`, for a task that keeps its result."""
    whole = join(parts, ranges.of)
    return whole if whole.ranges == ranges.of else cut(whole, ranges)


def merge_ranges(blocks: Sequence[Block]) -> list[Range]:
    """The ranges of `blocks`, ascending, touching or overlapping ones made one."""
    merged: list[Range] = []
    for start, stop in sorted(one for block in blocks for one in block):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def overlap(held: Sequence[Range], wanted: Sequence[Range]) -> list[Range]:
    """Parts of `wanted` inside `held`; both ascending, the ranges of each apart."""
    out: list[Range] = []
    i = j = 0
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
