"""The default solver for finite data: quasi-Newton on growing random subsets, with MM steps as a safety net."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorica.densities.table import Densities
from majorica.problem import Problem
from majorica.solvers.base import StopReason, stalled, steepest
from majorica.solvers.progressive.gains import (
    ROTATION_SAMPLES,
    ProgressiveState,
    floor_of,
    is_coarse_done,
    is_deceived,
    is_settled,
    is_small,
    is_thorough,
    rounding_of,
    samples_each,
    some_sources,
)
from majorica.solvers.progressive.levels import FEW_PRODUCTS, Levels
from majorica.solvers.progressive.looks import (
    evaluate,
    evaluate_here,
    least_gain,
    lengthen,
    refit_in_passing,
)
from majorica.solvers.progressive.lost import is_lost, nearest_rotation
from majorica.solvers.progressive.moves import rotate, settle_rows, step_along, stretch_edges, sweep_rows, turn_saddles
from majorica.solvers.progressive.quasinewton import Memory, is_crooked
from majorica.solvers.progressive.rest import at_rest
from majorica.solvers.progressive.seeking import (
    AGAIN,
    LEAST_SOUGHT,
    TURNED,
    contrast,
    first_steps,
    fixed_point,
    looks_gaussian,
    shows_nothing,
    steps_left,
)
from majorica.solvers.shapes import Shapes
from majorica.solvers.steps import on_steps
from majorica.statistics import F64

#: MM sweeps at most from a start of nearly dependent rows.
MOST_SWEEPS = 10
#: Steps after which a level hands over to the next, where a step does four times as much.
LONGEST_LEVEL = 80
#: Times new shapes may keep a level from ending: scale and shape creep along a ridge when optimised in turn.
MOST_FINISHES = 3
#: Samples of a level before the last from which on scales and shapes are settled together: fewer are fitted as such.
SETTLED_SAMPLES = 10_000
#: Times that pairs are turned on a level at most: a turn that helped can make another pair worth looking at.
MOST_TURNS = 4


@dataclass(frozen=True)
class Progressive:
    """Quasi-Newton in relative coordinates on nested random subsets, each four times the last.

    A level ends when the gain that the block Hessian predicts is far below
    the statistical floor ``p^2 / (2 n)``: small levels are solved more
    tightly than the last, as their steps are cheap. A step that does not
    lower the loss is shortened; if that fails, MM row steps, which cannot
    fail, take its place. Adaptive shapes are refitted between steps, exactly.
    Memory p^2.
    """

    tol: float | None = None
    adaptive: bool = False
    accuracy: float = 0.3  #: share of the floor that may be left where convergence is slow
    skipping: float = 0.1  #: and where smaller levels were left out, and with them their steps
    fast: float = 0.03  #: and where it is fast
    patient: float = 0.01  #: and where it is slow and a pass costs next to nothing
    cheap: float = 1e-3  #: and where it is fast and a pass costs little, so that every start ends in the same place
    cheapest: float = 1e-4  #: and where smaller levels were left out as it costs next to nothing
    few: int = FEW_PRODUCTS  #: products of a pass up to which data gets one level only
    first_level_only: bool = False  #: a cheap start for other solvers
    seek: int = 0  #: fixed-point steps at most from a start that is a mere rotation

    def init(self, problem: Problem, W: F64, densities: Densities, rng: np.random.Generator) -> ProgressiveState:
        """First subset, first evaluation."""
        p = problem.p
        state = ProgressiveState(
            W=W.copy(),
            densities=densities,
            levels=Levels.start(problem.n, p, rng, few=0 if self.first_level_only else self.few),
            upper=np.empty((p, p)),
            memory=Memory.of_size(p),
        )
        if is_crooked(W):
            state.sweeps = MOST_SWEEPS
        elif self.adaptive and p >= LEAST_SOUGHT:
            state.seeking = first_steps(self.seek, samples_each(problem, state))
        if self.adaptive:
            self._set_out(problem, state, W / np.linalg.norm(W, axis=1, keepdims=True))
        else:
            evaluate_here(problem, state)
        return state

    def _set_out(self, problem: Problem, state: ProgressiveState, W: F64) -> None:
        """Begin on this level at `W`, of unit variance, the unit of the knots."""
        state.shapes = Shapes.gaussian(problem.p)  # coarse until the end of a level: fine ones would fit the mixtures
        state.W, state.densities = W, state.shapes.densities()
        state.memory.clear()  # it says nothing of here
        evaluate_here(problem, state)
        if not (state.sweeps or state.seeking):
            self._refit(problem, state, settle=False)

    def step(self, problem: Problem, state: ProgressiveState) -> None:
        """One accepted move (quasi-Newton, shapes, rotation or MM), or the next level."""
        if state.seeking:
            self._seek(problem, state)
            return
        if state.sweeps:
            self._straighten(problem, state)
            return
        direction, gain = state.memory.direction(state.relative, state.upper)
        if is_coarse_done(state, gain) and self._refine(problem, state):
            return
        if self._level_done(problem, state, gain):
            self._finish_level(problem, state)
            return
        state.gains.append(gain)
        state.losses.append(state.loss)
        state.steps_here += 1
        if state.shapes is not None and state.shapes.due and not is_settled(state):
            state.shapes.back_off()
            if refit_in_passing(state, least_gain(problem, state)) > gain:
                state.memory.clear()
        if step_along(problem, state, direction):
            return
        if state.stale:
            known = state.loss
            evaluate_here(problem, state)
            state.loss = min(state.loss, known)  # the same point and shapes: they differ by rounding alone
            return
        if gain < rounding_of(problem, state):  # no row would be seen to gain on this level either
            self._finish_level(problem, state)
            return
        if state.memory.count:
            state.memory.clear()
            return
        if not sweep_rows(problem, state):
            if state.levels.last:
                state.stop = stalled(state.gradient, self.tol, problem.n)
            else:
                self._next_level(problem, state)

    # -------------------------------------------------------------- levels

    def _level_done(self, problem: Problem, state: ProgressiveState, gain: float) -> bool:
        """Whether the predicted gain is small enough to stop, or to go to the next level."""
        if self._met(state):
            return True
        if state.floored:
            return False
        if not state.levels.last and state.steps_here >= LONGEST_LEVEL:
            return True
        return is_small(self, problem, state, gain) and not is_deceived(problem, state, self.accuracy)

    def _refine(self, problem: Problem, state: ProgressiveState) -> bool:
        """Allow fine shapes; False if they gain nothing that counts.

        What they gain is mostly worth a new scale: where both are settled at
        the end anyway, they are at once, which spares a step and a pass.
        """
        assert state.shapes is not None
        state.shapes.allow_fine = True
        self._look_for_rest(problem, state)
        state.gains.clear()
        state.losses.clear()
        return self._refit(problem, state)

    def _look_for_rest(self, problem: Problem, state: ProgressiveState) -> None:
        """Let no fine score fall of sources at rest, as this level's samples say; sources on steps stay coarse."""
        assert state.shapes is not None
        state.shapes.rising = at_rest(some_sources(problem, state))
        state.shapes.plain |= on_steps(problem, state.W)

    def _met(self, state: ProgressiveState) -> bool:
        """Whether the gradient over all samples is what `tol` asks for."""
        return state.levels.last and self.tol is not None and state.gradient <= self.tol

    def _finish_level(self, problem: Problem, state: ProgressiveState) -> None:
        """Last looks at the shapes and the pairs of this level; then the next one, or the end."""
        shapes, met = state.shapes, self._met(state)
        tired = state.steps_here >= LONGEST_LEVEL and not state.levels.last
        if shapes is not None and tired:
            shapes.allow_fine = True
        elif shapes is not None:
            again = state.finishes < MOST_FINISHES or is_thorough(self, state)
            if shapes.since and again and self._refit(problem, state):
                state.finishes += 1
                return
            if not state.rotated and state.n_samples <= ROTATION_SAMPLES:
                helped = rotate(problem, state)
                state.turns += helped
                state.rotated = not helped or state.turns >= MOST_TURNS
                if helped:
                    return
            if not shapes.allow_fine and self._refine(problem, state):
                state.rotated = False
                return
            if not state.stretched and stretch_edges(problem, state):
                return
        elif not state.rotated and state.n_samples <= ROTATION_SAMPLES and problem.p > 1:
            helped = turn_saddles(problem, state)
            state.turns += helped
            state.rotated = not helped or state.turns >= MOST_TURNS
            if helped:
                return
        if state.levels.last:
            if self.tol is None or met:
                floor = StopReason.FLOOR if state.gradient <= steepest(problem.n, problem.p) else StopReason.STUCK
                state.stop = StopReason.GRADIENT if met else floor
                return
            state.floored = True  # from where a fit without tol ends, on to tol
            if state.stale:
                evaluate_here(problem, state)
        else:
            self._next_level(problem, state)

    def _next_level(self, problem: Problem, state: ProgressiveState) -> None:
        if self.first_level_only:
            state.stop = StopReason.FLOOR
            return
        watched = self.seek and state.shapes is not None
        again = watched and shows_nothing(problem.p, lambda: some_sources(problem, state), state.n_samples)
        state.levels.grow()
        state.gains.clear()
        state.losses.clear()
        state.steps_here = 0
        state.finishes = state.turns = state.look_again = 0
        state.rotated = state.stretched = False
        if again:
            state.seeking = min(self.seek, AGAIN)
            self._set_out(problem, state, nearest_rotation(state.W))
            return
        evaluate_here(problem, state)
        if state.shapes is not None and state.shapes.allow_fine:
            self._look_for_rest(problem, state)
        if state.shapes is not None:  # fitted to fewer samples: new ones come with the first step
            refit_in_passing(state, least_gain(problem, state))
            if is_lost(state):
                if not state.levels.last:
                    state.levels.grow()  # few samples hold what counts: four times as many are not many more
                self._set_out(problem, state, nearest_rotation(state.W))

    def _refit(self, problem: Problem, state: ProgressiveState, *, settle: bool = True) -> bool:
        """Refit the shapes, with the scales to `settle`, and look again; False if that gained less than the floor."""
        enough = self.accuracy * floor_of(problem, state)
        if not is_thorough(self, state):
            enough = max(enough, 0.5 * problem.p / state.n_samples)
        promised = state.floored or self._met(state)  # tol is for the gradient at the shapes that stay
        assert state.shapes is not None
        assert state.statistics is not None
        known = None
        if state.levels.last and not state.stale:  # the gradient shall be that of the shapes that stay
            known = (state.shapes.copy(), state.densities, state.loss, state.relative, state.statistics.apart())
        gain = refit_in_passing(state, enough / problem.p if promised else least_gain(problem, state))
        if gain <= enough and not (promised and state.stale):
            if known is not None:
                state.shapes, state.densities, state.loss, state.relative, state.statistics = known
                state.shapes.since, state.stale = 0, False
            return False
        state.memory.clear()
        settle = settle and (state.levels.last or state.n_samples >= SETTLED_SAMPLES)
        if not (settle and settle_rows(problem, state, enough / problem.p)):
            evaluate_here(problem, state)
        return True

    def _seek(self, problem: Problem, state: ProgressiveState) -> None:
        """One fixed-point step of the start: Gaussian shapes, as they are yet, have one loss at every rotation."""
        at = evaluate(problem, state, state.W, contrast(problem.p))
        state.W, state.relative, turned = fixed_point(state.W, at.statistics, state.relative)
        state.gradient = float(np.abs(state.relative).max())
        state.seeking = steps_left(state.seeking, turned, samples_each(problem, state))
        if state.seeking:
            return
        n = at.statistics.n
        contrasts = at.statistics.loss / n
        if turned > TURNED and not (state.levels.last or self.first_level_only) and looks_gaussian(contrasts, n):
            state.levels.grow()
            evaluate_here(problem, state)
            state.seeking = min(self.seek, AGAIN)
            return
        lengthen(problem, state)

    def _straighten(self, problem: Problem, state: ProgressiveState) -> None:
        """One of the sweeps from a start of nearly dependent rows, on the first level."""
        moved = sweep_rows(problem, state)
        state.sweeps = state.sweeps - 1 if moved and is_crooked(state.W) else 0
        if not state.sweeps and state.shapes is not None:
            self._refit(problem, state, settle=False)
