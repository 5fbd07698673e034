"""The incremental solver's memory: in which precision it holds touching points, and how components' are made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.engines.base import total
from majorica.kernels import Backend, kernels_for
from majorica.kernels.codes import CodeTable
from majorica.problem import Array, Problem
from majorica.statistics import F64, Moments, unpack_symmetric

if TYPE_CHECKING:
    from majorica.solvers.incremental.solver import Incremental, IncrementalState

Precision = Literal["float32", "codes"]
Memory = npt.NDArray[np.float32] | npt.NDArray[np.uint8]
Indices = npt.NDArray[np.intp]
#: Bytes of the sums a block hands over, at most, for components made anew together.
MOST_SUMS = 2**22


def encode(Y: npt.NDArray[np.floating], dtype: npt.DTypeLike, n: int, super_gaussian: npt.NDArray[np.bool_]) -> Memory:
    """`Y` ``(b, p)`` or ``(b,)`` as a memory of that type, for `n` samples, holds it."""
    if dtype == np.uint8:
        return CodeTable.of(n).encode(Y, super_gaussian)
    return Y.astype(np.float32, copy=False)


def decode(memory: Memory, n: int, super_gaussian: npt.NDArray[np.bool_]) -> F64:
    """The touching points in a piece of memory ``(b, p)`` or ``(b,)``."""
    if memory.dtype == np.uint8:
        return CodeTable.of(n).decode(memory, super_gaussian)  # type: ignore[arg-type]
    return memory.astype(np.float64)


def group_size(k: int) -> int:
    """How many super-Gaussian components are made anew in one pass."""
    return max(8, MOST_SUMS // (4 * k * (k + 1)))


def touch_again(
    solver: Incremental, problem: Problem, state: IncrementalState, which: Indices, densities: Densities
) -> Indices:
    """Make the majorizers of the components `which` anew, of their new densities, touching at the current rows.

    One pass over all samples, and a short one to write the memory. A
    component whose part of the surrogate would not fall, since touching points
    are rounded, stays as it is. Returns the others.
    """
    heavy = densities.super_gaussian[which]
    size = group_size(problem.p)
    groups = [which[heavy][i : i + size] for i in range(0, int(heavy.sum()), size)]
    groups += [which[~heavy]] if not heavy.all() else []
    return np.sort(np.concatenate([_touch_group(solver, problem, state, group, densities) for group in groups]))


def _touch_group(
    solver: Incremental, problem: Problem, state: IncrementalState, group: Indices, densities: Densities
) -> Indices:
    """:func:`touch_again` for components of one family."""
    assert state.surrogate is not None
    surrogate, W, own = state.surrogate, state.W[group], densities.take(group)
    held = None if state.touch is None else state.touch.dtype
    shared = (problem.whitening.mean, problem.whitening.matrix, W, own, held, problem.n, problem.backend)
    sums = total(problem.engine, problem.by(_sums), problem.source, problem.blocks, *shared)
    flat = own.flat_weights
    accepted = []
    for j, i in enumerate(group.tolist()):
        A = flat[j] * surrogate.covariance if flat[j] > 0 else unpack_symmetric(sums.packed[j]) / problem.n
        b, r = sums.tilts[j] / problem.n, float(sums.offsets[j]) / problem.n
        now = own.log_normalisers[j] - state.densities.log_normalisers[i] + _part(W[j], A, b, r)
        if held is None or now < _part(W[j], surrogate.moments[i], surrogate.tilts[i], surrogate.offsets[i]):
            surrogate.moments[i], surrogate.tilts[i], surrogate.offsets[i] = A, b, r
            accepted.append(j)
    if state.ledger is not None:
        state.ledger[:, group] = W
    elif accepted:
        assert state.touch is not None
        pieces = problem.engine.run(problem.by(_held), problem.source, problem.blocks, *shared)
        for ((start, stop),), piece in zip(problem.blocks, pieces, strict=True):
            if solver.store is not None:
                solver.store.before_change([(start, stop)])
            state.touch[start:stop, group[accepted]] = piece[:, accepted]
    return group[accepted]


def _held(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, dtype: npt.DTypeLike, n: int, backend: Backend
) -> Memory:
    """The sources of one block as the memory holds them."""
    Y = kernels_for(densities, backend).whiten(X, mean, W @ K)
    return encode(Y, dtype, n, densities.super_gaussian)


def _sums(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, dtype: npt.DTypeLike | None, n: int, backend: Backend
) -> Moments:
    """The surrogate's statistics of one block for some rows `W` of one family, touching where the memory can.

    Weights of sub-Gaussian majorizers do not change: their moments are left out.
    """
    points = None
    if dtype is not None:
        held = _held(X, mean, K, W, densities, dtype, n, backend)
        points = decode(held, n, densities.super_gaussian)
    squares = bool(densities.super_gaussian.all())
    return kernels_for(densities, backend).moments(X, mean, K, W, densities, points, squares=squares)


def _part(w: F64, A: F64, b: F64, r: float) -> float:
    """What one component adds to the surrogate, but for its normaliser."""
    return float(0.5 * w @ A @ w - b @ w + r)
