"""The full-batch MM solver: the empirical loss, recomputed from its definition, never rises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.solvers import Batch, StopReason, drive
from majorica.surrogate import Surrogate
from makers import (
    ALL_DENSITIES,
    densities_of,
    empirical_loss,
    laplace,
    make_problem,
    matrix_of_condition,
    surrogate_loss,
    whiten,
)

NAMES = [*ALL_DENSITIES, "mixed"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), p=st.integers(1, 5), bad=st.booleans(), iterations=st.integers(0, 10))
def test_loss_never_rises_at_any_half_step(name: str, seed: int, p: int, bad: bool, iterations: int) -> None:
    rng = np.random.default_rng(seed)
    X, _ = laplace(97, p, seed)
    problem = make_problem(X, block=40)
    Z, densities = whiten(X, problem.whitening), densities_of(name, p)
    W = matrix_of_condition(p, 1e4, rng) * 10 ** rng.uniform(-3, 3) if bad else np.eye(p)
    solver = Batch(iterations=iterations)
    state = solver.init(problem, W, densities, rng)
    values, touch = [empirical_loss(W, Z, densities)], Z @ W.T
    original = Surrogate.minimise

    def minimise(surrogate, *args, **kwargs):
        original(surrogate, *args, **kwargs)
        values.append(surrogate_loss(state.W, Z, touch, densities))

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Surrogate, "minimise", minimise)
        for _ in range(8):
            solver.step(problem, state)
            touch = Z @ state.W.T
            values.append(empirical_loss(state.W, Z, densities))
            if not bad:  # the value through moments loses digits where W is ill-conditioned
                assert state.loss == pytest.approx(values[-1], rel=1e-12, abs=1e-12)
            assert state.loss == pytest.approx(values[-1], rel=1e-6, abs=1e-6)
    rise = np.diff(values) / np.maximum(1, np.abs(values[:-1]))
    assert rise.max() <= 1e-12


@pytest.mark.parametrize("name", ["huber", "logcosh", "student"])
def test_reaches_a_stationary_point(name: str) -> None:
    X, _ = laplace(3000, 4)
    problem = make_problem(X)
    solver = Batch(tol=1e-8)
    state = solver.init(problem, np.eye(4), densities_of(name, 4), np.random.default_rng(0))
    drive(solver, problem, state, max_iter=2000)
    assert state.stop is StopReason.GRADIENT
    Y = whiten(X, problem.whitening) @ state.W.T
    score = np.column_stack([d.score(Y[:, i]) for i, d in enumerate(state.densities)])
    assert np.abs(score.T @ Y / len(Y) - np.eye(4)).max() <= 1.01e-8


def test_blocks_and_threads_do_not_change_the_loss() -> None:
    X, _ = laplace(1000, 3)
    values = []
    for block in (1000, 64, 7):
        problem = make_problem(X, block=block)
        state = Batch().init(problem, np.eye(3), densities_of("huber", 3), np.random.default_rng(0))
        values.append(state.loss)
    assert np.ptp(values) < 1e-12
