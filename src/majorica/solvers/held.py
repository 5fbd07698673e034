"""One block of white samples in this process: its passes are single calls, without engine or source in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels import newton
from majorica.kernels.compiled import tile_length
from majorica.kernels.scratch import workspace
from majorica.kernels.search import search
from majorica.problem import Problem
from majorica.solvers.quasinewton import FLOOR
from majorica.statistics import F64, Statistics

#: Steps along one direction, each shorter than the last, before the search gives up.
TRIES = 10


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
    relative, upper, s = np.empty_like(W), np.empty_like(W), statistics
    sums = (s.loss, s.gradient, s.curvature, s.power, s.diagonal)
    loss, largest = newton.digest(W, s.n, *sums, densities.log_normalisers, FLOOR, relative, upper)
    return Evaluation(W, loss, statistics, relative, upper, largest)


class Search(NamedTuple):
    """How a line search ended."""

    tries: int  #: passes made
    length: float  #: of the last step tried
    found: bool  #: whether it lowered the loss enough
    last: Evaluation  #: at its end


@dataclass(frozen=True)
class Held:
    """White samples ``(p, n)``, each component's contiguous, in the precision of their level."""

    Z: npt.NDArray[np.floating]

    @classmethod
    def of(cls, problem: Problem) -> Held:
        """The samples of a problem of one block; p n numbers of memory."""
        whitening = problem.whitening
        X = problem.raw(problem.blocks[0])
        centred = X - whitening.mean.astype(X.dtype)
        return cls(whitening.matrix.astype(X.dtype) @ centred.T)

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.Z.shape[1]

    def evaluate(self, W: F64, densities: Densities) -> Evaluation:
        """One pass at `W`."""
        return self.search(W, np.zeros_like(W), 0.0, densities, tries=1).last

    def search(
        self,
        W: F64,
        direction: F64,
        length: float,
        densities: Densities,
        *,
        known: float = 0.0,
        slope: float = 0.0,
        below: float = np.inf,
        tries: int = TRIES,
    ) -> Search:
        """The first step along `direction` that brings the loss under `below`, or the last one tried.

        `known` is the loss at `W`, `slope` its derivative along `direction`:
        a step that fails is shortened to the minimum of the parabola through
        what is known, by a factor of 2 to 10.
        """
        p, n = self.Z.shape
        tile = tile_length(p)
        new, relative, upper, gradient = np.empty((4, p, p))
        sums, ramps, reaches = np.empty((4, p)), np.empty((p, 4)), np.empty((p, 4))
        made, length, found, loss, largest = search(
            self.Z,
            W,
            direction,
            length,
            known,
            slope,
            below,
            tries,
            densities.codes,
            densities.shapes,
            densities.log_normalisers,
            FLOOR,
            tile,
            workspace(2 * p * min(tile, n), self.Z.dtype),
            new,
            sums,
            ramps,
            reaches,
            gradient,
            relative,
            upper,
        )
        statistics = Statistics(n, sums[0], gradient, sums[1], sums[2], sums[3], ramps, reaches)
        return Search(made, length, found, Evaluation(new, loss, statistics, relative, upper, largest))


def shortened(length: float, rise: float, slope: float) -> float:
    """The next length to try after a step of `length` rose by `rise` above the line of slope `slope`."""
    best = -slope * length * length / (2 * rise) if np.isfinite(rise) and rise > 0 else 0.5 * length
    return min(max(best, 0.1 * length), 0.5 * length)
