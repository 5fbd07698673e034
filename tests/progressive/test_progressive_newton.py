"""The compiled quasi-Newton algebra gives what its NumPy definition gives, and what it claims."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.densities.table import Densities
from majorica.kernels import newton
from majorica.solvers.progressive import quasinewton
from majorica.solvers.progressive.held import evaluation
from majorica.solvers.progressive.quasinewton import FLOOR, Memory
from majorica.statistics import Statistics

over_sizes = pytest.mark.parametrize("p", [1, 2, 3, 17, 64])
over_seeds = pytest.mark.parametrize("seed", range(5))


def make(p: int, seed: int) -> tuple[Statistics, np.ndarray, np.ndarray]:
    """Sums as a pass gives them, negative curvatures among them; a gradient; a block Hessian."""
    rng = np.random.default_rng(seed)
    statistics = Statistics.zeros(p, 100)
    statistics.curvature[:] = 100 * rng.normal(0.7, 0.8, p)
    statistics.power[:] = 100 * rng.uniform(0.3, 3, p)
    statistics.diagonal[:] = 100 * rng.normal(0.5, 2, p)
    return statistics, rng.normal(size=(p, p)), quasinewton.block_curvature(statistics)


@over_sizes
@over_seeds
def test_digest(p: int, seed: int) -> None:
    """Loss, gradient and blocks of a pass in one call."""
    statistics, W, upper = make(p, seed)
    rng = np.random.default_rng(seed + 100)
    statistics.loss[:], statistics.gradient[:] = rng.normal(size=p), 100 * rng.normal(size=(p, p))
    densities = Densities.piecewise(np.ones((p, 5)), rng.normal(size=p))
    new = evaluation(W, statistics, densities)
    assert new.loss == pytest.approx(quasinewton.loss_of(W, statistics, densities), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(new.relative, quasinewton.relative_gradient_of(statistics), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(new.upper, upper, rtol=1e-12)
    assert new.largest == np.abs(new.relative).max()
    statistics.gradient[-1, -1] = np.nan
    assert np.isnan(evaluation(W, statistics, densities).largest)


@over_sizes
@over_seeds
def test_block_curvature_and_solve(p: int, seed: int) -> None:
    statistics, gradient, upper = make(p, seed)
    got = evaluation(np.eye(p), statistics, Densities.piecewise(np.ones((p, 5)), np.zeros(p))).upper
    np.testing.assert_allclose(got, upper, rtol=1e-12)
    out = np.empty((p, p))
    newton.block_solve(upper, gradient, out)
    wanted = quasinewton.block_solve(upper, gradient)
    np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-13)
    applied = upper * wanted + wanted.T  # the blocks, applied, give the gradient back
    np.fill_diagonal(applied, np.diag(upper) * np.diag(wanted))
    np.testing.assert_allclose(applied, gradient, atol=1e-9)


@over_sizes
@over_seeds
def test_blocks_are_positive(p: int, seed: int) -> None:
    """No eigenvalue of a block below the floor, however negative the curvatures."""
    _, gradient, upper = make(p, seed)
    for i in range(p):
        assert upper[i, i] >= FLOOR
        for j in range(i):
            block = np.array([[upper[i, j], 1.0], [1.0, upper[j, i]]])
            assert np.linalg.eigvalsh(block)[0] >= FLOOR * (1 - 1e-9)
    assert np.vdot(gradient, quasinewton.block_solve(upper, gradient)) > 0


@over_sizes
@pytest.mark.parametrize("pairs", [0, 1, 5, 20, 47])
def test_descent_direction(p: int, pairs: int) -> None:
    """Ring buffers against the textbook recursion over a list, before and after they wrap."""
    _, gradient, upper = make(p, pairs)
    rng = np.random.default_rng(pairs)
    memory, steps, changes = Memory.of_size(p), [], []
    for _ in range(pairs):
        step = rng.normal(size=(p, p))
        change = 0.7 * step + 0.1 * rng.normal(size=(p, p))
        memory.add(step, change)
        if np.vdot(step, change) > 1e-2 * FLOOR * np.vdot(step, step):
            steps.append(step)
            changes.append(change)
    kept = len(memory.steps)
    direction, gain = memory.direction(gradient, upper)
    wanted = quasinewton.descent_direction(gradient, upper, steps[-kept:], changes[-kept:])
    np.testing.assert_allclose(direction, wanted, rtol=1e-9, atol=1e-10 * np.abs(wanted).max())
    assert gain == pytest.approx(0.5 * np.vdot(gradient, quasinewton.block_solve(upper, gradient)), rel=1e-12)
    assert np.vdot(direction, gradient) < 0
    memory.clear()
    np.testing.assert_allclose(memory.direction(gradient, upper)[0], -quasinewton.block_solve(upper, gradient))


def test_memory_refuses_pairs_without_curvature() -> None:
    memory = Memory.of_size(3)
    step = np.ones((3, 3))
    memory.add(step, -step)
    memory.add(step, 0 * step)
    memory.add(step, np.nan * step)
    assert memory.count == 0
    memory.add(step, step)
    assert memory.count == 1


@pytest.mark.parametrize("p", [1, 10, 300, 1000, 3000])
def test_memory_is_small(p: int) -> None:
    length = int(np.clip(5_000_000 // p**2, 5, 20))
    assert length * p * p <= max(5_000_000, 5 * p * p)
    if p <= 300:
        memory = Memory.of_size(p)
        assert memory.steps.shape == memory.changes.shape == (length, p, p)


@over_sizes
@over_seeds
def test_spectral_norm(p: int, seed: int) -> None:
    E = np.random.default_rng(seed).normal(size=(p, p))
    wanted = np.linalg.norm(E, 2)
    assert 0.7 * wanted <= newton.spectral_norm(E, 4) <= wanted * (1 + 1e-12)
    assert newton.spectral_norm(E, 200) == pytest.approx(wanted, rel=1e-2)
    assert newton.spectral_norm(np.zeros((p, p)), 4) == 0.0


@over_seeds
def test_the_block_hessian_is_the_hessian_of_independent_sources(seed: int) -> None:
    """Finite differences of the relative gradient on independent sources, up to their sampling noise."""
    from majorica.densities import LogCosh
    from majorica.densities.table import Densities
    from majorica.kernels import reference

    rng = np.random.default_rng(seed)
    p, n = 3, 200_000
    Y = rng.laplace(size=(n, p))
    densities = Densities.same(LogCosh(), p)
    zero, eye = np.zeros(p), np.eye(p)
    upper = quasinewton.block_curvature(reference.statistics(Y, zero, eye, densities))
    E = rng.normal(size=(p, p))
    h = 1e-4
    # the loss along W = (I + h E): second difference against E . H E
    losses = []
    for t in (-h, 0.0, h):
        W = eye + t * E
        losses.append(reference.statistics(Y, zero, W, densities).loss.sum() / n - np.linalg.slogdet(W)[1])
    second = (losses[0] - 2 * losses[1] + losses[2]) / h**2
    product = upper * E + E.T
    np.fill_diagonal(product, np.diag(upper) * np.diag(E))
    assert np.vdot(E, product) == pytest.approx(second, rel=0.05)
