"""State of the progressive solver, and what it tells of how much is left to gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from majorica.densities.base import PIECEWISE
from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.solvers.base import State
from majorica.solvers.progressive.curvatures import pair_curvatures, possible_gain
from majorica.solvers.progressive.levels import SHORT_FROM, Levels
from majorica.solvers.progressive.quasinewton import Memory
from majorica.solvers.shapes import Shapes
from majorica.sources.base import Array
from majorica.statistics import F64, Statistics

if TYPE_CHECKING:
    from majorica.solvers.progressive.solver import Progressive

#: Standard errors that the gradient may be off zero where little seems left to gain.
MOST_ERRORS = 4.0
#: Numbers of sources that tell how pairs curve, and scales and shapes where to settle, but at least so many samples;
#: and steps until it is looked again whether a steep gradient has more to gain.
LOOK_NUMBERS, LOOK_SAMPLES, LOOK_EVERY = 100_000, 1000, 4
#: Where convergence is slow, steps must also have gained little: this share of what may be left, or so many nats a
#: component. Where the model is wrong they gain several times what the block Hessian promises.
GAINED, WORTH_GAINED = 0.3, 2e-5
#: Nats a component below which a step on a level is not worth its time; where convergence is slow, on the last level
#: too, as of very long data the statistical floor is far smaller.
WORTH, WORTH_IF_SLOW = 1e-6, 1e-5
#: Data of at most this many numbers are solved patiently where adaptive densities converge slowly, for so many steps:
#: between nearly Gaussian sources the loss is so flat that a third of the floor is most of the angle.
PATIENT_NUMBERS, PATIENT_STEPS = 100_000, 40
#: Fixed densities go on until less than a nat of all samples is left to gain, for so many steps at most, where samples
#: are at most so many a component: the floor of p^2 / 2 nats hides the plateau that fits of many sources set out on.
FEW_EACH, STEADY_STEPS = 100, 200
#: Samples a component below which no search finds the sources.
TOO_FEW = 5
#: Products of a pass up to which one pass more is worth it however many the samples: of two nearly Gaussian sources
#: the predicted gain says too little of the angle.
CHEAP_PRODUCTS = 10_000_000
#: Rotations of pairs are tried on levels of at most this many samples, and on at most this many numbers of them.
ROTATION_SAMPLES, ROTATION_NUMBERS = 50_000, 500_000


@dataclass
class ProgressiveState(State):
    """State of the progressive solver; `statistics`, `upper` and `relative` belong to `W` on the level's samples."""

    levels: Levels = field(default_factory=Levels)
    statistics: Statistics | None = None
    relative: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: relative gradient
    upper: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: block Hessian
    memory: Memory = field(default_factory=Memory)
    gains: list[float] = field(default_factory=list)  #: predicted gains of this level's steps, since the last rotation
    losses: list[float] = field(default_factory=list)  #: the loss before each of these steps
    steps_here: int = 0  #: steps on this level
    finishes: int = 0  #: times new shapes kept this level from ending
    shapes: Shapes | None = None  #: None for fixed densities
    rotated: bool = False  #: pairs were checked on this level, and no turn helped or turns enough were made
    turns: int = 0  #: times that turns of pairs helped on this level
    stretched: bool = False  #: edges of sources were looked for on this level
    floored: bool = False  #: the statistical floor was reached, and `tol` asks for more
    look_again: int = 0  #: step on this level at which a gradient that is not small is looked at again
    stale: bool = False  #: shapes changed since `relative` was computed
    seeking: int = 0  #: fixed-point steps that may still come first
    sweeps: int = 0  #: MM sweeps that are still to come first, as rows are nearly dependent

    def forget(self) -> None:
        """Drop what was learnt on the way here: it says nothing of where a jump has led."""
        self.memory.clear()
        self.gains.clear()
        self.losses.clear()


def floor_of(problem: Problem, state: ProgressiveState) -> float:
    """The statistical floor of the loss, p^2 / (2 n), less on smaller levels, which are solved more tightly."""
    return math.sqrt(state.n_samples / problem.n) * problem.p**2 / (2 * problem.n)


def rounding_of(problem: Problem, state: ProgressiveState) -> float:
    """What the loss must fall by for it not to be rounding."""
    error = 0.0 if state.levels.last else state.levels.error(problem)
    if not error:
        return 0.0
    assert state.statistics is not None
    return error * float(sizes_of_terms(state.statistics, state.densities).sum() / state.n_samples)


