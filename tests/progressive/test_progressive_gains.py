"""Where convergence is slow a level goes on while its steps gain, whatever the block Hessian promises."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from majorica.solvers import Progressive
from majorica.solvers.progressive import solver as progressive
from majorica.solvers.progressive.solver import LONGEST_LEVEL

P, N = 100, 200_000
FLOOR = P**2 / (2 * N)


def done(*, gained: float, last: bool = True, steps: int = 10) -> bool:
    """Whether a level of all samples ends whose four last steps promised a tenth of the floor, and gained so much."""
    promise = 0.1 * FLOOR
    levels = SimpleNamespace(last=last, skipped=False, error=lambda problem: 0.0)
    state = SimpleNamespace(
        levels=levels, floored=False, n_samples=N, steps_here=steps, gradient=1.0, statistics=None, loss=5.0,
        gains=[promise] * 4, losses=[5.0 + k * gained for k in (4, 3, 2, 1)],
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progressive, "is_deceived", lambda *_: False)  # that is another question
        return Progressive()._level_done(SimpleNamespace(n=N, p=P), state, promise)


@pytest.mark.parametrize("last", [True, False])
def test_steps_that_gain_more_than_promised_go_on(last: bool) -> None:
    assert done(gained=0.05 * FLOOR, last=last)
    assert not done(gained=0.5 * FLOOR, last=last)


def test_levels_that_are_not_the_last_hand_over_all_the_same() -> None:
    assert done(gained=0.5 * FLOOR, last=False, steps=LONGEST_LEVEL)
