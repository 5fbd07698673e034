"""Chosen majorizers move as the plain kernels say, and nothing beside the chosen pairs is touched."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from majorica.kernels import moves, reference
from majorica.kernels.codes import CodeTable
from makers import ALL_DENSITIES, densities_of

P, OWN, B = 5, 3, 60


@nb.njit
def append(chosen, changes, begin, count, scale, own, factors, to):
    moves.append_pairs(chosen, changes, begin, count, scale, own, factors, to)


def plain(Y, new, old, chosen, densities):
    """What offset, moments and tilts change by in the plain kernels, for samples that are 1, with weights of 1."""
    sums = np.zeros((P, 1, 1)), np.zeros((P, 1)), np.zeros(P)
    Z = np.ones((len(Y), 1))
    reference.update_moments(Z, new, old, chosen, densities, np.ones(P), *sums)
    return sums


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("memory", ["float32", "codes"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
@pytest.mark.parametrize("name", ALL_DENSITIES)
def test_pairs_move_where_they_lie(name: str, count: int, memory: str, dtype: type) -> None:
    rng = np.random.default_rng(count)
    densities, n = densities_of(name, P), 1000
    kinds, flat = densities.super_gaussian, densities.flat_weights
    Y = (2 * rng.laplace(size=(B, P))).astype(dtype)
    old = (2 * rng.laplace(size=(B, P))).astype(np.float32)
    Y[:4] = old[:4]  # those stay
    table = CodeTable.of(n)
    touch, packed = old.copy(), np.empty((0, 0), np.uint8)
    new = Y.astype(np.float32)
    if memory == "codes":
        packed, touch = table.encode(old.astype(np.float64), kinds), np.empty((0, 0), np.float32)
        old, new = table.decode(packed, kinds), table.decode(table.encode(Y.astype(np.float64), kinds), kinds)
    old, new = old.astype(np.float64), new.astype(np.float64)
    own, changes = np.full(B + 8, 7, np.uint32), np.full(B + 8, 7.0)
    room = B + 2
    rows = np.full(P * room, 2**31, np.uint32)  # nothing lies there
    picked = np.sort(rng.choice(B, count, replace=False))
    rows[OWN * room : OWN * room + count] = picked
    ends = np.arange(P, dtype=np.uintp) * room
    ends[OWN] += count
    begins, falls = np.full((2, P + 1), 4), np.full((2, P), 7.0)
    before = touch.copy(), packed.copy()
    moves.move_part(
        1, P, room, 11, ends, rows, Y.ravel(), densities.codes, densities.shapes, flat, touch.reshape(-1),
        packed.reshape(-1), table.levels, table.edges, *moves.room_for_pairs(1, B), begins, own, changes, falls,
    )  # fmt: skip
    np.testing.assert_array_equal(begins[1], [4] * (OWN + 1) + [4 + count] * (P - OWN))
    assert (begins[0] == 4).all()
    assert (falls[0] == 7).all()
    assert (np.delete(falls[1], OWN) == 0).all()
    mask = np.zeros((B, P), bool)
    mask[picked, OWN] = True
    gap = reference.gaps(Y.astype(np.float64), new, old, densities)
    moved = mask & (gap > 0)
    moments, tilts, offsets = plain(Y.astype(np.float64), new, old, moved, densities)
    assert falls[1, OWN] == pytest.approx(offsets[OWN], abs=1e-9)
    expected = tilts[OWN, 0] if flat[OWN] > 0 else moments[OWN, 0, 0]
    assert changes[4 : 4 + count].sum() == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(own[4 : 4 + count], picked + 11)
    for array, there in ((own, slice(4, 4 + count)), (changes, slice(4, 4 + count))):
        assert (np.delete(array, np.r_[there]) == 7).all()
    after, held = (table.decode(packed, kinds), table.decode(before[1], kinds)) if packed.size else (touch, before[0])
    clear = np.abs(gap) > 1e-9  # whether the others moved is rounding
    np.testing.assert_array_equal(after[moved & clear], new[moved & clear])
    np.testing.assert_array_equal(after[~mask], held[~mask])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 30])
def test_pairs_go_behind_others(count: int, dtype: type) -> None:
    rng = np.random.default_rng(count)
    chosen, changes = rng.integers(0, 99, 50).astype(np.uint32), rng.normal(size=50)
    own, factors = np.full(50, 7, np.uint32), np.full(50, 7, dtype)
    append(chosen, changes, 3, count, 0.3, own, factors, 5)
    np.testing.assert_array_equal(own[5 : 5 + count], chosen[3 : 3 + count])
    np.testing.assert_allclose(factors[5 : 5 + count], 0.3 * changes[3 : 3 + count], rtol=1e-6)
    for array in (own, factors):
        assert (np.delete(array, np.s_[5 : 5 + count]) == 7).all()
