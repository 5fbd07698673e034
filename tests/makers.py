"""Small data makers, and the paper's formulas in plain NumPy: what the tests compare against."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from majorica.densities import Clipped, Density, Huber, LogCosh, Piecewise, Student, TwoGaussian
from majorica.densities.table import Densities
from majorica.engines import ThreadEngine
from majorica.kernels.codes import CodeTable
from majorica.problem import Problem
from majorica.sources import as_source, split_blocks
from majorica.whitening import Whitening, fit_whitening

SUPER_GAUSSIAN: dict[str, Density] = {
    "huber": Huber(),
    "huber-0.4": Huber(0.4),
    "logcosh": LogCosh(),
    "student": Student(),
    "student-1.2": Student(1.2),
    "clipped-super": Clipped(0.3, 0.7, 0.8),
    "gaussian": Clipped(1.0, 0.0, 1.0),
    "piecewise-super": Piecewise((2.0, 1.2, 0.7, 0.3, 0.2)),
}
SUB_GAUSSIAN: dict[str, Density] = {
    "twogaussian": TwoGaussian(),
    "twogaussian-2": TwoGaussian(2.0),
    "clipped-flat": Clipped(1.0, -1.0, 0.9),
    "clipped-humps": Clipped(2.0, -3.0, 1.1),
    "piecewise-sub": Piecewise((0.2, 0.6, 1.0, 1.5, 2.0)),
    "piecewise-mixed": Piecewise((-0.5, 1.5, 1.0, 0.8, 1.0)),
}
ALL_DENSITIES = SUPER_GAUSSIAN | SUB_GAUSSIAN
MIXED = (Huber(), TwoGaussian(), Student(), SUB_GAUSSIAN["piecewise-mixed"], LogCosh(), Clipped(1.0, -1.0, 0.9))


def densities_of(name: str, p: int) -> Densities:
    """`p` times the density of that name; ``"mixed"`` is both kinds in turn."""
    if name == "mixed":
        return Densities([MIXED[i % len(MIXED)] for i in range(p)])
    return Densities.same(ALL_DENSITIES[name], p)


def laplace(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mixed Laplace sources ``X (n, p)`` and their mixing matrix ``A (p, p)``: ``X = S A^T``."""
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n, p))
    A = rng.normal(size=(p, p))
    return S @ A.T, A


def matrix_of_condition(p: int, condition: float, rng: np.random.Generator) -> np.ndarray:
    """A random square matrix with singular values from 1 to `condition`, evenly in the logarithm."""
    left, _ = np.linalg.qr(rng.normal(size=(p, p)))
    right, _ = np.linalg.qr(rng.normal(size=(p, p)))
    return (left * np.geomspace(1.0, condition, p)) @ right


def make_problem(X: np.ndarray, backend: str | None = None, block: int = 0, **options: object) -> Problem:
    """The problem the solvers see for `X`, on one thread; `block` samples a block of a pass."""
    source = as_source(X)
    blocks = split_blocks(source.n_samples, block or max(1, source.n_samples))
    engine = ThreadEngine(1)
    whitening = fit_whitening(source, blocks, engine, **options)
    return Problem(source, whitening, engine, blocks, backend)


def whiten(X: np.ndarray, whitening: Whitening) -> np.ndarray:
    """White samples in float64."""
    return (X.astype(np.float64) - whitening.mean) @ whitening.matrix.T


def empirical_loss(W: np.ndarray, Z: np.ndarray, densities: Iterable[Density]) -> float:
    """Eq. (emp_risk) with normalisers, from its definition."""
    Y = Z @ W.T
    total = -np.linalg.slogdet(W)[1]
    for i, density in enumerate(densities):
        total += density.loss(Y[:, i]).mean() + density.log_normaliser
    return float(total)


def surrogate_loss(W: np.ndarray, Z: np.ndarray, touch: np.ndarray, densities: Iterable[Density]) -> float:
    """Eq. (newcost_emp) with normalisers, from its definition; `touch` is where each sample's majorizer touches."""
    Y = Z @ W.T
    total = -np.linalg.slogdet(W)[1]
    for i, density in enumerate(densities):
        y, at = Y[:, i], touch[:, i].astype(np.float64)
        majorizer = 0.5 * density.weight(at) * y**2 - density.tilt(at) * y + density.offset(at)
        total += majorizer.mean() + density.log_normaliser
    return float(total)


def surrogate_moments(
    Z: np.ndarray, touch: np.ndarray, densities: Iterable[Density]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eq. (acc) from its definition: A^i ``(p, k, k)``, tilts ``(p, k)``, offsets ``(p,)``."""
    moments, tilts, offsets = [], [], []
    for i, density in enumerate(densities):
        at = touch[:, i].astype(np.float64)
        moments.append(np.einsum("j,jk,jl->kl", density.weight(at), Z, Z) / len(Z))
        tilts.append(density.tilt(at) @ Z / len(Z))
        offsets.append(density.offset(at).mean())
    return np.array(moments), np.array(tilts), np.array(offsets)


def memory_of(state: object, Z: np.ndarray, batch_size: int) -> np.ndarray:
    """Where every sample's majorizers touch, from an incremental state's memory or ledger; ``(n, p)``."""
    if state.touch is not None:  # type: ignore[attr-defined]
        touch = state.touch  # type: ignore[attr-defined]
        if touch.dtype == np.uint8:
            return CodeTable.of(len(Z)).decode(touch, state.densities.super_gaussian)  # type: ignore[attr-defined]
        return touch
    touch = np.empty((len(Z), state.ledger.shape[1]))  # type: ignore[attr-defined]
    for number, W in enumerate(state.ledger):  # type: ignore[attr-defined]
        rows = slice(number * batch_size, (number + 1) * batch_size)
        touch[rows] = Z[rows] @ W.T
    return touch


def unit_rows(W: np.ndarray, X: np.ndarray) -> np.ndarray:
    """`W` with rows scaled to sources of unit variance on `X`."""
    return W / ((X - X.mean(axis=0)) @ W.T).std(axis=0)[:, None]
