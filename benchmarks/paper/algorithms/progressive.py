"""The package's default for finite data: quasi-Newton on growing subsets of the samples.

``tol=1e-10`` keeps it going after its own stopping rule (the statistical
floor), so that its gradient curve can be compared.
"""

from __future__ import annotations

import numpy as np

from benchmarks.paper.algorithms.mm import run_solver
from benchmarks.paper.datasets import Finite
from benchmarks.paper.recorder import Recorder
from majorica.solvers import Progressive


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, tol: float = 1e-10) -> None:
    """The finite sum."""
    run_solver(Progressive(tol=tol), data, recorder, rng)
