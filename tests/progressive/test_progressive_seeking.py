"""Fits of many components set out from fixed points, not from a rotation where all rows look Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from progressive_watch import run, samples_in_play
from scipy.stats import gennorm

from majorica import ICA
from majorica.fitting import adaptive_start
from majorica.metrics import amari_distance
from majorica.solvers.progressive.levels import smallest_level
from majorica.solvers.progressive.seeking import (
    AGAIN,
    FEW_EACH,
    FEW_NEAR,
    FEW_STEPS,
    FEW_TURNED,
    LEAST_SOUGHT,
    LEAST_WATCHED,
    MOST_NEAR,
    MOST_STEPS,
    NEAR,
    TURNED,
    contrast,
    first_steps,
    fixed_point,
    looks_gaussian,
    most_steps,
    shows_nothing,
    steps_left,
)
from majorica.solvers.progressive.solver import Progressive
from majorica.solvers.shapes import Shapes
from makers import make_problem

KINDS = [
    lambda rng, n: rng.laplace(size=n),
    lambda rng, n: rng.uniform(-1, 1, n),
    lambda rng, n: rng.standard_t(5, n),
    lambda rng, n: np.sign(rng.normal(size=n)) + 0.5 * rng.normal(size=n),
    lambda rng, n: np.sin(rng.uniform(0, 2 * np.pi, n)),
]
SEVEN = [
    KINDS[0],
    KINDS[1],
    lambda rng, n: rng.standard_t(2.5, n),
    KINDS[2],
    lambda rng, n: rng.choice([-1.0, 1.0], n) + 0.4 * rng.normal(size=n),
    lambda rng, n: gennorm.rvs(3, size=n, random_state=rng),
    lambda rng, n: np.sin(2 * np.pi * rng.uniform(0.01, 0.2) * np.arange(n) + rng.uniform(0, 6)),
]


def mixture(kinds: int, p: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mixed sources of so many kinds, and what mixes sources of variance one."""
    rng = np.random.default_rng(seed)
    S = np.column_stack([KINDS[i % kinds](rng, n) for i in range(p)])
    S /= S.std(axis=0)
    A = rng.normal(size=(p, p))
    return S @ A.T, A


def distance(ica: ICA, X: np.ndarray, A: np.ndarray) -> float:
    W = ica.components_ / ((X - X.mean(axis=0)) @ ica.components_.T).std(axis=0)[:, None]
    return amari_distance(W, A)


@pytest.mark.parametrize(
    ("kinds", "p", "n", "most"),
    [(1, 100, 2000, 40), (5, 60, 2400, 8), (5, 100, 30_000, 2), (1, 200, 18_000, 10)],
)
def test_many_sources_separate(kinds: int, p: int, n: int, most: float) -> None:
    """From a random rotation these fits ended at distances of 190 to 9000 and said that they had converged."""
    X, A = mixture(kinds, p, n, seed=0)
    ica = ICA(random_state=0).fit(X)
    assert ica.converged_
    assert distance(ica, X, A) < most


def test_few_samples_are_sought_to_the_end() -> None:
    """These had ended at distances of 97, 250 and 288: rows were still turning when steps ended."""
    for kinds, p, n, seed, most in ((7, 60, 1200, 1, 40), (7, 60, 1200, 3, 40), (1, 60, 2400, 3, 2)):
        rng = np.random.default_rng(seed)
        S = np.column_stack([SEVEN[i % 7 if kinds == 7 else 1](rng, n) for i in range(p)])
        S = (S - S.mean(axis=0)) / S.std(axis=0)
        A = rng.normal(size=(p, p))
        ica = ICA(random_state=seed).fit(S @ A.T)
        assert ica.converged_
        assert distance(ica, S @ A.T, A) < most


def test_weak_sources_are_sought_again_where_samples_are_enough() -> None:
    """A first level of 1500 samples told nothing of these 40, and 6000 did not mend it: 369, FastICA 7."""
    rng = np.random.default_rng(0)
    S = gennorm.rvs(1.5, size=(6000, 40), random_state=rng)
    A = rng.normal(size=(40, 40))
    ica = ICA(random_state=0).fit(S @ A.T)
    assert distance(ica, S @ A.T, A * S.std(axis=0)) < 6
    start = ica.trace_[ica.trace_["n_samples"] == 6000]["loss"]
    assert np.diff(start).max() <= 1e-12 * start[0]


