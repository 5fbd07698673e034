"""Samples go to the buckets of their chosen components, in order, whether few components look or each sample does."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from majorica.kernels.buckets import BEHIND, FEW, fill_buckets
from majorica.kernels.ranks import name_bits
from majorica.kernels.tiles import has


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("q", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("p", [4, 10, 16, 17, 40])
def test_buckets_hold_the_chosen(kind: type, q: int, m: int, p: int) -> None:
    rng = np.random.default_rng([q, m, p])
    names, room = int(name_bits(p)), m + BEHIND
    components = np.array([rng.permutation(p)[:q] for _ in range(m)]).T
    chosen = rng.random((q, m)) < 0.7
    ranks = np.where(chosen, (rng.integers(1, 1000, (q, m)) * (names + 1)) | (names - components), names).astype(kind)
    ends = (room * np.arange(p) + 2).astype(np.uintp)
    rows = np.full(p * room + 2, 7, np.uint32)
    fill_buckets(ranks.reshape(-1), m, q, p, names, 100, ends, rows)
    for i in range(p):
        expected = 100 + np.flatnonzero((chosen & (components == i)).any(axis=0))
        np.testing.assert_array_equal(rows[room * i + 2 : int(ends[i])], expected)
    assert (rows[:2] == 7).all()


@pytest.mark.parametrize("kind", [np.int64, np.int32])
@pytest.mark.parametrize("m", [16, 33])
@pytest.mark.parametrize("p", [2, FEW + 1])
def test_full_buckets_stay_in_their_room(kind: type, m: int, p: int) -> None:
    """What is written behind a bucket ends where the next one begins, or the array does."""
    names, room = int(name_bits(p)), m + BEHIND
    ranks = np.full(m, (names + 1) | (names - (p - 1)), kind)  # all choose the last component
    ends, rows = (room * np.arange(p)).astype(np.uintp), np.full(p * room + 16, 7, np.uint32)
    fill_buckets(ranks, m, 1, p, names, 0, ends, rows)
    np.testing.assert_array_equal(rows[room * (p - 1) :][:m], np.arange(m))
    assert (rows[p * room :] == 7).all()


def test_no_instruction_that_the_target_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba may be told to compile for another processor than this one."""
    assert not has("no such feature")
    monkeypatch.setattr(numba.config, "CPU_NAME", "generic")
    assert not has()
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "ENABLE_AVX", 0)
    assert not has()
