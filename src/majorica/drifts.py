"""Recordings most of whose variance is drift: slower than a second, as before a high-pass filter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from majorica.errors import DriftWarning, warn
from majorica.sources.base import Source
from majorica.sources.units import MICROVOLTS, unit_of
from majorica.statistics import F64

#: Stretches of the recording that are looked at, and how long they are, in seconds.
_STRETCHES, _SECONDS = 16, 1.0
#: Share of the variance from which on drifts are worth a word: 0.3 in EEG as amplifiers give it, 0.1 after a filter.
_MOST = 0.5
#: Share that they have of what the middle one of the stretches shows, lest a burst or a jump elsewhere pass for drift.
_TYPICAL = 1 / 3
#: The median of squares of normal numbers over their mean.
_MEDIAN = 0.455
#: Samples a second that electrodes and magnetometers have; what is slower measures something slow.
_LEAST_RATE = 50.0
#: Numbers that are read at once.
_READ = 2**18


def warn_drifting(source: Source, covariance: F64, varying: npt.NDArray[np.bool_]) -> None:
    """Say that half the channels of a recording vary between seconds rather than within them.

    Stretches are read here and there, from recordings alone. What channels (the
    `varying` ones) vary within them, against what they vary in all, is left of it by
    a filter. What is loud for a moment counts in all, but the stretches hardly meet it: they must differ too.
    """
    rate = getattr(source, "sfreq", None)
    if rate is None or not rate >= _LEAST_RATE or unit_of(source) not in MICROVOLTS:
        return
    length = round(_SECONDS * rate)
    if source.n_samples < _STRETCHES * length:
        return
    # Not at equal distances, whose multiple a period of the recording may be.
    places = (np.arange(_STRETCHES) + np.arange(_STRETCHES) * 0.618 % 1) / _STRETCHES
    starts = (places * (source.n_samples - length)).astype(int).tolist()
    looks = [_mean_and_variance(source, start, start + length) for start in starts]
    means, within = (np.array(found)[:, varying] for found in zip(*looks, strict=True))
    share = float(np.median(1 - within.mean(axis=0) / np.diag(covariance)[varying]))
    between = np.median((means - np.median(means, axis=0)) ** 2, axis=0) / _MEDIAN
    typical = float(np.median(between / np.maximum(between + np.median(within, axis=0), np.finfo(np.float64).tiny)))
    if share > _MOST and typical > _TYPICAL:
        warn(
            f"{share:.0%} of the variance of the recording's channels is slower than a second (drifts), which "
            "components will be spent on; high-pass filter it first, e.g. raw.filter(1.0, None) of MNE",
            DriftWarning,
        )


def _mean_and_variance(source: Source, start: int, stop: int) -> tuple[F64, F64]:
    """Of each channel, over samples `start` to `stop`, a few of which are read at a time."""
    step = max(1, _READ // source.n_features)
    origin, total, squares = np.zeros((3, source.n_features))
    for begin in range(start, stop, step):
        X = source.read(begin, min(begin + step, stop)).astype(np.float64)
        if begin == start:
            origin[:] = X[0]  # no journey of its own: of compressed recordings each takes as long as a pass
        X -= origin
        total += X.sum(axis=0)
        squares += np.einsum("ij,ij->j", X, X)
    mean = total / (stop - start)
    return origin + mean, squares / (stop - start) - mean**2
