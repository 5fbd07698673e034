"""The fused mini-batch kernel gives what the plain kernels give one after another."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels import minibatch, reference
from majorica.solvers import Incremental
from majorica.solvers.incremental import default_batch_size
from makers import ALL_DENSITIES, densities_of, laplace, make_problem

NAMES = [*ALL_DENSITIES, "mixed"]


def run(X: np.ndarray, name: str, solver: Incremental, steps: int, backend: str | None):
    problem = make_problem(X, backend)
    densities = densities_of(name, problem.p)
    state = solver.init(problem, 1.3 * np.eye(problem.p), densities, np.random.default_rng(0))
    for _ in range(steps):
        solver.step(problem, state)
    return state


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("q", "p", "memory"), [
    (1, 4, "float32"), (2, 4, "float32"), (3, 4, "float32"), (2, 17, "float32"), (2, 4, "codes"), (2, 17, "codes"),
])  # fmt: skip
def test_minibatches_equal_the_plain_kernels(name: str, q: int, p: int, memory: str) -> None:
    """Tail tiles and batches, few components (short loops) and more."""
    X, _ = laplace(1400, p)
    solver = Incremental(q=q, batch_size=600, tol=0, memory=memory)
    fused, plain = (run(X, name, solver, 7, backend) for backend in (None, "reference"))
    np.testing.assert_allclose(fused.W, plain.W, rtol=1e-8, atol=1e-8)
    assert fused.touch.dtype == plain.touch.dtype
    same = np.isclose(fused.touch, plain.touch, rtol=1e-5, atol=1e-5)  # gaps of zero may be rounded either way
    assert same.mean() > 0.999
    for part in ("moments", "tilts", "offsets"):
        np.testing.assert_allclose(getattr(fused.surrogate, part), getattr(plain.surrogate, part), rtol=1e-8, atol=1e-9)
    assert fused.loss == pytest.approx(plain.loss, abs=1e-9)


def test_random_choice_equals_the_plain_kernels() -> None:
    X, _ = laplace(900, 5)
    solver = Incremental(q=2, batch_size=400, tol=0, selection="random")
    fused, plain = (run(X, "mixed", solver, 6, backend) for backend in (None, "reference"))
    np.testing.assert_allclose(fused.W, plain.W, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ALL_DENSITIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gap_rows_are_the_gaps(name: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    y, old = (rng.laplace(size=700) * 2).astype(dtype), (rng.laplace(size=700) * 2).astype(np.float32)
    old[:100], y[:20], old[10:30] = y[:100], 0, 0
    densities = densities_of(name, 1)
    got = np.empty(700, dtype)
    minibatch._gap_row(y, old, densities.codes[0], densities.shapes[0], got)
    Y = y.astype(np.float64)[:, None]
    wanted = reference.gaps(Y, Y, old.astype(np.float64)[:, None], densities)[:, 0]
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-3, "atol": 2e-5}
    np.testing.assert_allclose(got, wanted, **tolerance)


@pytest.mark.parametrize("name", ["huber", "piecewise-super", "piecewise-sub"])
def test_small_gaps_keep_their_digits(name: str) -> None:
    """In float32 a gap of 1e-6 of the loss is still known to a few digits: it is no difference of large numbers."""
    rng = np.random.default_rng(1)
    old = rng.uniform(3.5, 6, 500).astype(np.float32)
    y = (old * (1 + rng.uniform(1e-3, 2e-3, 500))).astype(np.float32)
    densities = densities_of(name, 1)
    got = np.empty(500, np.float32)
    minibatch._gap_row(y, old, densities.codes[0], densities.shapes[0], got)
    Y = y.astype(np.float64)[:, None]
    wanted = reference.gaps(Y, Y, old.astype(np.float64)[:, None], densities)[:, 0]
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-13)


@pytest.mark.parametrize(("dtype", "kind"), [(np.float64, np.int64), (np.float32, np.int32)])
@pytest.mark.parametrize("q", [1, 2, 4])
def test_ranks_name_the_largest(dtype: type, kind: type, q: int) -> None:
    rng = np.random.default_rng(2)
    p, m, names = 6, 50, 7
    gap = rng.normal(size=(p, m)).astype(dtype)
    gap[2] = gap[4]  # of equals, the first
    ranks = np.full((q, m), names, kind)
    for i in range(p):
        minibatch._rank(gap[i].copy().view(kind), names - i, ~names, ranks)
    chosen = np.zeros((m, p), bool)
    for r in range(q):
        for t in np.flatnonzero(ranks[r] > names):
            chosen[t, names - (ranks[r, t] & names)] = True
    np.testing.assert_array_equal(chosen, reference.select_largest(gap.T.astype(np.float64), q) & (gap.T > 0))


def test_log_det_follows_the_rows() -> None:
    X, _ = laplace(3000, 6)
    state = run(X, "mixed", Incremental(q=2, batch_size=100, tol=0), 70, None)
    assert state.log_det == pytest.approx(np.linalg.slogdet(state.W)[1], abs=1e-12)


def test_default_batch_size() -> None:
    assert default_batch_size(10**6, 10) == 1000
    assert default_batch_size(10**6, 100) == 2500
    assert default_batch_size(30_000, 100) == 1500
    assert default_batch_size(100, 100) == 1000
