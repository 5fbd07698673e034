"""Take blinks out of EEG
======================

A minute of simulated EEG with eye blinks, average-referenced. The recording is
fitted as it is (rank 31 of 32 channels is found by itself), the result becomes
an MNE object, MNE finds the blink component and removes it.

Needs ``pip install 'majorica[mne,plot]'``.
Run it: ``python examples/eeg_blinks.py [figure.png]``
"""

import sys
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import mne
import numpy as np

from majorica.errors import RankWarning
from majorica.interop.mne import fit_raw, to_mne

mne.set_log_level("ERROR")


def simulate(seconds=60, sfreq=200.0, seed=0):
    """32-channel EEG in volts: background sources, an alpha rhythm, blinks; and the same without blinks."""
    rng = np.random.default_rng(seed)
    montage = mne.channels.make_standard_montage("biosemi32")
    info = mne.create_info(montage.ch_names, sfreq, "eeg").set_montage(montage)
    place = np.array([channel["loc"][:3] for channel in info["chs"]])
    place /= np.linalg.norm(place, axis=1, keepdims=True)
    n, p = int(seconds * sfreq), len(place)
    centres = rng.normal(size=(p, 3))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    maps = np.exp(4 * (place @ centres.T - 1))
    background = rng.laplace(size=(p, n)) * (1 + np.abs(np.sin(np.arange(n) / 700 + rng.uniform(0, 6, (p, 1)))))
    alpha = np.sin(2 * np.pi * 10.3 * np.arange(n) / sfreq) * np.abs(np.sin(np.arange(n) / 900))
    clean = 4e-6 * maps @ background + 1.5e-5 * np.outer(np.exp(3 * (place @ [0, -1, 0.2] - 1)), alpha)
    blinks = np.zeros(n)
    blinks[rng.integers(100, n - 100, 20)] = 1
    blinks = np.convolve(blinks, np.hanning(int(0.35 * sfreq)), "same")
    eyes = 1.5e-4 * np.exp(6 * (place @ [0, 0.95, -0.1] - 1))
    make = [mne.io.RawArray(data, info) for data in (clean + np.outer(eyes, blinks), clean)]
    return [raw.filter(1.0, 45.0).set_eeg_reference("average") for raw in make]


def main(path="eeg_blinks.png"):
    raw, truth = simulate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        ica = fit_raw(raw, random_state=0)
    print(f"{ica.n_components_} components of {ica.n_features_in_} channels: {ica.stop_reason_}")

    found = to_mne(ica, raw.info)
    blinks, _ = found.find_bads_eog(raw, ch_name="Fp1", measure="correlation", threshold=0.6)
    found.exclude = [int(i) for i in blinks]
    cleaned = found.apply(raw.copy())
    before, after = (np.std(inst.get_data() - truth.get_data()) for inst in (raw, cleaned))
    print(f"blink component {found.exclude}; error against the truth {1e6 * before:.1f} -> {1e6 * after:.1f} uV")

    figure = plt.figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.add_gridspec(1, 2, width_ratios=[1, 2.6])
    axis = figure.add_subplot(left)
    mne.viz.plot_topomap(ica.mixing_[:, found.exclude[0]], raw.info, axes=axis, show=False)
    axis.set_title(f"component {found.exclude[0]}", fontsize=11)
    axis = figure.add_subplot(right)
    span = slice(2000, 4000)
    time = raw.times[span]
    axis.plot(time, 1e6 * raw.get_data(picks="Fp1")[0, span], color="#8a97a3", lw=0.8, label="Fp1 as recorded")
    axis.plot(time, 1e6 * cleaned.get_data(picks="Fp1")[0, span], color="#0f766e", lw=0.8, label="without blinks")
    axis.set(xlabel="seconds", ylabel="microvolts")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="upper right")
    figure.savefig(path, dpi=120)
    return before, after


if __name__ == "__main__":
    main(*sys.argv[1:])
