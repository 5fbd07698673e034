"""Where the samples of a pass are on a cluster, seen from the client: futures of held samples, never the samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from majorica.engines.worker import (
    HeldSamples,
    Range,
    Ranges,
    cut,
    gather_ranges,
    hold_chunk,
    merge_ranges,
    overlap,
    read_ranges,
)
from majorica.sources.base import Block, Source
from majorica.sources.chunks import bounds_of

#: Makes a task name a person understands, unique in the cluster.
Namer = Callable[[str], str]


class Base(Protocol):
    """All samples in consecutive parts: part ``k`` has samples ``bounds[k]`` to ``bounds[k + 1]``."""

    bounds: list[int]

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """Futures of :class:`HeldSamples`."""
        ...


class ChunkBase:
    """The chunks of the user's Dask array, computed by its own graph each time they are needed.

    Chunks that the user has persisted are futures in that graph already.
    """

    def __init__(self, client: Any, source: Any, name: Namer) -> None:
        self.client, self.source, self.name = client, source, name
        self.bounds = bounds_of(source.array.chunks[0])

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """Futures of these chunks; the graph is cut to them."""
        from distributed import futures_of

        chosen = self.source.array.blocks[list(numbers)]
        by_key = {future.key: future for future in futures_of(self.client.persist(chosen))}
        chunks = [by_key[(chosen.name, i, 0)] for i in range(len(numbers))]
        starts = [self.bounds[k] for k in numbers]
        stops = [self.bounds[k + 1] for k in numbers]
        dtypes = [self.source.dtype.str] * len(numbers)
        keys = names(self.name("chunk"), len(numbers))
        return list(self.client.map(hold_chunk, chunks, starts, stops, dtypes, key=keys))


class HeldBase:
    """All samples held by the workers, in the parts a full pass needs: no pass moves them again."""

    def __init__(self, bounds: list[int], futures: list[Any]) -> None:
        self.bounds, self.futures = bounds, futures

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """The futures of these parts."""
        return [self.futures[k] for k in numbers]


def hold_from_base(client: Any, base: Base, leaves: Sequence[Sequence[Block]], name: Namer) -> list[Any]:
    """One future a leaf that holds exactly its samples, put together on the workers."""
    ranges = [merge_ranges(leaf) for leaf in leaves]
    inputs = arrange(client, base, ranges, name)
    if all(len(parts) == 1 and _is_part(base, wanted) for parts, wanted in zip(inputs, ranges, strict=True)):
        return [parts[0] for parts in inputs]
    wanted = [Ranges(one) for one in ranges]
    return list(client.map(gather_ranges, inputs, wanted, key=names(name("hold"), len(inputs))))


def hold_from_source(
    client: Any, source: Source, leaves: Sequence[Sequence[Block]], name: Namer, *, sent: bool
) -> list[Any]:
    """One future a leaf that holds exactly its samples, read by the workers, or sent to them from here."""
    wanted = [Ranges(merge_ranges(leaf)) for leaf in leaves]
    if not sent:
        keys = names(name("read"), len(wanted))
        return list(client.map(read_ranges, wanted, [source] * len(wanted), key=keys))
    futures = []
    for one in wanted:
        held: HeldSamples = read_ranges(one, source)
        futures.append(client.scatter(held, hash=False))
    return futures


def arrange(client: Any, base: Base, leaves: Sequence[Sequence[Range]], name: Namer) -> list[list[Any]]:
    """The futures each leaf needs; where it needs several parts, only what it needs of each is sent to it."""
    numbers = [_part_numbers(base.bounds, ranges) for ranges in leaves]
    needed = sorted({k for some in numbers for k in some})
    parts = dict(zip(needed, base.parts(needed), strict=True))
    cuts = [(i, k) for i, some in enumerate(numbers) if len(some) > 1 for k in some]
    if not cuts:
        return [[parts[some[0]]] for some in numbers]
    wanted = [Ranges(overlap([(base.bounds[k], base.bounds[k + 1])], leaves[i])) for i, k in cuts]
    futures = client.map(cut, [parts[k] for _, k in cuts], wanted, key=names(name("cut"), len(cuts)))
    inputs: list[list[Any]] = [[] if len(some) > 1 else [parts[some[0]]] for some in numbers]
    for (i, _), future in zip(cuts, futures, strict=True):
        inputs[i].append(future)
    return inputs


def names(prefix: str, count: int) -> list[str]:
    """Numbered task names."""
    return [f"{prefix}-{i}" for i in range(count)]


def _part_numbers(bounds: Sequence[int], ranges: Sequence[Range]) -> list[int]:
    """Which parts overlap `ranges`; empty parts are never needed."""
    numbers: list[int] = []
    for start, stop in ranges:
        k = bisect_right(bounds, start) - 1
        while k < len(bounds) - 1 and bounds[k] < stop:
            if bounds[k + 1] > max(bounds[k], start) and (not numbers or numbers[-1] < k):
                numbers.append(k)
            k += 1
    return numbers


def _is_part(base: Base, ranges: Sequence[Range]) -> bool:
    """Whether `ranges` are one whole part of `base`."""
    (start, stop), *more = ranges
    k = bisect_right(base.bounds, start) - 1
    return not more and base.bounds[k] == start and base.bounds[k + 1] == stop
