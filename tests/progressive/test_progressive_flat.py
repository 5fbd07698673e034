"""Pairs whose loss hardly changes under rotation: found, turned without ever raising the loss, and separated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progressive_watch import define_loss, run

from majorica import ICA, amari_distance
from majorica.kernels import compiled, shapes
from majorica.solvers.progressive.rotations import FLAT, LEAST_FLAT, flat_pairs, rotate_pairs
from majorica.solvers.shapes import Shapes
from majorica.statistics import Statistics
from makers import unit_rows

N = 2000


def generalised_normal(power: float, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.sign(rng.normal(size=n)) * rng.gamma(1 / power, size=n) ** (1 / power)


def modulated_sine(n: int, rng: np.random.Generator) -> np.ndarray:
    time, turns = np.arange(n), rng.uniform(0, 2 * np.pi, 2)
    envelope = 1 + 0.8 * np.sin(2 * np.pi * rng.uniform(0.001, 0.01) * time + turns[0])
    return envelope * np.sin(2 * np.pi * rng.uniform(0.05, 0.3) * time + turns[1])


SOURCES = {
    "gn1.5": lambda n, rng: generalised_normal(1.5, n, rng),
    "gn1.85": lambda n, rng: generalised_normal(1.85, n, rng),
    "gn3": lambda n, rng: generalised_normal(3.0, n, rng),
    "gaussian": lambda n, rng: rng.normal(size=n),
    "laplace": lambda n, rng: rng.laplace(size=n),
    "uniform": lambda n, rng: rng.uniform(-1, 1, n),
    "modulated": modulated_sine,
}


def draw(kinds: list[str] | tuple[str, ...], n: int, seed: int) -> np.ndarray:
    """Independent sources of variance one, ``(n, p)``."""
    rng = np.random.default_rng(seed)
    S = np.column_stack([SOURCES[kind](n, rng) for kind in kinds])
    S -= S.mean(axis=0)
    return S / S.std(axis=0)


def turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def fitted(Y: np.ndarray) -> tuple[Shapes, Statistics]:
    """Coarse shapes fitted to the sources `Y` ``(n, p)``, and the sums of a pass at these."""
    p = Y.shape[1]
    state = Shapes.gaussian(p)
    state.refit(passed(Y, state), 0.0)
    return state, passed(Y, state)


def passed(Y: np.ndarray, state: Shapes) -> Statistics:
    p = Y.shape[1]
    return compiled.statistics(np.ascontiguousarray(Y), np.zeros(p), np.eye(p), state.densities())


def bend(Y: np.ndarray, state: Shapes) -> float:
    """Second derivative of the loss under a rotation of two sources, at fixed shapes, by differences."""
    h = 0.02
    losses = [define_loss(turn(angle), Y, state.densities())[0] for angle in (-h, 0.0, h)]
    return (losses[0] - 2 * losses[1] + losses[2]) / h**2


def bend_of(statistics: Statistics, i: int, j: int) -> float:
    curvature, power = statistics.curvature / statistics.n, statistics.power / statistics.n
    return float(curvature[i] * power[j] + curvature[j] * power[i] - 2)


@pytest.mark.parametrize("kinds", [("laplace", "uniform"), ("gn1.5", "gn3"), ("gaussian", "laplace")], ids="-".join)
def test_flat_is_flat_under_rotation(kinds: tuple[str, str]) -> None:
    """The curvature that decides is that of the loss: of independent sources the two agree."""
    Y = draw(kinds, 100_000, 1)
    state, statistics = fitted(Y)
    exact = bend(Y, state)
    for share, flat in ((0.8, [(0, 1)]), (1.25, [])):
        sums = Statistics.zeros(2, n=round(share * FLAT / exact))
        sums.curvature[:] = statistics.curvature * sums.n / statistics.n
        sums.power[:] = statistics.power * sums.n / statistics.n
        assert flat_pairs(sums, 4) == flat


def test_gaussians_are_flat_flattest_first() -> None:
    _, statistics = fitted(draw(("laplace", "gaussian", "gn1.85", "gaussian", "uniform"), 4000, 0))
    pairs = flat_pairs(statistics, 10)
    assert set(pairs) == {(1, 2), (1, 3), (2, 3)}
    bends = [bend_of(statistics, *pair) for pair in pairs]
    assert bends == sorted(bends)
    assert flat_pairs(statistics, 1) == pairs[:1]
    assert flat_pairs(fitted(draw(("laplace",) * 4, 4000, 0))[1], 10) == []


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(sorted(SOURCES)), min_size=2, max_size=4),
    st.floats(0, np.pi / 2),
    st.booleans(),
    st.sampled_from([50, 400, 3000]),
    st.integers(0, 10**6),
)
def test_turns_of_flat_pairs_lower_the_loss(kinds: list[str], angle: float, fine: bool, n: int, seed: int) -> None:
    """Whatever the sources and however mixed: kept only for 0.1 nats, and no other row is touched."""
    Z = draw(kinds, n, seed)
    Z[:, :2] = Z[:, :2] @ turn(angle).T
    p = len(kinds)
    state, statistics = fitted(Z)
    state.allow_fine = fine
    W = np.eye(p)
    before, size = define_loss(W, Z, state.densities())
    flat = flat_pairs(statistics, 2 * p)
    turned = rotate_pairs(Z.T.copy(), W, state, flat)
    after, _ = define_loss(W, Z, state.densities())
    assert after <= before - turned * LEAST_FLAT / n + 1e-12 * size
    assert np.linalg.slogdet(W)[0] == 1
    if not turned:
        np.testing.assert_array_equal(W, np.eye(p))


# ------------------------------------------------------------------- whole fits


def mixed(kinds: tuple[str, ...], n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    A = np.random.default_rng([seed, 1]).normal(size=(len(kinds), len(kinds)))
    return draw(kinds, n, seed) @ A.T, A


def lowest_loss_over_angles(X: np.ndarray) -> float:
    """The smallest loss of two white sources over all rotations, shapes fitted at each."""
    X = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    Z = X @ vectors / np.sqrt(values)
    n, losses = float(len(X)), []
    for angle in np.linspace(0, np.pi / 2, 45, endpoint=False):
        means = [shapes.sample_means(np.ascontiguousarray(y)) for y in turn(angle) @ Z.T]
        losses.append(sum(shapes.best_shape(t, np.ones(5), False, True, n, 1e-9)[1] for t in means))
    return min(losses)


@pytest.mark.parametrize(
    ("kinds", "nats"), [(("gn1.85",) * 2, 0.5), (("gn1.5", "gn3"), 0.5), (("modulated",) * 2, 10.0)], ids=str
)
def test_the_best_rotation_is_found(kinds: tuple[str, str], nats: float) -> None:
    """One random start against all angles: near the lowest loss of a curve that varies by 2, 50 and 200 nats."""
    above = []
    for seed in range(30):
        X, _ = mixed(kinds, N, seed)
        above.append(N * (ICA(random_state=seed).fit(X).loss_ - lowest_loss_over_angles(X)))
    assert np.mean(np.array(above) < nats) >= 0.9, above


@pytest.mark.parametrize(
    "kinds", [("gn1.5", "gn3"), ("gn3",) * 4, ("gn1.5", "gn1.5", "gn3", "gn3"), ("modulated", "gn1.5")], ids="-".join
)
def test_weakly_different_sources_are_separated_from_every_start(kinds: tuple[str, ...]) -> None:
    """Starts at which all rows look Gaussian used to end there."""
    p = len(kinds)
    for seed in range(40):
        X, A = mixed(kinds, N, seed)
        distance = amari_distance(unit_rows(ICA(random_state=seed).fit(X).components_, X), A)
        assert distance < (0.5 if p == 2 else 0.5 * p), seed


@pytest.mark.parametrize("n", [N, 20_000])
def test_fits_of_nearly_gaussian_sources_descend(n: int) -> None:
    watched = run(mixed(("gn1.85", "gaussian", "gn1.85"), n, 0)[0], None)
    assert max(watched.rises()) <= 1e-12
    assert max(watched.lies()) <= 1e-9
