"""Mini-batches of a stream in which nothing is odd, through the compiled kernel: several in one call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from majorica.kernels.pairs import FEW_PAIRS
from majorica.solvers.online import averages, flat, following, outliers
from majorica.sources.base import Array
from majorica.surrogate import REFRESH_EVERY

if TYPE_CHECKING:
    from majorica.solvers.online.solver import Online, OnlineState

#: Longest mini-batches that are learnt from at once: all samples of one are at hand, and summed in their own precision.
LONGEST = 4096


def suits(solver: Online, state: OnlineState, worth_sharing: int) -> bool:
    """Whether the kernel knows what `solver` does: all statistics of few components learn, and answers are averaged.

    Mini-batches of more products than are `worth_sharing` are not for one thread.
    """
    p, k = state.W.shape
    known = solver.averaged and (solver.q is None or solver.q >= p) and state.densities.compiled
    return known and p == k <= FEW_PAIRS and solver.batch_size <= min(LONGEST, (worth_sharing - 1) // p**3)


def learn_plainly(solver: Online, state: OnlineState, Z: Array) -> int:
    """Learn from whitened samples ``(n, p)`` until a mini-batch is odd; returns how many were learnt."""
    from majorica.kernels import plain as kernels

    surrogate, means = state.surrogate, state.averages
    assert surrogate is not None
    assert means is not None
    if state.judged or len(state.flat):
        return 0
    p, follows = len(state.W), state.shapes is not None
    basis_means = np.zeros((p, 5)) if follows and not len(state.means) else state.means
    sizes = state.sizes if state.sizes.shape == (3, p) else np.zeros((3, p))
    numbers = np.zeros(11)
    fields = {kernels.SEEN: "seen", kernels.REACH: "reach", kernels.EXCESS: "excess", kernels.LOSS: "loss"}
    fields |= {kernels.GATHERED: "gathered", kernels.UNFITTED: "unfitted", kernels.SIZED: "sized"}
    for place, name in fields.items():
        numbers[place] = getattr(state, name)
    numbers[kernels.COMPARED], numbers[kernels.SWEEPS] = means.compared, surrogate.sweeps
    given = _settings(solver, p, follows=follows)
    rooms = kernels.make_rooms(p, min(solver.batch_size, len(Z)), Z.dtype)

    def count() -> None:
        for place, name in fields.items():
            setattr(state, name, type(getattr(state, name))(numbers[place]))
        state.sizes = sizes if state.sized else state.sizes
        state.means = basis_means if state.gathered else state.means
        means.compared, surrogate.sweeps = float(numbers[kernels.COMPARED]), int(numbers[kernels.SWEEPS])
        if numbers[kernels.LEARNT]:
            state.n_samples, state.passes, state.waited = int(numbers[kernels.LEARNT]), state.seen, 0

    start = pending = 0
    while True:
        densities = state.densities
        try:
            start, why = kernels.run_plain(
                *(np.ascontiguousarray(Z), start, pending, numbers, given, state.W, state.inverse, state.shift),
                *(state.covariance, surrogate.covariance, surrogate.moments, surrogate.tilts, surrogate.offsets),
                *(state.visits, means.candidates, means.losses, basis_means, sizes),
                *(densities.codes, densities.shapes, densities.log_normalisers, densities.flat_weights),
                *(solver.iterations, *rooms),
            )
        finally:  # Ctrl-C of meanwhile comes here: what the model has learnt counts
            count()
        if why != kernels.REFIT:
            return int(start)
        pending = int(numbers[kernels.LEARNT])
        following.refit(state, float(numbers[kernels.REMEMBERED]))
        numbers[kernels.UNFITTED] = 0


def _settings(solver: Online, p: int, *, follows: bool) -> np.ndarray:
    """What the kernel asks of the solver and of the limits of what is plain, in its order."""
    from majorica.solvers.online.solver import LEAST_SEEN, SHORTEST, SLOW_ALPHA, SLOW_UNIT

    half_life = math.inf if solver.half_life is None else float(solver.half_life)
    shortest = min(SHORTEST, solver.batch_size)
    return np.array(
        [
            *(solver.alpha, half_life, solver.unit(p), LEAST_SEEN, shortest, solver.batch_size, SLOW_UNIT, SLOW_ALPHA),
            *(outliers.BULK, outliers.SHARE, outliers.REACH, outliers.RECENT, outliers.LEAST),
            *(flat.enough(p), flat.PLAIN, flat.MOST, averages.COMPARED, averages.RECENT, averages.WORSE),
            *(following.FAR_OFF, following.TOO_SMALL, following.ENOUGH, following.REFIT_EVERY * solver.batch_size),
            *(REFRESH_EVERY, follows),
        ],
        np.float64,
    )
