"""Equivariance (section 3.1): A(BX) = B A(X)."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.algorithms import mm, progressive
from benchmarks.paper.claims.base import FAILS, HOLDS, PARTLY, Verdict
from benchmarks.paper.datasets import Endless, Finite, as_stream, laplace
from benchmarks.paper.recorder import Recorder


class Moved(Finite):
    """Mixed once more by B, started from the point that B moves the original start to."""

    def __init__(self, data: Finite, B: np.ndarray) -> None:
        super().__init__(data.X @ B.T, data.left_out @ B.T, data.validation @ B.T, B @ data.A)
        self.moved_start = data.start @ np.linalg.inv(B)

    @property
    def start(self) -> np.ndarray:
        """The moved start."""
        return self.moved_start


def final(run: object, data: Finite | Endless, passes: float) -> np.ndarray:
    """The last iterate of a run."""
    recorder = Recorder(passes=passes)
    run(data, recorder, np.random.default_rng(0))  # type: ignore[operator]
    recorder.finish()
    return recorder.iterates[-1]


def equivariance(*, full: bool = False) -> Verdict:
    """The unmixing matrix times B from BX against that from X."""
    data = laplace(6, 20_000, seed=0, left_out=10)
    B = np.random.default_rng(9).normal(size=(6, 6))
    moved = Moved(data, B)
    runs = {"batch": mm.run_batch, "incremental": mm.run_incremental, "progressive": progressive.run}
    differences = {}
    for name, run in runs.items():
        W, V = final(run, data, 5), final(run, moved, 5)
        differences[name] = float(np.abs(V @ B - W).max() / np.abs(W).max())
    W, V = (online_from(d, data.start if d is data else moved.start) for d in (data, moved))
    differences["online"] = float(np.abs(V @ B - W).max() / np.abs(W).max())
    listed = ", ".join(f"{name} {value:.0e}" for name, value in differences.items())
    worst = max(differences.values())
    return Verdict(
        "The algorithms are equivariant",
        "3.1",
        f"largest relative difference after 5 passes (online: 1): {listed}",
        HOLDS if worst < 1e-4 else PARTLY if worst < 1e-2 else FAILS,
        differences,
    )


def online_from(data: Finite, start: np.ndarray) -> np.ndarray:
    """Algorithm 2 over the samples once, from `start`."""
    from benchmarks.paper.model import huber
    from majorica.solvers import Online
    from majorica.surrogate import Surrogate

    stream = as_stream(data)
    problem = mm.make_problem(stream.first())
    densities, whitening = huber(problem.p), problem.whitening
    W = start @ whitening.inverse
    surrogate = Surrogate.from_moments(problem.moments(W, densities), problem.covariance)
    solver = Online()
    state = solver.init(W, densities, surrogate, problem.n, np.random.default_rng(0))
    for X in stream.batches():
        solver.update(state, (X - whitening.mean) @ whitening.matrix.T)
    return state.W @ whitening.matrix
