"""Small recordings for the tests: a few sources mixed into channels with positions."""

from __future__ import annotations

import mne
import numpy as np

SFREQ = 100.0
NAMES = ["Fp1", "Fp2", "C3", "C4", "Cz", "O1", "O2", "Pz"]


def mixture(n_channels, n_samples=3000, seed=0):
    """Laplace sources mixed, ``(n_channels, n_samples)``, unit scale."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_channels, n_channels)) @ rng.laplace(size=(n_channels, n_samples))


def make_eeg(n_samples=3000, extra=()):
    """EEG in volts with offsets; `extra` are types of further channels."""
    names = [*NAMES, *(f"{kind}{i}" for i, kind in enumerate(extra))]
    info = mne.create_info(names, SFREQ, ["eeg"] * len(NAMES) + list(extra))
    data = 1e-5 * mixture(len(names), n_samples) + 3e-5 * np.arange(len(names))[:, None]
    raw = mne.io.RawArray(data, info, verbose="ERROR")
    raw.set_montage("biosemi16", on_missing="ignore", verbose="ERROR")
    with raw.info._unlock():
        raw.info["highpass"] = 1.0
    return raw


def make_meeg(n_samples=3000):
    """Magnetometers, gradiometers and EEG, 1e8 apart in scale."""
    types = ["mag"] * 3 + ["grad"] * 4 + ["eeg"] * 5
    scale = np.array([{"mag": 1e-13, "grad": 3e-12, "eeg": 2e-5}[kind] for kind in types])
    info = mne.create_info([f"{kind}{i}" for i, kind in enumerate(types)], SFREQ, types)
    return mne.io.RawArray(scale[:, None] * mixture(len(types), n_samples), info, verbose="ERROR")
