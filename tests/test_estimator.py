"""The estimator: scikit-learn's own checks, published attributes, canonical order, users' densities."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from majorica import ICA, amari_distance, check_density
from majorica.densities import Density, Huber, TwoGaussian
from makers import laplace, unit_rows

SOLVERS = ["auto", "progressive", "incremental", "online", "batch"]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


@every_solver
def test_scikit_learns_checks_all_pass_and_none_is_skipped(solver: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks feed rank-deficient data on purpose
        results = check_estimator(ICA(solver=solver), on_skip=None, on_fail=None)
    assert len(results) > 40
    bad = [(r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"]
    assert not bad


@every_solver
@pytest.mark.parametrize("density", ["adaptive", "huber", "logcosh", "student"])
def test_recovers_laplace_sources(solver: str, density: str) -> None:
    X, A = laplace(20_000, 4)
    ica = ICA(solver=solver, density=density, random_state=0).fit(X)
    assert amari_distance(unit_rows(ica.components_, X), A * np.sqrt(2)) < 0.05
    assert ica.converged_
    assert ica.stop_reason_


def test_published_attributes() -> None:
    X, _ = laplace(3000, 5)
    X += np.arange(5.0)
    ica = ICA(3, random_state=0).fit(X)
    assert ica.components_.shape == ica.whitening_.shape == (3, 5)
    assert ica.mixing_.shape == (5, 3)
    np.testing.assert_allclose(ica.mean_, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(ica.components_ @ ica.mixing_, np.eye(3), atol=1e-9)
    assert (ica.n_components_, ica.rank_, ica.n_features_in_, ica.n_samples_seen_) == (3, 5, 5, 3000)
    assert len(ica.densities_) == 3
    assert all(isinstance(name, str) for name in ica.densities_)
    assert ica.trace_.dtype.names == ("passes", "seconds", "n_samples", "loss", "gradient")
    assert list(pd.DataFrame(ica.trace_).columns) == list(ica.trace_.dtype.names)
    assert ica.n_iter_ == np.ceil(ica.trace_["passes"][-1])
    np.testing.assert_allclose(ica.transform(X), (X - ica.mean_) @ ica.components_.T, rtol=1e-12)


@every_solver
@pytest.mark.parametrize("n_components", [None, 3])
def test_canonical_order_and_sign(solver: str, n_components: int | None) -> None:
    """Descending explained variance; the largest mixing entry of each component is positive."""
    X, _ = laplace(5000, 4, seed=3)
    ica = ICA(n_components, solver=solver, density="huber", random_state=0).fit(X)
    explained = (ica.mixing_**2).sum(axis=0) * ica.transform(X).var(axis=0)
    assert (np.diff(explained) <= 1e-9 * explained[0]).all()
    largest = np.abs(ica.mixing_).argmax(axis=0)
    assert (ica.mixing_[largest, np.arange(len(largest))] > 0).all()
    np.testing.assert_allclose(ica.transform(X).std(axis=0), 1, rtol=0.02)


@pytest.mark.parametrize("n_components", [6, 12])
def test_white_data_give_the_same_order_for_every_seed(n_components: int) -> None:
    """Their components all explain as much as each other, to less than fits differ by."""
    X, _ = laplace(20_000, n_components)
    X -= X.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    first, *others = (ICA(random_state=seed).fit(X @ vectors / np.sqrt(values)) for seed in range(5))
    for other in others:
        np.testing.assert_allclose(other.components_ @ first.mixing_, np.eye(n_components), atol=0.1)


@pytest.mark.parametrize(("density", "tolerance"), [("huber", 1e-3), ("adaptive", 2e-2)])
def test_seeds_that_reach_the_same_optimum_give_the_same_components(density: str, tolerance: float) -> None:
    X, _ = laplace(10_000, 4)
    fits = [ICA(density=density, random_state=seed, tol=1e-7).fit(X) for seed in range(3)]
    for other in fits[1:]:
        np.testing.assert_allclose(other.components_, fits[0].components_, atol=tolerance)


def test_float32_stays_float32() -> None:
    X, A = laplace(20_000, 4)
    small = X.astype(np.float32)
    for solver in SOLVERS:
        ica = ICA(solver=solver, density="huber", random_state=0).fit(small)
        Y = ica.transform(small)
        assert Y.dtype == np.float32
        assert ica.inverse_transform(Y).dtype == np.float32
        assert ica.transform(X).dtype == np.float64
        np.testing.assert_allclose(ica.inverse_transform(Y), small, atol=1e-3)
        assert amari_distance(unit_rows(ica.components_, X), A * np.sqrt(2)) < 0.05


def test_names_and_pandas_output() -> None:
    X, _ = laplace(500, 3)
    frame = pd.DataFrame(X, columns=["Fz", "Cz", "Pz"])
    ica = ICA(random_state=0).fit(frame)
    assert list(ica.feature_names_in_) == ["Fz", "Cz", "Pz"]
    assert list(ica.get_feature_names_out()) == ["ica0", "ica1", "ica2"]
    out = ica.set_output(transform="pandas").transform(frame)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["ica0", "ica1", "ica2"]
    fresh = ICA(random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert isinstance(fresh, pd.DataFrame)
    np.testing.assert_allclose(fresh.to_numpy(), out.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        ica.transform(frame[["Cz", "Fz", "Pz"]])
    ICA(random_state=0).fit(X)
    ica.fit(X)
    assert not hasattr(ica, "feature_names_in_")


def test_html_representation_and_pipeline() -> None:
    X, _ = laplace(500, 3)
    html = ICA(3, solver="batch")._repr_html_()
    assert "ICA" in html
    assert "batch" in html
    pipeline = make_pipeline(StandardScaler(), ICA(random_state=0)).fit(X)
    assert pipeline.transform(X).shape == (500, 3)
    assert np.isfinite(pipeline.score(X))
    assert "batch" in repr(ICA(solver="batch"))


def test_before_fitting() -> None:
    X, _ = laplace(10, 3)
    for method in ("transform", "inverse_transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(ICA(), method)(X)


def test_score_is_the_log_likelihood_in_input_units() -> None:
    X, _ = laplace(4000, 3)
    ica = ICA(density="huber", random_state=0, whiten="arbitrary-variance").fit(X)
    Y = (X - ica.mean_) @ ica.components_.T
    wanted = -(Huber().loss(Y) + Huber().log_normaliser).sum(axis=1).mean() + np.linalg.slogdet(ica.components_)[1]
    assert ica.score(X) == pytest.approx(wanted, rel=1e-10)
    assert ica.score(1.0001 * X) < ica.score(X) + 1e-3
    units = ICA(density="huber", random_state=0).fit(X * 1000)
    assert units.score(X * 1000) == pytest.approx(ica.score(X) - 3 * np.log(1000), rel=1e-6)


def test_not_converging_is_said_with_figures() -> None:
    X, _ = laplace(5000, 6)
    for solver in ("progressive", "incremental", "batch"):
        with pytest.warns(ConvergenceWarning, match=r"max_iter"):
            ica = ICA(solver=solver, density="logcosh", max_iter=1, tol=1e-9, random_state=0).fit(X)
        assert not ica.converged_
        assert "max_iter" in ica.stop_reason_
        ICA(solver=solver, density="logcosh", max_iter=2, tol=0, random_state=0).fit(X)  # all passes: no warning


def test_max_iter_counts_passes() -> None:
    X, _ = laplace(3000, 4)
    for solver in ("incremental", "batch"):
        ica = ICA(solver=solver, density="huber", max_iter=5, tol=0, random_state=0).fit(X)
        assert ica.n_iter_ == 5
        assert ica.trace_["passes"][-1] == 5


@pytest.mark.parametrize("max_iter", [1, 3, 10, 50])
def test_the_last_step_is_made_to_its_end(max_iter: int) -> None:
    X, _ = laplace(3000, 4)
    for solver, more in (("incremental", 1), ("batch", 1), ("progressive", 4 + 11)):
        ica = ICA(solver=solver, max_iter=max_iter, tol=0, random_state=0).fit(X)
        assert ica._fitted.passes <= max_iter + more
        assert (ica.trace_["passes"][:-1] < max_iter).all()


def test_w_init_is_the_start() -> None:
    X, _ = laplace(3000, 3)
    done = ICA(density="huber", tol=1e-6, random_state=0, whiten="arbitrary-variance").fit(X)
    W = done.components_ @ np.linalg.pinv(done.whitening_)
    again = ICA(density="huber", tol=1e-5, w_init=W, random_state=0).fit(X)
    assert again.trace_["gradient"][-1] <= 1e-5
    assert len(again.trace_) <= 2


class SoftAbs(Density):
    """A user's density: sqrt(1 + y^2)."""

    name = "softabs"

    def loss(self, y):
        return np.hypot(1.0, y)

    def score(self, y):
        return y / np.hypot(1.0, y)

    def curvature(self, y):
        return np.hypot(1.0, y) ** -3.0


