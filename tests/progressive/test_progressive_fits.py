"""Whole fits with the progressive solver: ends, edges, seeds, threads, equivariance and memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from majorica import ICA
from majorica.errors import FewSamplesWarning
from majorica.solvers import StopReason
from makers import laplace, matrix_of_condition


def four_kinds(n: int, seed: int = 0) -> np.ndarray:
    """Heavy, flat, near-Gaussian and two-humped sources of clearly different power, mixed."""
    rng = np.random.default_rng(seed)
    humps = np.sign(rng.normal(size=n)) + 0.3 * rng.normal(size=n)
    S = np.column_stack([rng.laplace(size=n), rng.uniform(-1, 1, n), rng.standard_t(5, size=n), humps])
    A = matrix_of_condition(4, 3.0, rng)
    return (S / S.std(axis=0) * [8, 4, 2, 1]) @ A


# ------------------------------------------------------------------- how fits end


@pytest.mark.parametrize("density", ["huber", "adaptive"])
def test_every_end_is_reached(density: str) -> None:
    X = four_kinds(6000)

    def fit(**options) -> ICA:
        return ICA(random_state=0, density=density, **options).fit(X)

    gradient = fit(tol=1e-4)
    assert gradient.stop_reason_ == StopReason.GRADIENT.value
    assert gradient.trace_["gradient"][-1] <= 1e-4
    floor = fit()
    assert floor.stop_reason_ == StopReason.FLOOR.value
    stalled = fit(tol=0, max_iter=2000)
    assert stalled.stop_reason_ == StopReason.STALLED.value
    assert stalled.loss_ <= floor.loss_ + 1e-12
    assert stalled.trace_["gradient"][-1] < 1e-5
    assert gradient.converged_
    assert floor.converged_
    assert stalled.converged_
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        short = fit(max_iter=1)
    assert short.stop_reason_ == StopReason.MAX_ITER.value
    assert not short.converged_
    stopped = fit(callbacks=lambda step: step.n_samples == len(X))
    assert stopped.stop_reason_ == StopReason.CALLBACK.value
    assert not stopped.converged_


def test_tol_zero_makes_all_passes_without_a_warning() -> None:
    """And no step begins after the limit."""
    ica = ICA(random_state=0, tol=0, max_iter=5).fit(four_kinds(20_000))
    assert ica.stop_reason_ == StopReason.MAX_ITER.value
    assert ica.trace_["passes"][-2] < 5 <= ica.trace_["passes"][-1]


# ------------------------------------------------------------------- edges

over_densities = pytest.mark.parametrize("density", ["huber", "logcosh", "student", "adaptive"])


@over_densities
@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (3, 2), (10, 9), (33, 32), (1000, 1), (5, 9)], ids=str)
@pytest.mark.filterwarnings("ignore:ICA did not converge")
def test_few_samples_or_one_component(shape: tuple[int, int], density: str) -> None:
    X = np.random.default_rng(0).laplace(size=shape)
    few = shape[0] < 2 * min(shape[0] - 1, shape[1])
    with pytest.warns(FewSamplesWarning) if few else nullcontext():
        ica = ICA(random_state=0, density=density).fit(X)
    if shape == (33, 32) and density in ("student", "adaptive"):  # 32 of 33 samples lie in a plane: there is no minimum
        assert ica.stop_reason_.startswith("not converged")
        assert ica.trace_["gradient"][-1] > 1
    else:
        assert ica.converged_
    k = min(shape[0] - 1, shape[1])
    assert ica.components_.shape == (k, shape[1])
    np.testing.assert_allclose(ica.inverse_transform(ica.transform(X)), X, atol=1e-10)
    np.testing.assert_allclose(ica.transform(X).std(axis=0), 1.0, rtol=1e-6)
    for level in np.unique(ica.trace_["n_samples"]):
        losses = ica.trace_["loss"][ica.trace_["n_samples"] == level]
        assert (np.diff(losses) <= 1e-12 * np.abs(losses).max()).all()


def test_one_component_is_the_data() -> None:
    X = 3 + 2 * np.random.default_rng(0).laplace(size=(500, 1))
    ica = ICA(random_state=0).fit(X)
    np.testing.assert_allclose(ica.components_, 1 / X.std(axis=0)[None], rtol=1e-6)


# ------------------------------------------------------------------- the same result


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_for_any_number_of_jobs(dtype: type) -> None:
    X = four_kinds(150_001).astype(dtype)
    results = []
    for n_jobs in (1, 2, 4):
        ica = ICA(random_state=3, n_jobs=n_jobs).fit(X)
        results.append((ica.components_.tobytes(), ica.trace_["loss"].tobytes(), tuple(ica.densities_)))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("density", ["huber", "adaptive"])
def test_same_order_and_signs_for_every_seed(density: str) -> None:
    X = four_kinds(30_000) if density == "adaptive" else laplace(30_000, 4, seed=3)[0] * [8, 4, 2, 1]
    wanted = ICA(random_state=0, density=density).fit(X).components_
    for seed in range(1, 10):
        got = ICA(random_state=seed, density=density).fit(X).components_
        assert np.linalg.norm(got - wanted) <= 1e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("condition", [1e2, 1e6])
def test_adaptive_fits_are_equivariant(condition: float) -> None:
    """Sources of BX are those of X, to the accuracy of a fit: the starts do not correspond, the minima do."""
    X = four_kinds(20_000)
    B = matrix_of_condition(4, condition, np.random.default_rng(1))
    one = ICA(random_state=0).fit_transform(X)
    two = ICA(random_state=0).fit_transform(X @ B.T)
    correlation = one.T @ two / len(one)
    order = np.abs(correlation).argmax(axis=1)
    assert sorted(order) == [0, 1, 2, 3]
    signs = np.sign(correlation[np.arange(4), order])
    difference = two[:, order] * signs - one
    assert np.sqrt(np.square(difference).mean(axis=0)).max() <= 5e-3


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_do_not_matter(scale: float) -> None:
    X = four_kinds(8000)
    one, two = ICA(random_state=0).fit(X), ICA(random_state=0).fit(scale * X)
    np.testing.assert_allclose(
        two.components_ * scale, one.components_, rtol=1e-3, atol=1e-3 * abs(one.components_).max()
    )


@pytest.mark.parametrize("start", ["eye", "flipped", "huge", "small", "ill"])
def test_bad_starts_end_where_good_ones_do(start: str) -> None:
    X = four_kinds(8000)
    wanted = ICA(random_state=0).fit(X)
    W = {
        "eye": np.eye(4),
        "flipped": -np.eye(4)[::-1],
        "huge": 1e4 * np.eye(4),
        "small": 1e-4 * np.eye(4),
        "ill": matrix_of_condition(4, 1e6, np.random.default_rng(0)),
    }[start]
    got = ICA(random_state=0, w_init=W).fit(X)
    assert got.converged_
    assert got.loss_ <= wanted.loss_ + 1e-3
    assert np.linalg.norm(got.components_ - wanted.components_) <= 5e-3 * np.linalg.norm(wanted.components_)


def test_rows_alone_reach_the_same_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The safety net is a solver of its own: with every line search failing the fit still ends in the minimum."""
    X = laplace(3000, 3)[0]
    wanted = ICA(random_state=0, density="logcosh", tol=1e-6).fit(X)
    monkeypatch.setattr("majorica.solvers.progressive.solver.step_along", lambda *_: False)
    got = ICA(random_state=0, density="logcosh", tol=1e-6, max_iter=5000).fit(X)
    assert got.stop_reason_ == StopReason.GRADIENT.value
    np.testing.assert_allclose(got.components_, wanted.components_, atol=1e-4 * np.abs(wanted.components_).max())


