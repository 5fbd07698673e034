"""When the last level ends: the predicted gain against a share of the statistical floor."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from majorica.solvers import Progressive
from majorica.solvers.base import steepest
from majorica.solvers.progressive import gains
from majorica.solvers.progressive.gains import CHEAP_PRODUCTS, is_small
from majorica.solvers.progressive.levels import SHORT_FROM


@pytest.mark.parametrize(
    ("n", "p", "skipped", "share"),
    [
        (SHORT_FROM - 1, 50, False, "cheap"),
        (CHEAP_PRODUCTS // 4, 2, False, "cheap"),
        (CHEAP_PRODUCTS // 4 + 1, 2, False, "fast"),
        (SHORT_FROM, 50, False, "fast"),
        (2000, 4, True, "cheapest"),
    ],
)
def test_share_of_the_floor_where_convergence_is_fast(monkeypatch, n: int, p: int, skipped: bool, share: str) -> None:
    solver = Progressive(adaptive=True)
    monkeypatch.setattr(gains, "floor_of", lambda *_: 1.0)
    problem = SimpleNamespace(n=n, p=p)
    state = SimpleNamespace(floored=False, gains=[], levels=SimpleNamespace(last=True, skipped=skipped), steps_here=1)
    limit = getattr(solver, share)
    assert solver.cheapest < solver.cheap < solver.fast
    assert is_small(solver, problem, state, 0.99 * limit)
    assert not is_small(solver, problem, state, 1.01 * limit)


def test_the_floor_of_few_samples_says_little() -> None:
    """Fits of 30 samples of 29 components passed at a gradient of 0.98, as the floor is half a nat a component."""
    assert steepest(30, 29) == pytest.approx(3 / np.sqrt(30))
    assert steepest(5, 4) == 1
    assert steepest(59, 29) == 1
