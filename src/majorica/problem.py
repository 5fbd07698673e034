"""The problem a solver sees: whitened samples it can pass over, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.densities.table import Densities
from majorica.engines.base import Engine, total
from majorica.kernels import Backend, kernels_for
from majorica.sources.base import Block, Source, block_length, read_block, split_blocks
from majorica.statistics import F64, Moments, Statistics
from majorica.whitening import Whitening

Array = npt.NDArray[np.floating]

#: Components whose statistics take so little memory that many blocks' may be there at once.
SMALL = 128


def pass_block_length(n_features: int) -> int:
    """Samples a block: about 2 MB, so that a block costs far more than handing it out."""
    return 1 << min(max((2**18 // max(n_features, 1)).bit_length() - 1, 8), 15)


def _statistics(X: Array, mean: F64, B: F64, densities: Densities, backend: Backend) -> Statistics:
    return kernels_for(densities, backend).statistics(X, mean, B, densities)


def _moments(X: Array, mean: F64, K: F64, W: F64, densities: Densities, backend: Backend) -> Moments:
    return kernels_for(densities, backend).moments(X, mean, K, W, densities)


def _row_moments(X: Array, mean: F64, K: F64, w: F64, density: Density, backend: Backend) -> Moments:
    return kernels_for(Densities([density]), backend).row_moments(X, mean, K, w, density)


@dataclass(frozen=True)
class InDouble:
    """A function of a block's samples that gets them in float64."""

    function: Callable[..., Any]

    def __call__(self, X: Array, *given: Any) -> Any:
        return self.function(X.astype(np.float64, copy=False), *given)


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
    backend : {"reference", "compiled"}, optional
        Which kernels; chosen by the densities when None.
    """

    source: Source
    whitening: Whitening
    engine: Engine
    blocks: Sequence[Block] = field(default_factory=list)
    backend: Backend = None

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

    @property
    def covariance(self) -> F64:
        """Covariance of the whitened samples: the identity, as the whitening is that of all samples."""
        return np.eye(self.p)

    def by(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of a block's samples as passes take them."""
        return InDouble(function) if self.whitening.wide else function

    def kernels(self, densities: Densities) -> ModuleType:
        """The kernels in force for these densities."""
        return kernels_for(densities, self.backend)

    def statistics(self, W: F64, densities: Densities, blocks: Sequence[Block] | None = None) -> Statistics:
        """Loss, relative gradient and Hessian entries over `blocks` (all of them when None)."""
        B = W @ self.whitening.matrix
        chosen = self.blocks if blocks is None else blocks
        given = (self.whitening.mean, B, densities, self.backend)
        return total(self.engine, self.by(_statistics), self.source, chosen, *given, small=self.p <= SMALL)

    def moments(self, W: F64, densities: Densities, blocks: Sequence[Block] | None = None) -> Moments:
        """The surrogate's statistics at `W`, Eq. (acc), over `blocks` (all of them when None)."""
        chosen = self.blocks if blocks is None else blocks
        shared = (self.whitening.mean, self.whitening.matrix, W, densities, self.backend)
        return total(self.engine, self.by(_moments), self.source, chosen, *shared)

    def row_moments(self, w: F64, density: Density, blocks: Sequence[Block] | None = None) -> Moments:
        """The surrogate's statistics for one row `w` only, over `blocks`; one pass and p^2 memory."""
        chosen = self.blocks if blocks is None else blocks
        shared = (self.whitening.mean, self.whitening.matrix, w, density, self.backend)
        return total(self.engine, self.by(_row_moments), self.source, chosen, *shared)

    def contiguous(self) -> Array | None:
        """All samples as one array if they lie in memory ready for the kernels, else None; never copies."""
        array = getattr(self.source, "array", None)
        ready = isinstance(array, np.ndarray) and array.flags.c_contiguous and array.dtype == self.source.dtype
        return array if ready and not self.whitening.wide else None

    def raw(self, block: Block) -> Array:
        """Samples of one block ``(b, f)`` as passes take them, by the engine's own way if it has one."""
        own = getattr(self.engine, "read", None)
        X: Array = read_block(self.source, block) if own is None else own(self.source, block)
        return X.astype(np.float64, copy=False) if self.whitening.wide else X

    def read(self, block: Block) -> Array:
        """Whitened samples of one block ``(b, k)``, in the precision of passes."""
        return self.white(self.raw(block))

    def white(self, X: Array) -> Array:
        """Whitened samples ``(b, k)`` of raw ones ``(b, f)``, in their precision."""
        return (X - self.whitening.mean.astype(X.dtype)) @ self.whitening.matrix.T.astype(X.dtype)

    def subset(self, units: npt.NDArray[np.intp], unit: int, *, parts: int = 1) -> list[Block]:
        """Blocks of the samples in the sorted `units` of `unit` samples each; neighbours within a block are joined.

        They are as long as those of a full pass, or one of `parts`, a power of two, of it.
        """
        length = pass_block_length(self.source.n_features) // parts
        if unit > length:  # both are powers of two
            pieces = unit // length
            units, unit = (units[:, None] * pieces + np.arange(pieces)).ravel(), length
            units = units[units * unit < self.n]
        blocks: list[Block] = []
        for first in range(0, len(units), length // unit):
            chosen = units[first : first + length // unit]
            gaps = np.flatnonzero(np.diff(chosen) != 1)
            starts = chosen[np.concatenate([[0], gaps + 1])] * unit
            stops = np.minimum((chosen[np.concatenate([gaps, [-1]])] + 1) * unit, self.n)
            blocks.append(tuple(zip(starts.tolist(), stops.tolist(), strict=True)))
        return blocks

    def samples_in(self, blocks: Sequence[Block]) -> int:
        """Number of samples in `blocks`."""
        return sum(block_length(block) for block in blocks)
