"""Separation of every kind of source, next to FastICA and Picard-O: a small version of the benchmark."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from majorica import ICA
from majorica.metrics import amari_distance
from makers import matrix_of_condition, unit_rows

picard = pytest.importorskip("picard")

N, SEEDS = 20_000, 3


def generalised_normal(power: float) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: np.sign(rng.normal(size=N)) * rng.gamma(1 / power, size=N) ** (1 / power)


def student(dof: float) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: rng.standard_t(dof, size=N)


def uniform(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-1, 1, N)


def bimodal(rng: np.random.Generator) -> np.ndarray:
    return np.sign(rng.normal(size=N)) + 0.5 * rng.normal(size=N)


def sine(rng: np.random.Generator) -> np.ndarray:
    return np.sin(rng.uniform(0.01, 2) * np.arange(N) + rng.uniform(0, 2 * np.pi))


#: Six sources of a kind at once, 15 pairs to separate: medians of a few draws of one pair are mostly chance.
KINDS = {
    "gn0.7": [generalised_normal(0.7)] * 6,
    "gn1.5": [generalised_normal(1.5)] * 6,
    "gn3": [generalised_normal(3)] * 6,
    "gn4": [generalised_normal(4)] * 6,
    "t2.5": [student(2.5)] * 6,
    "t5": [student(5)] * 6,
    "uniform": [uniform] * 6,
    "bimodal": [bimodal] * 6,
    "sine": [sine] * 6,
    "sub+super": [generalised_normal(0.7), uniform, student(5), bimodal],
}
#: Clearly not Gaussian: here fitted shapes must be better, not only as good.
BETTER = {"gn0.7", "uniform", "bimodal", "sine", "sub+super"}


def ours(X: np.ndarray, seed: int) -> np.ndarray:
    return ICA(random_state=seed).fit(X).components_


def fast_ica(X: np.ndarray, seed: int) -> np.ndarray:
    ica = FastICA(whiten="unit-variance", random_state=seed, max_iter=1000, tol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ica.fit(X).components_


def picard_o(X: np.ndarray, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        K, W, _ = picard.picard(X.T, ortho=True, extended=True, random_state=seed, max_iter=500, tol=1e-8)
    return W @ K


def distances(kind: str, method: Callable[[np.ndarray, int], np.ndarray]) -> list[float]:
    """Amari distances over a few draws of the sources, rows at unit variance."""
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, len(kind)])
        S = np.column_stack([draw(rng) for draw in KINDS[kind]])
        A = matrix_of_condition(S.shape[1], 4.0, rng)
        X = S / S.std(axis=0) @ A.T
        found.append(amari_distance(unit_rows(method(X, seed), X), A))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_worse_than_the_better_of_fastica_and_picard(kind: str) -> None:
    peers = min(float(np.median(distances(kind, method))) for method in (fast_ica, picard_o))
    assert float(np.median(distances(kind, ours))) <= (1.0 if kind in BETTER else 1.5) * peers + 1e-6
