"""Recordings that were rounded to whole steps after channels had been made dependent.

An average reference leaves no variance in one direction, which the rank shows.
Written to a file of whole numbers (EDF, BDF, BrainVision) afterwards, each
channel is rounded on its own, and the direction has the variance of the
rounding: small, but far above dust. The data then has full rank, and one of
its components is rounding.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from majorica.errors import RankWarning
from majorica.sources.base import Source
from majorica.statistics import F64

#: Samples to find the steps in.
_LOOK = 2048
#: Steps that a channel's deviation must have for its rounding to be even noise, of a twelfth of a step squared.
_STEPS = 2.0
#: A direction is rounding if it has no more than this times the rounding's variance.
_MOST = 1.5
#: The smallest eigenvalue of the correlation matrix over its median from which on steps are not looked for.
_SMALL = 0.1


def warn_rounded(source: Source, covariance: F64, values: F64) -> None:
    """Say how many directions of a recording at full rank hold nothing but rounding.

    `values` are the eigenvalues of its correlation matrix, in descending
    order. Where none is small, and for what is no recording, nothing is read.
    """
    f = len(values)
    if getattr(source, "sfreq", None) is None or f < 3 or values[-1] > _SMALL * values[f // 2]:
        return
    start = max(0, (source.n_samples - _LOOK) // 2)
    X = source.read(start, min(start + _LOOK, source.n_samples))
    if not steps_of(X[:, :1])[0] > 0:
        return
    steps = steps_of(X)
    fine = np.sqrt(np.diag(covariance)) > _STEPS * steps
    if not (steps[fine] > 0).all() or fine.sum() < 3:
        return
    scaled = covariance[np.ix_(fine, fine)] / np.outer(steps[fine], steps[fine])
    spread = np.linalg.eigvalsh(scaled)
    n_rounding = int((spread < _MOST / 12).sum())
    if n_rounding:
        why = (
            "average reference before the file was written?" if n_rounding == 1 else "channels that follow from others?"
        )
        warnings.warn(
            f"{n_rounding} of {f} directions of the recording hold nothing but its rounding to whole steps ({why}), "
            f"and as many components will; pass n_components={f - n_rounding} to leave them out.",
            RankWarning,
            stacklevel=2,
        )


def steps_of(X: npt.NDArray[np.floating]) -> F64:
    """The step that each feature's values are whole multiples of, from an offset; 0 where there is none."""
    return np.array([_step(column) for column in np.asarray(X, dtype=np.float64).T]) if len(X) else np.zeros(X.shape[1])


def _step(values: F64) -> float:
    # Values of float32 are known to 1e-7: neighbours closer than that are one value.
    gaps = np.diff(np.sort(values))
    gaps = gaps[gaps > 1e-6 * np.abs(values).max()]
    if len(gaps) < 10:
        return 0.0
    least = float(gaps.min())
    small = gaps[gaps < 20.5 * least]
    step = float(small.sum() / np.round(small / least).sum())
    return step if np.abs(small / step - np.round(small / step)).max() < 0.1 else 0.0
