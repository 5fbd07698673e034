"""Mini-batches of the incremental solver through the fused kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from majorica.engines.base import assisted
from majorica.kernels.codes import CodeArray, CodeTable
from majorica.problem import Problem
from majorica.solvers.incremental.touching import Memory
from majorica.statistics import F64, invert
from majorica.surrogate import REFRESH_EVERY

if TYPE_CHECKING:
    from majorica.solvers.incremental.solver import Incremental, IncrementalState


#: Products in a call, below which a second thread would be late.
WORTH_SHARING = 2_000_000


def run_compiled(solver: Incremental, problem: Problem, state: IncrementalState, numbers: npt.NDArray[np.intp]) -> F64:
    """The mini-batches of these `numbers`, or the first if only one can be made at once; their surrogates."""
    from majorica.kernels import minibatch as kernels
    from majorica.kernels.few import MOST, SUMS
    from majorica.kernels.machine import gemm_of
    from majorica.kernels.outer import make_readable
    from majorica.kernels.scratch import begin_with_line

    assert state.surrogate is not None
    assert state.touch is not None
    surrogate, densities, p = state.surrogate, state.densities, problem.p
    array = problem.contiguous()
    if array is None or solver.selection == "random":
        numbers = numbers[:1]
    starts = numbers * solver.batch_size
    stops = np.minimum(starts + solver.batch_size, problem.n)
    X = array if array is not None else problem.raw(((int(starts[0]), int(stops[0])),))
    memory = state.touch
    if array is None:
        memory = memory[starts[0] : stops[0]]
        starts, stops = np.zeros(1, np.intp), stops - starts
    touch, packed, table = _by_kind(memory, problem.n)
    keys = _random_keys(solver, state, p, starts, stops, X.dtype)
    flat = densities.flat_weights
    white = not flat.any() or np.array_equal(surrogate.covariance, np.eye(p))
    covariance_inverse = np.empty(0) if white else invert(surrogate.covariance).ravel()
    if np.isnan(state.log_det):
        state.log_det = float(np.linalg.slogdet(state.W)[1])
    surrogate.moments, state.inverse = begin_with_line(surrogate.moments), begin_with_line(state.inverse)
    losses = np.empty(len(starts))
    longest = min(solver.batch_size, problem.n)  # not the longest of this call: parts, and with them bits, follow
    parts = kernels.count_parts(longest)
    length = -(-longest // parts)
    q = p if solver.q is None else min(solver.q, p)
    given = (
        gemm_of(X.dtype),
        X,
        starts,
        stops,
        problem.whitening.mean.astype(X.dtype),
        np.ascontiguousarray(problem.whitening.matrix.T, X.dtype),
        state.W,
        state.inverse,
        state.log_det,
        densities.codes,
        densities.shapes,
        flat,
        covariance_inverse,
        keys,
        1 / problem.n,
        touch,
        packed,
        table.levels,
        table.edges,
        table.cells,
        surrogate.moments,
        surrogate.tilts,
        surrogate.offsets,
        solver.iterations,
        float(densities.log_normalisers.sum()),
        surrogate.sweeps,
        REFRESH_EVERY,
    )
    kept = None if array is None else _kept_white(solver, problem, state, array)
    shared = (
        make_readable(p, p, X.dtype),
        make_readable(longest, p, X.dtype) if kept is None else kept.samples,
        np.zeros(len(starts), np.intp) if kept is None else starts,
        np.zeros(len(starts), np.bool_) if kept is None else kept.known[numbers],
        np.repeat(q * length * np.arange(parts)[:, None], p + 1, axis=1),
        np.empty(q * length * parts, np.uint32),
        np.empty(q * length * parts),
        np.empty((parts, p)),
        np.empty((parts, p, SUMS if p <= MOST else 0)),
        losses,
    )
    team = np.zeros(kernels.DONE + p, np.int64)

    def work(first: bool) -> float:
        try:
            if state.rooms:
                rooms = state.rooms.pop()
            else:
                rooms = kernels.make_rooms(p, X.shape[1], q, length, parts, X.dtype, coded=packed.size > 0)
            log_det = float(kernels.run_minibatches(first, team, *given, q, rooms, *shared))
            state.rooms.append(rooms)
            return log_det
        except BaseException:
            team[kernels.OVER] = 1  # no thread waits for what this one had begun
            raise

    helpers = 0 if int((stops - starts).sum()) * p * p < WORTH_SHARING else max(parts, p) - 1
    with assisted(problem.engine, helpers, work, lambda: team.__setitem__(kernels.OVER, 1)):
        state.log_det = work(True)
    if kept is not None:
        kept.known[numbers] = True
    surrogate.sweeps += len(starts)
    return losses


@dataclass
class KeptWhite:
    """Whitened samples of the mini-batches that were visited before."""

    samples: npt.NDArray[np.floating]  #: (n, k)
    known: npt.NDArray[np.bool_]  #: which mini-batches are there


def _kept_white(
    solver: Incremental, problem: Problem, state: IncrementalState, X: npt.NDArray[np.floating]
) -> KeptWhite | None:
    """Where whitened samples are kept from visit to visit, None if they are too many."""
    from majorica.kernels.outer import make_readable

    if state.white is None and problem.n * problem.p * X.itemsize <= solver.most_white:
        known = np.zeros(-(-problem.n // solver.batch_size), np.bool_)
        state.white = KeptWhite(make_readable(problem.n, problem.p, X.dtype), known)
    return state.white


def _by_kind(memory: Memory, n: int) -> tuple[npt.NDArray[np.float32], CodeArray, CodeTable]:
    """The memory as the kernels take it, numbers and codes, one of which is empty; and what codes stand for."""
    if memory.dtype == np.uint8:
        return np.empty((0, 0), np.float32), memory.astype(np.uint8, copy=False), CodeTable.of(n)
    return memory.astype(np.float32, copy=False), np.empty((0, 0), np.uint8), CodeTable.none()


def _random_keys(
    solver: Incremental,
    state: IncrementalState,
    p: int,
    starts: npt.NDArray[np.intp],
    stops: npt.NDArray[np.intp],
    dtype: np.dtype[np.floating],
) -> npt.NDArray[np.floating]:
    """Keys ``(p, b)`` of the random choice, drawn sample by sample; empty for the greedy one."""
    if solver.selection == "greedy":
        return np.empty((0, 0), dtype)
    return np.ascontiguousarray(state.rng.random((int(stops[0] - starts[0]), p)).T.astype(dtype))
