"""Off-diagonal entries of K at independence (appendix D, the lemma there)."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.claims.base import FAILS, HOLDS, Verdict, exponent
from benchmarks.paper.model import HUBER


def decorrelation(*, full: bool = False) -> Verdict:
    """Root mean square of ``K_kl = E[u_i y_k y_l]``, k != l, against n."""
    sizes = [int(n) for n in np.geomspace(1e3, 1e6 if full else 2e5, 8)]
    rng = np.random.default_rng(0)
    spreads = []
    for n in sizes:
        squares = []
        for _ in range(max(1, 200_000 // n)):
            Y = rng.laplace(size=(n, 5))
            K = (Y * HUBER.weight(Y[:, :1])).T @ Y / n
            squares.append(np.mean(K[np.triu_indices(5, 1)] ** 2))
        spreads.append(float(np.sqrt(np.mean(squares))))
    power = exponent([float(n) for n in sizes], spreads)
    return Verdict(
        "Off-diagonal entries of K are O(n^-1/2) when the rows of Y are independent",
        "appendix D",
        f"fitted power of n: {power:.3f} (n from {sizes[0]} to {sizes[-1]})",
        HOLDS if abs(power + 0.5) < 0.05 else FAILS,
        {"n": sizes, "spread": spreads, "power": power},
    )
