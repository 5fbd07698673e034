"""Equivariance: A(BX) = B A(X) (paper, section 3.1), and what follows from it end to end."""

from __future__ import annotations

import numpy as np
import pytest

from majorica import ICA
from majorica.solvers import Batch, Incremental, Progressive
from makers import densities_of, laplace, make_problem, matrix_of_condition

SOLVERS = {
    "batch": Batch(tol=0),
    "incremental-1": Incremental(q=1, batch_size=200, tol=0),
    "incremental-2": Incremental(q=2, batch_size=200, tol=0),
    "incremental-p": Incremental(q=None, batch_size=200, tol=0),
    "progressive": Progressive(tol=0),
}
OPTIONS = {"density": "logcosh", "tol": 1e-8, "random_state": 0, "n_updates": None, "max_iter": 3000}


def unmix(X: np.ndarray, solver, name: str, start: np.ndarray, steps: int) -> np.ndarray:
    """Raw unmixing matrix after `steps` from the raw start `start`, rows as the solver leaves them."""
    problem = make_problem(X)
    K, back = problem.whitening.matrix, problem.whitening.inverse
    state = solver.init(problem, start @ back, densities_of(name, problem.p), np.random.default_rng(0))
    for _ in range(steps):
        solver.step(problem, state)
        if state.stop is not None:
            break
    return state.W @ K


@pytest.mark.parametrize("name", ["huber", "logcosh", "student", "mixed"])
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_iterates_are_equivariant(solver, name: str, condition: float) -> None:
    """From corresponding starts every iterate corresponds: W(BX) B = W(X), to 1e-8."""
    rng = np.random.default_rng(5)
    X = rng.laplace(size=(1000, 4)) @ matrix_of_condition(4, 2.0, rng)
    B = matrix_of_condition(4, condition, rng)
    start = np.linalg.inv(np.linalg.cholesky(np.cov(X.T))) + 0.1 * rng.normal(size=(4, 4))
    # at the minimum a line search decides on rounding errors alone: stop the quasi-Newton method before it
    steps = 8 if isinstance(solver, Progressive) else 15
    wanted = unmix(X, solver, name, start, steps)
    got = unmix(X @ B.T, solver, name, start @ np.linalg.inv(B), steps) @ B
    assert np.linalg.norm(got - wanted) <= 1e-8 * np.linalg.norm(wanted)


@pytest.mark.parametrize("solver", ["progressive", "batch", "incremental"])
@pytest.mark.parametrize("condition", [1e2, 1e6])
def test_same_sources_end_to_end(solver: str, condition: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(3000, 4)) @ matrix_of_condition(4, 2.0, rng)
    B = matrix_of_condition(4, condition, rng)
    options = OPTIONS | {"solver": solver}
    one = ICA(**options).fit_transform(X)
    two = ICA(**options).fit_transform(X @ B.T)
    correlation = one.T @ two / len(one)
    order = np.abs(correlation).argmax(axis=1)
    assert sorted(order) == list(range(4))
    signs = np.sign(correlation[np.arange(4), order])
    np.testing.assert_allclose(two[:, order] * signs, one, atol=1e-6)


@pytest.mark.parametrize("solver", ["progressive", "batch", "incremental"])
def test_permuted_channels_give_the_same_components(solver: str) -> None:
    X, _ = laplace(3000, 5, seed=2)
    order = np.random.default_rng(0).permutation(5)
    options = OPTIONS | {"solver": solver}
    one, two = ICA(**options).fit(X), ICA(**options).fit(X[:, order])
    np.testing.assert_allclose(two.mixing_, one.mixing_[order], atol=1e-6)
    np.testing.assert_allclose(two.components_, one.components_[:, order], atol=1e-6)
