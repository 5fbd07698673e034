"""Recordings that are mostly drift are named; filtered ones, slow ones and plain arrays are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

mne = pytest.importorskip("mne")

from majorica import ICA  # noqa: E402
from majorica.drifts import warn_drifting  # noqa: E402
from majorica.errors import DriftWarning  # noqa: E402
from majorica.interop.mne import fit_raw  # noqa: E402


def make_raw(*, rate=100.0, drift=0.0, kind="eeg", seconds=60):
    """Five channels of so many seconds: sources, and random walks of `drift` times their deviation."""
    rng = np.random.default_rng(0)
    n = int(seconds * rate)
    sources = rng.laplace(size=(5, n))
    walks = np.cumsum(rng.normal(size=(5, n)), axis=1)
    data = rng.normal(size=(5, 5)) @ (sources + drift * walks / walks.std(axis=1, keepdims=True))
    return mne.io.RawArray(1e-5 * data, mne.create_info(5, rate, kind), verbose="ERROR")


def fit_quietly(X):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ICA(random_state=0).fit(X)


def test_a_recording_that_is_mostly_drift_is_named():
    raw = make_raw(drift=4.0)
    with pytest.warns(DriftWarning, match=r"\d\d% of the variance .* slower than a second .*high-pass filter it first"):
        ICA(random_state=0).fit(raw)
    with pytest.warns(DriftWarning):
        fit_raw(raw, random_state=0)
    fit_quietly(raw.filter(1.0, None, verbose="ERROR"))


@pytest.mark.parametrize("value", [0.0, 0.12345])
def test_a_constant_channel_does_not_decide(value):
    raw = make_raw(drift=4.0)
    raw._data[:3] = value
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ICA(random_state=0).fit(raw)
    assert any(issubclass(w.category, DriftWarning) for w in caught)


@pytest.mark.parametrize("drift", [0.0, 0.7])
def test_ordinary_recordings_are_not(drift):
    fit_quietly(make_raw(drift=drift))


@pytest.mark.parametrize("begin", range(0, 5000, 500))
def test_what_is_loud_for_a_moment_is_not(begin):
    raw = make_raw()
    raw._data[:, begin : begin + 270] *= 20
    fit_quietly(raw)
    raw = make_raw()
    raw._data[:, begin : begin + 270] += 1e-3
    fit_quietly(raw)


def test_a_drift_of_regular_waves_is_found_whatever_their_period():
    time = np.arange(12_000) / 100
    for period in (119 / 15, 2 * 119 / 15, 5.0, 10.0, 20.0):
        raw = make_raw(seconds=120)
        raw._data += 1e-4 * np.sin(2 * np.pi * time / period)
        with pytest.warns(DriftWarning):
            ICA(random_state=0).fit(raw)


def test_no_more_is_read_at_once_than_in_a_block():
    class Fast:
        n_samples, n_features, dtype, in_memory, feature_names = 40_000, 300, np.dtype(np.float64), False, None
        sfreq, unit = 2_000.0, "V"

        def __init__(self):
            self.longest = 0

        def read(self, start, stop):
            self.longest = max(self.longest, stop - start)
            return np.random.default_rng(start).laplace(size=(stop - start, 300))

    source = Fast()
    warn_drifting(source, np.eye(300), np.ones(300, bool))
    assert source.longest * source.n_features <= 2**18


def test_what_is_slow_by_nature_is_not():
    fit_quietly(make_raw(rate=10.0, drift=4.0))


def test_arrays_are_not():
    fit_quietly(make_raw(drift=4.0).get_data().T)
