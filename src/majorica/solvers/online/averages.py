"""Averages of the online solver's matrices, and which of them to answer with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from majorica.solvers.online.outliers import variances
from majorica.statistics import F64

#: Memories of the surrogate that the average over recent matrices remembers.
RECENT = 15.0
#: Memories of the surrogate over which predictions are compared.
COMPARED = 30.0
#: Nats by which a candidate may count as worse than the best, in units of p^2 over the memory: about four times what
#: the noise of a minimiser costs. Seconds of an artefact would otherwise choose for ten times as many samples as are
#: compared; with less than one unit, of two good candidates the slightly worse one is chosen more often.
WORSE = 2.0


@dataclass
class Averages:
    """The matrix itself, its mean over recent mini-batches and its mean over all; p^2 memory.

    With a short memory the surrogate soon forgets majorizers that touched at
    early matrices, but its minimiser is noisy. Averaging takes that noise out
    again: the mean over all is as good as one fit of all samples once W has
    settled, the recent one while it still moves, and W itself on streams that
    drift. So all three predict each mini-batch before it is learnt, and the
    one that has done so best of late is the answer.
    """

    candidates: F64 = field(default_factory=lambda: np.empty((3, 0, 0)))  #: mean over all, recent mean, W itself
    losses: F64 = field(default_factory=lambda: np.zeros(3))  #: of what each predicted of late
    compared: float = 0.0  #: samples behind `losses`

    @classmethod
    def start(cls, W: F64) -> Averages:
        """All three at `W`."""
        return cls(np.repeat(W[None], 3, axis=0))

    @property
    def best(self) -> int:
        """The candidate that predicted best of late; of equal ones, the longest mean."""
        return int(np.argmin(self.losses))

    @property
    def answer(self) -> F64:
        """The matrix to show, ``(p, k)``."""
        chosen: F64 = self.candidates[self.best]
        return chosen

    def compare(self, losses: F64, samples: int, memory: float) -> None:
        """Note what each candidate lost on `samples` new samples, within `WORSE`; `memory` is the surrogate's."""
        if not np.isfinite(losses).all():
            return  # one outlier must not decide for ever
        self.compared += samples
        losses = np.minimum(losses, losses.min() + WORSE * self.candidates.shape[1] ** 2 / memory)
        rate = max(samples / self.compared, -math.expm1(-samples / (COMPARED * memory)))
        self.losses += rate * (losses - self.losses)

    def add(self, W: F64, samples: int, seen: int, memory: float, longest: float) -> None:
        """Average `W` in after `samples` more of now `seen`; no mean remembers more than `longest` samples."""
        for mean, length in zip(self.candidates, (longest, min(longest, RECENT * memory)), strict=False):
            mean += max(samples / seen, -math.expm1(-samples / length)) * (W - mean)
        self.candidates[2] = W

    def resize(self, rows: npt.NDArray[np.bool_], W: F64, covariance: F64) -> None:
        """Give these rows of all candidates the variances that those of `W` have."""
        wanted = variances(W, covariance)
        for mean in self.candidates:
            mean[rows] *= np.sqrt(wanted / variances(mean, covariance))[rows, None]
