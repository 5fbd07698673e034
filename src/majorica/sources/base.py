"""What a source of samples is.

A source is a matrix of samples ``(n_samples, n_features)``, samples first,
that may not fit in memory. Two kinds exist:

- a **random-access** source knows ``n_samples`` and reads any range of it;
- a **stream** has ``n_samples = None`` and yields blocks once.

Containers that can only be read from front to back, but again and again (CSV,
compressed archives), are spooled to a temporary file by :func:`as_source`, so
solvers meet no third kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]

#: A block of samples: ranges ``(start, stop)`` of the sample axis, in order.
#: Most blocks are one range; a block of a random subset has several.
Block = tuple[tuple[int, int], ...]

#: Numbers between two ranges that are read with them, as a journey of their own takes longer; numbers read at once.
GAP, _SPAN = 2**15, 2**17


@runtime_checkable
class Source(Protocol):
    """A matrix of samples that can be read by ranges.

    ``read`` returns a C-contiguous float32 or float64 array
    ``(stop - start, n_features)`` of dtype ``dtype``; it must not be written
    to. ``in_memory`` says that reading is (nearly) free and safe from several
    threads at once: such sources are read by the workers themselves, all
    others by one prefetching thread.
    """

    n_samples: int
    n_features: int
    dtype: np.dtype[np.floating]
    in_memory: bool
    feature_names: Sequence[str] | None

    def read(self, start: int, stop: int) -> Array:
        """Samples ``start`` to ``stop`` as ``(stop - start, n_features)``."""
        ...


@runtime_checkable
class Stream(Protocol):
    """Blocks of samples that can be iterated once, possibly without end."""

    n_samples: None
    n_features: int
    dtype: np.dtype[np.floating]
    feature_names: Sequence[str] | None

    def __iter__(self) -> Iterator[Array]:
        """Blocks ``(b, n_features)``, ``b`` as the producer likes."""
        ...


def read_block(source: Source, block: Block, *, gap: int = GAP) -> Array:
    """The samples of `block` as one array ``(b, n_features)``.

    A block of one range costs no copy where the source has none. A source
    may have a method ``read_ranges`` that takes one journey for all; else ranges with no
    more than `gap` numbers between them are one journey.
    """
    if len(block) == 1:
        return source.read(*block[0])
    together = getattr(source, "read_ranges", None)
    if together is not None:
        found: Array = together(block)
        return found
    out = np.empty((block_length(block), source.n_features), source.dtype)
    row, most = 0, _SPAN // source.n_features
    for near in _neighbours(block, gap // source.n_features, most):
        first = near[0][0]
        X = source.read(first, near[-1][1])
        for start, stop in near:
            out[row : row + stop - start] = X[start - first : stop - first]
            row += stop - start
    return out


def _neighbours(block: Block, gap: int, most: int) -> Iterator[list[tuple[int, int]]]:
    """The ranges of a block in groups, one journey each: no more than `gap` apart, and `most` samples in all."""
    near = [block[0]]
    for start, stop in block[1:]:
        if 0 <= start - near[-1][1] <= gap and stop - near[0][0] <= most:
            near.append((start, stop))
        else:
            yield near
            near = [(start, stop)]
    yield near


def rows_of(ranges: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Numbers of the samples in `ranges`, one a row."""
    starts, stops = ranges.T
    lengths = stops - starts
    return np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())


def block_length(block: Block) -> int:
    """How many samples `block` has."""
    return sum(stop - start for start, stop in block)


def split_blocks(n_samples: int, length: int) -> list[Block]:
    """The blocks ``[k length, (k+1) length)`` that cover `n_samples`, the last one maybe short."""
    return [((start, min(start + length, n_samples)),) for start in range(0, n_samples, length)]


def fingerprint(source: Source) -> str:
    """A short digest of the source's shape, dtype and up to 4096 of its samples, spread over all of it.

    Used to notice that a checkpoint belongs to other data. Reads 64 ranges,
    in one journey where the source can; fewer from little data, so that it
    never takes more journeys than a pass, or 16. Wide samples are fewer: two
    million numbers in all, or one sample a range.
    """
    n, f = source.n_samples, source.n_features
    digest = hashlib.sha256(f"{n} {f} {source.dtype}".encode())
    count = int(np.clip(min(n * f // 2**18, n // 256), 16, 64))
    length = min(n, max(1, min(4096, 2**21 // f) // count))
    starts = np.unique(np.linspace(0, n - length, count).astype(np.intp))
    ranges = tuple((int(start), int(start) + length) for start in starts)
    digest.update(np.ascontiguousarray(read_block(source, ranges, gap=0)).tobytes())
    return digest.hexdigest()[:32]
