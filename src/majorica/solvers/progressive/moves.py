"""Moves of the progressive solver: each lowers the loss of the samples in play, or leaves everything as it is."""

from __future__ import annotations

from functools import cache

import numpy as np

from majorica.kernels.reference import minimise_row
from majorica.problem import Problem
from majorica.solvers.progressive.curvatures import leave_saddles
from majorica.solvers.progressive.gains import (
    LOOK_NUMBERS,
    ROTATION_NUMBERS,
    ProgressiveState,
    rounding_of,
    some_sources,
)
from majorica.solvers.progressive.held import TRIES, Evaluation, first_length, shortened
from majorica.solvers.progressive.looks import accept, attempt, evaluate
from majorica.solvers.progressive.quasinewton import Memory
from majorica.solvers.progressive.ridges import EDGE_SAMPLES, has_edges, settle_scales, stretch
from majorica.solvers.progressive.rotations import escape, flat_pairs
from majorica.solvers.shapes import Shapes
from majorica.statistics import F64, invert, unpack_symmetric

#: Nats over some of the samples that a new scale and shape must gain, as they would where there is nothing to gain.
OVERFIT = 3.0


def step_along(problem: Problem, state: ProgressiveState, direction: F64) -> bool:
    """Take the first step along `direction` that lowers the loss, if any of 10 does."""
    below = state.loss - rounding_of(problem, state)
    held = state.levels.held(problem, state.densities)
    memory = None if state.stale else state.memory
    if held is None:
        new = _search(problem, state, direction, below, memory)
    else:
        own = (state.W, direction, state.densities, state.relative, state.loss)
        passes, new = held.search(*own, below=below, memory=memory)
        state.passes += passes * held.n / problem.n
    if new is None:
        return False
    accept(state, new)
    if state.shapes is not None:
        state.shapes.since += 1
    return True


def _search(
    problem: Problem, state: ProgressiveState, direction: F64, below: float, memory: Memory | None
) -> Evaluation | None:
    """What ``Held.search`` does in one call, over samples of any size and place."""
    slope = float(np.vdot(direction, state.relative))
    if not slope < 0:
        return None
    length = first_length(direction)
    for _ in range(TRIES):
        new = evaluate(problem, state, state.W + length * (direction @ state.W))
        if new.loss < below:
            if memory is not None:
                memory.add(length * direction, new.relative - state.relative)
            return new
        length = shortened(length, new.loss - state.loss - length * slope, slope)
    return None


def settle_rows(problem: Problem, state: ProgressiveState, enough: float) -> bool:
    """Move each source's scale and shape together to where neither gains, if that lowers the loss.

    Where they are settled by some of the samples only, they must gain more than such a fit does where there is
    nothing to gain.
    """
    assert state.shapes is not None
    assert state.statistics is not None
    W, shapes = state.W.copy(), state.shapes.copy()
    held = state.levels.held(problem, state.densities)
    if held is not None:
        moved = settle_scales(lambda i: state.W[i] @ held.Z, W, shapes, state.statistics, enough)
    else:
        sources = cache(lambda: some_sources(problem, state))  # only if any source is off its scale
        enough = max(enough, OVERFIT * problem.p / LOOK_NUMBERS)
        moved = settle_scales(lambda i: sources()[i].astype(np.float64), W, shapes, state.statistics, enough)
    return bool(moved) and attempt(problem, state, W, shapes)


def rotate(problem: Problem, state: ProgressiveState) -> bool:
    """Reset rows of odd scale and rotate pairs that look dependent, where that lowers the loss of the level."""
    assert state.shapes is not None
    assert state.statistics is not None
    W, shapes = state.W.copy(), state.shapes.copy()
    sources = state.levels.sources(problem, W, max(1, ROTATION_NUMBERS // problem.p))
    if not escape(sources, W, shapes, flat_pairs(state.statistics, limit=2 * problem.p)):
        return False
    del sources
    return _jump(problem, state, W, shapes)  # unless that was a gain of the samples tried alone


def stretch_edges(problem: Problem, state: ProgressiveState) -> bool:
    """Bring the edges of bounded sources to the last knot, where that lowers the loss of the level."""
    assert state.shapes is not None
    state.stretched = True
    if not has_edges(state.shapes).any():
        return False
    W, shapes = state.W.copy(), state.shapes.copy()
    held = state.levels.held(problem, state.densities) is not None  # then one now and then is as quickly had
    few = state.levels if held else state.levels.upto(EDGE_SAMPLES)
    sources = few.sources(problem, W, EDGE_SAMPLES)
    return bool(stretch(sources, W, shapes)) and _jump(problem, state, W, shapes)


def _jump(problem: Problem, state: ProgressiveState, W: F64, shapes: Shapes) -> bool:
    """:func:`majorica.solvers.progressive.looks.attempt`, and new shapes soon after it."""
    if not attempt(problem, state, W, shapes):
        return False
    state.forget()
    shapes.wait = 1
    return True


def turn_saddles(problem: Problem, state: ProgressiveState) -> bool:
    """Turn pairs of fixed densities whose loss is bent downwards, where that lowers the loss of the level."""
    W = state.W.copy()
    if not leave_saddles(some_sources(problem, state), W, state.densities):
        return False
    new = evaluate(problem, state, W)
    if not new.loss < state.loss - rounding_of(problem, state):
        return False
    accept(state, new)
    state.forget()
    return True


def sweep_rows(problem: Problem, state: ProgressiveState) -> bool:
    """One MM sweep, a row a pass: a descent step from any point; False if nothing moved."""
    W = state.W.copy()
    for i in range(len(W)):
        moments = state.levels.row_moments(problem, W[i], state.densities[i])
        state.passes += moments.n / problem.n
        A = unpack_symmetric(moments.packed)[0] / moments.n
        W[i] = minimise_row(A, moments.tilts[0] / moments.n, W[i], invert(W)[:, i])
    new = evaluate(problem, state, W)
    if not new.loss < state.loss - rounding_of(problem, state):
        return False
    accept(state, new)
    return True