# ------------------------------------------------------------------- memory

MEASURE = """
import resource, sys, warnings
import numpy as np
from majorica import ICA
from sklearn.exceptions import ConvergenceWarning

warnings.simplefilter("ignore", ConvergenceWarning)
n, p, dtype, options = {n}, {p}, np.{dtype}, {options}
rng = np.random.default_rng(0)
small = rng.laplace(size=(110_000, 4)).astype(dtype)
ICA(random_state=0, n_jobs=2, **options).fit(small)  # kernels of long data are compiled and loaded
X = np.empty((n, p), dtype)
for start in range(0, n, 5000):
    X[start : start + 5000] = rng.laplace(size=(min(5000, n - start), p))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ica = ICA(random_state=0, n_jobs=2, **options).fit(X)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, X.nbytes, ica.n_iter_, ica.components_.shape[0])
"""


def measure(**what) -> tuple[int, int]:
    """Bytes a fit takes over the data, and the data's own, in a process of its own."""
    code = textwrap.dedent(MEASURE).format(**what)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=280)
    extra, data, _, k = (int(word) for word in answer.stdout.split())
    assert k == what["p"]
    return extra, data


needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kilobytes on Linux only")


@needs_linux
def test_extra_memory_is_a_share_of_the_data() -> None:
    extra, data = measure(n=2_500_000, p=10, dtype="float64", options={"density": "huber"})
    assert data == 200_000_000
    assert extra <= 0.3 * data


