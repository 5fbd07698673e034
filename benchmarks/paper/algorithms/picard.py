"""Picard (Ablin et al. 2018), the python-picard package, with the Huber density: the same objective as ours.

``ortho=False, extended=False``, default parameters, from the common start. The
density object, which is the package's way to bring one's own density, reports
an iterate whenever it is asked for the score; see :mod:`hooks`. One iteration
counts one pass for each point its line search tries, as for FR-Newton.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
from picard import picard

from benchmarks.paper.algorithms.hooks import IterateReader
from benchmarks.paper.datasets import Finite
from benchmarks.paper.model import HUBER
from benchmarks.paper.recorder import Recorder


class OverBudget(Exception):
    """Ends a run from inside."""


class ReportingHuber:
    """Picard's density interface for the package's Huber, reporting each iterate."""

    def __init__(self, reader: IterateReader, start: np.ndarray, recorder: Recorder) -> None:
        self.reader, self.start, self.recorder = reader, start, recorder
        self.rows = 0  #: rows whose loss was asked for: p a point tried

    def log_lik(self, Y: np.ndarray) -> np.ndarray:
        """G, called once a row."""
        self.rows += 1
        return HUBER.loss(Y)

    def score_and_der(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G' and G'', called once an iteration with all sources."""
        passes = self.rows / len(Y)
        first = not self.recorder.passes
        self.recorder.record(0.0 if first else passes, self.reader.read(Y) @ self.start)
        if not first and self.recorder.over:
            raise OverBudget
        return HUBER.score(Y), HUBER.curvature(Y)


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, tol: float = 1e-10) -> None:
    """The finite sum."""
    start = data.start
    X = np.ascontiguousarray(data.X.T)
    density = ReportingHuber(IterateReader(start @ X), start, recorder)
    options = {"ortho": False, "extended": False, "whiten": False, "centering": False, "check_fun": False}
    recorder.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged within the budget: the curves show it
        with contextlib.suppress(OverBudget):
            picard(X, fun=density, w_init=start, max_iter=10_000, tol=tol, **options)
