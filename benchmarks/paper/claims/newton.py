"""The rate of FR-Newton: the discussion calls second-order methods quadratic; the block Hessian makes it linear."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.algorithms.newton import evaluate, step
from benchmarks.paper.claims.base import PARTLY, Verdict, exponent
from benchmarks.paper.datasets import laplace


def contraction(n: int, seed: int, p: int = 5) -> float:
    """Geometric mean of the ratio of successive gradient norms between 1e-3 and 1e-9."""
    data = laplace(p, n, seed=seed, left_out=10)
    point = evaluate(data.X, data.start)
    norms = [float(np.linalg.norm(point.gradient))]
    for _ in range(60):
        point, _ = step(data.X, point)
        if point is None:
            break
        norms.append(float(np.linalg.norm(point.gradient)))
        if norms[-1] < 1e-10:
            break
    inside = [v for v in norms if 1e-10 < v < 1e-3]
    return (inside[-1] / inside[0]) ** (1 / (len(inside) - 1)) if len(inside) > 1 else np.nan


def newton_rate(*, full: bool = False) -> Verdict:
    """The contraction factor against n."""
    sizes = [2000, 8000, 32_000, 128_000] + ([512_000, 2_048_000] if full else [])
    rates = [float(np.nanmedian([contraction(n, seed) for seed in range(11)])) for n in sizes]
    power = exponent([float(n) for n in sizes], rates)
    return Verdict(
        "Second-order methods converge quadratically, the incremental algorithm linearly",
        "4.5",
        f"FR-Newton is linear too, at a rate that improves with n: the gradient shrinks by {rates[0]:.2f} an iteration "
        f"at n = {sizes[0]} and by {rates[-1]:.3f} at n = {sizes[-1]}, fitted n^{power:.2f}",
        PARTLY,
        {"n": sizes, "rate": rates, "power": power},
    )
