"""The online solver (Algorithm 2) and ``partial_fit``: rates, averages, and one model whatever the cuts."""

from __future__ import annotations

import numpy as np
import pytest

from majorica import ICA
from majorica.metrics import amari_distance
from majorica.solvers import Online
from majorica.streaming import START_SAMPLES
from majorica.surrogate import Surrogate
from makers import densities_of, laplace, make_problem, surrogate_moments, unit_rows, whiten


def start(X: np.ndarray, solver: Online, name: str = "huber"):
    problem = make_problem(X)
    densities = densities_of(name, problem.p)
    surrogate = Surrogate.start(problem.covariance, densities)
    state = solver.init(np.eye(problem.p), densities, surrogate, 0, np.random.default_rng(0))
    return whiten(X, problem.whitening), state


@pytest.mark.parametrize("name", ["huber", "student", "mixed"])
@pytest.mark.parametrize("q", [1, 2, None])
def test_one_mini_batch_is_the_update_of_the_paper(name: str, q: int | None) -> None:
    """Eq. (updateastream): A^i <- (1 - rho) A^i + rho * average over the chosen samples of u x x^T."""
    X, _ = laplace(400, 3)
    solver = Online(q=q, batch_size=400)
    Z, state = start(X, solver, name)
    before = state.surrogate.moments.copy()
    chosen = np.ones((400, 3), bool)
    if q is not None:
        keys = np.random.default_rng(0).random((400, 3))
        chosen = keys >= np.sort(keys, axis=1)[:, [3 - q]]
    visits = state.visits.copy()
    W = state.W.copy()
    centred = Z - state.shift
    solver.update(state, Z)
    Y = centred @ W.T
    for i, density in enumerate(state.densities):
        rows = chosen[:, i]
        share = rows.sum() * 3 / (3 if q is None else q) / 400
        rho = 1 - (1 - (1 + visits[i]) ** -0.5) ** share
        wanted, _, _ = surrogate_moments(centred[rows], np.tile(Y[rows, i : i + 1], 3), [density])
        if density.super_gaussian:
            expected = (1 - rho) * before[i] + rho * wanted[0]
            np.testing.assert_allclose(state.surrogate.moments[i], expected, rtol=1e-9, atol=1e-12)


def test_rate_counts_mini_batches_and_half_life_bounds_it() -> None:
    solver = Online(batch_size=100, alpha=0.5)
    assert solver.rate(3.0, 100) == pytest.approx(0.5)
    assert solver.rate(99.0, 100) == pytest.approx(0.1)
    halves = 1 - (1 - solver.rate(8.0, 50)) ** 2
    assert halves == pytest.approx(solver.rate(8.0, 100))  # two short mini-batches weigh as much as a full one
    forgetful = Online(batch_size=100, half_life=1000.0)
    kept = (1 - forgetful.rate(1e12, 100)) ** 10
    assert kept == pytest.approx(0.5)


def test_rate_of_one_over_n_gives_the_plain_average() -> None:
    """rho(n) = 1/n: the unbiased formula below Eq. (updateastream), at a W that does not move."""
    X, _ = laplace(1000, 3)
    solver = Online(q=None, batch_size=100, alpha=1.0, iterations=0)
    problem = make_problem(X)
    Z = whiten(X, problem.whitening)
    densities = densities_of("gaussian", 3)  # u = 1: moments are covariances, whatever W
    first = Surrogate(*surrogate_moments(Z[:100], Z[:100], densities), Z[:100].T @ Z[:100] / 100)
    state = solver.init(np.eye(3), densities, first, 100, np.random.default_rng(0))
    state.shift[:] = 0
    total = Z[:100].T @ Z[:100]
    for k in range(1, 10):
        batch = Z[100 * k : 100 * (k + 1)]
        total += (batch - state.shift).T @ (batch - state.shift)  # the mean so far
        solver.update(state, batch)
    np.testing.assert_allclose(state.surrogate.moments[0], total / 1000, rtol=1e-10, atol=1e-12)


def test_one_pass_over_a_million_samples_separates() -> None:
    X, A = laplace(1_000_000, 10)
    ica = ICA(solver="online", density="huber", random_state=0).fit(X)
    assert ica.n_samples_seen_ == 1_000_000
    assert amari_distance(unit_rows(ica.components_, X[:100_000]), A * np.sqrt(2)) < 0.05


def cut(X: np.ndarray, edges: list[int]) -> list[np.ndarray]:
    return np.split(X, edges)


@pytest.mark.parametrize("density", ["huber", "adaptive"])
def test_one_call_or_many_give_the_same_model_for_the_same_mini_batches(density: str) -> None:
    X, _ = laplace(16_000, 3)
    whole = ICA(random_state=0, density=density).partial_fit(X)
    for edges in ([10_000, 13_000], [2_000, 4_000, 11_000], list(range(1000, 16_000, 1000))):
        parts = ICA(random_state=0, density=density)
        for block in cut(X, edges):
            parts.partial_fit(block)
        assert parts.n_samples_seen_ == whole.n_samples_seen_ == 16_000
        np.testing.assert_allclose(np.abs(parts.components_).sum(), np.abs(whole.components_).sum(), rtol=1e-12)
        order = np.abs(parts.components_ @ whole.mixing_).argmax(axis=1)
        signs = np.sign((parts.components_ @ whole.mixing_)[np.arange(3), order])
        np.testing.assert_allclose(parts.components_, signs[:, None] * whole.components_[order], rtol=1e-12)


def test_model_of_the_start_serves_at_once() -> None:
    X, A = laplace(START_SAMPLES + 5000, 3)
    ica = ICA(random_state=0, density="huber")
    for stop in (500, 3000, START_SAMPLES, START_SAMPLES + 5000):
        ica.partial_fit(X[ica.n_samples_seen_ if stop > 500 else 0 : stop])
        assert ica.n_samples_seen_ == stop
        assert np.isfinite(ica.transform(X[:10])).all()
    assert amari_distance(unit_rows(ica.components_, X), A * np.sqrt(2)) < 0.1


def test_partial_fit_after_fit_goes_on_from_the_model() -> None:
    X, A = laplace(30_000, 3)
    ica = ICA(random_state=0, density="huber").fit(X[:20_000])
    before = ica.components_.copy()
    ica.partial_fit(X[20_000:])
    assert ica.n_samples_seen_ == 30_000
    np.testing.assert_allclose(ica.components_, before, rtol=0.2, atol=0.05)
    assert amari_distance(unit_rows(ica.components_, X), A * np.sqrt(2)) < 0.05


def test_half_life_follows_a_drift() -> None:
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(120_000, 3))
    before, after = rng.normal(size=(2, 3, 3))
    X = np.concatenate([S[:60_000] @ before.T, S[60_000:] @ after.T])
    forgetful = ICA(solver="online", density="huber", half_life=5_000, random_state=0).fit(X)
    tail = X[-20_000:]
    assert amari_distance(unit_rows(forgetful.components_, tail), after * np.sqrt(2)) < 0.2


def test_streams_are_seen_once() -> None:
    X, _ = laplace(25_000, 3)
    blocks = iter(np.split(X, 25))
    streamed = ICA(random_state=0, density="huber").fit(blocks)
    assert streamed.n_samples_seen_ == 25_000
    whole = ICA(solver="online", random_state=0, density="huber").fit(X)
    np.testing.assert_allclose(streamed.components_, whole.components_, rtol=1e-12)
