"""Memory in codes of one byte: what a code stands for, and that coarse points cost tightness, never descent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from majorica import ICA
from majorica.densities import Piecewise
from majorica.densities.table import Densities
from majorica.kernels import rounding
from majorica.kernels.codes import SIGN, CodeTable
from majorica.solvers import Incremental, drive
from majorica.solvers.incremental import touching
from majorica.sources.base import split_blocks
from majorica.sources.sliced import SlicedSource
from makers import (
    ALL_DENSITIES,
    SUPER_GAUSSIAN,
    densities_of,
    empirical_loss,
    laplace,
    make_problem,
    memory_of,
    surrogate_loss,
    surrogate_moments,
    whiten,
)

KINDS = np.array([True, False])
sizes = st.floats(allow_nan=False) | st.floats(-100, 100)


@pytest.mark.parametrize("n", [1, 100, 10**5, 10**9])
def test_every_code_names_a_point_that_names_it(n: int) -> None:
    table = CodeTable.of(n)
    codes = np.arange(256, dtype=np.uint8)
    both = np.column_stack([codes, np.where(codes == SIGN, 0, codes)]).astype(np.uint8)  # there is one zero
    points = table.decode(both, KINDS)
    np.testing.assert_array_equal(table.encode(points, KINDS), both)
    assert (np.diff(points[:, 0]) > 0).all()
    assert points[0, 0] == points[0, 1] == 0  # fresh memory touches at 0
    np.testing.assert_array_equal(np.sort(points[:, 1]), -np.sort(points[:, 1])[::-1])
    assert points[-1, 0] == pytest.approx(100 * np.sqrt(n))


@given(st.lists(sizes, min_size=1, max_size=40))
def test_points_are_near_whatever_the_source(values: list[float]) -> None:
    """Infinities included; NaN never enters a memory, as its gap is not positive."""
    table = CodeTable.of(10**5)
    Y = np.column_stack([values, values])
    points = table.decode(table.encode(Y, KINDS), KINDS)
    largest = table.levels.max(axis=1).astype(float)
    clipped = np.clip(np.column_stack([np.abs(values), values]), [0, -largest[1]], largest)
    spacing = np.hypot(0.5, clipped) * [0.024, 0.041]
    assert (np.abs(points - clipped) <= spacing).all()


@pytest.mark.parametrize("name", SUPER_GAUSSIAN)
def test_weights_are_right_to_a_few_percent_over_their_whole_range(name: str) -> None:
    density, table = SUPER_GAUSSIAN[name], CodeTable.of(10**6)
    y = np.concatenate([[0.0], np.geomspace(1e-12, 1e5, 2000)])
    at = table.decode(table.encode(y, np.True_), np.True_)
    np.testing.assert_allclose(density.weight(at), density.weight(y), rtol=0.06)
    gap = density.gap(y, at)
    assert (gap <= 1e-3 * (1 + density.loss(y))).all()
    assert (gap >= -1e-9 * (1 + density.loss(y))).all()


@given(st.lists(sizes, min_size=1, max_size=40), st.lists(st.integers(0, 255), min_size=40, max_size=40))
def test_settled_sources_are_those_that_keep_their_code(values: list[float], codes: list[int]) -> None:
    table = CodeTable.of(3000)
    Y = np.column_stack([values, values])
    # The codes themselves, their neighbours, and any others.
    near = table.encode(Y, KINDS)
    old_codes = np.concatenate([near, near + (near % 128 < 127), np.tile(codes[: len(values)], (2, 1)).T.astype("u1")])
    old_codes[:, 1] = np.where(old_codes[:, 1] == SIGN, 0, old_codes[:, 1])
    Y, near = np.tile(Y, (3, 1)), np.tile(near, (3, 1))
    old = table.decode(old_codes, KINDS)
    with np.errstate(over="ignore"):
        nudged = [table.encode(Y * (1 + e), KINDS) == old_codes for e in (-1e-5, 1e-5)]
    sure = nudged[0] == nudged[1]  # not at an edge
    np.testing.assert_array_equal(table.settled(Y, old, KINDS)[sure], (near == old_codes)[sure])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [0, 1])
def test_compiled_rounding_equals_its_twin(kind: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    table, heavy = CodeTable.of(5000), np.array([kind == 0])
    y = np.concatenate([rng.laplace(size=3000) * 10 ** rng.uniform(-3, 4, 3000), [0, -0.0, 1e300, -1e30, np.inf]])
    with np.errstate(over="ignore"):
        y = y.astype(dtype)
    Y = y.astype(np.float64)[:, None]
    wanted = table.encode(Y, heavy)
    new, named = np.empty(len(y)), np.empty(len(y), np.int16)
    rounding.round_entries(Y[:, 0].copy(), np.full(len(y), -1.0), table.levels, table.edges, kind, new, named)
    np.testing.assert_array_equal(named, wanted[:, 0])
    np.testing.assert_array_equal(new, table.decode(wanted, heavy)[:, 0])
    memory = np.empty(len(y), np.float32)
    rounding.decode(wanted, np.array([float(kind)]), table.levels, memory)
    np.testing.assert_array_equal(memory, new)
    again = np.empty(len(y))
    rounding.round_entries(new, memory.astype(float), table.levels, table.edges, kind, again, named)
    np.testing.assert_array_equal(again, new)  # a point stays, and needs no code
    assert (named == -1).all()
    old, gap, cells = np.roll(memory, 1), np.ones(len(y), dtype), np.empty((3, len(y)), dtype)
    old[::3] = memory[::3]
    rounding.repeat_cells(table.cells, np.array([float(kind)]), cells)
    rounding.hide_settled(y, old, *cells, gap)
    same = (gap == 0) == table.settled(Y, old.astype(float)[:, None], heavy)[:, 0]
    assert same.all() if dtype is np.float64 else same.mean() > 0.999  # at an edge float32 may say either


def test_codes_of_several_components() -> None:
    rng = np.random.default_rng(1)
    table, flat = CodeTable.of(5000), np.array([0.0, 2.0, 3.0])
    packed = rng.integers(0, 256, (40, 3)).astype(np.uint8)
    wanted, cells = table.decode(packed, flat == 0), np.empty((3, 3 * 40))
    out = np.empty(120, np.float32)
    rounding.decode(packed, flat, table.levels, out)
    np.testing.assert_array_equal(out.reshape(40, 3), wanted)
    rows = table.cells[[0, 1, 1]] * [[1, 1, 1], [1, 1, -1], [1, 1, -1]]
    rounding.repeat_cells(table.cells, flat, cells)
    np.testing.assert_array_equal(cells, np.tile(rows, (40, 1)).T)


@pytest.mark.parametrize("name", [*ALL_DENSITIES, "mixed"])
def test_a_code_that_is_settled_gains_nothing_worth_having(name: str) -> None:
    """What the choice of entries overlooks is small next to what a step to the next point gains."""
    rng = np.random.default_rng(0)
    densities, table = densities_of(name, 6), CodeTable.of(10**5)
    Y = rng.laplace(size=(4000, 6)) * 2
    kinds = densities.super_gaussian
    at = table.decode(table.encode(Y, kinds), kinds)
    for i, density in enumerate(densities):
        assert density.gap(Y[:, i], at[:, i]).max() <= 2e-3 * (1 + Y[:, i].max() ** 2)


@pytest.mark.parametrize("density", ["huber", "logcosh", "adaptive"])
def test_codes_find_what_numbers_find(density: str) -> None:
    X, _ = laplace(20_000, 6)
    options = {"density": density, "random_state": 0, "whiten": "arbitrary-variance"}
    numbers, codes = (ICA(solver=name, **options).fit(X) for name in ("incremental", "incremental-codes"))
    assert codes.converged_
    assert codes.n_iter_ <= 1.3 * numbers.n_iter_
    assert codes.score(X) == pytest.approx(numbers.score(X), abs=2e-5)
    assert 0 <= codes.loss_ + codes.score(X) - np.linalg.slogdet(codes.whitening_)[1] < 1.5e-4 * 6
    assert (np.diff(codes.trace_["loss"]) <= 1e-12).all()


def sources_of_both_kinds(n: int = 6000, p: int = 4) -> np.ndarray:
    rng = np.random.default_rng(3)
    S = np.column_stack([rng.laplace(size=(n, p - 2)), rng.uniform(-1, 1, (n, 2))])
    return S @ rng.normal(size=(p, p))


def test_descent_through_changes_of_shape() -> None:
    """Shapes, families and the meaning of codes change on the way; the surrogate from its definition never rises."""
    X = sources_of_both_kinds()
    problem = make_problem(X)
    Z = whiten(X, problem.whitening)
    solver = Incremental(batch_size=500, tol=0, adaptive=True, memory="codes")
    start = Densities([Piecewise((1.2, 1.1, 1.0, 0.9, 0.8))] * 4)  # all super-Gaussian
    state = solver.init(problem, np.eye(4), start, np.random.default_rng(0))
    values, kinds = [], set()

    def look(step: object) -> None:
        at = memory_of(state, Z, 500)
        values.append(surrogate_loss(state.W, Z, at, state.densities))
        kinds.add(tuple(state.densities.super_gaussian.tolist()))
        assert state.loss == pytest.approx(values[-1], rel=1e-9)
        moments, tilts, _ = surrogate_moments(Z, at, state.densities)
        np.testing.assert_allclose(state.surrogate.tilts, tilts, rtol=1e-9, atol=1e-11)
        heavy = state.densities.super_gaussian
        np.testing.assert_allclose(state.surrogate.moments[heavy], moments[heavy], rtol=1e-9, atol=1e-11)

    drive(solver, problem, state, max_iter=25, callbacks=[look])
    assert len(kinds) > 1  # a component went from one family to the other
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:])).all()


def test_a_shape_that_gains_less_than_rounding_costs_is_left_alone() -> None:
    X, _ = laplace(3000, 3)
    problem = make_problem(X)
    Z = whiten(X, problem.whitening)
    now = Densities([Piecewise((2.0, 1.2, 0.7, 0.3, 0.2))] * 3)
    solver = Incremental(batch_size=500, memory="codes")
    state = solver.init(problem, np.eye(3), now, np.random.default_rng(0))
    assert touching.touch_again(solver, problem, state, np.array([1]), now).tolist() == [1]  # from 0 to the current row
    touch, surrogate = state.touch.copy(), state.surrogate
    # Exactly touching majorizers, which codes cannot name: going back to codes would raise the surrogate.
    state.surrogate.offsets[1] -= surrogate_loss(
        state.W, Z, memory_of(state, Z, 500)[:, 1:2] * [[1, 1, 1]], now
    ) - empirical_loss(state.W, Z, now)
    before = [part.copy() for part in (surrogate.moments, surrogate.tilts, surrogate.offsets)]
    assert not touching.touch_again(solver, problem, state, np.array([1]), now).size
    np.testing.assert_array_equal(state.touch, touch)
    for part, old in zip((surrogate.moments, surrogate.tilts, surrogate.offsets), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("memory", ["float32", "codes", "ledger"])
@pytest.mark.parametrize("backend", ["compiled", "reference"])
@pytest.mark.parametrize("sums", [0, 2**22], ids=["in groups", "at once"])
def test_majorizers_made_anew_are_those_of_the_memory(
    memory: str, backend: str, sums: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Components of both families, in several blocks: moments, tilts and offsets as the definition has them."""
    monkeypatch.setattr(touching, "MOST_SUMS", sums)
    p = 12
    X = sources_of_both_kinds(9000, p)
    problem = replace(make_problem(X), backend=backend, blocks=split_blocks(len(X), 4096))
    Z = whiten(X, problem.whitening)
    heavy, light = Piecewise((2.0, 1.2, 0.7, 0.3, 0.2)), Piecewise((0.5, 0.8, 1.0, 1.5, 2.0))
    now = Densities([light if i % 4 == 1 else heavy for i in range(p)])
    chosen = {"q": None} if memory == "ledger" else {"memory": memory}
    solver = Incremental(batch_size=500, **chosen)
    state = solver.init(problem, np.eye(p), now, np.random.default_rng(0))
    which = np.delete(np.arange(p), 3)
    assert touching.touch_again(solver, problem, state, which, now).tolist() == which.tolist()
    at = memory_of(state, Z, 500)
    assert not at[:, 3].any()
    coarse = {"rtol": 0.05, "atol": 0.03} if memory == "codes" else {"rtol": 1e-6}
    np.testing.assert_allclose(np.abs(at[:, which]), np.abs(Z[:, which]), **coarse)
    expected = surrogate_moments(Z, at, now)
    surrogate = state.surrogate
    for got, wanted in zip((surrogate.moments, surrogate.tilts, surrogate.offsets), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("solver", ["incremental", "incremental-codes"])
@pytest.mark.parametrize("p", [5, 12, 40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_containers_and_bursts_give_the_same_bits(dtype: type, p: int, solver: str) -> None:
    """Whether samples are whitened once or at each visit, and however many mini-batches a call makes."""
    X = laplace(7005, p)[0].astype(dtype)  # the last mini-batch is short
    options = {"solver": solver, "random_state": 0, "max_iter": 3, "tol": 0, "density": "huber"}
    whole = ICA(**options).fit(X)
    sliced = ICA(**options).fit(SlicedSource(X, layout="samples-first"))
    watched = ICA(**options, callbacks=lambda step: None).fit(X)
    for other in (sliced, watched):
        np.testing.assert_array_equal(other.components_, whole.components_)
        np.testing.assert_array_equal(other.trace_["loss"], whole.trace_["loss"])