@every_solver
def test_a_users_density_works_end_to_end(solver: str) -> None:
    check_density(SoftAbs())
    X, A = laplace(12_000, 3)
    ica = ICA(solver=solver, density=SoftAbs(), random_state=0, max_iter=None if solver == "online" else 60).fit(X)
    assert ica.densities_ == ["softabs"] * 3
    assert amari_distance(unit_rows(ica.components_, X), A * np.sqrt(2)) < 0.05
    if solver != "online":
        assert (np.diff(ica.trace_["loss"])[np.diff(ica.trace_["n_samples"]) == 0] <= 1e-12).all()


@pytest.mark.parametrize("solver", ["progressive", "incremental", "batch"])
def test_sub_gaussian_sources_with_the_sub_gaussian_density(solver: str) -> None:
    rng = np.random.default_rng(0)
    S = rng.uniform(-np.sqrt(3), np.sqrt(3), size=(20_000, 3))
    A = rng.normal(size=(3, 3))
    ica = ICA(solver=solver, density=TwoGaussian(), random_state=0).fit(S @ A.T)
    assert amari_distance(unit_rows(ica.components_, S @ A.T), A) < 0.05


def test_adaptive_separates_both_kinds() -> None:
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=(20_000, 2)) / np.sqrt(2), rng.uniform(-1, 1, size=(20_000, 2)) * np.sqrt(3)])
    A = rng.normal(size=(4, 4))
    ica = ICA(random_state=0).fit(S @ A.T)
    assert amari_distance(unit_rows(ica.components_, S @ A.T), A) < 0.03
    assert sum(name.startswith("super") for name in ica.densities_) == 2


def test_fit_transform_is_fit_then_transform() -> None:
    X, _ = laplace(1000, 3)
    np.testing.assert_array_equal(ICA(random_state=0).fit_transform(X), ICA(random_state=0).fit(X).transform(X))
