"""The problem a solver sees: whitened samples it can pass over, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.engines.base import Engine, total
from majorica.kernels import kernels_for
from majorica.sources.base import Block, Source, block_length, read_block, split_blocks
from majorica.statistics import F64, Moments, Statistics
from majorica.whitening import Whitening

Array = npt.NDArray[np.floating]


def pass_block_length(n_features: int) -> int:
    """Samples a block: about 2 MB, so that a block costs far more than handing it out."""
    return int(2 ** np.clip(np.floor(np.log2(2**18 / max(n_features, 1))), 8, 15))


def _statistics(X: Array, mean: F64, B: F64, densities: Densities, kernels: ModuleType | None) -> Statistics:
    return (kernels or kernels_for(densities)).statistics(X, mean, B, densities)


def _moments(X: Array, mean: F64, K: F64, W: F64, densities: Densities, kernels: ModuleType | None) -> Moments:
    return (kernels or kernels_for(densities)).moments(X, mean, K, W, densities)


@dataclass
class Problem:
    """Whitened samples behind an engine. Coordinates: ``z = K (x - mean)``, sources ``y = W z``.

    Parameters
    ----------
    source : Source
        Raw samples ``(n, f)``.
    whitening : Whitening
        Map from raw to white coordinates, k x f.
    engine : Engine
        Where passes run.
    blocks : list of Block
        The blocks of a full pass; made from the source when None.
    kernels : module, optional
        :mod:`majorica.kernels.reference` or ``compiled``; chosen by the
        densities when None.
    """

    source: Source
    whitening: Whitening
    engine: Engine
    blocks: Sequence[Block] = field(default_factory=list)
    kernels: ModuleType | None = None

    def __post_init__(self) -> None:
        if not self.blocks:
            self.blocks = split_blocks(self.source.n_samples, pass_block_length(self.source.n_features))

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.source.n_samples

    @property
    def p(self) -> int:
        """Number of components."""
        return self.whitening.k

    def backend(self, densities: Densities) -> ModuleType:
        """The kernels in force for these densities."""
        return self.kernels or kernels_for(densities)

    def statistics(self, W: F64, densities: Densities, blocks: Sequence[Block] | None = None) -> Statistics:
        """Loss, relative gradient and Hessian entries over `blocks` (all of them when None)."""
        B = W @ self.whitening.matrix
        chosen = self.blocks if blocks is None else blocks
        return total(self.engine, _statistics, self.source, chosen, self.whitening.mean, B, densities, self.kernels)

    def moments(self, W: F64, densities: Densities, blocks: Sequence[Block] | None = None) -> Moments:
        """The surrogate's statistics at `W`, Eq. (acc), over `blocks` (all of them when None)."""
        chosen = self.blocks if blocks is None else blocks
        shared = (self.whitening.mean, self.whitening.matrix, W, densities, self.kernels)
        return total(self.engine, _moments, self.source, chosen, *shared)

    def read(self, block: Block) -> Array:
        """Whitened samples of one block ``(b, k)``, in the source's precision."""
        X = read_block(self.source, block)
        return (X - self.whitening.mean.astype(X.dtype)) @ self.whitening.matrix.T.astype(X.dtype)

    def samples_in(self, blocks: Sequence[Block]) -> int:
        """Number of samples in `blocks`."""
        return sum(block_length(block) for block in blocks)
