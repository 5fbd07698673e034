"""Sums of weighted squares of samples in panels: what NumPy gives, from the diagonal on."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.panels import PIECE, fill_panels, fold, fold_packed, in_panels, panel_width, sum_squares
from majorica.kernels.rows import LANES
from majorica.kernels.scratch import aligned

#: Last panels of every width, with whole last vectors and others.
SIZES = [1, 3, 4, 7, 8, 11, 12, 13, 17, 23, 24, 25, 28, 31, 32, 33, 36, 37, 40, 41, 47, 48, 49, 53, 60, 72, 100, 131]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 50, PIECE, 2 * PIECE + 3])
@pytest.mark.parametrize("k", SIZES)
def test_sums_of_weighted_squares(k: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng([k, m])
    item, many = np.dtype(dtype).itemsize, m + 5
    numbers = rng.normal(size=many * k).astype(dtype)
    Z = numbers.reshape(many, k)[3 : 3 + m]
    factors = rng.normal(size=m).astype(dtype)
    width, beyond = in_panels(k, item), 8
    panels, product = np.full(m * width + beyond, 7, dtype), np.full(width * width + beyond, 7, dtype)
    weighted = aligned(PIECE * panel_width(item), np.dtype(dtype))
    fill_panels(numbers, 3 * k, m, k, panels[:-beyond])
    sum_squares(panels[:-beyond], m, k, factors, weighted, product[:-beyond])
    expected = np.einsum("s,si,sj->ij", factors, Z, Z, dtype=np.float64)
    close = {"rtol": 0, "atol": 1e-12 * m if dtype is np.float64 else 3e-6 * m}
    upper = np.triu_indices(k)
    np.testing.assert_allclose(product[:-beyond].reshape(width, width)[upper], expected[upper], **close)
    assert (panels[-beyond:] == 7).all()
    assert (product[-beyond:] == 7).all()

    packed = np.ones(k * (k + 1) // 2)
    fold_packed(product[:-beyond], k, packed)
    np.testing.assert_allclose(packed - 1, expected[upper], **close)

    sums = rng.normal(size=(2, k, k))
    sums += sums.transpose(0, 2, 1).copy()
    before = sums.copy()
    fold(product[:-beyond], k, 0.75, sums.reshape(-1), k * k)
    squares = np.arange(k) // LANES
    left, on = squares[:, None] > squares, squares[:, None] == squares
    np.testing.assert_allclose(sums[1][~left], (0.75 * before[1] + expected)[~left], **close)
    np.testing.assert_array_equal(sums[0], before[0])
    np.testing.assert_array_equal(sums[1][left], before[1][left])
    np.testing.assert_array_equal(sums[1][on], sums[1].T[on])
