"""Sums in one fixed tree: the streaming sum equals the tree added level by level, whatever runs are added elsewhere."""

from __future__ import annotations

import copy
import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.engines.base import TreeSum
from majorica.engines.placement import _part_numbers, share_out
from majorica.engines.worker import (
    HeldSamples,
    Parts,
    Ranges,
    add_trees,
    cut,
    gather_ranges,
    gather_rows,
    merge_ranges,
    overlap,
)
from majorica.errors import DataError


def level_by_level(values: list[np.ndarray], fan: int) -> np.ndarray:
    """The definition: runs of `fan` neighbours added in order, then runs of these sums."""
    while len(values) > 1:
        values = [functools.reduce(np.add, values[i : i + fan]) for i in range(0, len(values), fan)]
    return values[0]


def make_values(count: int, seed: int) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).normal(size=(count, 3)) * 10.0 ** (seed % 7))


@settings(max_examples=100)
@given(count=st.integers(1, 300), fan=st.integers(2, 9), seed=st.integers(0, 1000), level=st.integers(0, 2))
def test_tree_does_not_depend_on_where_runs_are_added(count: int, fan: int, seed: int, level: int) -> None:
    values = make_values(count, seed)
    expected = level_by_level(values, fan)
    whole: TreeSum[np.ndarray] = TreeSum(fan)
    for value in copy.deepcopy(values):
        whole.add(value)
    np.testing.assert_array_equal(whole.sum(), expected)
    run = fan**level  # added elsewhere, each run in a tree of its own
    runs: TreeSum[np.ndarray] = TreeSum(fan)
    for i in range(0, count, run):
        tree: TreeSum[np.ndarray] = TreeSum(fan)
        for value in copy.deepcopy(values[i : i + run]):
            tree.add(value)
        runs.add(tree.sum(), level)
    np.testing.assert_array_equal(runs.sum(), expected)


@settings(max_examples=200)
@given(
    count=st.integers(1, 300),
    fan=st.integers(2, 9),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 299), max_size=12),
    together=st.integers(2, 4),
)
def test_tree_does_not_depend_on_where_it_is_cut(
    count: int, fan: int, seed: int, cuts: list[int], together: int
) -> None:
    """Stretches of any lengths, then several of them at a time; twice, as a retry must find them whole."""
    values = make_values(count, seed)
    expected = level_by_level(values, fan)
    bounds = sorted({0, count, *(cut for cut in cuts if cut < count)})
    trees = []
    for first, end in itertools.pairwise(bounds):
        tree: TreeSum[np.ndarray] = TreeSum(fan, first)
        for value in copy.deepcopy(values[first:end]):
            tree.add(value)
        trees.append(tree)
    for _ in range(2):
        fewer = [add_trees(trees[i : i + together]) for i in range(0, len(trees), together)]
        np.testing.assert_array_equal(add_trees(fewer).sum(), expected)
        np.testing.assert_array_equal(add_trees(trees).sum(), expected)


def test_a_tree_with_blocks_missing_has_no_sum() -> None:
    early, late = TreeSum[np.ndarray](8, 0), TreeSum[np.ndarray](8, 3)
    early.add(np.ones(3))
    late.add(np.ones(3))
    with pytest.raises(ValueError, match="before block 3"):
        late.sum()
    with pytest.raises(ValueError, match="blocks 1 to 3"):
        early.extend(late)


def test_adding_leaves_the_trees_as_they_are() -> None:
    trees = [TreeSum[np.ndarray](8, first) for first in (0, 1)]
    for tree in trees:
        tree.add(np.ones(3))
    for _ in range(2):
        np.testing.assert_array_equal(add_trees(trees).sum(), 2 * np.ones(3))


@settings(max_examples=100)
@given(leaves=st.integers(1, 500), threads=st.lists(st.integers(1, 9), min_size=1, max_size=9), per=st.integers(1, 4))
def test_every_thread_gets_an_equal_share(leaves: int, threads: list[int], per: int) -> None:
    runs = share_out([1] * leaves, {f"worker {i}": count for i, count in enumerate(threads)}, per)
    assert [run.first for run in runs] == [0, *(run.end for run in runs[:-1])]
    assert runs[-1].end == leaves
    lengths = [run.end - run.first for run in runs]
    assert max(lengths) - min(lengths) <= 1
    for i, count in enumerate(threads):
        mine = sum(run.end - run.first for run in runs if run.home == f"worker {i}")
        assert abs(mine - leaves * count / sum(threads)) < 1


@settings(max_examples=100)
@given(sizes=st.lists(st.integers(1, 50), min_size=1, max_size=60), workers=st.integers(1, 5), per=st.integers(1, 3))
def test_shares_of_unequal_leaves_miss_a_fair_one_by_less_than_a_leaf(sizes: list[int], workers: int, per: int) -> None:
    runs = share_out(sizes, {f"worker {i}": 1 for i in range(workers)}, per)
    assert [run.first for run in runs] == [0, *(run.end for run in runs[:-1])]
    assert runs[-1].end == len(sizes)
    assert all(run.first < run.end for run in runs)
    fair = sum(sizes) / (workers * per)
    assert all(sum(sizes[run.first : run.end]) <= fair + max(sizes) for run in runs)


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_any_ranges_are_cut_from_any_chunks(seed: int, lengths: list[int]) -> None:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    edges = np.unique(rng.integers(0, n + 1, size=8))
    wanted = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    if not wanted:
        return
    X = rng.normal(size=(n, 2))
    bounds = np.cumsum([0, *lengths]).tolist()
    numbers = _part_numbers(bounds, wanted)
    assert all(bounds[k] < bounds[k + 1] for k in numbers)
    parts = [HeldSamples([(bounds[k], bounds[k + 1])], X[bounds[k] : bounds[k + 1]]) for k in numbers]
    found = gather_ranges([cut(part, Ranges(wanted)) for part in parts], Ranges(wanted))
    for start, stop in wanted:
        np.testing.assert_array_equal(found.read(start, stop), X[start:stop])
    rows = np.concatenate([X[start:stop] for start, stop in wanted])
    np.testing.assert_array_equal(gather_rows(parts, Ranges(wanted), 7).read(7, 7 + len(rows)), rows)
    shuffled = [wanted[i] for i in rng.permutation(len(wanted))]
    rows = np.concatenate([X[start:stop] for start, stop in shuffled])
    np.testing.assert_array_equal(Parts(parts).read_ranges(tuple(shuffled)), rows)


def test_ranges() -> None:
    assert merge_ranges([((5, 7), (9, 12)), ((0, 5),)]) == [(0, 7), (9, 12)]
    assert overlap([(0, 7), (9, 12)], [(3, 10), (11, 20)]) == [(3, 7), (9, 10), (11, 12)]
    with pytest.raises(DataError, match="promised 5"):
        HeldSamples([(0, 5)], np.zeros((4, 2)))
