"""Rows moved in vectors and BLAS's product in place: what NumPy gives, and not a number beside it touched."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from majorica.kernels.machine import add_row, gemm_of, multiply, take_row

over_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 32, 33]


@nb.njit
def take(source, at, factor, out, to, k):
    take_row(source, at, source.dtype.type(factor), out, to, k)


@nb.njit
def add(source, at, factor, out, to, k):
    add_row(source, at, factor, out, to, k)


@nb.njit
def product(gemm, sign, numbers, left, right, length, inner, rows, columns, sums, to, width, keep, room):
    kind = numbers.dtype.type
    return multiply(
        gemm, kind(sign), numbers, left, right, length, inner, rows, columns, sums, to, width, kind(keep), room
    )


@over_dtypes
@pytest.mark.parametrize("k", WIDTHS)
def test_rows_taken(k: int, dtype: type) -> None:
    source = np.random.default_rng(0).normal(size=60).astype(dtype)
    out = np.full(60, 7, dtype)
    take(source, 5, 1.5, out, 9, k)
    wanted = np.full(60, 7, dtype)
    wanted[9 : 9 + k] = dtype(1.5) * source[5 : 5 + k]
    np.testing.assert_array_equal(out, wanted)


@over_dtypes
@pytest.mark.parametrize("k", WIDTHS)
def test_rows_added_in_float64(k: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    source, out = rng.normal(size=60).astype(dtype), rng.normal(size=60)
    wanted = out.copy()
    wanted[9 : 9 + k] += 0.3 * source[5 : 5 + k].astype(np.float64)
    add(source, 5, 0.3, out, 9, k)
    np.testing.assert_allclose(out, wanted, rtol=1e-15, atol=1e-16)
    beside = np.delete(np.arange(60), np.arange(9, 9 + k))
    np.testing.assert_array_equal(out[beside], wanted[beside])


@over_dtypes
@pytest.mark.parametrize("inner", [0, 1, 50])
def test_products_in_place_or_beside(inner: int, dtype: type) -> None:
    """Part of each row only, into part of a wider matrix; other precisions go to their own room and may be added up."""
    rng = np.random.default_rng(0)
    length, rows, columns, width = 9, 3, 5, 11
    numbers = rng.normal(size=2 * 50 * length).astype(dtype)
    L = numbers[: 50 * length].reshape(50, length)[:inner, 2 : 2 + rows]
    R = numbers[50 * length :].reshape(50, length)[:inner, 4 : 4 + columns]
    sums, room = rng.normal(size=4 * width), np.ones(rows * columns, dtype)
    before = sums.copy()
    places = (2, 50 * length + 4, length, inner, rows, columns)
    added = [product(gemm_of(dtype), -1.0, numbers, *places, sums, width + 2, width, keep, room) for keep in (0.0, 1.0)]
    wanted, tolerance = -2 * L.T @ R, 1e-12 if dtype is np.float64 else 1e-4
    if dtype is np.float64:
        assert added == [True, True]
        before[width:].reshape(3, width)[:, 2 : 2 + columns] += wanted
        np.testing.assert_array_equal(room, 1)
    else:
        assert added == [False, False]
        np.testing.assert_allclose(room.reshape(rows, columns), wanted, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(sums, before, rtol=tolerance, atol=tolerance)
