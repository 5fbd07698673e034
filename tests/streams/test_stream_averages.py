"""Streams with a short memory and averaged answers: as good as a fit of all samples, and never above their start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from majorica import ICA, amari_distance
from majorica.kernels import compiled
from majorica.solvers import Online
from majorica.solvers.online.averages import Averages
from majorica.streaming import START_SAMPLES, start_samples
from majorica.surrogate import Surrogate
from makers import densities_of, laplace, make_problem, whiten


def heavy(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(1.5, size=(n, p))


def dependent(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """One variance for all: the model is wrong, as for patches of images."""
    return rng.normal(size=(n, p)) * rng.exponential(size=(n, 1))


def mixed(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    S = rng.laplace(size=(n, p))
    S[:, ::2] = rng.uniform(-1, 1, size=S[:, ::2].shape)
    return S


def gaussian(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, p))


@pytest.mark.parametrize("density", ["huber", "student", "adaptive"])
@pytest.mark.parametrize("kind", [heavy, dependent, mixed, gaussian])
@pytest.mark.parametrize(("p", "block"), [(2, 1000), (17, 77), (48, 1000)])
def test_a_stream_does_not_end_above_its_start(kind, p: int, block: int, density: str) -> None:
    rng = np.random.default_rng([p, block])
    A = rng.normal(size=(p, p))
    X, left_out = kind(START_SAMPLES + 20_000, p, rng) @ A.T, kind(20_000, p, rng) @ A.T
    ica = ICA(density=density, random_state=0).partial_fit(X[:START_SAMPLES])
    start = ica.score(left_out)
    for first in range(START_SAMPLES, len(X), block):
        ica.partial_fit(X[first : first + block])
    assert np.isfinite(ica.components_).all()
    assert ica.score(left_out) > start - 0.002 * p


@pytest.mark.parametrize("name", ["huber", "student", "mixed"])
@pytest.mark.parametrize("q", [1, None])
def test_each_m_step_lowers_the_surrogate_of_the_short_memory(name: str, q: int | None, monkeypatch) -> None:
    X, _ = laplace(6000, 5)
    problem = make_problem(X)
    densities = densities_of(name, 5)
    solver = Online(q=q, averaged=True, selection="turn")
    state = solver.init(np.eye(5), densities, Surrogate.start(np.eye(5), densities), 0, np.random.default_rng(0))
    changes = []
    minimise = Surrogate.minimise

    def watched(self: Surrogate, W: np.ndarray, *rest, **options) -> None:
        whole = replace(self, moments=self.moments.copy())
        compiled.settle(whole.moments, densities.flat_weights, self.covariance)
        before = whole.value(W, densities)
        minimise(self, W, *rest, **options)
        changes.append(whole.value(W, densities) - before)

    monkeypatch.setattr(Surrogate, "minimise", watched)
    solver.update(state, whiten(X, problem.whitening), backend="compiled")  # one mini-batch after the other
    assert len(changes) == 24
    assert max(changes) < 1e-12
    assert min(changes) < -1e-6


def test_a_stream_is_as_good_as_one_fit_of_its_samples() -> None:
    ratios = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(6, 6))
        X = rng.laplace(size=(200_000, 6)) @ A.T
        errors = [
            amari_distance(ICA(solver=solver, density="huber", random_state=0).fit(X).components_, A * np.sqrt(2))
            for solver in ("online", "progressive")
        ]
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 1.1


def test_a_slow_drift_is_followed_by_default() -> None:
    rng = np.random.default_rng(3)
    A = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    ica, errors = ICA(density="huber", random_state=0), []
    for angle in np.linspace(0, 0.4 * np.pi, 400):
        turn = np.eye(4)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        ica.partial_fit(rng.laplace(size=(1000, 4)) @ (turn @ A).T)
        errors.append(amari_distance(ica.components_, turn @ A * np.sqrt(2)))
    assert max(errors[20:]) < 0.05


def test_memory_and_mini_batches_grow() -> None:
    solver = Online(averaged=True, batch_size=1000)
    for p in (2, 10, 64, 256):
        memories = [solver.memory(p, seen) for seen in (0, 10_000, 10**6, 10**8)]
        assert memories[0] == memories[1] >= max(400, 6 * p)
        assert memories[2] == pytest.approx(10 * memories[1], rel=0.1)
        lengths = [solver.length(p, seen) for seen in (10_000, 10**6, 10**8)]
        assert lengths[0] <= lengths[1] <= lengths[2] == 1000
        assert all(2 * length <= max(500, m) for length, m in zip(lengths, memories[1:], strict=True))
    assert Online(averaged=True, batch_size=64).length(10, 10**8) == 64
    assert Online(batch_size=1000).length(10, 0) == 1000
    assert Online(averaged=True, half_life=1000.0).memory(10, 10**9) == pytest.approx(1000 / np.log(2))


def test_a_stream_that_goes_on_from_few_samples_stays_finite() -> None:
    X, _ = laplace(4000, 40)
    ica = ICA(density="huber", random_state=0).fit(X[:500])
    for block in np.split(X[500:], 70):
        ica.partial_fit(block)
    assert np.isfinite(ica.components_).all()
    assert ica.score(X[-1000:]) > ICA(density="huber", random_state=0).fit(X[:500]).score(X[-1000:])


def test_averages_answer_with_what_predicted_best() -> None:
    averages = Averages.start(np.eye(2))
    for seen in range(1000, 11_000, 1000):
        averages.add(np.full((2, 2), seen / 1000), 1000, seen, 100.0, np.inf)
    assert averages.candidates[0] == pytest.approx(np.full((2, 2), 5.5))  # the plain mean of 1 to 10
    assert (averages.candidates[2] == 10).all()
    assert (averages.candidates[1] < 10).all()
    assert (averages.candidates[1] > 5.5).all()
    assert averages.best == 0
    averages.compare(np.array([3.0, 2.0, 4.0]), 1000, 100.0)
    assert averages.best == 1
    averages.compare(np.array([9.0, 9.0, 1.0]), 10**6, 100.0)
    assert averages.best == 2
    assert (averages.answer == 10).all()


def test_rows_are_not_turned_round() -> None:
    """Nearly Gaussian rows have tilts of any sign; W must neither flip nor average a row with its opposite."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 12))
    ica = ICA(random_state=0).partial_fit(X[:START_SAMPLES])
    for block in np.split(X[START_SAMPLES:], 30):
        before = ica._stream.state.W.copy()
        ica.partial_fit(block)
        assert (np.diag(ica._stream.state.W @ np.linalg.inv(before)) > 0).all()


def test_samples_of_the_start() -> None:
    assert start_samples(10, None) == start_samples(100, None) == START_SAMPLES
    assert start_samples(256, None) == 65_536
    assert start_samples(256, 20) == START_SAMPLES
    assert start_samples(5000, 0.99) == START_SAMPLES  # not known yet: few


@pytest.mark.parametrize("density", ["huber", "adaptive"])
def test_a_burst_of_line_noise_does_not_choose_the_answer_for_long(density: str) -> None:
    rng = np.random.default_rng(0)
    A, leads = rng.normal(size=(8, 8)), rng.normal(size=8)
    X = rng.laplace(size=(60_000, 8)) @ A.T
    X[32_000:34_000] += 5 * np.outer(np.sin(2 * np.pi * 0.1 * np.arange(2000)), leads)
    ica, errors = ICA(density=density, random_state=0), []
    for start in range(0, len(X), 500):
        ica.partial_fit(X[start : start + 500])
        errors.append(amari_distance(ica.components_, A))
    assert max(errors[70:]) < 0.1  # a thousand samples after the burst, and from then on
