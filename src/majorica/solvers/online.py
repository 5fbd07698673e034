"""Online majorization-minimization: the paper's Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.kernels import Backend, kernels_for
from majorica.solvers.base import State
from majorica.statistics import F64, invert
from majorica.surrogate import Surrogate


@dataclass
class OnlineState(State):
    """State of the online solver: p^3 numbers, whatever the stream's length."""

    inverse: F64 = field(default_factory=lambda: np.empty((0, 0)))
    surrogate: Surrogate | None = None
    shift: F64 = field(default_factory=lambda: np.empty(0))  #: running mean in whitened coordinates, (k,)
    seen: int = 0  #: samples seen, the start included
    visits: F64 = field(default_factory=lambda: np.empty(0))  #: mini-batches' worth of samples per statistic, (p,)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)


@dataclass(frozen=True)
class Online:
    """Algorithm 2: each mini-batch is seen once; its majorizers are averaged into the moments, then each row moves.

    The rate is ``n ** -alpha`` with n counting mini-batches, or the one that
    forgets half in `half_life` samples if that is faster. Each of `p`
    statistics sees `q` of `p` of the samples, and averages those alone.
    """

    q: int | None = 2
    batch_size: int = 1000
    alpha: float = 0.5
    half_life: float | None = None
    iterations: int = 3

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
        )

    def update(self, state: OnlineState, Z: npt.NDArray[np.floating], *, backend: Backend = None) -> None:
        """Learn from whitened samples ``(b, k)``, mini-batch by mini-batch; the last one may be short."""
        for start in range(0, len(Z), self.batch_size):
            self._update_batch(state, Z[start : start + self.batch_size].astype(np.float64), backend)

    def rate(self, visits: F64 | float, samples: float) -> F64 | float:
        """Weight of a mini-batch of `samples` after `visits` mini-batches, Eq. (updateastream).

        A short mini-batch gets the share that makes several short ones weigh
        as much as one of full length.
        """
        rho = (1.0 + visits) ** -self.alpha
        if self.half_life is not None:
            rho = np.maximum(rho, -np.expm1(-np.log(2) * self.batch_size / self.half_life))
        return -np.expm1(np.log1p(-np.minimum(rho, 1 - 1e-12)) * (samples / self.batch_size))

    def _update_batch(self, state: OnlineState, Z: F64, backend: Backend) -> None:
        assert state.surrogate is not None
        surrogate, densities = state.surrogate, state.densities
        b, p = len(Z), len(state.W)
        q = p if self.q is None else min(self.q, p)
        whole = float(self.rate(state.seen / self.batch_size, b))
        state.shift += whole * (Z.mean(axis=0) - state.shift)
        Z = Z - state.shift
        Y = Z @ state.W.T
        kernels = kernels_for(densities, backend)
        state.loss = float(
            np.mean(sum(density.loss(Y[:, i]) for i, density in enumerate(densities)))
            + densities.log_normalisers.sum()
            - np.linalg.slogdet(state.W)[1]
        )
        chosen = np.ones((b, p), dtype=bool) if q == p else kernels.select_largest(state.rng.random((b, p)), q)
        counts = chosen.sum(axis=0)
        rates = np.where(counts > 0, self.rate(state.visits, counts * (p / q)), 0.0)
        surrogate.covariance *= 1 - whole
        surrogate.covariance += (whole / b) * (Z.T @ Z)
        surrogate.moments *= (1 - rates)[:, None, None]
        surrogate.tilts *= (1 - rates)[:, None]
        surrogate.offsets *= 1 - rates
        kernels.add_moments(
            Z,
            Y,
            chosen,
            densities,
            rates / np.maximum(counts, 1),
            surrogate.moments,
            surrogate.tilts,
            surrogate.offsets,
        )
        for i in np.flatnonzero(~densities.super_gaussian).tolist():
            weight = float(densities[i].weight(np.zeros(1))[0])
            surrogate.moments[i] = weight * surrogate.covariance
        state.visits += counts * (p / q) / self.batch_size
        surrogate.minimise(state.W, state.inverse, densities, iterations=self.iterations, backend=backend)
        state.seen += b
        state.n_samples = b
        state.passes = state.seen
