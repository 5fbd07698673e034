"""Scores and sums of one component in registers: what the densities say, whatever the row's length."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.densities import Huber, LogCosh, Student
from majorica.densities.base import PIECEWISE
from majorica.densities.piecewise import KNOTS, Piecewise
from majorica.densities.table import Densities
from majorica.kernels.scores import loss_row, statistics_row


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 7, 8, 16, 37, 300])
def test_scores_and_sums(m: int, dtype: type) -> None:
    rng = np.random.default_rng(m)
    y = np.concatenate([(2 * rng.laplace(size=m)).astype(dtype), np.full(16, np.nan, dtype)])[:m]  # none is read
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    for density in (Huber(), Piecewise((2.5, 0.9, 0.5, 0.3, 0.1)), Piecewise((0.2, 0.4, 1.5, 4.0, 8.0))):
        densities = Densities([density])
        score, ramps, reaches = np.full(m + 3, 7, dtype), np.zeros(4), np.zeros(4)
        got = statistics_row(y, score[:m], densities.codes[0], densities.shapes[0], ramps, reaches)
        exact = y.astype(np.float64)
        second = density.curvature(exact)
        wanted = [density.loss(exact).sum(), second.sum(), (exact**2).sum(), (second * exact**2).sum()]
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(score[:m], density.score(exact), rtol=tolerance, atol=tolerance)
        assert (score[m:] == 7).all()
        if densities.codes[0] == PIECEWISE:
            beyond = np.maximum(np.abs(exact) - np.array(KNOTS)[:, None], 0)
            np.testing.assert_allclose(ramps, 0.5 * (beyond**2).sum(axis=1), rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(reaches, beyond.sum(axis=1), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 12, 17])
def test_bad_numbers_show_in_the_loss(bad: float, at: int) -> None:
    y = np.zeros(18)
    y[at] = bad
    for density in (Huber(), Piecewise((2.5, 0.9, 0.5, 0.3, 0.1))):
        densities = Densities([density])
        got = statistics_row(y, np.empty(18), densities.codes[0], densities.shapes[0], np.zeros(4), np.zeros(4))
        assert not np.isfinite(got[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 8, 37, 300])
def test_losses_alone(m: int, dtype: type) -> None:
    """As with scores, and what shapes are fitted from."""
    y = (2 * np.random.default_rng(m).laplace(size=m)).astype(dtype)
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    for density in (Huber(), LogCosh(), Student(), Piecewise((2.5, 0.9, 0.5, 0.3, 0.1)), Piecewise((-2, 1, 4, 4, 8))):
        densities = Densities([density])
        ramps, wanted_ramps, room = np.zeros(4), np.zeros(4), np.empty(m, dtype)
        formula = (densities.codes[0], densities.shapes[0])
        wanted = statistics_row(y, room, *formula, wanted_ramps, np.zeros(4))
        got = loss_row(y, room, *formula, ramps)
        np.testing.assert_allclose(got, (wanted[0], wanted[2]), rtol=tolerance, atol=tolerance * m)
        np.testing.assert_allclose(ramps, wanted_ramps, rtol=tolerance)
        for bad in (np.nan, np.inf):
            y[m // 2], before = bad, y[m // 2]
            assert not np.isfinite(loss_row(y, room, *formula, ramps)[0])
            y[m // 2] = before
