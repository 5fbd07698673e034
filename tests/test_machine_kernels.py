"""BLAS's product in place, and sums of squares made with it: what NumPy gives, and not a number beside it touched."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from majorica.kernels.machine import gemm_of, multiply
from majorica.kernels.strips import STRIP, add_strips

over_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@nb.njit
def product(gemm, numbers, left, right, length, inner, rows, columns, sums, to, width, room):
    return multiply(gemm, numbers, left, right, length, inner, rows, columns, sums, to, width, room)


@over_dtypes
@pytest.mark.parametrize("inner", [0, 1, 50])
def test_products_in_place_or_beside(inner: int, dtype: type) -> None:
    """Part of each row only, into part of a wider matrix; other precisions go to their own room."""
    rng = np.random.default_rng(0)
    length, rows, columns, width = 9, 3, 5, 11
    numbers = rng.normal(size=2 * 50 * length).astype(dtype)
    L = numbers[: 50 * length].reshape(50, length)[:inner, 2 : 2 + rows]
    R = numbers[50 * length :].reshape(50, length)[:inner, 4 : 4 + columns]
    sums, room = rng.normal(size=4 * width), np.ones(rows * columns, dtype)
    before = sums.copy()
    places = (2, 50 * length + 4, length, inner, rows, columns)
    added = product(gemm_of(dtype), numbers, *places, sums, width + 2, width, room)
    wanted, tolerance = L.T @ R, 1e-12 if dtype is np.float64 else 1e-4
    assert added == (dtype is np.float64)
    if added:
        before[width:].reshape(3, width)[:, 2 : 2 + columns] += wanted
        np.testing.assert_array_equal(room, 1)
    else:
        np.testing.assert_allclose(room.reshape(rows, columns), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(sums, before, rtol=tolerance, atol=tolerance)


@over_dtypes
@pytest.mark.parametrize("m", [0, 1, 50])
@pytest.mark.parametrize("k", [1, 7, STRIP, STRIP + 1, 70, 130])
def test_sums_of_weighted_squares_in_strips(k: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(k)
    Z, weights = rng.normal(size=(61, k)).astype(dtype), rng.normal(size=m).astype(dtype)
    chosen = np.sort(rng.choice(60, m, replace=False)).astype(np.uint32)
    sums = rng.normal(size=(2, k, k))
    sums += sums.transpose(0, 2, 1).copy()
    before, samples, room = sums.copy(), np.empty(2 * 50 * k, dtype), np.empty(STRIP * k, dtype)
    add_strips(gemm_of(dtype), Z.reshape(-1), k, chosen, weights, m, k, sums.reshape(-1), k * k, samples, room)
    expected = before[1] + np.einsum("s,si,sj->ij", weights, Z[1:][chosen], Z[1:][chosen], dtype=np.float64)
    squares = np.arange(k) // STRIP
    left, on = squares[:, None] > squares, squares[:, None] == squares
    np.testing.assert_allclose(sums[1][~left], expected[~left], atol=1e-12 if dtype is np.float64 else 2e-4)
    np.testing.assert_array_equal(sums[1][left], before[1][left])
    np.testing.assert_array_equal(sums[1][on], sums[1].T[on])
    np.testing.assert_array_equal(sums[0], before[0])