def test_what_looks_gaussian() -> None:
    """The best that steps find in Gaussian samples does, what they find in others does not."""
    rng = np.random.default_rng(0)
    n, p = 2000, 20
    for kind, wanted in ((rng.normal, True), (rng.laplace, False)):
        X = kind(size=(n, p))
        problem = make_problem(X)
        W = np.eye(p)
        for _ in range(AGAIN):
            at = problem.statistics(W, contrast(p))
            W = fixed_point(W, at, np.zeros((p, p)))[0]
        assert looks_gaussian(at.loss / n, n) is wanted


@pytest.mark.parametrize("solver", ["batch", "incremental"])
def test_other_solvers_set_out_from_there_too(solver: str) -> None:
    X, A = mixture(5, 60, 2400, seed=0)
    with pytest.warns() as caught:
        ica = ICA(solver=solver, random_state=0, max_iter=10).fit(X)
    assert {warning.category.__name__ for warning in caught} == {"ConvergenceWarning"}
    assert distance(ica, X, A) < 12


@pytest.mark.parametrize("seed", [1, 5])
def test_other_solvers_never_set_out_midway(seed: int) -> None:
    """Few samples are given more steps, and the passes for them: shapes that are all Gaussian still would not move."""
    rng = np.random.default_rng(seed)
    problem = make_problem(rng.normal(size=(1500, 20)))
    W = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    _, densities = adaptive_start(problem, W, Shapes.gaussian(20).densities(), rng, seek=MOST_STEPS)
    assert len(set(densities.names)) > 10


@pytest.mark.parametrize("n", [800, 6000])
def test_seeking_descends(n: int) -> None:
    """Gaussian shapes have one loss at all rotations, on a part of the samples that is not quite white too."""
    X, _ = mixture(5, 20, n, seed=1)
    watched = run(X, None, seek=60, few=0, max_iter=100)
    assert max(watched.rises()) <= 1e-12
    assert max(watched.lies()) <= 1e-9
    flat = [one.loss for one in watched.seen if set(one.names) == set(watched.seen[0].names)]
    assert len(flat) > 5
    assert np.ptp(flat) < 1e-9


def test_a_step_is_the_fixed_point_of_the_samples() -> None:
    """Against its formula in plain NumPy, on samples that are not white."""
    X, _ = mixture(5, 6, 500, seed=2)
    problem = make_problem(X)
    rng = np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    densities = contrast(6)
    Z = ((X - problem.whitening.mean) @ problem.whitening.matrix.T) @ (np.eye(6) + 0.1 * rng.normal(size=(6, 6)))
    Y = Z @ W.T
    statistics = problem.statistics(W, densities)
    statistics.gradient[:] = np.column_stack([d.score(y) for d, y in zip(densities, Y.T, strict=True)]).T @ Y
    statistics.curvature[:] = [d.curvature(y).sum() for d, y in zip(densities, Y.T, strict=True)]
    covariance = Y.T @ Y / 500
    new, relative, turned = fixed_point(W, statistics, covariance - np.eye(6))
    wanted = statistics.gradient / 500 @ W - np.diag(statistics.curvature / 500) @ covariance @ W
    left, _, right = np.linalg.svd(wanted)
    np.testing.assert_allclose(new, left @ right, atol=1e-12)
    np.testing.assert_allclose(relative, (Z @ new.T).T @ (Z @ new.T) / 500 - np.eye(6), atol=1e-12)
    assert turned == pytest.approx(1 - np.abs(np.sum(new * W, axis=1)).mean())


def test_how_many_steps() -> None:
    assert most_steps(500) == MOST_STEPS
    assert most_steps(10) == 5
    assert most_steps(1) == 0
    assert steps_left(90, 0.5) == 89
    assert steps_left(90, NEAR) == MOST_NEAR
    assert steps_left(7, NEAR) == 6
    assert steps_left(90, TURNED) == 0
    assert first_steps(MOST_STEPS, FEW_EACH) == FEW_STEPS
    assert first_steps(MOST_STEPS, FEW_EACH + 1) == MOST_STEPS
    assert first_steps(5, 1.0) == 5
    assert steps_left(400, NEAR, FEW_EACH) == FEW_NEAR
    assert steps_left(90, TURNED, FEW_EACH) == 0
    assert steps_left(90, TURNED, FEW_EACH / 2) == 89
    assert steps_left(90, FEW_TURNED, FEW_EACH / 2) == 0


