"""Mini-batches of the incremental solver through the fused kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from majorica.problem import Problem
from majorica.statistics import F64, invert
from majorica.surrogate import REFRESH_EVERY, flat_weights

if TYPE_CHECKING:
    from majorica.solvers.incremental import Incremental, IncrementalState

#: From this many components on, threads share the two phases of a mini-batch.
SHARE_FROM = 32


def run_compiled(solver: Incremental, problem: Problem, state: IncrementalState) -> F64:
    """Up to ``state.burst`` mini-batches of this pass; returns the surrogate after each."""
    from majorica.kernels import minibatch as kernels

    assert state.surrogate is not None
    assert state.touch is not None
    surrogate, densities, p = state.surrogate, state.densities, problem.p
    numbers = state.order[state.position : state.position + state.burst]
    array = problem.contiguous()
    threads = getattr(problem.engine, "n_jobs", 1)
    shared = threads > 1 and p >= SHARE_FROM
    if array is None or shared or solver.selection == "random":
        numbers = numbers[:1]
    starts = numbers * solver.batch_size
    stops = np.minimum(starts + solver.batch_size, problem.n)
    X = array if array is not None else problem.source.read(int(starts[0]), int(stops[0]))
    touch = state.touch
    if array is None:
        touch = touch[starts[0] : stops[0]]
        starts, stops = np.zeros(1, np.intp), stops - starts
    keys = _random_keys(solver, state, p, starts, stops, X.dtype)
    flat = flat_weights(densities)
    inverse = invert(surrogate.covariance) if flat.any() else surrogate.covariance
    fixed = (problem.whitening.mean.astype(X.dtype), np.ascontiguousarray(problem.whitening.matrix.T, X.dtype))
    formulas = (densities.codes, densities.shapes)
    q = p if solver.q is None else min(solver.q, p)
    rest = (surrogate.moments, surrogate.tilts, surrogate.offsets)
    normaliser = float(densities.log_normalisers.sum())
    losses = np.empty(len(starts))
    if shared:
        losses[0] = _run_shared(
            kernels,
            problem,
            state,
            X[starts[0] : stops[0]],
            touch[starts[0] : stops[0]],
            keys,
            q,
            flat,
            inverse,
            solver.iterations,
            normaliser,
            threads,
        )
    else:
        kernels.run_minibatches(
            X,
            starts,
            stops,
            *fixed,
            state.W,
            state.inverse,
            *formulas,
            flat,
            inverse,
            q,
            keys,
            1 / problem.n,
            touch,
            *rest,
            solver.iterations,
            normaliser,
            surrogate.sweeps,
            REFRESH_EVERY,
            losses,
        )
    surrogate.sweeps += len(starts)
    return losses


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


def _run_shared(
    kernels: Any,
    problem: Problem,
    state: IncrementalState,
    X: npt.NDArray[np.floating],
    touch: npt.NDArray[np.float32],
    keys: npt.NDArray[np.floating],
    q: int,
    flat: F64,
    covariance_inverse: F64,
    iterations: int,
    log_normaliser: float,
    threads: int,
) -> float:
    """One mini-batch with both phases shared between threads; the same parts, so the same bits."""
    assert state.surrogate is not None
    surrogate, densities = state.surrogate, state.densities
    b, p, k = len(X), problem.p, problem.whitening.k
    Z, where, values = np.empty((b, k), X.dtype), np.empty((b, q), np.int32), np.empty((b, q), np.float32)
    bounds, rows, new = np.empty(p + 1, np.intp), np.empty(b * q, np.intp), np.empty(b * q, np.float32)
    mean, KT = problem.whitening.mean.astype(X.dtype), np.ascontiguousarray(problem.whitening.matrix.T, X.dtype)
    formulas = (densities.codes, densities.shapes)
    tiles = -(-b // kernels.TILE)
    now = state.W.astype(X.dtype)
    share = problem.engine.share  # type: ignore[attr-defined]
    share(
        lambda first, last: kernels.choose_tiles(
            X, mean, KT, now, *formulas, q, keys, touch, Z, where, values, first, last
        ),
        tiles,
    )
    kernels.sort_chosen(where, values, bounds, rows, new)
    share(
        lambda first, last: kernels.move_components(
            Z,
            bounds,
            rows,
            new,
            *formulas,
            flat,
            1 / problem.n,
            touch,
            surrogate.moments,
            surrogate.tilts,
            surrogate.offsets,
            first,
            last,
        ),
        p,
    )
    refresh = (surrogate.sweeps + 1) % REFRESH_EVERY == 0
    return float(
        kernels.minimise(
            state.W,
            state.inverse,
            surrogate.moments,
            surrogate.tilts,
            flat,
            covariance_inverse,
            iterations,
            surrogate.offsets,
            log_normaliser,
            refresh,
        )
    )
