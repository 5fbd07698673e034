"""Guaranteed descent (abstract, appendix C), on sources that fit the model and on ones that do not."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.algorithms.mm import make_problem
from benchmarks.paper.claims.base import FAILS, HOLDS, Verdict
from benchmarks.paper.model import huber
from majorica.solvers import Batch, Incremental, drive


def descent(*, full: bool = False) -> Verdict:
    """Largest rise of the objective from one step to the next, relative to its size."""
    rng = np.random.default_rng(0)
    n, p = (200_000 if full else 20_000), 8
    sources = {
        "Laplace": rng.laplace(size=(n, p)),
        "uniform": rng.uniform(-1, 1, size=(n, p)),
        "Cauchy": np.clip(rng.standard_cauchy(size=(n, p)), -1e6, 1e6),
        "Gaussian": rng.normal(size=(n, p)),
    }
    solvers = {
        "incremental q = 2": Incremental(q=2, tol=0.0),
        "incremental q = p": Incremental(q=None, tol=0.0),
        "random q = 2": Incremental(q=2, tol=0.0, selection="random"),
        "batch": Batch(tol=0.0),
    }
    rises: dict[str, float] = {}
    steps = 0
    for S in sources.values():
        problem = make_problem(S @ rng.normal(size=(p, p)).T)
        for name, solver in solvers.items():
            state = solver.init(problem, rng.normal(size=(p, p)), huber(p), np.random.default_rng(0))
            losses = drive(solver, problem, state, max_iter=10).array()["loss"]
            steps += len(losses)
            worst = float(np.max(np.diff(losses) / np.abs(losses[:-1])))
            rises[name] = max(rises.get(name, -np.inf), worst)
    largest = max(rises.values())
    return Verdict(
        "Every iteration of the incremental algorithm lowers the surrogate, whatever the data",
        "abstract, appendix C",
        f"{steps} steps on Laplace, uniform, clipped Cauchy and Gaussian sources from random starts: "
        f"largest relative rise {max(largest, 0):.0e}",
        HOLDS if largest < 1e-12 else FAILS,
        rises,
    )
