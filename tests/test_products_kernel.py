"""Products in registers on a tile of samples: what NumPy gives, for any number of rows, samples and channels."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.products import (
    correlate,
    turn_samples,
    unmix_rows,
    whole_rows,
    whole_stride,
    whole_width,
)
from majorica.kernels.scratch import aligned

over_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SIZES = [1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33]
SAMPLES = [1, 7, 8, 31, 32, 64, 65, 130]


def room(rows: int, stride: int, dtype: type) -> np.ndarray:
    """Rows full of what must not matter."""
    found = aligned(rows * stride, np.dtype(dtype))
    found[:] = np.nan
    return found


@over_dtypes
@pytest.mark.parametrize("m", SAMPLES)
@pytest.mark.parametrize("f", SIZES)
def test_samples_turned_less_their_mean(f: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(0)
    item, before = np.dtype(dtype).itemsize, 3
    X = rng.normal(size=(before + m, f)).astype(dtype)  # ends with the last sample: nothing may be read beyond
    means = np.zeros(whole_rows(f, item), dtype)
    means[:f] = rng.normal(size=f)
    width, stride = whole_width(m, item), whole_stride(m, item)
    out = room(len(means), stride, dtype)
    turn_samples(X.reshape(X.size), before, m, f, means, out, stride, width)
    rows = out.reshape(len(means), stride)[:f, :width]
    np.testing.assert_array_equal(rows[:, :m], (X[before:] - means[:f]).T)
    assert (rows[:, m:] == 0).all()


@over_dtypes
@pytest.mark.parametrize("m", SAMPLES)
@pytest.mark.parametrize("p", SIZES)
def test_rows_unmixed_and_correlated(p: int, m: int, dtype: type) -> None:
    rng = np.random.default_rng(1)
    item, f, first = np.dtype(dtype).itemsize, p + 2, 64
    rows, width, stride = whole_rows(p, item), whole_width(m, item), whole_stride(m, item)
    T = rng.normal(size=(f, first + stride)).astype(dtype)
    B = np.full((rows, f), np.nan, dtype)
    B[:p] = rng.normal(size=(p, f))
    Y, score = room(rows, stride, dtype), room(rows, stride, dtype)
    unmix_rows(B.reshape(B.size), p, f, T.reshape(T.size), T.shape[1], first, Y, stride, width, Y, 0, Y.size)
    sources, scores = Y.reshape(rows, stride)[:p, :width], score.reshape(rows, stride)[:p, :width]
    tolerance = 1e-12 if dtype is np.float64 else 2e-4
    np.testing.assert_allclose(sources, B[:p] @ T[:, first : first + width], atol=tolerance)
    scores[:] = rng.normal(size=scores.shape)
    out = room(rows, rows, dtype)
    correlate(score, Y, p, stride, width, out, rows, Y, 0, Y.size)
    np.testing.assert_allclose(out.reshape(rows, rows)[:p, :p], scores @ sources.T, atol=10 * tolerance)
