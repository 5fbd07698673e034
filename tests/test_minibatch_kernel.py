"""The fused mini-batch kernel gives what the plain kernels give one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from majorica.densities import Clipped
from majorica.densities.table import Densities
from majorica.engines import ThreadEngine
from majorica.kernels import gaps, reference
from majorica.kernels import ranks as ranks_
from majorica.solvers import Incremental
from majorica.solvers.incremental.solver import default_batch_size
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
@pytest.mark.parametrize("memory", ["float32", "codes"])
@pytest.mark.parametrize(("q", "p"), [(1, 2), (1, 4), (2, 4), (3, 4), (1, 17), (2, 17), (3, 17), (2, 37), (2, 90)])
def test_minibatches_equal_the_plain_kernels(name: str, q: int, p: int, memory: str) -> None:
    """Tail tiles and batches, buckets, one and several strips of moments; the second pass finds its samples white."""
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


@pytest.mark.parametrize("memory", ["float32", "codes"])
@pytest.mark.parametrize("p", [5, 17])
def test_random_choice_equals_the_plain_kernels(p: int, memory: str) -> None:
    X, _ = laplace(900, p)
    solver = Incremental(q=2, batch_size=400, tol=0, selection="random", memory=memory)
    fused, plain = (run(X, "mixed", solver, 6, backend) for backend in (None, "reference"))
    np.testing.assert_allclose(fused.W, plain.W, rtol=1e-8, atol=1e-8)


def fill_gaps(densities: Densities, i: int, y: np.ndarray, old: np.ndarray, gap: np.ndarray) -> None:
    """One component's gaps, by the compiled row."""
    params = np.empty((6, len(densities.codes)), gap.dtype)
    gaps.repeat_shapes(densities.codes, densities.shapes, params)
    gaps.gap_row(y, old, i, densities.codes[i], densities.shapes[i], params.ravel(), params.shape[1], gap)


