"""When the last level ends: the predicted gain against a share of the statistical floor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from majorica.solvers import Progressive, gains
from majorica.solvers.gains import CHEAP_PRODUCTS, is_small
from majorica.solvers.levels import SHORT_FROM


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
