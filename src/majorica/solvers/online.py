"""Online majorization-minimization: the paper's Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels import Backend, kernels_for
from majorica.solvers.base import State
from majorica.solvers.shapes import Shapes, basis_means
from majorica.statistics import F64, Statistics, invert, unpack_symmetric
from majorica.surrogate import Surrogate, stationary_surrogate

#: Mini-batches between two looks at the shapes, at least.
REFIT_EVERY = 10
#: Nats a shape must gain to change in a stream.
LEAST_GAIN = 1e-3


@dataclass
class OnlineState(State):
    """State of the online solver: p^3 numbers, whatever the stream's length."""

    inverse: F64 = field(default_factory=lambda: np.empty((0, 0)))
    surrogate: Surrogate | None = None
    shift: F64 = field(default_factory=lambda: np.empty(0))  #: running mean in whitened coordinates, (k,)
    seen: int = 0  #: samples seen, the start included
    visits: F64 = field(default_factory=lambda: np.empty(0))  #: mini-batches' worth of samples per statistic, (p,)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    turn: int = 0  #: the statistic whose turn it is
    shapes: Shapes | None = None  #: None for fixed densities
    means: F64 = field(default_factory=lambda: np.empty((0, 5)))  #: running means of the shapes' basis, (p, 5)
    unfitted: int = 0  #: samples since the shapes were last looked at


