"""The incremental solver (Algorithm 1): its surrogate, recomputed from memory and samples, never rises."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica import ICA
from majorica.fitting import make_solver
from majorica.kernels import reference
from majorica.parameters import resolve
from majorica.solvers import Incremental, StopReason, drive
from makers import (
    ALL_DENSITIES,
    densities_of,
    empirical_loss,
    laplace,
    make_problem,
    matrix_of_condition,
    memory_of,
    surrogate_loss,
    surrogate_moments,
    whiten,
)

NAMES = [*ALL_DENSITIES, "mixed"]


class HalfSteps:
    """Runs a solver by hand and records, at each half-step, the surrogate from its definition."""

    def __init__(
        self, X: np.ndarray, solver: Incremental, name: str, W: np.ndarray, backend: str | None = None
    ) -> None:
        self.problem = make_problem(X, backend)
        self.solver, self.densities = solver, densities_of(name, self.problem.p)
        self.Z = whiten(X, self.problem.whitening)
        self.state = solver.init(self.problem, W, self.densities, np.random.default_rng(0))
        self.values = [self.value()]
        self.largest = 0.0  # of all touching points so far: sums that held them keep their rounding

    def touch(self) -> np.ndarray:
        return memory_of(self.state, self.Z, self.solver.batch_size)

    def value(self) -> float:
        return surrogate_loss(self.state.W, self.Z, self.touch(), self.densities)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            W = self.state.W.copy()
            self.solver.step(self.problem, self.state)
            self.largest = max(self.largest, float(np.abs(self.touch()).max()))
            # after majorization, before minimisation: the new memory at the old W
            self.values.append(surrogate_loss(W, self.Z, self.touch(), self.densities))
            self.values.append(self.value())


def assert_never_rises(values: list[float]) -> None:
    values_ = np.array(values)
    rise = np.diff(values_) / np.maximum(1, np.abs(values_[:-1]))
    assert rise.max() <= 1e-12, f"rises by {rise.max():.2g} at half-step {rise.argmax()}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("q", [1, 2, None])
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), p=st.integers(1, 5), batch=st.integers(15, 60), bad=st.booleans())
def test_surrogate_never_rises_at_any_half_step(
    name: str, q: int | None, seed: int, p: int, batch: int, bad: bool
) -> None:
    """Every density, q in {1, 2, p}, ragged last batch, bad starts; over 300 examples in all."""
    rng = np.random.default_rng(seed)
    X, _ = laplace(101, p, seed)
    W = matrix_of_condition(p, 1e4, rng) * 10 ** rng.uniform(-3, 3) if bad else np.eye(p)
    run = HalfSteps(X, Incremental(q=q, batch_size=batch), name, W)
    run.run(2 * -(-101 // batch))
    assert_half_steps_fall(run)


def assert_half_steps_fall(run: HalfSteps) -> None:
    """The surrogate fell at every half step, and is what its definition says."""
    assert_never_rises(run.values)
    moments, tilts, offsets = surrogate_moments(run.Z, run.touch(), run.densities)
    state = run.state.surrogate
    np.testing.assert_allclose(state.moments, moments, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(state.tilts, tilts, rtol=1e-9, atol=1e-11)
    rounding = 1e-15 * run.largest**2  # offsets are differences of squares
    np.testing.assert_allclose(state.offsets, offsets, rtol=1e-9, atol=1e-11 + rounding)
    assert run.state.loss == pytest.approx(run.values[-1], rel=1e-9, abs=1e-9 + rounding)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("q", "backend"), [(1, None), (2, None), (2, "reference")])
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), p=st.integers(3, 5), batch=st.integers(15, 60), bad=st.booleans())
def test_surrogate_never_rises_with_memory_in_codes(
    name: str, q: int, backend: str | None, seed: int, p: int, batch: int, bad: bool
) -> None:
    """The same with one byte an entry: bad starts are up to a thousand times beyond what codes can name."""
    rng = np.random.default_rng(seed)
    X, _ = laplace(101, p, seed)
    W = matrix_of_condition(p, 1e4, rng) * 10 ** rng.uniform(-3, 3) if bad else np.eye(p)
    run = HalfSteps(X, Incremental(q=q, batch_size=batch, memory="codes"), name, W, backend)
    assert run.state.touch.dtype == np.uint8
    run.run(2 * -(-101 // batch))
    assert_half_steps_fall(run)


@pytest.mark.parametrize("selection", ["greedy", "random"])
@pytest.mark.parametrize("iterations", [0, 1, 10])
def test_descent_whatever_the_selection_and_truncation(selection, iterations: int) -> None:
    X, _ = laplace(500, 4)
    run = HalfSteps(X, Incremental(q=2, batch_size=64, selection=selection, iterations=iterations), "mixed", np.eye(4))
    run.run(40)
    assert_never_rises(run.values)
    assert run.values[-1] < run.values[0]


@pytest.mark.parametrize("q", [1, 3])
def test_only_q_entries_of_a_sample_change_and_they_have_the_largest_gaps(q: int) -> None:
    """Algorithm 1 as it must be, not as printed: the memory of the other statistics stays."""
    X, _ = laplace(300, 4)
    solver = Incremental(q=q, batch_size=300)
    run = HalfSteps(X, solver, "huber", np.eye(4) * 3)
    W, before = run.state.W.copy(), run.touch().copy()
    solver.step(run.problem, run.state)
    changed = run.touch() != before
    assert changed.any(axis=1).mean() > 0.9
    assert changed.sum(axis=1).max() == q
    Y = run.Z @ W.T
    gap = reference.gaps(Y, Y, before.astype(float), run.densities)
    chosen = np.where(changed, gap, np.inf).min(axis=1)
    left = np.where(changed, -np.inf, gap).max(axis=1)
    assert (chosen >= left - 1e-6)[changed.any(axis=1)].all()


def test_gap_is_the_decrease_of_the_surrogate() -> None:
    """Eq. (dualgap), with its 1/n."""
    rng = np.random.default_rng(0)
    Z, W, densities = rng.laplace(size=(20, 3)), rng.normal(size=(3, 3)), densities_of("mixed", 3)
    touch = rng.normal(size=Z.shape)
    Y = Z @ W.T
    gap = reference.gaps(Y, Y, touch, densities)
    for j, i in [(0, 0), (7, 1), (19, 2)]:
        moved = touch.copy()
        moved[j, i] = Y[j, i]
        fall = surrogate_loss(W, Z, touch, densities) - surrogate_loss(W, Z, moved, densities)
        assert fall == pytest.approx(gap[j, i] / len(Z), abs=1e-13)
    assert (gap >= 0).all()


def test_ledger_equals_memory_when_all_are_updated() -> None:
    """q = p through p^2 numbers a block gives the iterates of q = p through p numbers a sample."""
    X, _ = laplace(400, 3)
    ledger = HalfSteps(X, Incremental(q=None, batch_size=128), "huber", np.eye(3))
    assert ledger.state.touch is None
    memory = HalfSteps(X, Incremental(q=3, batch_size=128), "huber", np.eye(3))
    memory.state.ledger, memory.state.touch = None, np.zeros((400, 3), np.float32)
    for _ in range(12):
        ledger.solver.step(ledger.problem, ledger.state)
        memory.solver.step(memory.problem, memory.state)
    np.testing.assert_allclose(ledger.state.W, memory.state.W, atol=1e-6)


def test_each_pass_visits_every_sample_once() -> None:
    X, _ = laplace(250, 3)
    run = HalfSteps(X, Incremental(q=None, batch_size=100), "huber", np.eye(3) * 2)
    for step in range(1, 4):
        run.solver.step(run.problem, run.state)
        assert (run.state.ledger != 0).any(axis=(1, 2)).sum() == step
    assert run.state.passes == 1.0


@pytest.mark.parametrize("q", [1, None])
def test_converges_to_a_stationary_point_of_the_loss(q: int | None) -> None:
    X, _ = laplace(2000, 4)
    run = HalfSteps(X, Incremental(q=q, batch_size=200, tol=1e-4), "huber", np.eye(4))
    drive(run.solver, run.problem, run.state, max_iter=500)
    assert run.state.stop is StopReason.GRADIENT
    Y = run.Z @ run.state.W.T
    assert np.abs(np.clip(Y, -1, 1).T @ Y / len(Y) - np.eye(4)).max() <= 1.0001e-4
    assert run.state.loss >= empirical_loss(run.state.W, run.Z, run.densities) - 1e-12


def test_float32_samples_keep_the_descent() -> None:
    """The surrogate of what the solver reads, float32 rounding included."""
    X, _ = laplace(1000, 4)
    X32 = (X * 3 + 5).astype(np.float32)
    problem = make_problem(X32)
    solver = Incremental(q=2, batch_size=128)
    densities = densities_of("huber", 4)
    state = solver.init(problem, np.eye(4), densities, np.random.default_rng(0))
    Z = np.concatenate([problem.read(((a, min(a + 128, 1000)),)) for a in range(0, 1000, 128)]).astype(np.float64)
    values = [surrogate_loss(state.W, Z, state.touch, densities)]
    for _ in range(40):
        solver.step(problem, state)
        values.append(surrogate_loss(state.W, Z, state.touch, densities))
    assert_never_rises(values)


def test_white_samples_are_kept_where_memory_allows() -> None:
    """All or none of them, within what a limit leaves; a fit gives the same bits either way."""
    X, _ = laplace(5003, 6)
    states = []
    for most in (X.nbytes, X.nbytes - 1):
        solver, problem = Incremental(tol=0, most_white=most), make_problem(X)
        state = solver.init(problem, np.eye(6), densities_of("huber", 6), np.random.default_rng(0))
        while state.passes < 2:
            solver.step(problem, state)
        states.append(state)
    assert states[0].white.known.all()
    assert states[1].white is None
    np.testing.assert_array_equal(states[0].W, states[1].W)
    options = resolve(ICA(solver="incremental"), "incremental")
    assert make_solver(options, spare=17).most_white == 17
    assert make_solver(options, spare=2**40).most_white == make_solver(options).most_white


def test_copied_states_go_on_to_the_same_bits() -> None:
    X, _ = laplace(3000, 5)
    problem, solver = make_problem(X), Incremental(batch_size=500, tol=0)
    state = solver.init(problem, np.eye(5), densities_of("huber", 5), np.random.default_rng(0))
    for _ in range(8):
        solver.step(problem, state)
    copied = copy.deepcopy(state)
    assert state.white is not None
    assert copied.white is None
    for _ in range(8):
        solver.step(problem, state)
        solver.step(problem, copied)
    np.testing.assert_array_equal(state.W, copied.W)


@pytest.mark.parametrize("n_updates", [2, None])
@pytest.mark.parametrize("kind", ["binary", "uniform"])
def test_sub_gaussian_sources_are_not_lost_at_the_start(kind: str, n_updates: int | None) -> None:
    """Their majorizers touch where the adaptive start left them: touching at 0, rows left their shapes' reach."""
    rng = np.random.default_rng(1)
    S = rng.integers(0, 2, size=(3000, 5)).astype(float) if kind == "binary" else rng.uniform(-1, 1, (3000, 5))
    X = S @ matrix_of_condition(5, 3.0, rng)
    ours = ICA(solver="incremental", n_updates=n_updates, random_state=1).fit(X)
    assert ours.converged_
    assert ours.score(X) > ICA(random_state=1).fit(X).score(X) - 0.01
