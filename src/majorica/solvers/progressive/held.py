"""One block of white samples in this process: its passes are single calls, without engine or source in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from majorica.densities.table import Densities
from majorica.kernels import newton
from majorica.kernels.centre import tile_length
from majorica.kernels.products import whole_stride
from majorica.kernels.scratch import aligned
from majorica.kernels.search import room_size, search_adaptive, search_any
from majorica.problem import Problem
from majorica.solvers.progressive.quasinewton import FLOOR, Memory
from majorica.statistics import F64, Statistics

#: Steps along one direction, each shorter than the last, before the search gives up.
TRIES = 10
#: Largest relative step, in spectral norm: keeps I + step invertible, so log|det W| never jumps sign.
LONGEST_STEP = 0.5
#: Tells the search that there is no memory to add to.
NO_MEMORY = -2


class Evaluation(NamedTuple):
    """What a pass at `W` says."""

    W: F64
    loss: float
    statistics: Statistics
    relative: F64  #: relative gradient
    upper: F64  #: block Hessian
    largest: float  #: entry of the relative gradient


def evaluation(W: F64, statistics: Statistics, densities: Densities) -> Evaluation:
    """Loss, gradient and block Hessian from a pass's sums."""
    (relative, upper, room), s = np.empty((3, *W.shape)), statistics
    sums = (s.loss, s.gradient, s.curvature, s.power, s.diagonal)
    loss, largest = newton.digest(W, s.n, *sums, densities.log_normalisers, FLOOR, relative, upper, room)
    return Evaluation(W, loss, statistics, relative, upper, largest)


@dataclass(frozen=True)
class Held:
    """White samples as p rows with zeros at the end; float64 whatever the data, as they are few."""

    rows: F64  #: (p, at least n), as the kernels want them
    n: int  #: samples

    def __post_init__(self) -> None:
        p = len(self.rows)
        tile = tile_length(p)
        room = aligned(room_size(p, self.n, tile), np.dtype(np.float64))
        room[:] = 0  # rows without meaning take part in products: no number there may be a slow one
        self.__dict__["_room"] = (tile, room)  # of one thread: that of the solver

    @classmethod
    def empty(cls, p: int, n: int) -> Held:
        """Room for p components and n samples: fill `Z`."""
        stride = whole_stride.py_func(n, 8)
        rows = aligned(p * stride, np.dtype(np.float64)).reshape(p, stride)
        rows[:, n:] = 0
        return cls(rows, n)

    @classmethod
    def of(cls, problem: Problem) -> Held:
        """The samples of a problem of one block; p n numbers of memory."""
        whitening = problem.whitening
        centred = np.array(problem.raw(problem.blocks[0]).T, np.float64, order="C")  # long rows are quicker to centre
        centred -= whitening.mean[:, None]
        held = cls.empty(whitening.k, centred.shape[1])
        np.matmul(whitening.matrix, centred, held.Z)
        return held

    @property
    def Z(self) -> F64:
        """The white samples, (p, n)."""
        return self.rows[:, : self.n]

    def evaluate(self, W: F64, densities: Densities) -> Evaluation:
        """One pass at `W`."""
        return self._run(W, (W, W, 0.0), W, 0.0, np.inf, 0, densities, (W[None], W[None], 0, NO_MEMORY))[2]

    def search(
        self,
        W: F64,
        direction: F64,
        densities: Densities,
        relative: F64,
        known: float,
        *,
        below: float,
        memory: Memory | None,
    ) -> tuple[int, Evaluation | None]:
        """Passes made, and the first of ten ever shorter steps along `direction` whose loss is under `below`, if any.

        `relative` and `known` are relative gradient and loss at `W`. A step
        found is added to `memory`.
        """
        pairs = (W[None], W[None], 0, NO_MEMORY)
        if memory is not None:
            pairs = (memory.steps, memory.changes, memory.count, memory.newest)
        way = (direction, direction @ W, first_length(direction))
        made, found, new, count, newest = self._run(W, way, relative, known, below, TRIES, densities, pairs)
        if memory is not None:
            memory.count, memory.newest = count, newest
        return made, new if found else None

    def _run(
        self,
        W: F64,
        way: tuple[F64, F64, float],
        relative: F64,
        known: float,
        below: float,
        tries: int,
        densities: Densities,
        pairs: tuple[F64, F64, int, int],
    ) -> tuple[int, bool, Evaluation, int, int]:
        p = len(self.rows)
        squares, sums = np.empty((5, p, p)), np.empty(12 * p)
        formulas = (densities.codes, densities.shapes, densities.log_normalisers)
        search = search_adaptive if densities.adapted else search_any
        made, found, loss, largest, count, newest = search(
            *(self.rows.reshape(-1), self.rows.shape[1], self.n, W, *way, relative, known, below, tries, FLOOR),
            *(*pairs, *formulas, *self.__dict__["_room"], squares, sums),
        )
        new, gradient, after, upper, _ = squares
        loss_, curvature, power, diagonal = sums[: 4 * p].reshape(4, p)
        ramps, reaches = sums[4 * p :].reshape(2, p, 4)
        statistics = Statistics(self.n, loss_, gradient, curvature, power, diagonal, ramps, reaches)
        return made, found, Evaluation(new, loss, statistics, after, upper, largest), count, newest


def first_length(direction: F64) -> float:
    """How far along `direction` the first step may go."""
    size = newton.spectral_norm(direction, 4)
    return min(1.0, LONGEST_STEP / size) if size > 0 else 1.0


def shortened(length: float, rise: float, slope: float) -> float:
    """The next length to try after a step of `length` rose by `rise` above the line of slope `slope`."""
    best = -slope * length * length / (2 * rise) if np.isfinite(rise) and rise > 0 else 0.5 * length
    return min(max(best, 0.1 * length), 0.5 * length)
