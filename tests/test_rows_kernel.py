"""Products of the M-step in registers: what NumPy gives, whatever the rows' length, and nothing else touched."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from majorica.kernels import rows, sweep
from majorica.kernels.rows import LANES, LATE, add_rows, apply_symmetric, mirror, padded


@nb.njit
def combine(out, to, alpha, x, at, beta, y, first, k):
    rows.combine(out, to, alpha, x, at, beta, y, first, k)


@nb.njit
def dot(x, at, y, first, k):
    return rows.dot(x, at, y, first, k)


@nb.njit
def set_out(work, z, Az, residual, direction, c, w, first, t, k):
    return rows.set_out(work, z, Az, residual, direction, c, w, first, t, k)


@nb.njit
def advance(work, z, Az, residual, direction, Ad, step, k):
    return rows.advance(work, z, Az, residual, direction, Ad, step, k)


SIZES = [*range(1, 20), 24, 31, 32, 33, 40, 63, 64, 71, 100]


@pytest.mark.parametrize("k", SIZES)
def test_symmetric_matrix_times_vector(k: int) -> None:
    rng = np.random.default_rng(k)
    A, v = rng.normal(size=(k, k)), rng.normal(size=k)
    A += A.T.copy()
    expected = A @ v
    squares = np.arange(k) // LANES
    A[squares[:, None] > squares] = np.nan  # never read
    out = np.full(padded(k) + 3, np.nan)
    out[padded(k) :] = 7
    apply_symmetric(A.reshape(k * k), 0, k, v, 0, out, 0)
    np.testing.assert_allclose(out[:k], expected, atol=1e-12)
    assert (out[padded(k) :] == 7).all()


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 17])
@pytest.mark.parametrize("k", SIZES)
def test_sum_of_rows(k: int, count: int) -> None:
    rng = np.random.default_rng([k, count])
    A, factors, out = rng.normal(size=(count + 1, k + 2)), rng.normal(size=3 * count + 2), rng.normal(size=k + 9)
    before = out.copy()
    add_rows(A.reshape(A.size), 1, k + 2, count, factors, 1, 3, k, out, 4)
    expected = factors[1::3][:count] @ A[:count, 1 : k + 1]
    np.testing.assert_allclose(out[4 : k + 4] - before[4 : k + 4], expected, atol=1e-12)
    np.testing.assert_array_equal(np.delete(out, np.s_[4 : k + 4]), np.delete(before, np.s_[4 : k + 4]))


@pytest.mark.parametrize("k", SIZES)
def test_rows_combined_and_multiplied(k: int) -> None:
    rng = np.random.default_rng(k)
    x, y, out = rng.normal(size=(3, k + 9))
    before = out.copy()
    combine(out, 4, 0.3, x, 1, -2.0, y, 5, k)
    np.testing.assert_allclose(out[4 : k + 4], 0.3 * x[1 : k + 1] - 2 * y[5 : k + 5], atol=1e-14)
    np.testing.assert_array_equal(np.delete(out, np.s_[4 : k + 4]), np.delete(before, np.s_[4 : k + 4]))
    assert dot(x, 1, y, 5, k) == pytest.approx(x[1 : k + 1] @ y[5 : k + 5], abs=1e-12)


@pytest.mark.parametrize("k", SIZES)
def test_conjugate_gradient_sets_out_and_advances(k: int) -> None:
    """Rows of one array, a stride apart that leaves numbers between them which stay as they were."""
    rng = np.random.default_rng(k)
    work, w, stride = rng.normal(size=(6, k + 3)), rng.normal(size=k + 2), k + 3
    flat, places = work.reshape(work.size), [stride * row for row in range(6)]
    before = work.copy()
    Aw, c = before[1, :k], before[4, :k]
    square = set_out(flat, *places[:5], w, 2, 0.7, k)
    np.testing.assert_allclose(work[0, :k], 0.7 * w[2:], atol=1e-14)
    np.testing.assert_allclose(work[1, :k], 0.7 * Aw, atol=1e-14)
    np.testing.assert_allclose(work[2:4, :k], [c - 0.7 * Aw] * 2, atol=1e-14)
    assert square == pytest.approx(((c - 0.7 * Aw) ** 2).sum())
    z, Az, residual, direction, _, Ad = work[:, :k].copy()
    square = advance(flat, *places[:4], places[5], -0.4, k)
    np.testing.assert_allclose(work[0, :k], z - 0.4 * direction, atol=1e-14)
    np.testing.assert_allclose(work[1, :k], Az - 0.4 * Ad, atol=1e-14)
    np.testing.assert_allclose(work[2, :k], residual + 0.4 * Ad, atol=1e-14)
    np.testing.assert_array_equal(work[3, :k], direction)
    assert square == pytest.approx(((residual + 0.4 * Ad) ** 2).sum())
    np.testing.assert_array_equal(work[4:], before[4:])
    np.testing.assert_array_equal(work[:, k:], before[:, k:])


@pytest.mark.parametrize("late", [0, 1, 5, LATE])
@pytest.mark.parametrize("k", SIZES)
def test_inverse_is_renewed_by_several_rows_at_once(k: int, late: int) -> None:
    """As one row after the other would, each with the inverse as the rows before have left it."""
    rng = np.random.default_rng([k, late])
    before = rng.normal(size=(k, k))
    columns, steps = 0.3 * rng.normal(size=(2, LATE, k))
    size = padded(k)
    work = np.full((sweep.STEPS + LATE) * size + LATE * (LATE + 1), 1e300)  # of rows that are not late: ignored
    shares = work[(sweep.STEPS + LATE) * size :]
    expected = before.copy()
    for r in range(late):
        work[(sweep.COLUMNS + r) * size :][:k] = columns[r]
        work[(sweep.STEPS + r) * size :][:k] = steps[r]
        shares[r * LATE : r * LATE + r] = columns[:r] @ steps[r]
        expected += np.outer(columns[r], steps[r] @ expected)
    inverse = np.full(k * k + 16, 7.0)
    inverse[: k * k] = before.ravel()
    assert sweep.catch_up(inverse, k, work, late) == 0
    np.testing.assert_allclose(inverse[: k * k].reshape(k, k), expected, atol=1e-10, rtol=1e-10)
    assert (inverse[k * k :] == 7).all()


@pytest.mark.parametrize("k", [1, 3, 4, 7, 8, 9, 16, 17, 31, 40])
def test_a_mirrored_matrix_is_symmetric(k: int) -> None:
    A = np.random.default_rng(k).normal(size=(k, k))
    squares = np.arange(k) // LANES
    left = squares[:, None] > squares
    expected = np.where(left, A.T, A)
    mirror(A)
    np.testing.assert_array_equal(A, expected)
