"""Pairs that depend on each other although their squares do not correlate: found, turned, and separated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from progressive_watch import run

from majorica import ICA, amari_distance
from majorica.kernels import dependence as compiled
from majorica.kernels import reference
from majorica.solvers.progressive import rotations
from majorica.solvers.progressive.rotations import LARGEST, suspicious_pairs
from makers import unit_rows

N = 2000
HALF = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)


def modulated_sines(p: int, n: int, seed: int) -> np.ndarray:
    """`p` sines of variance one, each with an envelope that is a sine as well, ``(n, p)``."""
    rng, time = np.random.default_rng(seed), np.arange(n)[:, None]
    carriers, envelopes, turns = rng.uniform(0.05, 0.3, p), rng.uniform(0.001, 0.01, p), rng.uniform(0, 6, (2, p))
    S = 1 + 0.8 * np.sin(2 * np.pi * envelopes * time + turns[0])
    S *= np.sin(2 * np.pi * carriers * time + turns[1])
    return S / S.std(axis=0)


def square_dependences(Y: np.ndarray, largest: float = LARGEST) -> np.ndarray:
    """What :func:`dependences` would be if squares alone were looked at."""
    sizes = np.minimum(np.abs(Y) / Y.std(axis=1, keepdims=True), largest)
    return np.abs(np.corrcoef(sizes**2)) * math.sqrt(Y.shape[1])


def mixed(p: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    A = np.random.default_rng([seed, 1]).normal(size=(p, p))
    return modulated_sines(p, n, seed) @ A.T, A


@pytest.mark.parametrize("find", [compiled.dependences, reference.dependences])
def test_dependence_is_the_larger_of_two_correlations(find: Callable[..., np.ndarray]) -> None:
    Y = np.random.default_rng(0).laplace(size=(3, 1000)) * [[1.0], [3.0], [0.2]]
    sizes = np.minimum(np.abs(Y) / Y.std(axis=1, keepdims=True), 2.5)
    wanted = [np.abs(np.corrcoef(values)) * math.sqrt(1000) for values in (sizes**2, np.abs(sizes - 1.25))]
    np.testing.assert_allclose(find(Y, 2.5), np.maximum(*wanted), atol=1e-9)
    Y[1] = np.tile([-1.0, 1.0], 500)  # of sizes that are all the same nothing can be said
    np.testing.assert_allclose(find(Y, 2.5)[1], 0, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 7), (2, 511), (3, 512), (5, 1300), (40, 300), (200, 65)])
def test_compiled_dependences_are_the_plain_ones(p: int, m: int, dtype: type) -> None:
    Y = np.random.default_rng([p, m]).laplace(0.1, size=(p, m)).astype(dtype)
    np.testing.assert_allclose(compiled.dependences(Y, 2.5), reference.dependences(Y, 2.5), atol=1e-9, rtol=1e-6)
    Y[:: max(2, p - 1)] = 0.0  # a source that is nothing
    np.testing.assert_allclose(compiled.dependences(Y, 2.5), reference.dependences(Y, 2.5), atol=1e-6)


def test_mixtures_without_kurtosis_look_dependent() -> None:
    for seed in range(1, 5):
        Y = HALF @ modulated_sines(2, N, seed).T
        assert compiled.dependences(Y, LARGEST)[0, 1] > max(3 * square_dependences(Y)[0, 1], 4 * rotations.SUSPICIOUS)
        assert suspicious_pairs(Y, 4) == [(0, 1)]


@pytest.mark.parametrize("p", [2, 3, 4])
def test_modulated_sines_are_separated_from_every_start(p: int) -> None:
    failed = []
    for draw in range(5):
        X, A = mixed(p, N, draw)
        for seed in range(5):
            distance = amari_distance(unit_rows(ICA(random_state=seed).fit(X).components_, X), A)
            failed += [(draw, seed)] if distance > (0.5 if p == 2 else 0.5 * p) else []
    assert not failed


@pytest.mark.parametrize("draw", range(3))
def test_fits_of_modulated_sines_descend(draw: int) -> None:
    watched = run(mixed(4, N, draw)[0], None)
    assert max(watched.rises()) <= 1e-12
    assert max(watched.lies()) <= 1e-9


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_same_bits_for_any_number_of_threads(n_jobs: int) -> None:
    X, _ = mixed(4, 120_000, 1)  # levels of several blocks: one of a single block is the main thread's
    one, many = (ICA(random_state=0, n_jobs=jobs).fit(X) for jobs in (1, n_jobs))
    np.testing.assert_array_equal(one.components_, many.components_)
    np.testing.assert_array_equal(one.trace_["loss"], many.trace_["loss"])


@pytest.mark.parametrize("kind", ["laplace", "uniform", "standard_normal"])
def test_fits_of_independent_sources_are_those_that_look_at_squares_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    S = getattr(np.random.default_rng(0), kind)(size=(4000, 5))
    X = S @ np.random.default_rng(1).normal(size=(5, 5))
    fitted = ICA(random_state=0).fit(X)
    monkeypatch.setattr(rotations, "dependences", square_dependences)
    np.testing.assert_array_equal(fitted.components_, ICA(random_state=0).fit(X).components_)
