"""Small EEGLAB datasets for the tests, in microvolts."""

from __future__ import annotations

import numpy as np
import scipy.io

RNG = np.random.default_rng(0)
X = 10 * RNG.laplace(size=(2000, 5)) @ RNG.standard_normal((5, 5)) + np.arange(5)
NAMES = ["Fz", "Cz", "Pz", "Oz", "T7"]


def write_set(folder, data, *, fdt=False, bare=False, **more):
    """A dataset as EEGLAB saves it, with a structure or, as newer versions do, with bare fields."""
    labels = np.zeros((1, len(NAMES)), dtype=[("labels", object), ("theta", object)])
    labels["labels"][0], labels["theta"][0] = NAMES, [np.array([[7.0 * j]]) for j in range(len(NAMES))]
    n = len(data)
    eeg = {
        "setname": "test", "nbchan": 5.0, "pnts": float(n), "trials": 1.0, "srate": 100.0, "xmin": 0.0, "xmax": n / 100,
        "data": data.T, "chanlocs": labels, "icaact": np.ones((2, 3)), "icaweights": np.zeros((0, 0)), "event": [],
        "icasphere": np.zeros((0, 0)), "icawinv": np.zeros((0, 0)), "icachansind": np.zeros((0, 0)), "epoch": [],
        "etc": {"ic_classification": {"ICLabel": 1.0}, "kept": 5.0}, **more,
    }  # fmt: skip
    path = folder / "x.set"
    if fdt:
        data.astype("<f4").tofile(folder / "x.fdt")
        eeg["data"] = eeg["datfile"] = "x.fdt"
    scipy.io.savemat(path, eeg if bare else {"EEG": eeg}, appendmat=False)
    return path
