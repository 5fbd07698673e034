"""Nested random subsets of the samples: the levels of the progressive solver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.densities.table import Densities
from majorica.kernels.centre import whiten
from majorica.kernels.scratch import on_own_pages
from majorica.problem import Problem, pass_block_length
from majorica.solvers.progressive.held import Held
from majorica.sources.array import ArraySource
from majorica.sources.base import Array, Block, read_block, split_blocks
from majorica.statistics import F64, Moments, Statistics
from majorica.whitening import Whitening

#: Each level has this many times the samples of the last.
GROWTH = 4
#: The first level has at least components squared over this many samples: of many components fewer lead nowhere.
SQUARES = 3
#: A pass of this many products (samples times components squared) costs less than a level of its own.
FEW_PRODUCTS = 3 * 2**17
#: A level's samples are kept in memory up to this many bytes, and this share of the data.
KEPT_BYTES, KEPT_SHARE = 32 * 2**20, 0.13
#: Units are no shorter than two to the power of this, and longer where there would be over 2^15 of them. Of blinks or
#: waves neighbours tell little that is new: a first level of few long units is fitted to their chance meetings.
SHORTEST = 2
#: Of data of this many samples or more, levels are kept whitened and in float32: their steps cost half.
SHORT_FROM = 100_000
#: Their samples are whitened in blocks this many times shorter than those of a pass, as several are in memory at once;
#: of less data than so many bytes in still shorter ones, as blocks are most of what a fit takes there.
SHORT_PARTS, LITTLE_DATA, LITTLE_PARTS = 4, 2**25, 16
#: Numbers read at a time where samples are only looked at.
READ_NUMBERS = 2**14
#: Error a loss computed in float32 stays below, relative to the sizes of the terms in it.
SHORT_ERROR = 1e-6


@dataclass
class Levels:
    """Units of neighbouring samples in random order; a level is the first `size` of them.

    Units are short, so that even the first level is spread over the whole
    recording, but not so short that reading them dominates.
    """

    order: npt.NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    unit: int = 1
    size: int = 0
    skipped: bool = False  #: whether smaller levels were left out as a pass is few products

    def __post_init__(self) -> None:
        self._kept: Problem | None = None  # this level as a problem of its own; not part of the state
        self._held: Held | None = None  # its samples, white, if they are one block
        self._few: Levels | None = None  # the last level within it that was asked for, with its samples
        self._announced = 0  # the size whose next level the engine was told of

    def __getstate__(self) -> dict[str, object]:
        short = np.uint16 if len(self.order) <= 2**16 else np.intp
        return {
            **self.__dict__,
            "order": self.order.astype(short),
            "_kept": None,
            "_held": None,
            "_few": None,
            "_announced": 0,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, order=state["order"].astype(np.intp))

    @classmethod
    def start(cls, n: int, p: int, rng: np.random.Generator, *, few: int = 0) -> Levels:
        """The smallest level: n / 4^k, see :func:`smallest_level`; all if a pass is `few` products."""
        unit, size = smallest_level(n, p)
        units = -(-n // unit)
        whole = size == n or n * p * p <= few
        if whole:
            return cls(np.arange(units), unit, units, skipped=size < n)
        return cls(rng.permutation(units), unit, -(-size // unit))

    @property
    def last(self) -> bool:
        """Whether all samples are in play."""
        return self.size == len(self.order)

    def grow(self) -> None:
        """Go to the next level."""
        self.size = min(len(self.order), self.size * GROWTH)
        if 2 * self.size > len(self.order):
            self.size = len(self.order)
        self._kept = self._held = None

    def upto(self, most: int) -> Levels:
        """The level itself, or one within it of about `most` samples if it has more: the last one again if it fits."""
        size = max(1, most // self.unit)
        if size >= self.size:
            return self
        if self._few is None or self._few.size != size:
            self._few = Levels(self.order, self.unit, size)
        return self._few

    def blocks(self, problem: Problem) -> list[Block]:
        """Blocks of this level, in the order of the samples."""
        if self.last:
            return list(problem.blocks)
        little = _bytes_of(problem) < LITTLE_DATA
        parts = 1 if not self._short(problem) else LITTLE_PARTS if little else SHORT_PARTS
        return problem.subset(np.sort(self.order[: self.size]), self.unit, parts=parts)

    def statistics(self, problem: Problem, W: F64, densities: Densities) -> Statistics:
        """Loss, gradient and Hessian entries over this level."""
        found = self._problem(problem).statistics(W, densities)
        self._announce(problem)
        return found

    def held(self, problem: Problem, densities: Densities) -> Held | None:
        """The level's white samples if they are one block and compiled kernels pass over it; else None."""
        if self._held is None and densities.compiled and problem.backend != "reference":
            level = self._problem(problem)
            if len(level.blocks) == 1:
                self._held, self._kept = Held.of(level), None  # one copy is enough
                self._announce(problem)
        return self._held

    def row_moments(self, problem: Problem, w: F64, density: Density) -> Moments:
        """The surrogate's statistics for one row over this level."""
        return self._problem(problem).row_moments(w, density)

    def sources(self, problem: Problem, W: F64, most: int) -> Array:
        """Sources ``(p, m)`` of this level's samples: of all, or every second, third ... so that m <= `most`.

        In the precision of the samples; a few are read at a time.
        """
        if self._held is not None:
            every = -(-self._held.n // most)
            return W @ self._held.Z[:, ::every]
        self._few = None  # let go of some before there are more: both would be most of what a fit takes
        level = self._problem(problem)
        every = -(-level.samples_in(level.blocks) // most)
        length = every * max(1, READ_NUMBERS // (every * level.source.n_features))
        pieces = [piece for block in level.blocks for piece in cut_block(block, length)]
        ends = np.cumsum([-(-level.samples_in([piece]) // every) for piece in pieces])
        out = on_own_pages((len(W), int(ends[-1])), level.source.dtype)
        short = W.astype(out.dtype)
        for piece, end in zip(pieces, ends.tolist(), strict=True):
            Z = level.white(level.raw(piece)[::every])
            out[:, end - len(Z) : end] = short @ Z.T
        return out

    def error(self, problem: Problem) -> float:
        """Rounding error of a loss over this level, relative to its terms; 0 where it is that of the data."""
        return SHORT_ERROR if self._short(problem) else 0.0

    def _short(self, problem: Problem) -> bool:
        """Whether this level's samples are kept whitened, in float32."""
        m = min(self.size * self.unit, problem.n)
        if problem.whitening.wide:
            return False
        return not self.last and problem.n >= SHORT_FROM and 4 * problem.p * m <= most_kept(_bytes_of(problem))

    def _problem(self, problem: Problem) -> Problem:
        """The problem restricted to this level; its samples are gathered once if they are few."""
        if self.last:
            return problem
        if self._kept is None:
            blocks = self.blocks(problem)
            if self._short(problem):
                self._kept = whitened_problem(problem, blocks)
            else:
                self._kept = self._gathered(problem, blocks)
        return self._kept

    def _announce(self, problem: Problem) -> None:
        """Tell a cluster which samples come next, once a level."""
        expect = getattr(problem.engine, "expect", None)
        if expect is None or self._announced == self.size:
            return
        self._announced = self.size
        after = Levels(self.order, self.unit, self.size)
        after.grow()
        if not after.last:
            expect(problem.source, after.blocks(problem))

    def _gathered(self, problem: Problem, blocks: list[Block]) -> Problem:
        """The level's samples as they are, copied together if they are few."""
        source = problem.source
        edges = np.concatenate([[0], np.cumsum([problem.samples_in([block]) for block in blocks])])
        here = int(edges[-1])
        bytes_ = source.dtype.itemsize * source.n_features * here
        if hasattr(problem.engine, "total") or bytes_ > most_kept(bytes_ * problem.n // here):
            return Problem(source, problem.whitening, problem.engine, blocks, problem.backend)
        samples = (read_block(source, block) for block in blocks)
        X = gather(samples, here, source.n_features, source.dtype)
        ranges = [((int(a), int(b)),) for a, b in pairwise(edges)]
        return Problem(ArraySource(X), problem.whitening, problem.engine, ranges, problem.backend)


def whitened_problem(problem: Problem, blocks: list[Block]) -> Problem:
    """The samples of `blocks` as a problem of their own in this process: whitened in float64, kept in float32."""
    whitening = problem.whitening
    samples = problem.engine.run(whiten, problem.source, blocks, whitening.mean, whitening.matrix)
    Z = gather(samples, problem.samples_in(blocks), whitening.k, np.float32)
    engine = getattr(problem.engine, "threads", problem.engine)
    return Problem(ArraySource(Z), Whitening.identity(whitening.k), engine, even_blocks(*Z.shape), problem.backend)


def cut_block(block: Block, length: int) -> list[Block]:
    """Pieces of a block that have at most so many samples; one of several ranges stays whole: engines may keep it."""
    if len(block) > 1:
        return [block]
    ((first, stop),) = block
    return [((start, min(start + length, stop)),) for start in range(first, stop, length)]


def even_blocks(m: int, p: int) -> list[Block]:
    """Blocks of equal length: up to eight that are worth handing out, then as long as those of a full pass."""
    count = max(min(8, m * p // 2**16), m // pass_block_length(p), 1)
    return split_blocks(m, -(-m // count))


def smallest_level(n: int, p: int) -> tuple[int, int]:
    """Samples a unit, and samples of the first level before they are rounded up to whole units."""
    unit = min(n, 1 << min(max((max(n - 1, 0) >> 15).bit_length(), SHORTEST), 12))
    least = max(1000, 20 * p, p * p // SQUARES, 8 * unit)
    size = n
    while size // GROWTH >= least:
        size //= GROWTH
    return unit, size


def _bytes_of(problem: Problem) -> int:
    """Bytes of all samples."""
    return problem.source.dtype.itemsize * problem.source.n_features * problem.n


def most_kept(whole: int) -> int:
    """Most bytes of a level's samples that are kept, of `whole` bytes of data."""
    return int(min(KEPT_BYTES, max(KEPT_SHARE * whole, 2**20)))


def gather(
    parts: Iterable[npt.NDArray[np.floating]], n: int, width: int, dtype: npt.DTypeLike = np.float64
) -> npt.NDArray[Any]:
    """Parts of `n` samples in all as one array ``(n, width)``; holds one part at a time besides it."""
    out = on_own_pages((n, width), dtype)
    row = 0
    for part in parts:
        out[row : row + len(part)] = part
        row += len(part)
    return out
