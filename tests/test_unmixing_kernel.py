"""Samples times a matrix in registers: what NumPy gives, whatever the numbers of samples and components."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.unmixing import unmix_samples

over_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def unmix(X: np.ndarray, B: np.ndarray, before: int = 0) -> np.ndarray:
    """``X B``; of the room for it what lies before and behind must stay as it is."""
    (m, k), p = X.shape, B.shape[1]
    Y = np.full(before + m * p + 3, 7, X.dtype)
    unmix_samples(X.reshape(X.size), 0, m, k, B.reshape(B.size), p, Y, before)
    assert (Y[:before] == 7).all()
    assert (Y[before + m * p :] == 7).all()
    return Y[before : before + m * p].reshape(m, p)


@over_dtypes
@pytest.mark.parametrize("m", [1, 5, 6, 13, 31])
@pytest.mark.parametrize("p", [1, 2, 7, 8, 9, 16, 17, 33, 49, 71, 100, 130])
def test_samples_are_unmixed(p: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(p)
    k = p + m % 3  # whitening takes channels to components
    X, B = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, p)).astype(dtype)
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(unmix(X, B, before=5), X.astype(float) @ B, rtol=tolerance, atol=tolerance)


@over_dtypes
def test_a_source_depends_on_its_own_sample_alone(dtype: type) -> None:
    """To the bit: mini-batches may be cut anywhere."""
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(40, 71)).astype(dtype), rng.normal(size=(71, 71)).astype(dtype)
    whole = unmix(X, B)
    for start, stop in [(0, 1), (3, 9), (10, 40), (39, 40)]:
        np.testing.assert_array_equal(unmix(X[start:stop].copy(), B), whole[start:stop])
