"""Few components: samples side by side choose and move what the plain kernels choose and move."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels import few, reference
from majorica.kernels.outer import make_readable
from majorica.kernels.scratch import aligned
from makers import densities_of

ALIGNED = np.dtype(np.float64)


def run(name: str, Z: np.ndarray, W: np.ndarray, touch: np.ndarray, q: int, *, begin: int = 0):
    """Moments, tilts and offsets of one part, and nothing scaled; changes `touch` from sample `begin` on."""
    (m, p), densities = Z.shape, densities_of(name, len(W))
    flat, params = densities.flat_weights, np.empty(p * few.PARAMS)
    few.few_params(densities.codes, densities.shapes, flat, params)
    rows = aligned(2 * p * few.BLOCK, ALIGNED)
    falls, sums = np.full((1, p), 7.0), np.full((1, p, few.SUMS), 7.0)  # what was there before does not count
    few.move_few(
        Z.reshape(-1), 0, m, p, int(densities.codes[0]), W.reshape(-1), params, flat, q, touch.reshape(-1), begin * p,
        rows, falls.reshape(-1), 0, sums.reshape(-1), 0,
    )  # fmt: skip
    moments, tilts, offsets = np.zeros(p**3), np.zeros(p * p), np.zeros(p)
    for i in range(p):
        few.add_few(i, p, flat[i], 1.0, falls, sums, moments, tilts, offsets)
    return moments.reshape(p, p, p), tilts.reshape(p, p), offsets


@pytest.mark.parametrize("name", ["huber", "piecewise-super", "piecewise-sub"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("p", "q"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3)])
@pytest.mark.parametrize("m", [1, 7, 8, 9, few.BLOCK, few.BLOCK + 5])
def test_few_components_equal_the_plain_kernels(name: str, dtype: type, p: int, q: int, m: int) -> None:
    rng = np.random.default_rng([m, p])
    Z = make_readable(m, p, np.dtype(dtype))
    Z[:], W = rng.laplace(size=(m, p)), np.eye(p) + 0.4 * rng.normal(size=(p, p))
    touch = (2 * rng.laplace(size=(m + 9, p))).astype(np.float32)
    before, samples = touch.copy(), Z.astype(np.float64)
    Y = samples @ W.T
    touch[4 : 4 + m // 2] = before[4 : 4 + m // 2] = Y[: m // 2]  # some have nothing to gain
    found = run(name, Z, W, touch, q, begin=4)

    densities, old = densities_of(name, p), before[4 : 4 + m].astype(np.float64)
    new = Y.astype(np.float32).astype(np.float64)
    gap = reference.gaps(Y, new, old, densities)
    chosen = reference.select_largest(gap, q) & (gap > 0)
    wanted = np.zeros((p, p, p)), np.zeros((p, p)), np.zeros(p)
    reference.update_moments(samples, new, old, chosen, densities, np.ones(p), *wanted)
    for got, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(touch[:4], before[:4])
    np.testing.assert_array_equal(touch[4 + m :], before[4 + m :])
    moved = touch[4 : 4 + m] != before[4 : 4 + m]
    np.testing.assert_array_equal(touch[4 : 4 + m][moved], new[moved].astype(np.float32))
    assert (moved == (chosen & (new != old))).mean() > 0.99  # gaps of rounding size may fall on either side
    assert moved.sum(axis=1).max() <= q


def test_moments_stay_symmetric_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    Z = make_readable(333, 4, ALIGNED)
    Z[:] = rng.laplace(size=Z.shape)
    moments, _, _ = run("huber", Z, np.eye(4), rng.laplace(size=(333, 4)).astype(np.float32), 2)
    np.testing.assert_array_equal(moments, moments.transpose(0, 2, 1))


def test_bad_numbers_choose_nothing() -> None:
    """A source that is no number moves no majorizer and reaches no other component's moments."""
    Z = make_readable(20, 3, ALIGNED)
    Z[:] = np.random.default_rng(0).laplace(size=Z.shape)
    touch = np.ones((20, 3), np.float32)
    W = np.diag([np.nan, 1.0, 1.0])
    moments, _, _ = run("huber", Z, W, touch, 2)
    assert (touch[:, 0] == 1).all()
    assert not moments[0].any()
    assert np.isfinite(moments).all()
