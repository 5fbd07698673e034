"""Recordings that are mostly drift are named; filtered ones, slow ones and plain arrays are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

mne = pytest.importorskip("mne")

from majorica import ICA  # noqa: E402
from majorica.errors import DriftWarning  # noqa: E402
from majorica.interop.mne import fit_raw  # noqa: E402


def make_raw(*, rate=100.0, drift=0.0, kind="eeg"):
    """Five channels of a minute: sources, and random walks of `drift` times their deviation."""
    rng = np.random.default_rng(0)
    n = int(60 * rate)
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


def test_a_constant_channel_does_not_decide():
    raw = make_raw(drift=4.0)
    raw._data[:3] = 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ICA(random_state=0).fit(raw)
    assert any(issubclass(w.category, DriftWarning) for w in caught)


@pytest.mark.parametrize("drift", [0.0, 0.7])
def test_ordinary_recordings_are_not(drift):
    fit_quietly(make_raw(drift=drift))


def test_what_is_slow_by_nature_is_not():
    fit_quietly(make_raw(rate=10.0, drift=4.0))


def test_arrays_are_not():
    fit_quietly(make_raw(drift=4.0).get_data().T)
