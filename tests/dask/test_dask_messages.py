"""The ledger under bad messengers: duplicated, reordered and late messages never raise the surrogate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.densities import Huber, TwoGaussian
from majorica.densities.table import Densities
from majorica.engines import ThreadEngine
from majorica.engines.dask import DaskEngine
from majorica.problem import Problem
from majorica.solvers import Incremental, drive
from majorica.solvers.incremental.rounds import (
    accept_message,
    block_of,
    minimise,
    moment_changes,
    round_length,
    shared_arguments,
)
from majorica.sources import as_source, read_block, split_blocks
from majorica.surrogate import Surrogate
from majorica.whitening import fit_whitening


def make_problem(n: int, p: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    source = as_source(rng.laplace(size=(n, p)) @ rng.normal(size=(p, p)))
    blocks, engine = split_blocks(n, 64), ThreadEngine(1)
    return Problem(source, fit_whitening(source, blocks, engine), engine, blocks)


def true_surrogate(problem: Problem, solver: Incremental, state) -> float:
    """The surrogate from its definition: every block's majorizers touching where the ledger says."""
    sums = None
    for number in range(len(state.ledger)):
        X = read_block(problem.source, block_of(solver, problem, number))
        arguments = (problem.whitening.mean, problem.whitening.matrix, state.ledger[number], state.densities, None)
        kernels = problem.kernels(state.densities)
        part = kernels.moments(X, *arguments[:4])
        sums = part if sums is None else sums.__iadd__(part)
    return Surrogate.from_moments(sums, problem.covariance).value(state.W, state.densities)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), p=st.integers(1, 4), mixed=st.booleans(), late=st.integers(0, 12))
def test_descent_with_duplicated_reordered_and_late_messages(seed: int, p: int, mixed: bool, late: int) -> None:
    rng = np.random.default_rng(seed)
    problem = make_problem(300, p, seed)
    densities = Densities([TwoGaussian() if mixed and i % 2 else Huber() for i in range(p)])
    solver = Incremental(q=None, batch_size=30)
    state = solver.init(problem, np.eye(p), densities, rng)
    under_way: list[tuple] = []
    value, accepted, refused = true_surrogate(problem, solver, state), 0, 0
    for _ in range(60):
        number = int(rng.integers(10))
        W_old, W = state.ledger[number].copy(), state.W.copy()
        X = read_block(problem.source, block_of(solver, problem, number))
        change = moment_changes(X, W_old, *shared_arguments(problem, state))
        under_way += [(number, W_old, W, change)] * int(rng.integers(1, 3))
        while len(under_way) > late:
            message = under_way.pop(int(rng.integers(len(under_way))))
            counted = accept_message(state, problem.n, *message)
            accepted, refused = accepted + counted, refused + (not counted)
            after = true_surrogate(problem, solver, state)
            assert after <= value + 1e-12 * max(1, abs(value))
            minimise(solver, problem, state)
            value = true_surrogate(problem, solver, state)
            assert value <= after + 1e-12 * max(1, abs(after))
    assert accepted >= 10
    assert refused >= 1
    assert state.surrogate.value(state.W, densities) == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_a_message_that_would_raise_the_surrogate_is_refused() -> None:
    problem = make_problem(300, 3, 0)
    solver, densities = Incremental(q=None, batch_size=100), Densities.same(Huber(), 3)
    state = solver.init(problem, np.eye(3), densities, np.random.default_rng(0))
    drive(solver, problem, state, max_iter=5)
    far = 50 * np.eye(3)
    X = read_block(problem.source, block_of(solver, problem, 0))
    arguments = (problem.whitening.mean, problem.whitening.matrix, far, densities, None)
    change = moment_changes(X, state.ledger[0], *arguments)
    before = state.surrogate.moments.copy()
    assert not accept_message(state, problem.n, 0, state.ledger[0].copy(), far, change)
    np.testing.assert_array_equal(state.surrogate.moments, before)


def test_rounds_depend_on_the_data_alone() -> None:
    assert [round_length(blocks) for blocks in (1, 63, 64, 200, 10**6)] == [1, 1, 2, 6, 8]


@pytest.mark.timeout(120)
def test_asynchronous_mode_descends(cluster, samples, lazy_samples) -> None:
    from majorica import ICA

    def model() -> ICA:
        return ICA(
            solver="incremental", n_updates=None, density="huber", batch_size=12_000, random_state=0, max_iter=4, tol=0
        )

    with DaskEngine(cluster.client, asynchronous=True) as engine:
        fitted = model().fit(lazy_samples(100_000, 140_000), engine=engine)
    assert (np.diff(fitted.trace_["loss"]) <= 1e-12).all()
    # Late messages cost speed, not descent: most of the fall of the rounds is there after as many passes.
    rounds = model().fit(samples)
    start = rounds.trace_["loss"][0]
    assert start - fitted.loss_ > 0.5 * (start - rounds.loss_)
