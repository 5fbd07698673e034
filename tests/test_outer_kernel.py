"""Sums of weighted squares where the samples lie: what NumPy gives, from the diagonal on, and nothing else touched."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.outer import OUTER, add_outer, add_samples, make_readable, product_size
from majorica.kernels.rows import LANES
from majorica.kernels.scratch import LINE

SIZES = [*range(1, 20), *range(23, 27), 31, 32, 33, 40, 41, 47, 48, 49, 55, 57, 63, 64, OUTER, 131, 200, 509]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [0, 1, 50])
@pytest.mark.parametrize(
    "k", [*range(1, 20), 23, 24, 25, 26, 31, 32, 33, 40, 41, 47, 48, 49, 55, 57, 63, 64, OUTER, 131, 200, 509]
)
def test_sums_of_weighted_squares(k: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    Z = make_readable(60, k, np.dtype(dtype))
    Z[:] = rng.normal(size=(60, k))
    chosen = np.sort(rng.choice(60, m, replace=False)).astype(np.uint32)
    factors = rng.normal(size=m).astype(dtype)
    sums = rng.normal(size=(k, k))
    sums += sums.T.copy()
    size = product_size(k, Z.itemsize)
    product = np.full(size + 8, 7, dtype)
    expected = sums + np.einsum("s,si,sj->ij", factors, Z[chosen], Z[chosen], dtype=np.float64)
    before = sums.copy()
    add_outer(Z.reshape(Z.size), 0, chosen, factors, m, k, sums.reshape(k * k), 0, product[:size], 0, 0)
    squares = np.arange(k) // LANES
    left, on = squares[:, None] > squares, squares[:, None] == squares
    np.testing.assert_allclose(sums[~left], expected[~left], atol=1e-12 if dtype is np.float64 else 2e-4)
    np.testing.assert_array_equal(sums[left], before[left])
    np.testing.assert_array_equal(sums[on], sums.T[on])
    assert (product[size:] == 7).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [0, 1, 50])
@pytest.mark.parametrize("k", [1, 4, 7, 8, 9, 16, 17, 32, 33, 100])
def test_sums_of_weighted_samples(k: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(1)
    Z = make_readable(60, k, np.dtype(dtype))
    Z[:] = rng.normal(size=(60, k))
    chosen = np.sort(rng.choice(60, m, replace=False)).astype(np.uint32)
    for precision, atol in ((np.float64, 1e-12), (dtype, 1e-12 if dtype is np.float64 else 1e-4)):
        factors, sums = rng.normal(size=m).astype(precision), rng.normal(size=k + 9)
        before, coming = sums.copy(), Z.ctypes.data
        add_samples(Z.reshape(Z.size), 0, chosen, factors, m, k, sums, 0, coming, coming + Z.nbytes)
        np.testing.assert_allclose(sums[:k], before[:k] + factors @ Z[chosen].astype(np.float64), atol=atol)
        np.testing.assert_array_equal(sums[k:], before[k:])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1000, 3), (7, 10)])
def test_samples_begin_with_a_cache_line(shape: tuple[int, int], dtype: type) -> None:
    Z = make_readable(*shape, np.dtype(dtype))
    assert Z.shape == shape
    assert Z.dtype == dtype
    assert Z.flags.c_contiguous
    assert Z.ctypes.data % LINE == 0
