"""Recordings most of whose variance is drift: slower than a second, as before a high-pass filter."""

from __future__ import annotations

import numpy as np

from majorica.errors import DriftWarning, warn
from majorica.sources.base import Source
from majorica.sources.units import MICROVOLTS, unit_of
from majorica.statistics import F64

#: Stretches of the recording that are looked at, and how long they are, in seconds.
_STRETCHES, _SECONDS = 16, 1.0
#: Share of the variance from which on drifts are worth a word: 0.3 in EEG as amplifiers give it, 0.1 after a filter.
_MOST = 0.5
#: Samples a second that electrodes and magnetometers have; what is slower measures something slow.
_LEAST_RATE = 50.0


def warn_drifting(source: Source, covariance: F64) -> None:
    """Say that half the channels of a recording vary between seconds rather than within them.

    Stretches are read here and there, from recordings alone. What varies
    within them, against what the channel varies in all, is left of it by a filter.
    """
    rate = getattr(source, "sfreq", None)
    if rate is None or rate < _LEAST_RATE or unit_of(source) not in MICROVOLTS:
        return
    length = round(_SECONDS * rate)
    if source.n_samples < _STRETCHES * length:
        return
    starts = np.linspace(0, source.n_samples - length, _STRETCHES).astype(int).tolist()
    within = np.mean([source.read(start, start + length).var(axis=0, dtype=np.float64) for start in starts], axis=0)
    in_all = np.diag(covariance)
    share = float(np.median(1 - within[in_all > 0] / in_all[in_all > 0]))
    if share > _MOST:
        warn(
            f"{share:.0%} of the variance of the recording's channels is slower than a second (drifts), which "
            "components will be spent on; high-pass filter it first, e.g. raw.filter(1.0, None) of MNE",
            DriftWarning,
        )
