"""One density per component, in the form the kernels read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from majorica.densities.base import CUSTOM, Density


class Densities:
    """The densities of all `p` components; immutable.

    Parameters
    ----------
    members : sequence of Density
        One a component, in order.
    """

    def __init__(self, members: Sequence[Density]) -> None:
        self.members = tuple(members)

    @classmethod
    def same(cls, density: Density, p: int) -> Densities:
        """`density` for each of `p` components."""
        return cls([density] * p)

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Density]:
        return iter(self.members)

    def __getitem__(self, i: int) -> Density:
        return self.members[i]

    def replace(self, i: int, density: Density) -> Densities:
        """A copy with component `i` changed."""
        return Densities([*self.members[:i], density, *self.members[i + 1 :]])

    def take(self, order: npt.NDArray[np.intp]) -> Densities:
        """The densities in another order."""
        return Densities([self.members[i] for i in order])

    @property
    def compiled(self) -> bool:
        """Whether compiled kernels know every member's formula."""
        return bool((self.codes != CUSTOM).all())

    @cached_property
    def codes(self) -> npt.NDArray[np.int64]:
        """Kernel code of each component."""
        return np.array([member.code for member in self.members], dtype=np.int64)

    @cached_property
    def shapes(self) -> npt.NDArray[np.float64]:
        """Shape parameters of each component ``(p, 3)``."""
        return np.array([member.shape for member in self.members], dtype=np.float64).reshape(-1, 3)

    @cached_property
    def super_gaussian(self) -> npt.NDArray[np.bool_]:
        """Which components have the super-Gaussian majorizer."""
        return np.array([member.super_gaussian for member in self.members], dtype=bool)

    @cached_property
    def log_normalisers(self) -> npt.NDArray[np.float64]:
        """Log normaliser of each component."""
        cache: dict[Density, float] = {}
        for member in self.members:
            if member not in cache:
                cache[member] = member.log_normaliser
        return np.array([cache[member] for member in self.members])

    @property
    def names(self) -> list[str]:
        """Name of each component's density."""
        return [str(member) for member in self.members]
