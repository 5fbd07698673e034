"""Sums of weighted squares of few components, all at once: what NumPy gives, from the diagonal on."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.pairs import FEW_PAIRS, TOGETHER, add_pairs, add_triangle, between, beyond, fold_triangle
from majorica.kernels.products import whole_stride, whole_width
from majorica.kernels.rows import LANES
from majorica.kernels.scratch import aligned


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 50, 1000])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 24, FEW_PAIRS])
@pytest.mark.parametrize("p", [0, 1, 4, 5, 6, 7, 8, 9, 12])
def test_sums_of_weighted_squares(p: int, k: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng([p, k, m])
    item = np.dtype(dtype).itemsize
    stride, width = int(whole_stride(m, item)), int(whole_width(m, item))
    U = aligned(int(beyond(p)) * stride, np.dtype(dtype), zero=True)
    Z = aligned(int(beyond(k)) * stride, np.dtype(dtype), zero=True)
    weights, samples = U.reshape(-1, stride)[:p, :m], Z.reshape(-1, stride)[:k, :m]
    weights[:], samples[:] = rng.random((p, m)), rng.normal(size=(k, m))
    U.reshape(-1, stride)[p:] = Z.reshape(-1, stride)[k:] = 7  # without meaning
    U.reshape(-1, stride)[p:, m:] = 0
    sums, guard = np.zeros(int(beyond(p)) * int(between(k)) + 8, dtype), slice(-8, None)
    sums[guard] = 7
    for _ in range(2):  # adds to what is there
        add_pairs(U, p, Z, k, stride, width, sums[:-8])
    expected = 2 * np.einsum("it,at,bt->iab", weights, samples, samples, dtype=np.float64)
    close = {"rtol": 0, "atol": 1e-12 * m if dtype is np.float64 else 3e-6 * m}
    upper = np.triu_indices(k)
    assert (sums[guard] == 7).all()
    for i in range(p):
        packed = np.ones(len(upper[0]))
        add_triangle(sums, i, k, packed)
        np.testing.assert_allclose(packed - 1, expected[i][upper], **close)

        moments = rng.normal(size=(2, k, k))
        moments += moments.transpose(0, 2, 1).copy()
        before = moments.copy()
        fold_triangle(sums, i, k, 0.75, 0.5, moments.reshape(-1), k * k)
        squares = np.arange(k) // LANES
        left, on = squares[:, None] > squares, squares[:, None] == squares
        np.testing.assert_allclose(moments[1][~left], (0.75 * before[1] + 0.5 * expected[i])[~left], **close)
        np.testing.assert_array_equal(moments[0], before[0])
        np.testing.assert_array_equal(moments[1][left], before[1][left])
        np.testing.assert_array_equal(moments[1][on], moments[1].T[on])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 3, 9, 16, 23, FEW_PAIRS])
def test_sums_do_not_depend_on_those_beside_them(k: int, dtype: type) -> None:
    """Threads that share the components of a mini-batch take as many as they happen to get."""
    rng, m, item = np.random.default_rng(k), 1024, np.dtype(dtype).itemsize
    stride, width, apart = int(whole_stride(m, item)), int(whole_width(m, item)), int(between(k))
    U = aligned(int(beyond(TOGETHER)) * stride, np.dtype(dtype), zero=True)
    Z = aligned(int(beyond(k)) * stride, np.dtype(dtype), zero=True)
    U.reshape(-1, stride)[:TOGETHER, :m] = rng.random((TOGETHER, m))
    Z.reshape(-1, stride)[:k, :m] = rng.normal(size=(k, m))
    found = {}
    for first, last in [(0, TOGETHER), (0, 1), (0, 5), (3, 10), (11, 12)]:
        sums = np.zeros(int(beyond(TOGETHER)) * apart, dtype)
        add_pairs(U[first * stride :], last - first, Z, k, stride, width, sums)
        for i in range(first, last):
            packed = np.zeros(k * (k + 1) // 2, dtype)
            add_triangle(sums, i - first, k, packed)
            assert packed.tobytes() == found.setdefault(i, packed.tobytes()), (i, first, last)
