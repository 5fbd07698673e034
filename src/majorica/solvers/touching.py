"""The incremental solver's memory: in which precision it holds touching points, and how a component's are made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels.codes import CodeTable
from majorica.problem import Problem
from majorica.sources.base import split_blocks
from majorica.statistics import F64, unpack_symmetric

if TYPE_CHECKING:
    from majorica.solvers.incremental import Incremental, IncrementalState

Precision = Literal["float32", "codes"]
Memory = npt.NDArray[np.float32] | npt.NDArray[np.uint8]


def encode(Y: F64, dtype: npt.DTypeLike, n: int, super_gaussian: npt.NDArray[np.bool_]) -> Memory:
    """`Y` ``(b, p)`` or ``(b,)`` as a memory of that type, for `n` samples, holds it."""
    if dtype == np.uint8:
        return CodeTable.of(n).encode(Y, super_gaussian)
    return Y.astype(np.float32)


def decode(memory: Memory, n: int, super_gaussian: npt.NDArray[np.bool_]) -> F64:
    """The touching points in a piece of memory ``(b, p)`` or ``(b,)``."""
    if memory.dtype == np.uint8:
        return CodeTable.of(n).decode(memory, super_gaussian)  # type: ignore[arg-type]
    return memory.astype(np.float64)


def touch_again(solver: Incremental, problem: Problem, state: IncrementalState, i: int, densities: Densities) -> bool:
    """Make component `i`'s majorizers anew, of its new density, touching at the current row over all samples.

    One pass, and a short one to write the memory. False, and nothing has
    changed, if its part of the surrogate would not fall: touching points are
    rounded.
    """
    assert state.surrogate is not None
    surrogate, w = state.surrogate, state.W[i]
    density, heavy = densities[i], densities.super_gaussian[i]
    if state.ledger is not None:
        sums = problem.row_moments(w, density)
        A, b, r = unpack_symmetric(sums.packed)[0], sums.tilts[0], float(sums.offsets[0])
    else:
        assert state.touch is not None
        A, b, r = np.zeros_like(surrogate.moments[i]), np.zeros_like(w), 0.0
        for block in split_blocks(problem.n, solver.batch_size):
            Z = problem.read(block).astype(np.float64)
            y = decode(encode(Z @ w, state.touch.dtype, problem.n, heavy), problem.n, heavy)
            A += (Z * density.weight(y)[:, None]).T @ Z
            b += density.tilt(y) @ Z
            r += float(density.offset(y).sum())
    A, b, r = A / problem.n, b / problem.n, r / problem.n
    if not density.super_gaussian:
        A = float(density.weight(np.zeros(1))[0]) * surrogate.covariance
    old = _part(w, surrogate.moments[i], surrogate.tilts[i], surrogate.offsets[i])
    change = densities.log_normalisers[i] - state.densities.log_normalisers[i]
    if state.ledger is not None:
        state.ledger[:, i] = w
    elif _part(w, A, b, r) + change < old:
        assert state.touch is not None
        for block in split_blocks(problem.n, solver.batch_size):
            start, stop = block[0]
            if solver.store is not None:
                solver.store.before_change([(start, stop)])
            Z = problem.read(block).astype(np.float64)
            state.touch[start:stop, i] = encode(Z @ w, state.touch.dtype, problem.n, heavy)
    else:
        return False
    surrogate.moments[i], surrogate.tilts[i], surrogate.offsets[i] = A, b, r
    return True


def _part(w: F64, A: F64, b: F64, r: float) -> float:
    """What one component adds to the surrogate, but for its normaliser."""
    return float(0.5 * w @ A @ w - b @ w + r)
