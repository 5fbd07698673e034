"""What a checked claim is."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

HOLDS, PARTLY, FAILS = "holds", "holds partly", "does not hold"


@dataclass
class Verdict:
    """A claim of the paper, what was found, and whether it holds."""

    claim: str
    where: str  #: section of the paper
    found: str  #: one sentence with the numbers
    verdict: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def exponent(x: list[float], y: list[float]) -> float:
    """The power of `x` that `y` grows with, by least squares in logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def best_time(function: Any, *, repeats: int = 5, at_least: float = 0.02) -> float:
    """Seconds a call, the fastest of some rounds: what a busy machine slows down is not counted."""
    import time

    function()
    calls = 1
    best = np.inf
    for _ in range(repeats):
        while True:
            started = time.perf_counter()
            for _ in range(calls):
                function()
            took = time.perf_counter() - started
            if took >= at_least or calls >= 1024:
                break
            calls *= 2
        best = min(best, took / calls)
    return best