@pytest.mark.parametrize("name", ALL_DENSITIES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gap_rows_are_the_gaps(name: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    y, old = (rng.laplace(size=700) * 2).astype(dtype), (rng.laplace(size=700) * 2).astype(np.float32)
    old[:100], y[:20], old[10:30] = y[:100], 0, 0
    densities = densities_of(name, 1)
    got = np.empty(700, dtype)
    fill_gaps(densities, 0, y, old, got)
    Y = y.astype(np.float64)[:, None]
    wanted = reference.gaps(Y, Y, old.astype(np.float64)[:, None], densities)[:, 0]
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if dtype is np.float64 else {"rtol": 1e-3, "atol": 2e-5}
    np.testing.assert_allclose(got, wanted, **tolerance)


@pytest.mark.parametrize("knot", [1e-40, 1e-38, 1e38, 1e300])
def test_gaps_are_numbers_whatever_the_knot(knot: float) -> None:
    """The reciprocal of float32 they are made with neither overflows nor divides by zero."""
    densities = Densities.same(Clipped(0.3, 0.7, knot), 1)
    y, old, gap = np.linspace(-3, 3, 50), np.linspace(0, 5, 50).astype(np.float32), np.empty(50)
    old[:10] = 0
    fill_gaps(densities, 0, y, old, gap)
    assert np.isfinite(gap).all()


@pytest.mark.parametrize("name", ["huber", "piecewise-super", "piecewise-sub"])
def test_small_gaps_keep_their_digits(name: str) -> None:
    """In float32 a gap of 1e-6 of the loss is still known to a few digits: it is no difference of large numbers."""
    rng = np.random.default_rng(1)
    old = rng.uniform(3.5, 6, 500).astype(np.float32)
    y = (old * (1 + rng.uniform(1e-3, 2e-3, 500))).astype(np.float32)
    densities = densities_of(name, 1)
    got = np.empty(500, np.float32)
    fill_gaps(densities, 0, y, old, got)
    Y = y.astype(np.float64)[:, None]
    wanted = reference.gaps(Y, Y, old.astype(np.float64)[:, None], densities)[:, 0]
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-13)


def named_by(ranks: np.ndarray, names: int, p: int) -> np.ndarray:
    """The pairs ``(m, p)`` that the keys `ranks` (q, m) name."""
    chosen = np.zeros((ranks.shape[1], p), bool)
    for level in ranks:
        for t in np.flatnonzero(level > names):
            chosen[t, names - (level[t] & names)] = True
    return chosen


@pytest.mark.parametrize(("dtype", "kind"), [(np.float64, np.int64), (np.float32, np.int32)])
@pytest.mark.parametrize("q", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 16, 50])
@pytest.mark.parametrize("p", [1, 4, 8, 10, 16, 17, 23, 33])
def test_ranks_of_samples_as_they_lie(dtype: type, kind: type, q: int, m: int, p: int) -> None:
    rng = np.random.default_rng(3)
    names, q = int(ranks_.name_bits(p)), min(q, p)
    gap = rng.normal(size=(m, p)).astype(dtype)
    gap[m // 2] = -1.0  # none is worth choosing
    if p > 4:
        gap[:, 2] = gap[:, 4]  # of equals, the first
    ranks = np.full((q + 1, m), 7, kind)
    lows = (names - np.arange(p)).astype(kind)
    ranks_.rank_samples(gap.view(kind).reshape(m * p), m, p, lows, names, q, ranks.reshape(-1))
    assert (ranks[q] == 7).all()
    ranks = ranks[:q]
    chosen = named_by(ranks, names, p)
    np.testing.assert_array_equal(chosen, reference.select_largest(gap.astype(np.float64), q) & (gap > 0))


@pytest.mark.parametrize("name", ["huber", "piecewise-super", "piecewise-sub"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gap_blocks_are_gap_rows(name: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    p, m = 5, 300
    y, old = (rng.laplace(size=(m, p)) * 2).astype(dtype), (rng.laplace(size=(m, p)) * 2).astype(np.float32)
    densities = densities_of(name, p)
    shapes, got, wanted = np.empty((6, 7 * p), dtype), np.empty(m * p, dtype), np.empty(m, dtype)
    code = gaps.repeat_shapes(densities.codes, densities.shapes, shapes)
    assert code == densities.codes[0]
    gaps.gap_block(y.ravel(), 0, old.ravel(), 0, m * p, code, shapes.ravel(), shapes.shape[1], got)
    for i in range(p):
        fill_gaps(densities, i, y[:, i].copy(), old[:, i].copy(), wanted)
        np.testing.assert_allclose(got[i::p], wanted, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("memory", ["float32", "codes"])
@pytest.mark.parametrize("p", [4, 17])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_change_no_bit(p: int, dtype: type, memory: str) -> None:
    """Which thread chose a part's pairs or changed a component's moments leaves no trace."""
    X, _ = laplace(30_000, p)
    states = []
    for n_jobs in (1, 2, 4):
        problem = make_problem(X.astype(dtype))
        engine = ThreadEngine(n_jobs)
        problem = replace(problem, engine=engine)
        solver = Incremental(q=2, batch_size=1000, tol=0, memory=memory)
        densities = densities_of("mixed", p)
        state = solver.init(problem, 1.3 * np.eye(p), densities, np.random.default_rng(0))
        state.burst = 50
        for _ in range(4):
            solver.step(problem, state)
        engine.close()
        states.append(state)
    for other in states[1:]:
        for part in ("W", "inverse", "touch", "loss", "log_det"):
            np.testing.assert_array_equal(getattr(states[0], part), getattr(other, part))
        np.testing.assert_array_equal(states[0].surrogate.moments, other.surrogate.moments)


def test_moments_stay_symmetric() -> None:
    X, _ = laplace(3000, 40)
    state = run(X, "mixed", Incremental(q=2, batch_size=500, tol=0), 7, None)
    np.testing.assert_array_equal(state.surrogate.moments, state.surrogate.moments.transpose(0, 2, 1))


def test_log_det_follows_the_rows() -> None:
    X, _ = laplace(3000, 6)
    state = run(X, "mixed", Incremental(q=2, batch_size=100, tol=0), 70, None)
    assert state.log_det == pytest.approx(np.linalg.slogdet(state.W)[1], abs=1e-12)


def test_default_batch_size() -> None:
    assert default_batch_size(10**6, 10) == 1000
    assert default_batch_size(10**6, 32) == 2048
    assert default_batch_size(10**6, 100) == 6400
    assert default_batch_size(30_000, 100) == 3000
    assert default_batch_size(100, 100) == 1000
