"""Inverse, determinant and definiteness of small matrices: what LAPACK says."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.kernels.algebra import invert, is_positive, log_determinant


@pytest.mark.parametrize("p", [1, 2, 5, 32])
def test_inverse_and_determinant(p: int) -> None:
    rng = np.random.default_rng(p)
    W, out, room = rng.normal(size=(p, p)), np.empty((p, p)), np.empty((p, p))
    if p > 1:
        W[0, 0] = 0.0  # rows change places
    before = W.copy()
    assert invert(W, out, room)
    np.testing.assert_allclose(out, np.linalg.inv(W), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_determinant(W, room), np.linalg.slogdet(W)[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(W, before)


def test_singular_matrices() -> None:
    W, room = np.ones((3, 3)), np.empty((3, 3))
    assert not invert(W, np.empty((3, 3)), room)
    assert not invert(np.full((3, 3), np.nan), np.empty((3, 3)), room)
    assert log_determinant(W, room) == -np.inf


@pytest.mark.parametrize("p", [1, 2, 5, 32])
def test_definiteness(p: int) -> None:
    rng = np.random.default_rng(p)
    axes = np.linalg.qr(rng.normal(size=(p, p)))[0]
    for least, expected in ((1e-9, True), (-1e-9, False), (np.nan, False)):
        values = np.linspace(1, 2, p)
        values[-1] = least
        assert is_positive((axes * values) @ axes.T) == expected
