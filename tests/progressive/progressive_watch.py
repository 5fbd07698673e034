"""Runs of the progressive solver watched from outside: every loss recomputed from its definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from majorica.densities import Density, Huber, LogCosh, Piecewise, Student
from majorica.densities.table import Densities
from majorica.errors import RankWarning
from majorica.solvers import Progressive, StopReason, drive
from majorica.solvers.base import Step
from majorica.solvers.progressive.gains import ProgressiveState
from majorica.solvers.progressive.levels import FEW_PRODUCTS, Levels
from makers import make_problem, whiten


class Hyperbolic(Density):
    """``G(y) = sqrt(1 + y^2)``: a density only Python knows, normaliser left to numerical integration."""

    name = "hyperbolic"

    def loss(self, y):
        return np.sqrt(1 + np.asarray(y) ** 2)

    def score(self, y):
        return np.asarray(y) / np.sqrt(1 + np.asarray(y) ** 2)

    def curvature(self, y):
        return (1 + np.asarray(y) ** 2) ** -1.5


#: None is the adaptive family.
DENSITIES: dict[str, Density | None] = {
    "huber": Huber(),
    "logcosh": LogCosh(),
    "student": Student(),
    "own": Hyperbolic(),
    "adaptive": None,
}


@dataclass(frozen=True)
class Seen:
    """One step as an observer sees it."""

    level: int  #: units in play
    n_samples: int
    published: float  #: the loss the solver says
    loss: float  #: the loss from its definition
    size: float  #: of the largest term in it: rounding is relative to this
    names: tuple[str, ...]
    W: np.ndarray


def samples_in_play(levels: Levels, n: int) -> np.ndarray:
    """Sample numbers of the present level, from nothing but the order of the units."""
    starts = np.sort(levels.order[: levels.size]) * levels.unit
    return np.concatenate([np.arange(start, min(start + levels.unit, n)) for start in starts])


def define_loss(W: np.ndarray, Z: np.ndarray, densities: Densities) -> tuple[float, float]:
    """Eq. (emp_risk) with normalisers, and the size of its largest term.

    The parabolas that make up a piecewise loss can be far larger than their
    sum: they count as terms.
    """
    Y = Z @ W.T
    terms = [-np.linalg.slogdet(W)[1]]
    size = 1.0
    for i, density in enumerate(densities):
        terms += [density.loss(Y[:, i]).mean(), density.log_normaliser]
        if isinstance(density, Piecewise):
            size = max(size, 0.5 * np.abs(density.slopes).max() * np.square(Y[:, i]).mean())
    return float(np.sum(terms)), float(max(size, np.abs(terms).max()))


@dataclass
class Run:
    """A watched fit."""

    seen: list[Seen]
    state: ProgressiveState
    Z: np.ndarray

    def rises(self) -> list[float]:
        """Rises of the recomputed loss within levels, relative to its largest term; positive ones are rounding."""
        pairs = zip(self.seen[:-1], self.seen[1:], strict=True)
        return [(b.loss - a.loss) / max(a.size, b.size) for a, b in pairs if a.level == b.level]

    def lies(self) -> list[float]:
        """Differences between published and recomputed loss, relative to the largest term."""
        return [abs(one.published - one.loss) / one.size for one in self.seen]

    def shape_changes(self) -> int:
        """Steps within a level after which some density is another."""
        return sum(a.names != b.names for a, b in zip(self.seen[:-1], self.seen[1:], strict=True) if a.level == b.level)


def run(
    X: np.ndarray,
    density: Density | None,
    *,
    start: Callable[[int], np.ndarray] | None = None,
    tol: float | None = None,
    max_iter: float = 60,
    seed: int = 0,
    few: int = FEW_PRODUCTS,
    seek: int = 0,
) -> Run:
    """Fit `X` and look at the start and at every step; `start` makes the start for p components, a rotation if None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)  # few samples that repeat
        problem = make_problem(X)
    Z = whiten(X, problem.whitening)
    p = problem.p
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.normal(size=(p, p)))[0] if start is None else start(p)
    solver = Progressive(tol=tol, adaptive=density is None, few=few, seek=seek)
    seen: list[Seen] = []

    def look(W: np.ndarray, densities: Densities, state: ProgressiveState) -> None:
        chosen = samples_in_play(state.levels, len(X))
        assert len(chosen) == state.n_samples
        loss, size = define_loss(W, Z[chosen], densities)
        seen.append(Seen(state.levels.size, state.n_samples, state.loss, loss, size, tuple(densities.names), W))

    def callback(step: Step) -> None:
        assert isinstance(step.state, ProgressiveState)
        look(step.unmixing, step.densities, step.state)

    state = solver.init(problem, W, Densities.same(density or Huber(), p), rng)
    look(state.W.copy(), state.densities, state)
    drive(solver, problem, state, max_iter=max_iter, callbacks=[callback])
    assert isinstance(state.stop, StopReason)
    return Run(seen, state, Z)
