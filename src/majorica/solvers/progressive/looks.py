"""Looks at the samples in play, and moves that need nothing but one: shared by all that the progressive solver does."""

from __future__ import annotations

from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.solvers.progressive.gains import ProgressiveState, rounding_of
from majorica.solvers.progressive.held import Evaluation, evaluation
from majorica.solvers.progressive.seeking import LENGTH
from majorica.solvers.shapes import Shapes
from majorica.statistics import F64, with_diagonal


def evaluate(problem: Problem, state: ProgressiveState, W: F64, densities: Densities | None = None) -> Evaluation:
    """Loss and statistics of the samples in play at `W`, with the state's densities or others."""
    densities = state.densities if densities is None else densities
    held = state.levels.held(problem, densities)
    if held is None:
        new = evaluation(W, state.levels.statistics(problem, W, densities), densities)
    else:
        new = held.evaluate(W, densities)
    state.passes += new.statistics.n / problem.n
    return new


def evaluate_here(problem: Problem, state: ProgressiveState) -> None:
    """Look again where the state is, at densities or samples that are new."""
    accept(state, evaluate(problem, state, state.W))


def accept(state: ProgressiveState, new: Evaluation) -> None:
    """Go where `new` was evaluated."""
    state.W, state.loss, state.statistics, state.stale = new.W, new.loss, new.statistics, False
    state.relative, state.upper, state.gradient = new.relative, new.upper, new.largest
    state.n_samples = new.statistics.n


def least_gain(problem: Problem, state: ProgressiveState) -> float:
    """What a component must gain to get a new shape."""
    return max(0.005 / state.n_samples, rounding_of(problem, state))


def refit_in_passing(state: ProgressiveState, least: float) -> float:
    """Refit the shapes that gain over `least`, without a pass of its own; returns the gain.

    The loss at the new shapes and the gradient's diagonal are exact, the
    gradient off it is still that of the old ones.
    """
    assert state.shapes is not None
    assert state.statistics is not None
    gain = float(state.shapes.refit(state.statistics, least).sum())
    if gain > 0:
        state.densities = state.shapes.densities()
        diagonal = state.statistics.gradient.diagonal() / state.n_samples - 1.0
        state.loss, state.relative, state.stale = state.loss - gain, with_diagonal(state.relative, diagonal), True
    return gain


def attempt(problem: Problem, state: ProgressiveState, W: F64, shapes: Shapes) -> bool:
    """Go to `W` with these shapes if that lowers the loss of the samples in play."""
    old, state.densities = state.densities, shapes.densities()
    new = evaluate(problem, state, W)
    if not new.loss < state.loss - rounding_of(problem, state):
        state.densities = old
        return False
    state.shapes = shapes
    accept(state, new)
    return True


def lengthen(problem: Problem, state: ProgressiveState) -> None:
    """Fit shapes to rows a little longer than the rotation's, or as long if that is no descent."""
    W, known = state.W, state.loss
    for length in (LENGTH, 1.0):
        state.W, state.shapes = length * W, Shapes.gaussian(problem.p)
        state.densities = state.shapes.densities()
        evaluate_here(problem, state)
        if refit_in_passing(state, least_gain(problem, state)) > 0:
            evaluate_here(problem, state)
        if state.loss <= known:
            return
    state.loss = min(state.loss, known)  # the same point: they differ by rounding alone