def sizes_of_terms(statistics: Statistics, densities: Densities) -> F64:
    """The largest of the sums that make up each component's loss; the parabolas of a piecewise one may cancel."""
    steepest = np.where(densities.codes == PIECEWISE, np.abs(densities.shapes[:, :5]).max(axis=1), 0.0)
    return np.maximum(np.abs(statistics.loss), 0.5 * steepest * statistics.power)


def samples_each(problem: Problem, state: ProgressiveState) -> float:
    """Samples a component, where none are still to come into play; without end where some are, or they are too few."""
    each = problem.n / problem.p
    return each if state.levels.last and each >= TOO_FEW else math.inf


def is_small(solver: Progressive, problem: Problem, state: ProgressiveState, gain: float) -> bool:
    """Whether little is left to gain, by the block Hessian and, where convergence is slow, by the last steps."""
    floor = floor_of(problem, state)
    recent = state.gains[-4:]
    slow = len(recent) == 4 and gain > 0.3 * recent[0]
    if not state.levels.last:
        worth = (WORTH_IF_SLOW if slow else WORTH) * problem.p
        enough = max(solver.accuracy * floor, 2 * rounding_of(problem, state), worth)
        return gain < enough and not (slow and is_gaining(problem, state, solver.accuracy))
    if slow:
        if solver.adaptive and problem.n * problem.p <= PATIENT_NUMBERS and state.steps_here < PATIENT_STEPS:
            return gain < solver.patient * floor
        if not solver.adaptive and problem.n <= FEW_EACH * problem.p and state.steps_here < STEADY_STEPS:
            return gain * problem.n < 1
        share = solver.skipping if state.levels.skipped else solver.accuracy
        small = gain < max(share * floor, WORTH_IF_SLOW * problem.p)
        return small and not is_gaining(problem, state, solver.accuracy)
    if state.levels.skipped:
        return gain < solver.cheapest * floor
    cheap = problem.n < SHORT_FROM or problem.n * problem.p**2 <= CHEAP_PRODUCTS
    return gain < (solver.cheap if cheap else solver.fast) * floor


def is_coarse_done(state: ProgressiveState, gain: float) -> bool:
    """Whether coarse shapes have little left to do where there is one level only: one nat for all samples."""
    coarse = state.shapes is not None and not state.shapes.allow_fine
    return coarse and state.levels.last and gain * state.n_samples < 1


def is_thorough(solver: Progressive, state: ProgressiveState) -> bool:
    """Whether shapes are followed to the end: on the last level, if it is small or `tol` asks for it."""
    return state.levels.last and (solver.tol is not None or state.n_samples <= ROTATION_SAMPLES)


def is_settled(state: ProgressiveState) -> bool:
    """Whether shapes stay put between finishes, so that a `tol` of any size can be reached."""
    return state.floored and state.steps_here > 40


def is_gaining(problem: Problem, state: ProgressiveState, share: float) -> bool:
    """Whether the last four steps still gained what counts beside a `share` of the floor, whatever was promised."""
    least = max(GAINED * share * problem.p**2 / (2 * problem.n), WORTH_GAINED * problem.p)
    return state.losses[-4] - state.loss > 4 * least


def is_deceived(problem: Problem, state: ProgressiveState, share: float) -> bool:
    """Whether the block Hessian promises too little: pairs may gain over a `share` of the floor by a steep gradient."""
    if largest_error(state) <= MOST_ERRORS:
        return False
    if state.steps_here < state.look_again:
        return True
    sources = some_sources(problem, state)
    gain = possible_gain(state.relative, pair_curvatures(sources, state.densities))
    state.look_again = state.steps_here + LOOK_EVERY
    return gain >= share * floor_of(problem, state)


def some_sources(problem: Problem, state: ProgressiveState) -> Array:
    """Sources ``(p, m)`` of some of the level's samples, few enough to cost little beside a pass."""
    most = min(ROTATION_SAMPLES, max(LOOK_SAMPLES, LOOK_NUMBERS // problem.p))
    return state.levels.upto(most).sources(problem, state.W, most)


def largest_error(state: ProgressiveState) -> float:
    """The largest entry of the relative gradient, of sources of variance one, in standard errors of a Gaussian's.

    Where the block Hessian holds, little is left to gain once these are of
    order one. Where it does not, at a saddle between very sparse sources, say, it may
    promise next to nothing at any gradient.
    """
    assert state.statistics is not None
    deviations = np.sqrt(state.statistics.power)
    scaled = state.relative * (deviations[:, None] / deviations)
    return float(np.abs(scaled).max()) * math.sqrt(state.n_samples)