def test_few_components_given_starts_and_fixed_densities_do_not_seek(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    own = Progressive._seek
    monkeypatch.setattr(Progressive, "_seek", lambda *args: made.append(1) or own(*args))
    p = LEAST_SOUGHT
    X, _ = mixture(1, p, 2000, seed=3)
    ICA(random_state=0).fit(X[:, 1:])
    ICA(random_state=0, w_init=np.eye(p)).fit(X)
    ICA(random_state=0, density="huber").fit(X)
    assert not made
    ICA(random_state=0).fit(X)
    assert made


def test_a_fit_of_few_passes_has_shapes() -> None:
    """Half of them at most go into the start."""
    X, _ = mixture(1, 20, 400, seed=4)
    with pytest.warns(match="did not converge"):
        ica = ICA(random_state=0, max_iter=4).fit(X)
    assert any("super-gaussian" in name for name in ica.densities_)


def test_fixed_densities_leave_the_plateau() -> None:
    """A third of the floor of p^2 / 2n is as much as 40 mixed sources may gain at all: fits ended at 65 to 220."""
    for seed in range(3):
        X, A = mixture(1, 40, 800, seed)
        ica = ICA(density="huber", random_state=0).fit(X)
        assert ica.converged_
        assert distance(ica, X, A) < 15


def test_first_levels_of_many_components_are_larger() -> None:
    assert smallest_level(51_200, 160)[1] == 12_800
    assert smallest_level(200_000, 64)[1] == 3125  # as before


def test_steps_of_the_start_tell_their_own_gradient() -> None:
    """Of Gaussian shapes that is the covariance of the sources of the level, less the identity."""
    X = np.random.default_rng(0).laplace(size=(40_000, 14)) @ np.random.default_rng(1).normal(size=(14, 14))
    seen = []

    def look(step) -> bool:
        seen.append((step.gradient, step.unmixing, samples_in_play(step.state.levels, len(X))))
        return len(seen) == 3

    ica = ICA(random_state=0, callbacks=[look]).fit(X)
    gradient, W, chosen = seen[-1]
    assert len(chosen) < len(X)
    Y = (X[chosen] - ica.mean_) @ ica.whitening_.T @ W.T
    assert gradient == pytest.approx(np.abs(Y.T @ Y / len(Y) - np.eye(14)).max(), rel=1e-4)


def test_few_weak_sources_are_sought_where_the_first_level_told_nothing() -> None:
    """Three of six such fits had ended at distances of 1.7 to 20, where FastICA is at 0.5."""
    for seed in (1, 4):
        rng = np.random.default_rng(seed)
        S = gennorm.rvs(1.85, size=(50_000, 11), random_state=rng)
        A = rng.normal(size=(11, 11))
        ica = ICA(random_state=seed).fit(S @ A.T)
        assert distance(ica, S @ A.T, A * S.std(axis=0)) < 1
        same = np.diff(ica.trace_["n_samples"]) == 0
        assert np.diff(ica.trace_["loss"])[same].max() <= 1e-11


def test_what_shows_nothing() -> None:
    rng = np.random.default_rng(0)
    read: list[int] = []

    def verdict(p: int, kind: str = "normal") -> bool:
        return shows_nothing(p, lambda: read.append(p) or getattr(rng, kind)(size=(p, 3000)), 3000)

    assert verdict(8)
    assert not verdict(8, "laplace")
    assert not verdict(LEAST_WATCHED - 1)  # pairs are turned
    assert not verdict(LEAST_SOUGHT)  # the start was sought
    assert read == [8, 8]  # nothing is read for those


def test_steps_that_led_elsewhere_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of the level before say nothing where rows are sought anew."""
    remembered: list[int] = []
    own = Progressive._seek
    monkeypatch.setattr(Progressive, "_seek", lambda *given: remembered.append(given[2].memory.count) or own(*given))
    rng = np.random.default_rng(1)
    X = gennorm.rvs(1.85, size=(50_000, 11), random_state=rng) @ rng.normal(size=(11, 11))
    ICA(random_state=1).fit(X)
    assert len(remembered) > 3
    assert not any(remembered)
