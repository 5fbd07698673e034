"""Sources that are hard in different ways, mixed."""

from __future__ import annotations

import numpy as np

from makers import matrix_of_condition


def near_gaussian(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.normal(size=(n, p)) + 1e-3 * rng.laplace(size=(n, p))


def with_outliers(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    S = rng.laplace(size=(n, p))
    S[rng.integers(n, size=2), rng.integers(p, size=2)] = 1e6
    return S


def discrete(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    return rng.choice([-1.0, 1.0], size=(n, p)) + (np.arange(p) % 2) * rng.integers(3, size=(n, p))


def duplicated(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    few = rng.laplace(size=(p + 3, p))
    return few[rng.integers(p + 3, size=n)]


def mixed(rng: np.random.Generator, n: int, p: int) -> np.ndarray:
    kinds = [rng.laplace(size=n), rng.uniform(-1, 1, n), rng.normal(size=n), np.sin(0.37 * np.arange(n))]
    kinds.append(np.sign(rng.normal(size=n)) + 0.2 * rng.normal(size=n))
    return np.column_stack([kinds[i % 5] for i in range(p)]) + 0.01 * rng.normal(size=(n, p))


DATA = {
    "laplace": lambda rng, n, p: rng.laplace(size=(n, p)),
    "outliers": with_outliers,
    "near-gaussian": near_gaussian,
    "gaussian": lambda rng, n, p: rng.normal(size=(n, p)),
    "discrete": discrete,
    "duplicated": duplicated,
    "heavy": lambda rng, n, p: rng.standard_t(1.2, size=(n, p)),
    "mixed": mixed,
}


def make_data(kind: str, n: int, p: int, seed: int) -> np.ndarray:
    """Sources of one kind, mixed; a speck of noise keeps the rank where they repeat."""
    rng = np.random.default_rng(seed)
    S = DATA[kind](rng, n, p)
    S = S + 1e-6 * np.maximum(S.std(axis=0), 1.0) * rng.normal(size=S.shape)
    return S @ matrix_of_condition(p, 3.0, rng)
