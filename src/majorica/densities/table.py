"""One density per component, in the form the kernels read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from majorica.densities.base import CUSTOM, PIECEWISE, SHAPE_LENGTH, Density
from majorica.densities.piecewise import KNOTS, Piecewise, name_of


@cache
def _piecewise_codes(p: int) -> npt.NDArray[np.int64]:
    """Kernel codes of `p` piecewise densities; shared, as nobody writes to codes."""
    return np.full(p, PIECEWISE, np.int64)


class Densities:
    """The densities of all `p` components; immutable.

    Parameters
    ----------
    members : sequence of Density
        One a component, in order.
    """

    def __init__(self, members: Sequence[Density]) -> None:
        self.__dict__["members"] = tuple(members)

    @classmethod
    def piecewise(cls, slopes: npt.NDArray[np.float64], log_normalisers: npt.NDArray[np.float64]) -> Densities:
        """Adaptive densities from their slopes ``(p, 5)`` and log normalisers, ready for the kernels at once."""
        intercepts = -np.cumsum(np.diff(slopes, axis=1) * KNOTS, axis=1)
        heavy = np.asarray((intercepts >= 0).all(axis=1))
        flat = np.where(heavy, 0.0, slopes.max(axis=1))
        return cls.from_table(np.column_stack([slopes, flat]), heavy, log_normalisers.copy())

    @classmethod
    def from_table(
        cls,
        shapes: npt.NDArray[np.float64],
        super_gaussian: npt.NDArray[np.bool_],
        log_normalisers: npt.NDArray[np.float64],
    ) -> Densities:
        """Piecewise densities from the numbers kernels read; the arrays are kept, not copied."""
        self = cls.__new__(cls)
        self.__dict__.update(
            codes=_piecewise_codes(len(shapes)),
            shapes=shapes,
            super_gaussian=super_gaussian,
            log_normalisers=log_normalisers,
            compiled=True,
            adapted=True,
        )
        return self

    @cached_property
    def members(self) -> tuple[Density, ...]:
        """One density a component."""
        return tuple(Piecewise(tuple(slopes)) for slopes in self.shapes[:, :5].tolist())

    @classmethod
    def same(cls, density: Density, p: int) -> Densities:
        """`density` for each of `p` components."""
        return cls([density] * p)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Density]:
        return iter(self.members)

    def __getitem__(self, i: int) -> Density:
        return self.members[i]

    def replace(self, i: int, density: Density) -> Densities:
        """A copy with component `i` changed."""
        return Densities([*self.members[:i], density, *self.members[i + 1 :]])

    def take(self, order: npt.NDArray[np.intp]) -> Densities:
        """The densities in another order."""
        if "members" not in self.__dict__:  # piecewise, straight from a fit
            return Densities.from_table(self.shapes[order], self.super_gaussian[order], self.log_normalisers[order])
        return Densities([self.members[i] for i in order])

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled kernels know every member's formula."""
        return bool((self.codes != CUSTOM).all())

    @cached_property
    def adapted(self) -> bool:
        """Whether all members are of the adaptive family."""
        return bool((self.codes == PIECEWISE).all())

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """Kernel code of each component."""
        return np.array([member.code for member in self.members], dtype=np.int64)

    @cached_property
    def shapes(self) -> npt.NDArray[np.float64]:
        """Shape parameters of each component ``(p, SHAPE_LENGTH)``, padded with zeros."""
        out = np.zeros((len(self.members), SHAPE_LENGTH))
        for i, member in enumerate(self.members):
            out[i, : len(member.shape)] = member.shape
        return out

    @cached_property
    def super_gaussian(self) -> npt.NDArray[np.bool_]:
        """Which components have the super-Gaussian majorizer."""
        return np.array([member.super_gaussian for member in self.members], dtype=bool)

    @cached_property
    def flat_weights(self) -> npt.NDArray[np.float64]:
        """Constant majorizer weight of each sub-Gaussian component, 0 for super-Gaussian ones."""
        return np.array([0.0 if one.super_gaussian else float(one.weight(np.zeros(1))[0]) for one in self.members])

    @cached_property
    def log_normalisers(self) -> npt.NDArray[np.float64]:
        """Log normaliser of each component."""
        cache: dict[Density, float] = {}
        for member in self.members:
            if member not in cache:
                cache[member] = member.log_normaliser
        return np.array([cache[member] for member in self.members])

    def curvature(self, Y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """``G_i''(y_i)`` of all components' samples ``(p, m)``."""
        if not self.adapted:
            return np.array([density.curvature(y) for density, y in zip(self, Y, strict=True)])
        size, slopes = np.abs(Y), self.shapes[:, :5]
        out = np.repeat(slopes[:, :1], Y.shape[1], axis=1)
        for knot, jumps in zip(KNOTS, np.diff(slopes, axis=1).T, strict=True):
            out += jumps[:, None] * (size > knot)
        return out

    @property
    def names(self) -> list[str]:
        """Name of each component's density."""
        if "members" not in self.__dict__:  # piecewise, straight from a fit
            return [name_of(slopes) for slopes in map(tuple, self.shapes[:, :5].tolist())]
        return [str(member) for member in self.members]
