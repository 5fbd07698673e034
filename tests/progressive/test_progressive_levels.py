"""Levels of the progressive solver: nested, spread, whole in the end; fits go on from a pickle to the same bits."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progressive_data import make_data
from progressive_watch import run, samples_in_play

from majorica import ICA, amari_distance
from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.engines.threads import ThreadEngine
from majorica.problem import Problem, pass_block_length
from majorica.solvers import Progressive, StopReason
from majorica.solvers.progressive import solver
from majorica.solvers.progressive.levels import GROWTH, SHORT_ERROR, SHORT_FROM, Levels, cut_block
from majorica.sources.array import ArraySource
from majorica.whitening import Whitening
from makers import laplace, make_problem, whiten

#: Outliers and tails without variance are part of what is tried.
pytestmark = pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")

SIZES = [(4001, 2), (50_000, 3), (1_000_003, 10), (200_000, 64), (10_000_000, 5)]


@given(st.integers(1, 3_000_000), st.integers(1, 400), st.integers(0, 2**32))
def test_levels_grow_to_all_samples(n: int, p: int, seed: int) -> None:
    levels = Levels.start(n, p, np.random.default_rng(seed))
    units = -(-n // levels.unit)
    np.testing.assert_array_equal(np.sort(levels.order), np.arange(units))  # every unit once
    sizes = [levels.size]
    while not levels.last:
        order = levels.order
        levels.grow()
        assert levels.order is order  # nested: a longer part of one order
        sizes.append(levels.size)
    assert sizes[-1] == units
    assert all(a < b for a, b in itertools.pairwise(sizes))
    assert all(b <= 2 * GROWTH * a for a, b in itertools.pairwise(sizes))
    if len(sizes) > 1:
        assert sizes[0] * levels.unit >= min(n, max(1000, 20 * p))


@pytest.mark.parametrize(("n", "p"), SIZES)
def test_first_level_is_spread_over_the_recording(n: int, p: int) -> None:
    levels = Levels.start(n, p, np.random.default_rng(0))
    assert not levels.last
    starts = np.sort(levels.order[: levels.size]) * levels.unit
    counts, _ = np.histogram(starts, bins=8, range=(0, n))
    expected = levels.size / 8
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert np.diff(starts, prepend=0, append=n).max() <= n / 4


@pytest.mark.parametrize("n", [4000, 4001, 20_011])
def test_a_level_passes_over_exactly_its_samples(n: int) -> None:
    X, _ = laplace(n, 3)
    problem = make_problem(X, block=1000)
    levels = Levels.start(n, 3, np.random.default_rng(1))
    Z = (X - problem.whitening.mean) @ problem.whitening.matrix.T
    before: set[int] = set()
    while True:
        chosen = samples_in_play(levels, n)
        assert before <= set(chosen.tolist())
        before = set(chosen.tolist())
        got = levels.sources(problem, np.eye(3), 10**9).T
        np.testing.assert_allclose(np.sort(got, axis=0), np.sort(Z[chosen], axis=0), atol=1e-12)
        statistics = levels.statistics(problem, np.eye(3), Densities.same(Huber(), 3))
        assert statistics.n == len(chosen)
        np.testing.assert_allclose(statistics.power, np.square(Z[chosen]).sum(axis=0), rtol=1e-12)
        if levels.last:
            break
        levels.grow()
    assert before == set(range(n))


@pytest.mark.parametrize("adaptive", [False, True], ids=["huber", "adaptive"])
def test_pickled_states_go_on_to_the_same_bits(adaptive: bool) -> None:
    """A copy made after any step takes the same remaining steps."""
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=9001), rng.uniform(-1, 1, 9001), rng.normal(size=9001)])
    problem = make_problem(S @ rng.normal(size=(3, 3)), block=2000)
    solver = Progressive(adaptive=adaptive)
    start = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    state = solver.init(problem, start, Densities.same(Huber(), 3), np.random.default_rng(1))
    copies, path = [], []
    while state.stop is None:
        copies.append(pickle.dumps(state))
        solver.step(problem, state)
        path.append((state.W.tobytes(), state.loss, state.passes, tuple(state.densities.names)))
    assert len({loss for _, loss, _, _ in path}) > 5
    for done in {0, 1, 3, len(copies) // 2, len(copies) - 2}:
        again = pickle.loads(copies[done])
        rest = []
        while again.stop is None:
            solver.step(problem, again)
            rest.append((again.W.tobytes(), again.loss, again.passes, tuple(again.densities.names)))
        assert rest == path[done:]
        assert again.stop is state.stop


def test_a_pickled_state_is_small() -> None:
    """It holds p^2 numbers and the order of the units, not the samples of its level."""
    problem = make_problem(laplace(100_000, 4)[0], block=10_000)
    solver = Progressive()
    state = solver.init(problem, np.eye(4), Densities.same(Huber(), 4), np.random.default_rng(0))
    solver.step(problem, state)
    state.levels.upto(1000).sources(problem, state.W, 1000)
    assert not state.levels.last
    assert len(pickle.dumps(state)) < 100_000


def test_some_samples_of_a_level_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, reads = make_problem(laplace(50_000, 4)[0], block=10_000), []
    read = problem.source.read_ranges
    monkeypatch.setattr(problem.source, "read_ranges", lambda block: reads.append(block) or read(block))
    levels = Levels.start(problem.n, 4, np.random.default_rng(0))
    W = np.random.default_rng(1).normal(size=(4, 4))
    first = levels.upto(500).sources(problem, W, 100)
    assert first.shape == (4, 100)
    once = len(reads)
    assert once
    levels.grow()
    np.testing.assert_array_equal(levels.upto(500).sources(problem, W, 100), first)
    assert len(reads) == once


@pytest.mark.parametrize("density", [None, Huber()], ids=["adaptive", "huber"])
@pytest.mark.parametrize("kind", ["mixed", "heavy", "near-gaussian", "outliers"])
def test_levels_in_float32_still_fall_at_every_step(kind: str, density) -> None:
    """Of long data early levels are float32: a step counts only if it gains more than that rounds, so none rises."""
    watched = run(make_data(kind, SHORT_FROM + 17, 3, seed=2), density)
    short = [one for one in watched.seen if one.n_samples < SHORT_FROM]
    whole = [one for one in watched.seen if one.n_samples >= SHORT_FROM]
    assert len({one.level for one in short}) >= 2
    assert max(watched.rises()) <= 1e-12
    assert max(abs(one.published - one.loss) / one.size for one in short) <= SHORT_ERROR
    assert max(abs(one.published - one.loss) / one.size for one in whole) <= 1e-9


def test_levels_in_float32_are_whitened_samples_in_order() -> None:
    X = 50 + make_data("laplace", SHORT_FROM, 4, seed=0)
    problem = make_problem(X)
    levels = Levels.start(len(X), 4, np.random.default_rng(0))
    rows = np.concatenate([np.arange(*r) for block in levels.blocks(problem) for r in block])
    np.testing.assert_array_equal(rows, samples_in_play(levels, len(X)))
    wanted = whiten(X, problem.whitening)[rows]
    np.testing.assert_allclose(levels.sources(problem, np.eye(4), 10**9).T, wanted, rtol=1e-6, atol=1e-6)
    few = levels.sources(problem, np.eye(4), 1000).T
    assert 500 <= len(few) <= 1000 + len(levels.blocks(problem))
    assert (np.abs(few[:, None] - wanted).max(axis=2).min(axis=1) < 1e-5).all()
    assert levels.error(problem) == SHORT_ERROR
    while not levels.last:
        levels.grow()
    assert levels.error(problem) == 0


@settings(max_examples=60)
@given(st.integers(1, 60), st.integers(1, 300), st.sampled_from([32, 64, 4096]), st.integers(0, 10**6))
def test_subsets_hold_the_samples_of_their_units(f: int, units: int, unit: int, seed: int) -> None:
    """Whatever the lengths of unit and block, and with a short last unit."""
    rng = np.random.default_rng(seed)
    n = max(f + 1, units * unit - int(rng.integers(unit)))
    problem = Problem(ArraySource(np.zeros((n, f), np.float32)), Whitening.identity(f), ThreadEngine(1))
    chosen = np.flatnonzero(rng.random(-(-n // unit)) < 0.4)
    if not len(chosen):
        chosen = np.arange(1)
    blocks = problem.subset(chosen, unit)
    wanted = np.concatenate([np.arange(u * unit, min((u + 1) * unit, n)) for u in chosen])
    np.testing.assert_array_equal(np.concatenate([np.arange(*r) for block in blocks for r in block]), wanted)
    assert max(problem.samples_in([block]) for block in blocks) <= pass_block_length(f)


def test_blocks_are_cut_unless_they_have_several_ranges() -> None:
    assert cut_block(((3, 13),), 4) == [((3, 7),), ((7, 11),), ((11, 13),)]
    several = ((0, 10), (20, 30))  # an engine may keep just these samples
    assert cut_block(several, 4) == [several]


@pytest.mark.parametrize("density", [None, Huber()], ids=["adaptive", "huber"])
def test_a_level_ends_where_no_step_can_be_seen_to_gain(density, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of rows, one pass each, would not be seen to gain on an early level's float32 either."""
    searches, sweeps = [], []
    search, done = solver.step_along, Progressive._level_done

    def watch(problem, state, direction):
        found = search(problem, state, direction)
        searches.append((state.levels.last, found))
        return found

    monkeypatch.setattr(solver, "step_along", watch)
    monkeypatch.setattr(solver, "sweep_rows", lambda *_: sweeps.append(1))
    monkeypatch.setattr(  # as where steps gain more than was promised: early levels go on
        Progressive,
        "_level_done",
        lambda self, problem, state, gain: state.levels.last and done(self, problem, state, gain),
    )
    monkeypatch.setattr("majorica.solvers.progressive.levels.SHORT_ERROR", 1e-3)
    watched = run(make_data("laplace", SHORT_FROM, 4, seed=0), density)
    assert (False, False) in searches
    assert not sweeps
    assert max(watched.rises()) <= 1e-12
    assert watched.state.stop is StopReason.FLOOR


@pytest.mark.parametrize("noise", [0.05, 0.1])
@pytest.mark.parametrize("n", [20_000, 60_000])
@pytest.mark.parametrize("seed", range(3))
def test_sources_whose_samples_resemble_their_neighbours_are_separated(n: int, noise: float, seed: int) -> None:
    """Like blinks, with faint noise: levels of few long stretches were fitted to the few events that these held."""
    rng = np.random.default_rng(seed)
    S, bump = np.zeros((n, 5)), np.hanning(80)
    for j in range(5):
        for start in rng.integers(0, n - 100, 3 * n // 1000):
            S[start : start + 80, j] += bump * rng.uniform(0.5, 1.5)
    S = S / S.std(axis=0) + noise * rng.normal(size=S.shape)
    A = rng.normal(size=(5, 5))
    ica = ICA(random_state=seed).fit(S @ A.T)
    assert ica.converged_
    assert amari_distance(ica.components_, A * S.std(axis=0)) < 0.05
