"""Sums in one fixed tree: the streaming sum equals the tree added level by level, whatever runs are added elsewhere."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.engines.base import TreeSum
from majorica.engines.placement import _part_numbers
from majorica.engines.worker import HeldSamples, Ranges, add_results, cut, gather_ranges, merge_ranges, overlap
from majorica.errors import DataError


def level_by_level(values: list[np.ndarray], fan: int) -> np.ndarray:
    while len(values) > 1:
        values = [add_results(values[i : i + fan]) for i in range(0, len(values), fan)]
    return values[0]


@settings(max_examples=100)
@given(count=st.integers(1, 300), fan=st.integers(2, 9), seed=st.integers(0, 1000), level=st.integers(0, 2))
def test_tree_does_not_depend_on_where_runs_are_added(count: int, fan: int, seed: int, level: int) -> None:
    values = list(np.random.default_rng(seed).normal(size=(count, 3)) * 10.0 ** (seed % 7))
    expected = level_by_level(copy.deepcopy(values), fan)
    whole: TreeSum[np.ndarray] = TreeSum(fan)
    for value in copy.deepcopy(values):
        whole.add(value)
    np.testing.assert_array_equal(whole.sum(), expected)
    run = fan**level  # added by workers, each run in a tree of its own
    parts = []
    for i in range(0, count, run):
        tree: TreeSum[np.ndarray] = TreeSum(fan)
        for value in copy.deepcopy(values[i : i + run]):
            tree.add(value)
        parts.append(tree.sum())
    np.testing.assert_array_equal(level_by_level(parts, fan), expected)


def test_adding_leaves_the_results_as_they_are() -> None:
    results = [np.ones(3), np.ones(3)]
    add_results(results)
    np.testing.assert_array_equal(results[0], np.ones(3))


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


def test_ranges() -> None:
    assert merge_ranges([((5, 7), (9, 12)), ((0, 5),)]) == [(0, 7), (9, 12)]
    assert overlap([(0, 7), (9, 12)], [(3, 10), (11, 20)]) == [(3, 7), (9, 10), (11, 12)]
    with pytest.raises(DataError, match="promised 5"):
        HeldSamples([(0, 5)], np.zeros((4, 2)))
