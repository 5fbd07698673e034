"""rho(n) = 1/n against n^-alpha (section 3.2)."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.algorithms.mm import run_online
from benchmarks.paper.claims.base import HOLDS, PARTLY, Verdict
from benchmarks.paper.datasets import laplace_stream
from benchmarks.paper.measures import amari
from benchmarks.paper.recorder import Recorder

ALPHAS = (0.5, 0.7, 0.9, 1.0)


def forgetting(*, full: bool = False) -> Verdict:
    """Amari distance along one stream for several powers, q = 2."""
    n = 3_000_000 if full else 300_000
    table: dict[str, list[float]] = {str(alpha): [] for alpha in ALPHAS}
    for seed in range(10 if full else 3):
        data = laplace_stream(10, n, seed=50 + seed, left_out=20_000)
        for alpha in ALPHAS:
            recorder = Recorder(passes=1)
            run_online(data, recorder, np.random.default_rng(seed), alpha=alpha)
            recorder.finish()
            table[str(alpha)].append(amari(recorder.iterates[-1], data.A, data.left_out))
    medians = {alpha: float(np.median(found)) for alpha, found in table.items()}
    listed = ", ".join(f"alpha = {alpha}: {value:.3f}" for alpha, value in medians.items())
    return Verdict(
        "rho = n^-alpha with alpha in [1/2, 1) estimates faster than rho = 1/n",
        "3.2",
        f"median Amari distance after {n} samples (n counts mini-batches): {listed}",
        HOLDS if max(medians["0.5"], medians["0.7"], medians["0.9"]) < medians["1.0"] else PARTLY,
        medians,
    )
