"""The figures in a report against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from pages import channels

from majorica import ICA, Report
from majorica.report.layout import HeadMap, to_disc
from majorica.report.measure import EDGES, measure, unit_variance_unmixing
from majorica.report.svg import Chart, path_data, thin, tick_label, ticks
from majorica.sources import as_source


@pytest.fixture(scope="module", params=["unit-variance", "arbitrary-variance"])
def case(request):
    X = channels(4, 20_000)
    ica = ICA(random_state=0, whiten=request.param).fit(X)
    return ica, X, measure(ica, as_source(X), sfreq=100.0)


def sources(ica, X):
    W, mean, _ = unit_variance_unmixing(ica)
    return (X - mean) @ W.T


def test_statistics(case):
    ica, X, measures = case
    S = sources(ica, X)
    np.testing.assert_allclose(S.std(axis=0), 1.0, rtol=1e-6)
    np.testing.assert_allclose(measures.kurtosis, scipy.stats.kurtosis(S, axis=0), rtol=1e-6)
    np.testing.assert_allclose(measures.largest, np.abs(S).max(axis=0))
    for i in range(4):
        np.testing.assert_allclose(measures.histogram[i], np.histogram(S[:, i], EDGES)[0] / len(S) / np.diff(EDGES)[0])


def test_explained_variance(case):
    ica, X, measures = case
    S = sources(ica, X)
    W, _, _ = unit_variance_unmixing(ica)
    mixing = np.linalg.inv(W)
    parts = [np.var(np.outer(S[:, i], mixing[:, i]), axis=0).sum() for i in range(4)]
    np.testing.assert_allclose(measures.explained, np.array(parts) / X.var(axis=0).sum(), rtol=1e-6)


@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance"])
@pytest.mark.parametrize("k", [None, 5, 2])
def test_all_components_together(k, whiten):
    """Sources that stay correlated share variance: alone they have more or less than all of it, together just that."""
    rng = np.random.default_rng(1)
    S = rng.laplace(size=(4000, 6)) * np.exp(0.5 * rng.normal(size=(4000, 1)))
    X = S @ rng.normal(size=(6, 6)) * 10.0 ** np.arange(6)
    ica = ICA(k, random_state=0, whiten=whiten).fit(X)
    measures = measure(ica, as_source(X))
    rebuilt = ica.inverse_transform(ica.transform(X))
    expected = 1 - ((X - rebuilt) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert measures.explained_together == pytest.approx(expected, abs=1e-9)
    if k is None:
        assert measures.explained_together == pytest.approx(1.0, abs=1e-12)
        assert abs(measures.explained.sum() - 1) > 1e-4
        assert "<dd>100 %" in Report(ica, X).html
    else:
        assert measures.explained_together < 1


def test_spectrum_is_welch(case):
    ica, X, _measures = case
    S = sources(ica, X)[:8192]
    one = measure(ica, as_source(X[:8192]), sfreq=100.0)
    expected = scipy.signal.welch(S[:, 1], 100.0, window=np.hanning(512), noverlap=256)[1]
    np.testing.assert_allclose(one.spectrum[1][1:-1], expected[1:-1], rtol=1e-10)


def test_model_density_is_the_one_of_the_loss(case):
    """Densities are normalised, and give the published loss back."""
    ica, X, measures = case
    S = sources(ica, X)
    grid = np.linspace(-60, 60, 200_001)
    for i in range(4):
        assert np.trapezoid(measures.model_density(i, grid), grid) == pytest.approx(1.0, abs=1e-4)
    loss = sum(-np.log(measures.model_density(i, S[:, i])).mean() for i in range(4))
    loss += np.log(measures.model_scale).sum() - np.linalg.slogdet(ica._fitted.W)[1]
    assert loss == pytest.approx(ica.loss_, abs=1e-8)


def test_head_map_goes_through_its_sensors():
    rng = np.random.default_rng(0)
    positions = to_disc(rng.uniform(-1, 1, (20, 2)))
    values = 2 * positions[:, 0] - positions[:, 1] + 0.5
    image = HeadMap(positions, size=64)(values)
    row, column = 20, 40
    x, y = (column + 0.5) / 64 * 2 - 1, 1 - (row + 0.5) / 64 * 2
    assert image[row, column] == pytest.approx(2 * x - y + 0.5, abs=1e-6), "a plane is reproduced"
    assert np.isnan(image[0, 0])


def test_points_in_space_are_unrolled_nose_up():
    sphere = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [-1, 0, 0], [0, -1, 0], [0.6, 0, 0.8]]) * 0.09 + [
        0.0,
        0.01,
        0.04,
    ]
    flat = to_disc(sphere)
    np.testing.assert_allclose(flat[0], 0, atol=1e-9)
    assert flat[1, 1] > 0.9
    assert flat[2, 0] > 0.9
    assert np.hypot(*flat.T).max() <= 1


def test_thinning_keeps_peaks():
    values = np.zeros(10_000)
    values[4321], values[777] = 9.0, -7.0
    x, y = thin(values, 100)
    assert len(x) <= 200
    assert 9.0 in y
    assert -7.0 in y
    assert (np.diff(x) > 0).all()


def test_ticks():
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert ticks(3.0, 3.0) == [3.0]
    assert [tick_label(v, (0, 1), 4) for v in ticks(0, 1, 4)] == ["0.00", "0.25", "0.50", "0.75", "1.00"]
    assert path_data([0, 1, 1], [0, 2, 2]) == "M0 0l1 2"
    assert "nan" not in Chart((0, 0), (0, 0), "empty").render()
