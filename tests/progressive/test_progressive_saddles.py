"""Where the block Hessian is wrong, or the loss has no minimum: fits go on, leave saddles, or say how they ended."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from majorica import ICA
from majorica.errors import RepeatWarning
from majorica.metrics import amari_distance
from majorica.solvers.progressive.curvatures import leave_saddles, pair_curvatures, possible_gain
from makers import ALL_DENSITIES, densities_of

pytestmark = pytest.mark.filterwarnings("ignore::majorica.errors.RepeatWarning")


def sparse(seed: int, n: int, p: int, active: float) -> tuple[np.ndarray, np.ndarray]:
    """Mixed Laplace sources that are at rest most of the time, and what mixes sources of variance one."""
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n, p)) * (rng.random((n, p)) < active)
    A = rng.normal(size=(p, p))
    return S @ A.T, A * S.std(axis=0)


def loss(Y: np.ndarray, densities) -> float:
    return float(sum(density.loss(y).mean() for density, y in zip(densities, Y, strict=True)))


@pytest.mark.parametrize("name", ["logcosh", "student", "twogaussian", "piecewise-mixed"])
def test_pair_curvatures_are_second_derivatives(name: str) -> None:
    rng = np.random.default_rng(0)
    Y, densities = rng.laplace(size=(3, 4000)), densities_of(name, 3)
    Y[2] = Y[1] * rng.normal(size=4000)  # dependent: the product of means would be wrong
    found, step = pair_curvatures(Y, densities), 1e-3
    for i, j in [(0, 1), (1, 2), (2, 1)]:
        moved = []
        for sign in (-1, 0, 1):
            turned = Y.copy()
            turned[i] += sign * step * Y[j]
            moved.append(loss(turned, densities))
        assert found[i, j] == pytest.approx((moved[0] - 2 * moved[1] + moved[2]) / step**2, rel=0.05)


def test_possible_gain_is_that_of_each_pair() -> None:
    relative = np.array([[9.0, 0.3, 0.0], [-0.1, 9.0, 0.2], [0.0, 0.1, 9.0]])  # the diagonal does not count
    curvatures = np.array([[0.0, 3.0, 2.0], [2.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    first = np.array([[3.0, 1.0], [1.0, 2.0]])
    wanted = 0.5 * np.array([0.3, -0.1]) @ np.linalg.solve(first, [0.3, -0.1])
    flat = 0.5 * (0.3**2 / 2 / 2 + 0.1**2 / 2 / 0.1)  # eigenvalues 2 and 0, the latter raised
    assert possible_gain(relative, curvatures) == pytest.approx(wanted + flat)


@pytest.mark.parametrize("name", ALL_DENSITIES)
def test_leaving_saddles_lowers_the_loss_or_changes_nothing(name: str) -> None:
    rng = np.random.default_rng(1)
    S = rng.laplace(size=(4, 3000)) * (rng.random((4, 3000)) < 0.1)
    half = np.sqrt(0.5) * np.array([[1, 1], [1, -1]])
    turn = np.kron(np.eye(2), half) / S.std()
    densities, W = densities_of(name, 4), turn.copy()
    turned = leave_saddles(turn @ S, W, densities)
    if turned:
        assert loss(W @ S, densities) < loss(turn @ S, densities)
        np.testing.assert_allclose(np.linalg.slogdet(W)[1], np.linalg.slogdet(turn)[1])
    else:
        np.testing.assert_array_equal(W, turn)
    if name in ("huber", "student"):
        assert turned == 2


def test_fixed_densities_leave_saddles() -> None:
    """It had stopped 0.62 nats too early, as the block Hessian promised nothing."""
    X, A = sparse(5, 4000, 6, 0.05)
    ica = ICA(density="huber", random_state=0).fit(X)
    best = ICA(density="huber", random_state=0, tol=1e-6).fit(X)
    assert ica.loss_ < best.loss_ + 36 / 8000
    assert amari_distance(ica.components_, A) < 1e-3


def test_a_steep_gradient_is_not_the_floor() -> None:
    """It had stopped at a relative gradient of 3."""
    X, A = sparse(4, 10_000, 10, 0.02)
    ica = ICA(random_state=0).fit(X)
    assert ica.trace_["gradient"][-1] < 0.1
    assert amari_distance(ica.components_, A) < 1e-3


@pytest.mark.parametrize("solver", ["progressive", "batch", "incremental"])
def test_a_loss_without_minimum_is_no_success(solver: str) -> None:
    """The tails of three degrees of freedom let rows grow without end where most samples are equal."""
    rng = np.random.default_rng(1)
    X = (rng.random((4000, 5)) < 0.03) * 1.0 @ rng.normal(size=(5, 5)).T
    with pytest.warns(UserWarning, match="did not converge"):
        ica = ICA(density="student", solver=solver, random_state=0).fit(X)
    assert not ica.converged_
    assert "gradient" in ica.stop_reason_ or "max_iter" in ica.stop_reason_
    falls = np.diff(ica.trace_["loss"])[np.diff(ica.trace_["n_samples"]) == 0]
    if solver != "incremental":
        assert falls.max() <= 1e-9 * np.abs(ica.trace_["loss"]).max()


@pytest.mark.parametrize(("kind", "n"), [("uniform", 60_000), ("uniform", 40_000), ("student", 60_000)])
def test_scale_and_shape_reach_the_floor_together(kind: str, n: int) -> None:
    """In turn they crept along a ridge: over a hundred times the floor was left of more than 50,000 samples."""
    rng = np.random.default_rng(5)
    S = rng.uniform(-1, 1, (n, 6)) if kind == "uniform" else rng.standard_t(3, (n, 6))
    X = S @ rng.normal(size=(6, 6))
    ica = ICA(random_state=0).fit(X)
    best = ICA(random_state=0, tol=1e-6, max_iter=2000).fit(X)
    assert ica.loss_ < best.loss_ + 18 / n


@pytest.mark.parametrize("seed", range(3))
def test_the_last_gradient_is_that_of_the_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.poisson(2, (4000, 4)) @ rng.normal(size=(4, 4))
    steps = []
    ica = ICA(random_state=0, callbacks=[steps.append]).fit(X)
    Y = (X - ica.mean_) @ ica.whitening_.T @ steps[-1].unmixing.T
    scores = np.stack([density.score(y) for density, y in zip(steps[-1].densities, Y.T, strict=True)])
    assert np.abs(scores @ Y / len(Y) - np.eye(4)).max() == pytest.approx(steps[-1].gradient, abs=1e-6)


def test_samples_that_repeat_are_named() -> None:
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(20_000, 4))
    S[5000:8000] = 0
    X = S @ rng.normal(size=(4, 4))
    with pytest.warns(RepeatWarning, match=r"15% of 20,000 samples equal the one before .* density='huber'"):
        ICA(random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(random_state=0, density="huber").fit(X)
        ICA(random_state=0).fit(np.delete(X, slice(5000, 7500), axis=0))


def test_curvatures_that_overflow_promise_no_end() -> None:
    assert possible_gain(np.zeros((2, 2)), np.array([[1.0, np.inf], [1.0, 1.0]])) == np.inf
