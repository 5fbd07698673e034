"""Whitening: stable moments, rank, ill-conditioned and wide data."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from majorica import ICA
from majorica.errors import DataError, MajoricaError, ParameterError, RankError, RankWarning
from majorica.sources.array import ArraySource
from majorica.whitening import covariance_block
from makers import laplace, make_problem, matrix_of_condition, whiten


def covariance_of_whitened(X: np.ndarray, **options: object) -> np.ndarray:
    problem = make_problem(X, block=300, **options)
    return np.cov(whiten(X, problem.whitening).T, bias=True).reshape(problem.p, problem.p)


@given(seed=st.integers(0, 10**6), n=st.integers(20, 300), p=st.integers(1, 8), log_condition=st.floats(0, 6))
def test_samples_become_white(seed: int, n: int, p: int, log_condition: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(n, p)) @ matrix_of_condition(p, 10**log_condition, rng).T + rng.normal(size=p)
    problem = make_problem(X, block=64)
    np.testing.assert_allclose(covariance_of_whitened(X), np.eye(p), atol=1e-8)
    whitening = problem.whitening
    np.testing.assert_allclose(whitening.matrix @ whitening.inverse, np.eye(p), atol=1e-8)
    back = whiten(X, whitening) @ whitening.inverse.T + whitening.mean
    np.testing.assert_allclose(back, X, atol=1e-8 * np.abs(X).max())


@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(1, 99), min_size=1, max_size=5, unique=True))
def test_covariances_merge_in_any_grouping(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 3)) + 1e6
    parts = [covariance_block(part) for part in np.split(X, sorted(cuts))]
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left += part
    fresh = [covariance_block(part) for part in np.split(X, sorted(cuts))]
    right = fresh[-1]
    for part in fresh[-2::-1]:
        right += part
    for total in (left, right):
        assert total.n == 100
        np.testing.assert_allclose(total.mean, X.mean(axis=0), rtol=1e-14)
        np.testing.assert_allclose(total.matrix, np.cov(X.T, bias=True), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_large_offset_costs_no_digits_that_the_data_has(offset: float) -> None:
    X, _ = laplace(2000, 4)
    shifted = X + offset
    plain, moved = make_problem(shifted - offset).whitening, make_problem(shifted).whitening
    np.testing.assert_allclose(moved.matrix, plain.matrix, rtol=1e-9, atol=1e-9)


def test_rank_is_judged_on_the_correlation_matrix() -> None:
    """Channels in units 1e20 apart do not hide each other."""
    X, _ = laplace(1000, 4)
    problem = make_problem(X * np.array([1e-13, 1e7, 1.0, 1e-3]))
    assert problem.whitening.rank == 4


def test_explained_variance_chooses_the_dimension() -> None:
    rng = np.random.default_rng(0)
    common = rng.laplace(size=(1000, 2))
    X = common @ rng.normal(size=(2, 6)) + 1e-3 * rng.normal(size=(1000, 6))
    assert make_problem(X, n_components=0.99).p == 2
    assert make_problem(X, n_components=3).p == 3
    assert make_problem(X).p == 6


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "two", 0.0, float("nan")])
def test_bad_n_components_is_named(bad: object) -> None:
    X, _ = laplace(100, 4)
    with pytest.raises(ParameterError, match="n_components"):
        ICA(bad).fit(X)  # type: ignore[arg-type]


def test_more_components_than_rank_says_how_many_are_safe() -> None:
    X, _ = laplace(200, 5)
    X -= X.mean(axis=1, keepdims=True)
    with pytest.raises(RankError, match=r"rank 4 .*average reference.*n_components<=4"):
        ICA(5).fit(X)


def test_rank_warning_is_by_name_and_once() -> None:
    X, _ = laplace(300, 4)
    X[:, 2] = 7.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ica = ICA(random_state=0).fit(X)
    assert [w.category for w in caught] == [RankWarning]
    assert "constant feature(s) 2" in str(caught[0].message)
    assert ica.n_components_ == ica.rank_ == 3


def test_wide_data_never_form_features_by_features() -> None:
    """300 samples of 50,000 features: p x p would take 20 GB, the data itself 120 MB."""
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(300, 5))
    X = S @ rng.normal(size=(5, 50_000)) + 0.1 * rng.normal(size=(300, 50_000))
    tracemalloc.start()
    ica = ICA(5, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * X.nbytes
    Y = ica.transform(X)
    correlation = np.abs(np.corrcoef(Y.T, S.T)[:5, 5:])
    assert (correlation.max(axis=0) > 0.95).all()
    assert np.abs(ica.components_).max() < 1e3


@pytest.mark.parametrize("solver", ["progressive", "incremental", "batch"])
def test_wide_data_are_whitened_once_not_in_each_pass(solver: str) -> None:
    rng = np.random.default_rng(0)
    read = 0

    class Counting(ArraySource):
        def read(self, start: int, stop: int) -> np.ndarray:
            nonlocal read
            read += stop - start
            return super().read(start, stop)

    X = rng.laplace(size=(600, 4)) @ rng.normal(size=(4, 2_000)) + 0.1 * rng.normal(size=(600, 2_000))
    ica = ICA(4, solver=solver, random_state=0, max_iter=30, tol=0).fit(Counting(X))
    assert ica.n_iter_ > 5
    assert read <= 3 * len(X)  # to be known again, for the Gram matrix, to be whitened
    np.testing.assert_allclose(ica.transform(X).std(axis=0), 1, rtol=1e-9)


def test_wide_rank_is_at_most_the_samples_less_one() -> None:
    X = np.random.default_rng(0).laplace(size=(20, 50))
    assert make_problem(X).p == 19
    with pytest.raises(RankError, match=r"rank 19 \(20 samples span no more\)"):
        make_problem(X, n_components=20)
    with pytest.raises(RankError, match=r"rank 19 \(20 samples span no more\)"):
        make_problem(X[:, :20], n_components=20)  # as an average reference would leave it


def test_overflow_of_squares_is_named() -> None:
    X, _ = laplace(100, 3)
    with pytest.raises(DataError, match="rescale") as caught, np.errstate(over="ignore", invalid="ignore"):
        ICA().fit(X * 1e200)
    assert isinstance(caught.value, MajoricaError)
