"""Adaptive densities inside a solver: when shapes are refitted, and that it only ever lowers the loss."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from majorica.densities.base import PIECEWISE
from majorica.densities.piecewise import KNOTS
from majorica.densities.table import Densities
from majorica.kernels import shapes as kernels
from majorica.kernels.partition import TIED, room
from majorica.statistics import F64, Glance, Statistics

GAUSSIAN_LOG_NORMALISER = 0.5 * float(np.log(2 * np.pi))


@dataclass
class Shapes:
    """Slopes of every component's density, and which family each is in.

    A refit takes the sample means of five basis functions, which every pass
    gathers, and minimises the normalised loss over the slopes exactly. So a
    change of shape at fixed `W` is a descent step of the joint loss.
    """

    slopes: F64 = field(default_factory=lambda: np.empty((0, 5)))
    log_normalisers: F64 = field(default_factory=lambda: np.empty(0))
    fine: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    rising: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  #: whose score may not fall
    plain: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  #: which are to stay coarse
    allow_fine: bool = False
    wait: int = 1  #: steps between two refits, doubling up to 16
    since: int = 0  #: steps since the last refit

    def __post_init__(self) -> None:
        if not len(self.rising):
            self.rising = np.zeros(len(self.slopes), np.bool_)
        if not len(self.plain):
            self.plain = np.zeros(len(self.slopes), np.bool_)

    @classmethod
    def gaussian(cls, p: int) -> Shapes:
        """All components Gaussian, which both families contain."""
        return cls(np.ones((p, 5)), np.full(p, GAUSSIAN_LOG_NORMALISER), np.zeros(p, np.bool_))

    @classmethod
    def of(cls, densities: Densities, *, adaptive: bool) -> Shapes | None:
        """The shapes of densities to adapt, None if they are to stay as they are."""
        if not (adaptive and (densities.codes == PIECEWISE).all()):
            return None
        slopes = np.ascontiguousarray(densities.shapes[:, :5])
        return cls(slopes, densities.log_normalisers.copy(), _is_fine(slopes), allow_fine=True)

    def copy(self) -> Shapes:
        """One that can be changed without changing this one."""
        own = (self.slopes.copy(), self.log_normalisers.copy(), self.fine.copy(), self.rising.copy())
        return Shapes(*own, self.plain.copy(), self.allow_fine, self.wait, self.since)

    @property
    def may_be_fine(self) -> npt.NDArray[np.bool_]:
        """Which components may get fine shapes."""
        return self.allow_fine & ~self.plain

    @property
    def due(self) -> bool:
        """Whether it is time for a refit."""
        return self.since >= self.wait

    def densities(self) -> Densities:
        """The densities as the kernels read them."""
        table, heavy = kernels.shape_table(self.slopes)
        return Densities.from_table(table, heavy, self.log_normalisers.copy())

    def refit(self, statistics: Statistics, least: float) -> F64:
        """Best shapes for the samples behind `statistics`; a component changes if it gains over `least` nats.

        Returns each component's gain and brings ``statistics.loss`` and the
        gradient's diagonal to the new shapes; the gradient off it is still
        that of the old ones.
        """
        self.since = 0
        s = statistics
        own = (self.slopes, self.log_normalisers, self.fine, self.rising, self.may_be_fine)
        gains = np.empty(len(self.slopes))
        sums = (s.power, s.ramps, s.reaches)
        kernels.refit_sums(float(s.n), *sums, *own, least, s.loss, s.gradient, gains, room())
        return gains

    def restore(self, i: int, before: Shapes) -> None:
        """Give component `i` the shape it had `before`."""
        self.slopes[i], self.log_normalisers[i] = before.slopes[i], before.log_normalisers[i]
        self.fine[i] = before.fine[i]

    def refit_means(self, means: F64, n: float, least: float) -> F64:
        """Best shapes for basis means ``(p, 5)`` over `n` samples; returns each component's gain."""
        self.since = 0
        p, above = len(means), n * np.cumsum(means[:, ::-1], axis=1)[:, ::-1]
        sums = (2 * above[:, 0], np.ascontiguousarray(above[:, 1:]), np.zeros((p, 4)))
        own = (self.slopes, self.log_normalisers, self.fine, self.rising, self.may_be_fine)
        gains, loss, gradient = np.empty(p), np.empty(p), np.empty((p, p))
        kernels.refit_sums(float(n), *sums, *own, least, loss, gradient, gains, room())
        return gains

    def back_off(self) -> None:
        """Wait twice as long until the next refit."""
        self.wait = min(2 * self.wait, 16)


def _is_fine(slopes: F64) -> npt.NDArray[np.bool_]:
    """Which slopes are outside the coarse family."""
    tied = slopes[:, [0, 4]] @ TIED
    return np.abs(slopes - tied).max(axis=1) > 1e-9 * np.abs(slopes).max(axis=1)


def basis_means(sums: Statistics | Glance) -> F64:
    """Sample means of the five basis functions, ``(p, 5)``, from a pass's or a mini-batch's sums."""
    means = np.empty((len(sums.power), 5))
    means[:, 0], means[:, 1:] = 0.5 * sums.power, sums.ramps
    means[:, :4] -= sums.ramps
    return means / sums.n


def diagonal_sums(slopes: F64, statistics: Statistics) -> F64:
    """Sums of ``G'(y) y`` over the samples behind `statistics` for densities of these slopes, ``(p,)``."""
    beyond = 2 * statistics.ramps + KNOTS * statistics.reaches  # (abs(y) - knot)_+ abs(y)
    return np.asarray(slopes[:, 0] * statistics.power + np.einsum("im,im->i", np.diff(slopes, axis=1), beyond))
