"""The claims of the paper's text, each a function that ends in a number and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.paper.claims.base import Verdict
from benchmarks.paper.claims.complexity import (
    greedy_overhead,
    incremental_memory,
    iteration_cost,
    majorization_cost,
    minimisation_cost,
    online_memory,
)
from benchmarks.paper.claims.decorrelation import decorrelation
from benchmarks.paper.claims.descent import descent
from benchmarks.paper.claims.em import em_identity, em_iterates
from benchmarks.paper.claims.equivariance import equivariance
from benchmarks.paper.claims.forgetting import forgetting
from benchmarks.paper.claims.minimisation import conjugate_gradient, exact_row
from benchmarks.paper.claims.newton import newton_rate
from benchmarks.paper.claims.noise import noisy_em

CLAIMS: dict[str, Callable[..., Verdict]] = {
    "em-identity": em_identity,
    "em-iterates": em_iterates,
    "noisy-em": noisy_em,
    "exact-row": exact_row,
    "equivariance": equivariance,
    "descent": descent,
    "forgetting": forgetting,
    "decorrelation": decorrelation,
    "conjugate-gradient": conjugate_gradient,
    "majorization-cost": majorization_cost,
    "minimisation-cost": minimisation_cost,
    "iteration-cost": iteration_cost,
    "greedy-overhead": greedy_overhead,
    "incremental-memory": incremental_memory,
    "online-memory": online_memory,
    "newton-rate": newton_rate,
}


def run_claims(bench: Any, only: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """All claims, or some; each is stored."""
    from threadpoolctl import threadpool_limits

    found = {}
    for name in only or CLAIMS:
        bench.progress.begin("claims", name)
        with threadpool_limits(1):
            make = CLAIMS[name]
            config = {"experiment": "claims", "what": name}
            found[name] = bench.store.get(config, lambda make=make: make(full=bench.full).as_dict())
    bench.progress.end()
    return found
