"""The M-step: Lemma 3 in closed form, and descent at every truncation of conjugate gradient."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.kernels import compiled, reference
from majorica.metrics import relative_gradient
from majorica.surrogate import REFRESH_EVERY, Surrogate
from makers import ALL_DENSITIES, densities_of, empirical_loss, matrix_of_condition, surrogate_loss, surrogate_moments

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 8)
both = pytest.mark.parametrize("kernels", [reference, compiled], ids=["reference", "compiled"])


def row_problem(seed: int, p: int, *, tilted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A random A^i, tilt, W and the inverse of W."""
    rng = np.random.default_rng(seed)
    root = matrix_of_condition(p, 10 ** rng.uniform(0, 3), rng) * 10 ** rng.uniform(-2, 2)
    W = rng.normal(size=(p, p)) + 2 * np.eye(p)
    b = rng.normal(size=p) * tilted
    return root @ root.T, b, W, np.linalg.inv(W)


def row_loss(w: np.ndarray, A: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """What the surrogate depends on a row through: phi of the proof of Lemma 3, with its factor 1/2."""
    return float(0.5 * w @ A @ w - b @ w - np.log(abs(c @ w)))


@given(seed=seeds, p=sizes, tilted=st.booleans())
def test_closed_form_row_is_the_global_minimum(seed: int, p: int, tilted: bool) -> None:
    """Lemma 3, Eq. (minw), and its sub-Gaussian twin: no row is better, and the gradient vanishes."""
    A, b, W, inverse = row_problem(seed, p, tilted=tilted)
    i = seed % p
    c = inverse[:, i]
    w = reference.minimise_row(A, b, W[i], c)
    best = row_loss(w, A, b, c)
    gradient = A @ w - b - c / (c @ w)
    assert np.abs(gradient).max() <= 1e-8 * (np.abs(A @ w).max() + np.abs(b).max())
    rng = np.random.default_rng(seed)
    rivals = [
        W[i],
        -w,
        1.01 * w,
        0.99 * w,
        *rng.normal(size=(40, p)),
        *(w + 0.1 * np.abs(w).max() * rng.normal(size=(40, p))),
    ]
    assert all(row_loss(rival, A, b, c) >= best - 1e-12 * (1 + abs(best)) for rival in rivals)
    assert row_loss(1.01 * w, A, b, c) > best


@given(seed=seeds, p=sizes)
def test_closed_form_row_is_the_papers_formula(seed: int, p: int) -> None:
    """m = (K^-1)_i / sqrt((K^-1)_ii) with K = W A W^T, applied to W."""
    A, b, W, inverse = row_problem(seed, p, tilted=False)
    i = seed % p
    K_inverse = np.linalg.inv(W @ A @ W.T)
    paper = K_inverse[i] / np.sqrt(K_inverse[i, i]) @ W
    ours = reference.minimise_row(A, b, W[i], inverse[:, i])
    np.testing.assert_allclose(ours, paper, rtol=1e-6, atol=1e-6 * np.abs(paper).max())


@pytest.mark.parametrize("A", [np.zeros((2, 2)), np.diag([1.0, -1e-17])])
def test_a_row_stays_where_rounding_has_spoilt_its_moments(A: np.ndarray) -> None:
    w = np.array([1.0, 2.0])
    assert reference.minimise_row(A, np.zeros(2), w, np.array([0.1, 1.0])) is w


@both
@given(seed=seeds, p=sizes, iterations=st.integers(0, 12))
def test_row_improves_at_every_truncation(kernels, seed: int, p: int, iterations: int) -> None:
    A, b, W, inverse = row_problem(seed, p, tilted=False)
    i = seed % p
    c = inverse[:, i].copy()
    before = row_loss(W[i], A, b, c)
    row = kernels.improve_row(A, W[i], c, iterations)
    assert row_loss(row, A, b, c) <= before + 1e-12 * (1 + abs(before))


@both
@given(seed=seeds, p=sizes)
def test_enough_iterations_reach_the_closed_form(kernels, seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    root = matrix_of_condition(p, 5.0, rng)
    A, W = root @ root.T, rng.normal(size=(p, p)) + 3 * np.eye(p)
    c = np.linalg.inv(W)[:, 0].copy()
    exact = reference.minimise_row(A, np.zeros(p), W[0], c)
    row = kernels.improve_row(A, W[0], c, 40)
    np.testing.assert_allclose(np.sign(c @ row) * row, np.sign(c @ exact) * exact, rtol=1e-6, atol=1e-8)


@both
@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
@settings(max_examples=30)
@given(seed=seeds, p=st.integers(1, 6), iterations=st.integers(0, 8))
def test_sweep_lowers_the_surrogate_at_every_truncation(kernels, name: str, seed: int, p: int, iterations: int) -> None:
    """From any W and any memory, bad starts included, for every density."""
    rng = np.random.default_rng(seed)
    Z = rng.laplace(size=(3 * p + 5, p))
    touch = rng.normal(size=Z.shape) * 10 ** rng.uniform(-2, 1)
    densities = densities_of(name, p)
    W = matrix_of_condition(p, 10 ** rng.uniform(0, 3), rng) * 10 ** rng.uniform(-2, 2)
    moments, tilts, _ = surrogate_moments(Z, touch, densities)
    covariance_inverse = np.linalg.inv(Z.T @ Z / len(Z))
    before = surrogate_loss(W, Z, touch, densities)
    inverse = np.linalg.inv(W)
    kernels.sweep(W, inverse, moments, tilts, densities.flat_weights, covariance_inverse, iterations)
    after = surrogate_loss(W, Z, touch, densities)
    assert after <= before + 1e-12 * max(1, abs(before))


@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
@settings(max_examples=40)
@given(seed=seeds, p=st.integers(1, 5))
def test_surrogate_majorizes_the_loss(name: str, seed: int, p: int) -> None:
    """Lemma 1: L_n(W) <= L~_n(W, U) for any U, with equality at U = u*(WX)."""
    rng = np.random.default_rng(seed)
    Z = rng.laplace(size=(20, p)) * 3
    densities = densities_of(name, p)
    W = rng.normal(size=(p, p)) + 2 * np.eye(p)
    loss = empirical_loss(W, Z, densities)
    touch = Z @ W.T
    other = touch + rng.normal(size=touch.shape)
    assert surrogate_loss(W, Z, touch, densities) == pytest.approx(loss, rel=1e-12, abs=1e-11)
    above = surrogate_loss(W, Z, other, densities)
    assert above >= loss - 1e-12 * (1 + abs(loss))
    changed = 0.0
    for i, density in enumerate(densities):
        for part in (density.weight, density.tilt):
            changed = max(changed, np.abs(part(other[:, i]) - part(touch[:, i])).max())
    if changed > 1e-2:
        assert above > loss


@given(seed=seeds, w=st.floats(0.05, 20), log_scale=st.floats(-3, 3))
def test_same_minimisers(seed: int, w: float, log_scale: float) -> None:
    """Lemma 2, where the minimum is known to be global (one component): minima of L_n and of L~_n coincide."""
    rng = np.random.default_rng(seed)
    Z = rng.laplace(size=(30, 1))
    densities = Densities([Huber()])
    best = np.eye(1)
    for _ in range(100):  # exact alternation: Lemma 1 in U, Lemma 3 in W
        moments, tilts, _ = surrogate_moments(Z, Z @ best.T, densities)
        best[0] = reference.minimise_row(moments[0], tilts[0], best[0], np.linalg.inv(best)[:, 0])
    minimum = empirical_loss(best, Z, densities)
    assert abs(relative_gradient(best, Z, "huber")).max() < 1e-9
    assert surrogate_loss(best, Z, Z @ best.T, densities) == pytest.approx(minimum, abs=1e-12)
    W, touch = np.array([[w]]), Z * w * np.exp(log_scale * rng.normal(size=Z.shape))
    assert surrogate_loss(W, Z, touch, densities) >= minimum - 1e-12
    assert empirical_loss(W, Z, densities) >= minimum - 1e-12
    if abs(np.log(w / best[0, 0])) > 0.05:  # not a minimiser of one, so not of the other
        assert empirical_loss(W, Z, densities) > minimum
        assert surrogate_loss(W, Z, Z @ W.T, densities) > minimum


@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
@settings(max_examples=40)
@given(seed=seeds, p=st.integers(1, 4))
def test_gradients_of_surrogate_and_loss_agree_where_they_touch(name: str, seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.laplace(size=(25, p))
    densities = densities_of(name, p)
    W = rng.normal(size=(p, p)) + 2 * np.eye(p)
    surrogate = Surrogate(*surrogate_moments(Z, Z @ W.T, densities), Z.T @ Z / len(Z))
    Y = Z @ W.T
    scores = np.column_stack([d.score(Y[:, i]) for i, d in enumerate(densities)])
    np.testing.assert_allclose(surrogate.gradient(W), scores.T @ Y / len(Y) - np.eye(p), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
def test_value_is_the_definition(name: str) -> None:
    """Eq. (quad_form) against Eq. (newcost_emp)."""
    rng = np.random.default_rng(0)
    Z, W, densities = rng.laplace(size=(40, 4)), rng.normal(size=(4, 4)), densities_of(name, 4)
    touch = rng.normal(size=Z.shape)
    surrogate = Surrogate(*surrogate_moments(Z, touch, densities), Z.T @ Z / len(Z))
    assert surrogate.value(W, densities) == pytest.approx(surrogate_loss(W, Z, touch, densities), rel=1e-13)


@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
def test_start_is_the_memory_at_zero(name: str) -> None:
    """Not U = 0, A = 0 as printed (singular): all majorizers touch at 0."""
    Z, densities = np.random.default_rng(0).laplace(size=(40, 3)), densities_of(name, 3)
    start = Surrogate.start(Z.T @ Z / len(Z), densities)
    moments, tilts, offsets = surrogate_moments(Z, np.zeros((40, 3)), densities)
    np.testing.assert_allclose(start.moments, moments, rtol=1e-13)
    np.testing.assert_allclose(start.tilts, tilts, atol=1e-15)
    np.testing.assert_allclose(start.offsets, offsets, atol=1e-15)


def test_inverse_is_refreshed() -> None:
    rng = np.random.default_rng(0)
    Z, densities = rng.laplace(size=(60, 5)), densities_of("mixed", 5)
    W = rng.normal(size=(5, 5))
    surrogate = Surrogate(*surrogate_moments(Z, Z @ W.T, densities), Z.T @ Z / len(Z))
    inverse = np.linalg.inv(W)
    for sweep in range(2 * REFRESH_EVERY + 1):
        surrogate.minimise(W, inverse, densities, iterations=3)
        if sweep % REFRESH_EVERY == 0:  # the first one too
            np.testing.assert_array_equal(inverse, np.linalg.inv(W))
