"""Sources made of a few steps of their channels: what fine shapes would draw of them is the steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from majorica.problem import Problem
from majorica.statistics import F64

#: Samples that steps are looked for in, from the middle; and the first of these, half of which must equal another one.
LOOK, GLANCE = 1024, 64
#: A source is on steps if one step of each of its channels, in its own weights, comes to so much of a deviation; and
#: one of each but the channel that counts most to so much: a trigger channel is a source of its own.
COARSE, SHARED = 0.55, 0.1
#: Values that are closer, as a share of the largest, are one; and how far they may be off their steps.
SAME, OFF = 1e-6, 0.1


def on_steps(problem: Problem, W: F64) -> npt.NDArray[np.bool_]:
    """Which sources of the unmixing `W` are on the steps of their channels; few samples are read, mostly 64."""
    steps = steps_of_channels(problem)
    if not steps.any():
        return np.zeros(len(W), np.bool_)
    parts = np.sort(np.abs(W @ problem.whitening.matrix * steps), axis=1) / np.linalg.norm(W, axis=1)[:, None]
    shared = np.linalg.norm(parts[:, :-1], axis=1) > SHARED
    return np.asarray(shared & (np.linalg.norm(parts, axis=1) > COARSE))


def steps_of_channels(problem: Problem) -> F64:
    """The step that each channel's values are multiples of, from an offset; 0 where it has none or a fine one."""
    start = max(0, (problem.n - LOOK) // 2)
    stop = min(start + LOOK, problem.n)
    first = problem.raw(((start, min(start + GLANCE, stop)),))
    ordered = np.sort(first, axis=0)
    steps = np.zeros(first.shape[1])
    few = np.count_nonzero(ordered[1:] == ordered[:-1], axis=0) >= len(first) // 2
    if few.any():
        X = problem.raw(((start, stop),))
        for j in few.nonzero()[0].tolist():
            steps[j] = _step(X[:, j].astype(np.float64))
    return steps


def _step(values: F64) -> float:
    """The step of some values; 0 if they are not multiples of one."""
    gaps = np.diff(np.unique(values))
    gaps = gaps[gaps > SAME * np.abs(values).max()]
    if not len(gaps):
        return 0.0
    multiples = np.round(gaps / gaps.min())
    step = float(gaps.sum() / multiples.sum())
    return step if np.abs(gaps / step - multiples).max() < OFF else 0.0
