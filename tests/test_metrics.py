"""Quality measures against their definitions, and gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.errors import DataError, MajoricaError, ParameterError
from majorica.metrics import amari_distance, left_out_loss, mutual_information_reduction, relative_gradient
from makers import ALL_DENSITIES, laplace

seeds = st.integers(0, 10**6)


@given(seed=seeds, p=st.integers(1, 8))
def test_amari_of_a_scaled_permutation_is_zero(seed: int, p: int) -> None:
    """As it must be; the column term as printed would not give 0."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p))
    P = np.eye(p)[rng.permutation(p)] * rng.choice([-1, 1], p) * 10 ** rng.uniform(-3, 3, p)
    assert amari_distance(P @ np.linalg.inv(A), A) == pytest.approx(0, abs=1e-6)


@given(seed=seeds, p=st.integers(1, 8))
def test_amari_is_its_formula_and_bounded(seed: int, p: int) -> None:
    rng = np.random.default_rng(seed)
    W, A = rng.normal(size=(2, p, p))
    R = (W @ A) ** 2
    rows = sum(sum(R[i, j] / max(R[i]) for j in range(p)) - 1 for i in range(p))
    columns = sum(sum(R[j, i] / max(R[:, i]) for j in range(p)) - 1 for i in range(p))
    distance = amari_distance(W, A)
    assert distance == pytest.approx(rows + columns, rel=1e-12, abs=1e-12)
    assert 0 <= distance <= 2 * p * (p - 1) + 1e-12


def test_amari_refuses_what_has_no_distance() -> None:
    for W, A in ((np.zeros((2, 2)), np.eye(2)), (np.eye(2), np.eye(3)), (np.eye(2) * np.nan, np.eye(2))):
        with pytest.raises(DataError) as caught:
            amari_distance(W, A)
        assert isinstance(caught.value, MajoricaError)


@pytest.mark.parametrize("density", list(ALL_DENSITIES.values()), ids=ALL_DENSITIES)
@settings(max_examples=60)
@given(seed=seeds)
def test_relative_gradient_by_finite_differences(density, seed: int) -> None:
    """d/dE L((I + E) W) at E = 0 is E[G'(y) y^T] - I, to 1e-6."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 4))
    X, W = rng.laplace(size=(200, p)), rng.normal(size=(p, p)) + 2 * np.eye(p)
    gradient = relative_gradient(W, X, density)
    for _ in range(3):
        E = rng.normal(size=(p, p))
        h = 2e-7  # rounding 1e-9; samples that cross a kink on the way count as h
        ahead, behind = (left_out_loss((np.eye(p) + s * h * E) @ W, X, density) for s in (1, -1))
        slope = (ahead - behind) / (2 * h)
        assert slope == pytest.approx((gradient * E).sum(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["huber", "logcosh", "student"])
def test_left_out_loss_is_a_negative_log_likelihood(name: str) -> None:
    """Of a density in the samples' space: it integrates to one (one component, by quadrature)."""
    grid = np.linspace(-400, 400, 800_001)
    log_likelihood = np.array([-left_out_loss([[0.7]], [[x]], name) for x in (0.0, 1.3)])
    assert log_likelihood[0] > log_likelihood[1]
    losses = ALL_DENSITIES[name].loss(0.7 * grid) + ALL_DENSITIES[name].log_normaliser - np.log(0.7)
    assert np.trapezoid(np.exp(-losses), grid) == pytest.approx(1, abs=1e-4)
    assert left_out_loss([[0.7]], grid[:, None], name) == pytest.approx(losses.mean(), rel=1e-12)


def test_left_out_loss_refuses_a_singular_matrix() -> None:
    with pytest.raises(DataError, match="singular"):
        left_out_loss(np.ones((2, 2)), np.ones((5, 2)))
    with pytest.raises(ParameterError, match="density"):
        left_out_loss(np.eye(2), np.ones((5, 2)), "cauchy")


def test_mutual_information_reduction_is_large_for_the_truth_and_invariant() -> None:
    X, A = laplace(20_000, 3)
    truth = np.linalg.inv(A)
    best = mutual_information_reduction(truth, X)
    assert mutual_information_reduction(np.diag([2.0, -3, 0.1])[[2, 0, 1]] @ truth, X) == pytest.approx(best, abs=1e-6)
    assert mutual_information_reduction(np.eye(3), X) == pytest.approx(0, abs=1e-12)
    rotated = np.array([[0.8, 0.6, 0], [-0.6, 0.8, 0], [0, 0, 1]]) @ truth
    assert best > mutual_information_reduction(rotated, X) + 0.02