@dataclass(frozen=True)
class Online:
    """Algorithm 2: each mini-batch is seen once; its majorizers are averaged into the moments, then each row moves.

    The rate is ``n ** -alpha`` with n counting mini-batches, or the one that
    forgets half in `half_life` samples if that is faster. With `q` below
    `p`, each statistic sees ``q / p`` of the samples: random ones of every
    mini-batch (the paper's way) or, with ``selection="turn"``, all samples
    of every ``p / q``-th mini-batch, as accurate and faster.
    """

    q: int | None = 2
    batch_size: int = 1000
    alpha: float = 0.5
    half_life: float | None = None
    iterations: int = 3
    selection: Literal["random", "turn"] = "random"
    adaptive: bool = False  #: refit piecewise shapes as the stream goes on

    def init(
        self, W: F64, densities: Densities, surrogate: Surrogate, seen: int, rng: np.random.Generator
    ) -> OnlineState:
        """Start from `surrogate`, the moments of the first `seen` samples at `W`."""
        p = len(W)
        return OnlineState(
            W=W.copy(),
            densities=densities,
            inverse=invert(W),
            surrogate=surrogate,
            shift=np.zeros(W.shape[1]),
            seen=seen,
            visits=np.full(p, max(1.0, seen / self.batch_size)),
            rng=rng,
            shapes=Shapes.of(densities, adaptive=self.adaptive),
        )

    def update(self, state: OnlineState, Z: npt.NDArray[np.floating], *, backend: Backend = None) -> None:
        """Learn from whitened samples ``(b, k)``, mini-batch by mini-batch; the last one may be short."""
        for start in range(0, len(Z), self.batch_size):
            self._update_batch(state, Z[start : start + self.batch_size].astype(np.float64), backend)

    def rate(self, visits: F64 | float, samples: F64 | float, skipped: float = 1.0) -> F64 | float:
        """Weight of a mini-batch of `samples` after `visits` mini-batches, Eq. (updateastream).

        A short mini-batch gets the share that makes several short ones weigh
        as much as one of full length. `skipped` is how many samples of the
        stream went by for each of these; only `half_life` counts them.
        """
        rho = np.minimum((1.0 + visits) ** -self.alpha, 1 - 1e-12)
        kept = np.log1p(-rho) * (samples / self.batch_size)
        if self.half_life is not None:
            kept = np.minimum(kept, -np.log(2) * samples * skipped / self.half_life)
        return -np.expm1(kept)

    def _update_batch(self, state: OnlineState, Z: F64, backend: Backend) -> None:
        assert state.surrogate is not None
        surrogate, densities = state.surrogate, state.densities
        b, p = len(Z), len(state.W)
        whole = float(self.rate(state.seen / self.batch_size, b))
        state.shift += whole * (Z.mean(axis=0) - state.shift)
        Z = Z - state.shift
        kernels = kernels_for(densities, backend)
        statistics = kernels.statistics(Z, np.zeros(p), state.W, densities)
        log_det = float(np.linalg.slogdet(state.W)[1])
        state.loss = float(statistics.loss.sum() / b + densities.log_normalisers.sum() - log_det)
        surrogate.covariance *= 1 - whole
        surrogate.covariance += (whole / b) * (Z.T @ Z)
        if self.q is None or self.q >= p:
            self._learn_all(state, Z, kernels)
        else:
            self._learn_some(state, Z, self.q, kernels)
        for i in np.flatnonzero(~densities.super_gaussian).tolist():
            weight = float(densities[i].weight(np.zeros(1))[0])
            surrogate.moments[i] = weight * surrogate.covariance
        self._adapt(state, statistics, whole)
        surrogate.minimise(state.W, state.inverse, state.densities, iterations=self.iterations, backend=backend)
        state.seen += b
        state.n_samples = b
        state.passes = state.seen

    def _adapt(self, state: OnlineState, statistics: Statistics, rate: float) -> None:
        """Follow the sources' distributions: running means of the shapes' basis, refitted now and then.

        With hysteresis: a shape changes only if it gains `LEAST_GAIN` nats, or
        two nats over all that the means remember if that is more. A changed
        component's moments start again from those that make its row optimal.
        """
        shapes, surrogate = state.shapes, state.surrogate
        if shapes is None or surrogate is None:
            return
        means = basis_means(statistics)
        state.means = means if not len(state.means) else state.means + rate * (means - state.means)
        state.unfitted += statistics.n
        remembered = statistics.n / max(rate, 1e-12)
        if state.unfitted < max(REFIT_EVERY * self.batch_size, 0.5 * remembered):
            return
        state.unfitted = 0
        changed = shapes.refit_means(state.means, remembered, max(LEAST_GAIN, 2.0 / remembered)) > 0
        if changed.any():
            state.densities = shapes.densities()
            fresh = stationary_surrogate(state.W, surrogate.covariance, state.densities)
            surrogate.moments[changed] = fresh.moments[changed]
            surrogate.tilts[changed] = fresh.tilts[changed]
            surrogate.offsets[changed] = fresh.offsets[changed]

    def _learn_all(self, state: OnlineState, Z: F64, kernels: ModuleType) -> None:
        """Every statistic learns from every sample; p^3 operations a sample."""
        assert state.surrogate is not None
        surrogate = state.surrogate
        b, p = Z.shape
        sums = kernels.moments(Z, np.zeros(p), np.eye(p), state.W, state.densities)
        rates = np.asarray(self.rate(state.visits, float(b)))
        surrogate.moments += (rates[:, None, None] / b) * unpack_symmetric(sums.packed) - (
            rates[:, None, None] * surrogate.moments
        )
        surrogate.tilts += (rates / b)[:, None] * sums.tilts - rates[:, None] * surrogate.tilts
        surrogate.offsets += rates / b * sums.offsets - rates * surrogate.offsets
        state.visits += b / self.batch_size

    def _learn_some(self, state: OnlineState, Z: F64, q: int, kernels: ModuleType) -> None:
        """`q` statistics learn from each sample."""
        assert state.surrogate is not None
        surrogate, densities = state.surrogate, state.densities
        b, p = Z.shape
        if self.selection == "turn":
            chosen = np.zeros((b, p), dtype=bool)
            chosen[:, (state.turn + np.arange(q)) % p] = True
            state.turn = (state.turn + q) % p
            counts = chosen.sum(axis=0)
            rates = np.where(counts > 0, self.rate(state.visits, counts, p / q), 0.0)
            state.visits += counts / self.batch_size
        else:
            chosen = kernels.select_largest(state.rng.random((b, p)), q)
            counts = chosen.sum(axis=0)
            rates = np.where(counts > 0, self.rate(state.visits, counts * (p / q)), 0.0)
            state.visits += counts * (p / q) / self.batch_size
        for i in np.flatnonzero(rates).tolist():
            surrogate.moments[i] *= 1 - rates[i]
        surrogate.tilts *= (1 - rates)[:, None]
        surrogate.offsets *= 1 - rates
        scales = rates / np.maximum(counts, 1)
        rest = (surrogate.moments, surrogate.tilts, surrogate.offsets)
        kernels.add_moments(Z, Z @ state.W.T, chosen, densities, scales, *rest)
