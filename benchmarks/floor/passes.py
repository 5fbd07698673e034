"""One pass of each solver over samples in memory, as a function without arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from majorica.densities import Huber
from majorica.densities.piecewise import Piecewise
from majorica.densities.table import Densities
from majorica.engines import ThreadEngine
from majorica.fitting import Options, make_online
from majorica.problem import Problem, pass_block_length
from majorica.solvers import Incremental
from majorica.solvers.base import BURST
from majorica.solvers.incremental.solver import IncrementalState, default_batch_size
from majorica.sources.array import ArraySource
from majorica.sources.base import split_blocks
from majorica.statistics import Moments, pack_symmetric
from majorica.surrogate import Surrogate
from majorica.whitening import fit_whitening

SOLVERS = ("progressive", "incremental", "online", "batch")
#: Passes of the incremental solver before those that are timed: each has less to move than the one before.
BEFORE = 3
#: Adaptive shapes in turn: Laplace-like, nearly Gaussian, and uniform-like ones.
SHAPES = ((2.5, 0.9, 0.5, 0.3, 0.1), (1.2, 1.1, 1.0, 0.9, 0.7), (0.2, 0.4, 1.5, 4.0, 8.0))


def samples(p: int, n: int, dtype: str) -> np.ndarray:
    """Laplace samples ``(n, p)`` of variance one."""
    return np.random.default_rng([p, n]).laplace(scale=0.5**0.5, size=(n, p)).astype(dtype)


def densities(kind: str, p: int) -> Densities:
    """Huber for all, or a mix of adaptive shapes."""
    if kind == "huber":
        return Densities.same(Huber(), p)
    return Densities([Piecewise(SHAPES[i % len(SHAPES)]) for i in range(p)])


def make_problem(X: np.ndarray, threads: int) -> Problem:
    """The problem of `X` on so many threads."""
    source, engine = ArraySource(X), ThreadEngine(threads)
    blocks = split_blocks(len(X), pass_block_length(X.shape[1]))
    return Problem(source, fit_whitening(source, blocks, engine), engine, blocks)


def make(solver: str, X: np.ndarray, kind: str, *, threads: int = 1) -> Callable[[], object]:
    """A pass of `solver` at its defaults; online goes on from pass to pass."""
    problem = make_problem(X, threads)
    p = problem.p
    chosen, W = densities(kind, p), 1.2 * np.eye(p)
    if solver == "progressive":
        return lambda: problem.statistics(W, chosen)
    if solver == "batch":
        return lambda: problem.moments(W, chosen)
    if solver == "online":
        return _online(problem, Densities([chosen[0]] * p))
    return _incremental(problem, chosen, W)


class SamePass:
    """A pass of the incremental solver that does the same work each time, if :meth:`prepare` comes first.

    Passes that go on from each other have less and less to move: the best of them would compare different work.
    """

    def __init__(self, solver: Incremental, problem: Problem, state: IncrementalState) -> None:
        self.solver, self.problem, self.state = solver, problem, state
        for _ in range(BEFORE):
            self()
        self.known = copy.deepcopy(state)

    def __call__(self) -> None:
        target = round(self.state.passes) + 1
        while self.state.passes < target:
            self.solver.step(self.problem, self.state)
            self.state.skipped.clear()

    def prepare(self) -> None:
        """Go back to where it began; what is kept of the samples stays."""
        _restore(self.state, self.known)


def _restore(state: Any, known: Any) -> None:
    """Make a dataclass what it was, its arrays where they lie."""
    for name in (field.name for field in fields(state) if field.metadata.get("checkpoint", True)):
        now, before = getattr(state, name), getattr(known, name)
        if isinstance(before, np.ndarray) and now.shape == before.shape:
            now[...] = before
        elif is_dataclass(before) and type(now) is type(before):
            _restore(now, before)
        else:
            setattr(state, name, copy.deepcopy(before))


def _incremental(problem: Problem, chosen: Densities, W: np.ndarray) -> SamePass:
    solver = Incremental(tol=0, batch_size=default_batch_size(problem.n, problem.p))
    state = solver.init(problem, W, chosen, np.random.default_rng(0))
    state.burst = BURST
    return SamePass(solver, problem, state)


def _online(problem: Problem, chosen: Densities) -> Callable[[], object]:
    """Of sources that are separated and super-Gaussian: streams adapt their shapes, and sub-Gaussian ones cost less."""
    p, W = problem.p, problem.whitening.inverse
    Z = problem.read(((0, problem.n),))
    weights = np.array([float(density.weight(np.ones(1))[0]) for density in chosen])
    sums = Moments(1, pack_symmetric(weights[:, None, None] * np.eye(p)), np.zeros((p, p)), np.zeros(p))
    solver = make_online(Options(n_updates=None))
    state = solver.init(W, chosen, Surrogate.from_moments(sums, np.eye(p)), 10_000, np.random.default_rng(0))
    return lambda: solver.update(state, Z, engine=problem.engine)
