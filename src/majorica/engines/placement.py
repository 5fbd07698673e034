"""Where the samples of a pass are on a cluster, seen from the client: futures of held samples, never the samples."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any, Literal, Protocol

from majorica.engines.worker import (
    HeldSamples,
    Range,
    Ranges,
    cut,
    gather_ranges,
    gather_rows,
    hold_chunk,
    overlap,
    read_ranges,
    read_rows,
    stay,
)
from majorica.sources.base import Source
from majorica.sources.chunks import bounds_of

# Every call says ``pure=False``: names are our own, and Dask would hash all arguments to make up others.

#: Makes a task name a person understands, unique in the cluster.
Namer = Callable[[str], str]


class Base(Protocol):
    """All samples in consecutive parts: part ``k`` has samples ``bounds[k]`` to ``bounds[k + 1]``."""

    bounds: list[int]
    at_home: bool  #: whether neighbouring parts are on one worker, as they were shared out

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """Futures of :class:`HeldSamples`."""
        ...


class ChunkBase:
    """The chunks of the user's Dask array, computed by its own graph each time they are needed.

    Chunks that the user has persisted are futures in that graph already.
    """

    at_home = False

    def __init__(self, client: Any, source: Any, name: Namer) -> None:
        self.client, self.source, self.name = client, source, name
        self.bounds = bounds_of(source.array.chunks[0])

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """Futures of these chunks as held samples, made where the chunks are."""
        return list(
            self.client.map(hold_chunk, *self.chunks(numbers), key=names(self.name("chunk"), len(numbers)), pure=False)
        )

    def chunks(self, numbers: Sequence[int]) -> tuple[list[Any], list[int], list[int], list[str]]:
        """What :func:`hold_chunk` takes of these chunks; the graph is cut to them."""
        from distributed import futures_of

        array = self.source.array
        chosen = array if len(numbers) == array.numblocks[0] else array.blocks[list(numbers)]
        by_key = {future.key: future for future in futures_of(self.client.persist(chosen))}
        chunks = [by_key[(chosen.name, i, 0)] for i in range(len(numbers))]
        starts, stops = [self.bounds[k] for k in numbers], [self.bounds[k + 1] for k in numbers]
        return chunks, starts, stops, [self.source.dtype.str] * len(numbers)


class HeldBase:
    """All samples held by the workers, in the parts a full pass needs: no pass moves them again."""

    at_home = True

    def __init__(self, bounds: list[int], futures: list[Any]) -> None:
        self.bounds, self.futures = bounds, futures

    def parts(self, numbers: Sequence[int]) -> list[Any]:
        """The futures of these parts."""
        return [self.futures[k] for k in numbers]


@dataclass(frozen=True)
class Run:
    """Neighbouring leaves that live on one worker and are one task of a pass."""

    home: str  #: address of the worker
    first: int
    end: int


def share_out(sizes: Sequence[int], threads: Mapping[str, int], per_thread: int) -> list[Run]:
    """Leaves of these `sizes` in runs as equal as may be, `per_thread` a thread; those of a worker are neighbours."""
    homes = [address for address in sorted(threads) for _ in range(per_thread * threads[address])]
    edges = [0, *accumulate(sizes)]
    bounds = []
    for k in range(len(homes) + 1):
        fair = edges[-1] * k / len(homes)
        i = bisect_left(edges, fair)
        bounds.append(i - 1 if i > 0 and fair - edges[i - 1] <= edges[i] - fair else i)
    return [Run(home, *ends) for home, ends in zip(homes, pairwise(bounds), strict=True) if ends[0] < ends[1]]


class Holder:
    """Puts held samples onto the workers that will pass over them.

    Dask alone would spread them as it likes, and the worker with the most
    would make all others wait in every pass. A home is a wish: if the worker
    is gone, another one holds its leaves.

    Parameters
    ----------
    client : distributed.Client
    name : callable
        Makes task names.
    runs : sequence of Run
        Where each leaf has its home.
    """

    def __init__(self, client: Any, name: Namer, runs: Sequence[Run]) -> None:
        self.client, self.name, self.runs = client, name, runs

    def from_base(self, base: Base, ranges: Sequence[Sequence[Range]], rows: Sequence[int] | None = None) -> list[Any]:
        """One future a leaf that holds exactly its ranges; numbered anew from `rows` on if given."""
        inputs = arrange(self.client, base, ranges, self.name, cutting="never" if base.at_home else "always")
        wanted = [Ranges(list(one)) for one in ranges]
        if rows is None:
            return self._at_home("hold", gather_ranges, inputs, wanted)
        return self._at_home("hold", gather_rows, inputs, wanted, rows)

    def from_chunks(self, base: ChunkBase) -> list[Any]:
        """One future a chunk that holds it as it is."""
        return self._at_home("hold", hold_chunk, *base.chunks(range(len(base.bounds) - 1)))

    def from_source(
        self, source: Source, ranges: Sequence[Sequence[Range]], rows: Sequence[int] | None = None
    ) -> list[Any]:
        """The same, read by the workers from a source they open themselves."""
        wanted = [Ranges(list(one)) for one in ranges]
        sources = [source] * len(wanted)
        if rows is None:
            return self._at_home("read", read_ranges, wanted, sources)
        return self._at_home("read", read_rows, wanted, sources, rows)

    def from_here(self, source: Source, ranges: Sequence[Sequence[Range]]) -> list[Any]:
        """The same, sent to the workers by this process."""
        futures = []
        for run in self.runs:
            for one in ranges[run.first : run.end]:
                futures.append(self._send(read_ranges(Ranges(list(one)), source), run.home))
        return futures

    def move(self, futures: Sequence[Any]) -> list[Any]:
        """What `futures` hold, brought to the homes of now."""
        return self._at_home("move", stay, futures)

    def _send(self, held: HeldSamples, home: str) -> Any:
        try:
            return self.client.scatter(held, workers=[home], hash=False)
        except (KeyError, RuntimeError, OSError):  # what Dask raises when that worker is gone
            return self.client.scatter(held, hash=False)

    def _at_home(self, what: str, function: Callable[..., HeldSamples], *arguments: Sequence[Any]) -> list[Any]:
        futures: list[Any] = []
        for home, some in groupby(self.runs, key=lambda run: run.home):
            runs = list(some)
            mine = [argument[runs[0].first : runs[-1].end] for argument in arguments]
            keys = names(self.name(what), len(mine[0]))
            futures += self.client.map(function, *mine, key=keys, workers=[home], allow_other_workers=True, pure=False)
        return futures


def arrange(
    client: Any,
    base: Base,
    leaves: Sequence[Sequence[Range]],
    name: Namer,
    *,
    cutting: Literal["never", "several", "always"] = "several",
) -> list[list[Any]]:
    """The futures each leaf needs.

    Parts that a leaf does not need whole are cut before they are sent to it:
    `always`, or only where it needs `several`, since a task runs where its
    one part is; `never` where most parts are on the leaf's worker already.
    """
    numbers = [_part_numbers(base.bounds, ranges) for ranges in leaves]
    needed = sorted({k for some in numbers for k in some})
    parts = dict(zip(needed, base.parts(needed), strict=True))
    inputs: list[list[Any]] = [[parts[k] for k in some] for some in numbers]
    cuts: list[tuple[int, int, Ranges]] = []
    for i, some in enumerate(numbers if cutting != "never" else ()):
        for j, k in enumerate(some):
            part = (base.bounds[k], base.bounds[k + 1])
            inside = overlap([part], leaves[i]) if cutting == "always" or len(some) > 1 else [part]
            if inside != [part]:
                cuts.append((i, j, Ranges(inside)))
    if cuts:
        held, wanted = [inputs[i][j] for i, j, _ in cuts], [one for _, _, one in cuts]
        futures = client.map(cut, held, wanted, key=names(name("cut"), len(cuts)), pure=False)
        for (i, j, _), future in zip(cuts, futures, strict=True):
            inputs[i][j] = future
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