@needs_linux
def test_three_hundred_components_in_bounded_memory() -> None:
    extra, _ = measure(n=10_000, p=300, dtype="float32", options={"max_iter": 6})
    assert extra < 2**30


@pytest.mark.slow
@needs_linux
def test_three_hundred_components_of_many_samples() -> None:
    extra, _ = measure(n=100_000, p=300, dtype="float32", options={})
    assert extra < 2**30


def test_float32_descends_to_its_precision() -> None:
    X = four_kinds(20_000).astype(np.float32)
    ica = ICA(random_state=0).fit(X)
    assert ica.converged_
    double = ICA(random_state=0).fit(X.astype(np.float64))
    assert np.linalg.norm(ica.components_ - double.components_) <= 5e-3 * np.linalg.norm(double.components_)
    for level in np.unique(ica.trace_["n_samples"]):
        losses = ica.trace_["loss"][ica.trace_["n_samples"] == level]
        assert (np.diff(losses) <= 1e-6 * np.abs(losses).max()).all()


def test_no_warning_in_a_plain_fit() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ICA(random_state=0).fit(four_kinds(5000))


@pytest.mark.parametrize("density", ["huber", "logcosh", "adaptive"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_the_gradient_is_below_tol_where_the_fit_says_so(density: str, tol: float) -> None:
    """Recomputed from the published model, shapes as they ended: Eq. of the relative gradient, ``E[G'(y) y^T] - I``."""
    X = four_kinds(6000)
    last = []
    ica = ICA(random_state=0, density=density, tol=tol, callbacks=last.append).fit(X)
    assert ica.stop_reason_ == StopReason.GRADIENT.value
    step = last[-1]
    Y = (X - ica.mean_) @ (step.unmixing @ ica.whitening_).T
    score = np.column_stack([one.score(Y[:, i]) for i, one in enumerate(step.densities)])
    relative = score.T @ Y / len(Y) - np.eye(4)
    assert np.abs(relative).max() <= tol * (1 + 1e-6) + 1e-12


# ------------------------------------------------------------------- any invertible start


@pytest.mark.parametrize("density", ["adaptive", "huber", "logcosh", "student"])
@pytest.mark.parametrize("solver", ["progressive", "batch", "incremental", "online"])
def test_runs_from_any_invertible_start(solver: str, density: str) -> None:
    """Rows that are nearly the same, or of any length: quasi-Newton steps alone made W singular from such starts."""
    rng = np.random.default_rng(3)
    X = rng.laplace(size=(4000, 6)) @ rng.normal(size=(6, 6))
    wanted = ICA(density=density, random_state=0).fit(X).loss_
    starts = [matrix_of_condition(6, condition, rng) for condition in (1e4, 1e11)]
    for start in (*starts, 1e200 * np.eye(6), np.diag(np.logspace(-150, 150, 6))):
        found = ICA(solver=solver, density=density, w_init=start, random_state=0).fit(X)
        assert found.converged_
        assert found.loss_ < wanted + 0.01
        assert np.isfinite(found.components_).all()


def test_descends_from_nearly_dependent_rows() -> None:
    rng = np.random.default_rng(5)
    seen: list[tuple[int, float]] = []
    ICA(
        density="logcosh",
        w_init=matrix_of_condition(5, 1e9, rng),
        callbacks=lambda step: seen.append((step.n_samples, step.loss)),
        random_state=0,
    ).fit(rng.laplace(size=(30_000, 5)))
    for (before, high), (after, low) in pairwise(seen):
        assert before != after or low <= high
