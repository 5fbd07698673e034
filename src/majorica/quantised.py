"""Recordings that were rounded to whole steps after channels had been made dependent.

An average reference leaves no variance in one direction, which the rank shows.
Written to a file of whole numbers (EDF, BDF, BrainVision) afterwards, each
channel is rounded on its own, and the direction has the variance of the
rounding: small, but far above dust. The data then has full rank, and one of
its components is rounding.

Channels that were whole numbers before and are so again, but for their common
reference, are all rounded alike (recorded at 1 µV, averaged, written at
0.1 µV): their mean has the variance of one channel's rounding, and the
direction that of as many as there are channels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from majorica.errors import RankWarning, warn
from majorica.sources.base import Source
from majorica.statistics import F64

#: Samples to find the steps in.
_LOOK = 2048
#: Steps that a channel's deviation must have for its rounding to be even noise, of a twelfth of a step squared.
_STEPS = 2.0
#: A direction is rounding if it has no more than this times the rounding's variance.
_MOST = 1.5
#: The least gap between a channel's values may be that many steps, if the next ones tell.
_PARTS = 20
#: Digits that values of float32 and float64 are known to, as a share of the largest.
_SINGLE, _DOUBLE = 1e-6, 1e-12
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
    if not n_rounding:
        squares = steps[fine] @ steps[fine]
        mean = covariance[np.ix_(fine, fine)].sum() / squares  # variance along the mean, the weakest of all directions?
        n_rounding = int(mean < _MOST * min(spread[0], steps[fine].sum() ** 2 / squares / 12))
    if n_rounding:
        why = (
            "average reference before the file was written?" if n_rounding == 1 else "channels that follow from others?"
        )
        warn(
            f"{n_rounding} of {f} directions of the recording hold nothing but its rounding to whole steps ({why}), "
            f"and as many components will; pass n_components={f - n_rounding} to leave them out.",
            RankWarning,
        )


def steps_of(X: npt.NDArray[np.floating]) -> F64:
    """The step that each feature's values are whole multiples of, from an offset; 0 where there is none."""
    return np.array([_step(column) for column in np.asarray(X, dtype=np.float64).T]) if len(X) else np.zeros(X.shape[1])


def _step(values: F64) -> float:
    # Neighbours closer than the digits that are known are one value.
    digits = _SINGLE if (values.astype(np.float32) == values).all() else _DOUBLE
    gaps = np.diff(np.sort(values))
    gaps = gaps[gaps > digits * np.abs(values).max()]
    if len(gaps) < 10:
        return 0.0
    least = float(gaps.min())
    small = gaps[gaps < 20.5 * least]
    # Values that lay on a grid before leave out steps, and so do few values of many steps: no two may be neighbours.
    for parts in range(1, 1 + (_PARTS if len(small) >= 10 else 1)):
        step = float(small.sum() / np.round(small * (parts / least)).sum())
        if np.abs(small / step - np.round(small / step)).max() < 0.1:
            return step
    return 0.0
