"""The paper's majorization-minimization algorithms, as the package has them, from the common start.

All coordinates are whitened ones inside the package; a start ``B`` in the
data's coordinates is ``B K^-1`` there. The package needs the covariance of all
samples: that pass is on the clock and counted.
"""

from __future__ import annotations

import numpy as np

from benchmarks.paper.datasets import Endless, Finite
from benchmarks.paper.model import huber, whitening_start
from benchmarks.paper.recorder import Recorder
from majorica.engines import ThreadEngine
from majorica.problem import Problem, pass_block_length
from majorica.solvers import Batch, Incremental, Online, Progressive, Step, drive
from majorica.sources.array import ArraySource
from majorica.sources.base import split_blocks
from majorica.surrogate import Surrogate
from majorica.whitening import fit_whitening


def make_problem(X: np.ndarray) -> Problem:
    """The samples as the package's solvers see them, on one thread."""
    source, engine = ArraySource(X), ThreadEngine(1)
    blocks = split_blocks(len(X), pass_block_length(X.shape[1]))
    return Problem(source, fit_whitening(source, blocks, engine), engine, blocks)


def run_solver(
    solver: Batch | Incremental | Progressive, data: Finite, recorder: Recorder, rng: np.random.Generator
) -> None:
    """Drive a solver of the package and record its iterates in the data's coordinates."""
    start = data.start
    recorder.start()
    recorder.record(0.0, start)
    problem = make_problem(data.X)
    K = problem.whitening.matrix
    state = solver.init(problem, start @ problem.whitening.inverse, huber(problem.p), rng)
    rises = {"largest": 0.0, "before": np.inf, "samples": 0}

    def callback(step: Step) -> bool:
        if step.n_samples == rises["samples"]:
            rises["largest"] = max(rises["largest"], step.loss - rises["before"])
        rises.update(before=step.loss, samples=step.n_samples)
        recorder.record(1 + step.passes, step.unmixing @ K)
        return recorder.over

    drive(solver, problem, state, max_iter=recorder.limit_passes, callbacks=[callback])
    recorder.notes["largest_rise"] = float(rises["largest"])


def run_batch(data: Finite, recorder: Recorder, rng: np.random.Generator) -> None:
    """Full-batch MM."""
    run_solver(Batch(tol=1e-10), data, recorder, rng)


def run_incremental(
    data: Finite, recorder: Recorder, rng: np.random.Generator, *, q: int | None = 2, selection: str = "greedy"
) -> None:
    """Algorithm 1."""
    run_solver(Incremental(q=q, tol=0.0, selection=selection), data, recorder, rng)  # type: ignore[arg-type]


def run_online(
    data: Endless, recorder: Recorder, rng: np.random.Generator, *, q: int | None = 2, alpha: float = 0.5
) -> None:
    """Algorithm 2 from the whitening of the first samples, whose weights at that start fill the statistics."""
    first = data.first()
    start = whitening_start(first)
    recorder.start()
    recorder.record(0.0, start)
    problem = make_problem(first)
    densities = huber(problem.p)
    K, mean = problem.whitening.matrix, problem.whitening.mean
    W = start @ problem.whitening.inverse
    surrogate = Surrogate.from_moments(problem.moments(W, densities), problem.covariance)
    solver = Online(q=q, alpha=alpha)
    state = solver.init(W, densities, surrogate, len(first), rng)
    seen = 0
    for X in recorder.off_clock(data.batches()):
        seen += len(X)
        if seen <= len(first):
            continue  # already in the statistics
        solver.update(state, (X - mean) @ K.T)
        recorder.record(seen / data.n, state.W @ K)
        if recorder.over:
            break
