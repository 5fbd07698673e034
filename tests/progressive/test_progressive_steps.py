"""Channels of a few steps: sources on these steps keep coarse shapes, all others may have fine ones."""

from __future__ import annotations

import numpy as np
import pytest

from majorica import ICA
from majorica.engines.threads import ThreadEngine
from majorica.metrics import amari_distance
from majorica.problem import Problem
from majorica.solvers.steps import on_steps, steps_of_channels
from majorica.sources import as_source
from majorica.whitening import Whitening


def problem_of(X: np.ndarray) -> Problem:
    return Problem(as_source(X), Whitening.identity(X.shape[1]), ThreadEngine(1))


def test_steps_are_those_the_values_lie_on() -> None:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(5000, 7))
    X[:, 1] = 0.3 * np.round(X[:, 1] / 0.3) + 7.1
    X[:, 2] = (0.02 * np.round(X[:, 2] / 0.02)).astype(np.float32)  # too fine to be looked for
    X[:, 3] = rng.choice([0.0, 1.0, np.sqrt(2)], 5000)  # of few values, on no steps
    X[:, 4] = rng.random(5000) < 0.1
    X[:, 5] = 2.0
    X[:, 6] = (0.1 * np.round(5 * X[:, 6])).astype(np.float32)
    np.testing.assert_allclose(steps_of_channels(problem_of(X)), [0, 0.3, 0, 0, 1, 0, 0.1], rtol=1e-6)


def test_sources_are_on_steps_by_what_they_take_of_several_channels() -> None:
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(2000, 3)) * [1, 1, 10])
    W = np.array([[0.7, 0.7, 0], [0.05, 0.05, 0.99], [1, 0, 0.01]])
    scales = np.array([1, 1, 0.1])
    np.testing.assert_array_equal(on_steps(problem_of(X * scales), W), [True, False, False])
    assert not on_steps(problem_of(rng.normal(size=(2000, 3))), W).any()
    assert not on_steps(problem_of(X * scales), 3 * np.eye(3)).any()  # each a channel of its own


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_channels_of_few_steps_are_separated(dtype: type) -> None:
    """Fine shapes had drawn the steps: all of these ended mixed, at Amari distances up to 5.2."""
    worst, falls = 0.0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A = np.linalg.qr(rng.normal(size=(5, 5)))[0]
        X = np.round(0.8 * rng.laplace(size=(4000, 5)) @ A.T).astype(dtype)
        ica = ICA(random_state=0).fit(X)
        worst = max(worst, amari_distance(ica.components_, A))
        falls.append(np.diff(ica.trace_["loss"])[np.diff(ica.trace_["n_samples"]) == 0].max())
    assert max(falls) <= 1e-11
    assert worst < 0.5


@pytest.mark.parametrize(("solver", "n"), [("batch", 4000), ("incremental", 4000), ("online", 40_000)])
def test_other_solvers_draw_no_steps_either(solver: str, n: int) -> None:
    """They had ended at distances of 3.5, 1.7 and 0.7: the start's shapes were coarse, those that followed were not."""
    rng = np.random.default_rng(4)
    A = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    X = np.round(0.8 * rng.laplace(size=(n, 5)) @ A.T)
    ica = ICA(solver=solver, random_state=0).fit(X)
    assert ica.converged_
    assert amari_distance(ica.components_, A) < 0.1


def test_discrete_sources_keep_what_fine_shapes_gain() -> None:
    rng = np.random.default_rng(3)
    S, A = rng.choice([-3.0, -1, 1, 3], (5000, 4)), rng.normal(size=(4, 4))
    assert amari_distance(ICA(random_state=0).fit(S @ A.T).components_, A) < 1e-6
