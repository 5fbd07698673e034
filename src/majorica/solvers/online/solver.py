"""Online majorization-minimization: the paper's Algorithm 2."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.engines.base import Engine, assisted
from majorica.kernels import Backend, kernels_for
from majorica.solvers.base import State
from majorica.solvers.online import flat, following, outliers
from majorica.solvers.online.averages import Averages
from majorica.solvers.online.outliers import variances
from majorica.solvers.online.plain import learn_plainly, suits
from majorica.solvers.shapes import Shapes
from majorica.sources.base import Array
from majorica.statistics import F64, Glance, invert
from majorica.surrogate import Surrogate

#: Shortest mini-batch of a memory that grows; it doubles while two of it fit into the memory.
SHORTEST = 250
#: Samples that count as seen, at least: a model of fewer must not leave the memory too short for its moments.
LEAST_SEEN = 10_000
#: Products in a mini-batch, below which a second thread would be late.
WORTH_SHARING = 50_000_000
#: Samples that n of the rate counts, and the least power, for what answers show as it is: mean, covariance, shapes.
SLOW_UNIT, SLOW_ALPHA = 1000, 0.75


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
    gathered: int = 0  #: samples that went into these
    unfitted: int = 0  #: samples since the shapes were last looked at
    sized: int = 0  #: samples counted in the next
    sizes: F64 = field(default_factory=lambda: np.empty((3, 0)))  #: how many are large and small, and sums, (3, p)
    covariance: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: running covariance, slower than the moments'
    averages: Averages | None = None  #: None if W itself is the answer
    reach: float = 0.0  #: standard deviations that samples of late lay out, but for those drawn in; 0 if not known
    excess: float = 1.0  #: the most that a sample was divided by to draw it in
    judged: int = 0  #: samples behind the next three, too few yet to tell whether they are flat
    waited: int = 0  #: samples since it was last told whether any are flat
    units: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: rows of unit variance that they are seen by, (p, k)
    centre: F64 = field(default_factory=lambda: np.empty(0))  #: their mean, (p,)
    scatter: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: and scatter about it, (p, p)
    flat: F64 = field(default_factory=lambda: np.empty((0, 0)))  #: directions the samples are flat in of late, (r, k)
    unlearnt: int = 0  #: samples that were not learnt from, being flat

    @property
    def answer(self) -> F64:
        """The unmixing matrix to show, ``(p, k)``."""
        return self.W if self.averages is None else self.averages.answer

    def settle(self, backend: Backend = None) -> None:
        """Make the moments whole, of which mini-batches and the M-step leave out about half."""
        assert self.surrogate is not None
        moments, covariance = self.surrogate.moments, self.surrogate.covariance
        kernels_for(self.densities, backend).settle(moments, self.densities.flat_weights, covariance)


@dataclass(frozen=True)
class Online:
    """Algorithm 2: each mini-batch is seen once; its majorizers are averaged into the moments, then each row moves.

    The rate is ``n ** -alpha`` with n counting mini-batches, or the one that
    forgets half in `half_life` samples if that is faster. With `q` below
    `p`, each statistic sees ``q / p`` of the samples: random ones of every
    mini-batch (the paper's way) or, with ``selection="turn"``, all samples
    of every ``p / q``-th mini-batch, as accurate and faster.

    `averaged` streams have a short memory: n of the rate counts steps of
    ``max(20, p^2 / 200)`` samples, which with alpha = 1/2 is a memory of 7 p
    samples (447 at least) after 10,000 and ten times that after a million.
    It lets go of majorizers that touched at matrices long left behind, which
    hold W back; its noise is averaged out of the answer (:class:`Averages`).
    Mini-batches are short at first and grow with the memory. Samples so far
    out that they would outweigh it are drawn in (:mod:`majorica.solvers.online.outliers`).
    """

    q: int | None = 2
    batch_size: int = 1000
    alpha: float = 0.5
    half_life: float | None = None
    iterations: int = 3
    selection: Literal["random", "turn"] = "random"
    adaptive: bool = False  #: refit piecewise shapes as the stream goes on
    averaged: bool = False  #: a short memory, and answers averaged over matrices

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
            visits=np.full(p, self.count(p, seen)),
            rng=rng,
            shapes=Shapes.of(densities, adaptive=self.adaptive),
            covariance=surrogate.covariance.copy(),
            averages=Averages.start(W) if self.averaged else None,
            reach=outliers.first_reach(p, self.memory(p, seen)),
        )

    def unit(self, p: int) -> float:
        """Samples that n of the rate counts as one."""
        return max(20.0, p * p / 200) if self.averaged else float(self.batch_size)

    def count(self, p: int, seen: int) -> float:
        """The rate's n after `seen` samples."""
        return max(seen, LEAST_SEEN) / self.unit(p) if self.averaged else max(1.0, seen / self.batch_size)

    def memory(self, p: int, seen: int) -> float:
        """Samples that statistics which learn from all remember after `seen`."""
        return -1 / float(self._log_kept(self.count(p, seen), 1.0, self.unit(p), self.alpha))

    def length(self, p: int, seen: int) -> int:
        """Samples of the next mini-batch."""
        if not self.averaged:
            return self.batch_size
        length, memory = SHORTEST, self.memory(p, seen)
        while length < self.batch_size and 4 * length <= memory:
            length *= 2
        return min(length, self.batch_size)

    def update(
        self, state: OnlineState, Z: Array, *, backend: Backend = None, engine: Engine | None = None, whole: bool = True
    ) -> None:
        """Learn from whitened samples ``(b, k)``, mini-batch by mini-batch; the last one may be short.

        Those of float32 stay so; what is summed over samples is kept in
        float64. Threads of `engine` share the components. The moments are made
        `whole` at the end, or left to :meth:`OnlineState.settle`.
        """
        start, plain = 0, backend is None and suits(self, state, WORTH_SHARING)
        while start < len(Z):
            start += learn_plainly(self, state, Z[start:]) if plain else 0
            if start == len(Z):
                break
            length = self.length(len(state.W), state.seen)
            self._update_batch(state, Z[start : start + length], backend, engine)
            start += length
        if whole:
            state.settle(backend)

    def rate(
        self, visits: F64 | float, samples: F64 | float, skipped: float = 1.0, *, unit: float | None = None
    ) -> F64 | float:
        """Weight of a mini-batch of `samples` after `visits` units (mini-batches if None), Eq. (updateastream).

        A short mini-batch gets the share that makes several short ones weigh
        as much as one of full length. `skipped` is how many samples of the
        stream went by for each of these; only `half_life` counts them.
        """
        return -np.expm1(self._log_kept(visits, samples, unit or self.batch_size, self.alpha, skipped))

    def _log_kept(
        self, visits: F64 | float, samples: F64 | float, unit: float, alpha: float, skipped: float = 1.0
    ) -> F64 | float:
        """Logarithm of the weight that is left to what was there before."""
        rho = np.minimum((1.0 + visits) ** -alpha, 1 - 1e-12)
        kept = np.log1p(-rho) * (samples / unit)
        if self.half_life is not None:
            kept = np.minimum(kept, -np.log(2) * samples * skipped / self.half_life)
        return kept

    def _slow_rate(self, seen: int, samples: int) -> float:
        """Weight of a mini-batch in what is shown without being averaged again."""
        if not self.averaged:
            return float(self.rate(seen / self.batch_size, samples))
        alpha = max(self.alpha, SLOW_ALPHA)
        return float(-np.expm1(self._log_kept(seen / SLOW_UNIT, samples, SLOW_UNIT, alpha)))

    def _update_batch(self, state: OnlineState, Z: Array, backend: Backend, engine: Engine | None) -> None:
        assert state.surrogate is not None
        surrogate, kernels = state.surrogate, kernels_for(state.densities, backend)
        b, p = len(Z), len(state.W)
        looked = self._look_at(state, Z, kernels)
        if looked is None:
            state.unlearnt += b
            state.seen += b
            state.n_samples, state.passes = b, state.seen
            return
        glance, scatter = looked
        unit, slow = self.unit(p), self._slow_rate(state.seen, b)
        state.shift += slow / b * glance.total
        state.covariance += slow * (scatter - state.covariance)
        count = self.count(p, state.seen) if self.averaged else state.seen / unit
        rate = float(self.rate(count, b, unit=unit))
        surrogate.covariance += rate * (scatter - surrogate.covariance)
        if self.q is None or self.q >= p:
            self._learn_all(state, glance, kernels, engine)
        else:
            self._learn_some(state, glance, self.q, kernels)
        following.follow(state, glance, slow, self.batch_size)
        self._move(state, backend)
        state.seen += b
        state.n_samples = b
        state.passes = state.seen
        if state.averages is not None:
            longest = math.inf if self.half_life is None else self.half_life / math.log(2)
            state.averages.add(state.W, b, state.seen, self.memory(p, state.seen), longest)

    def _move(self, state: OnlineState, backend: Backend) -> None:
        """The M-step; W stays where it is if numbers of very different size leave none."""
        assert state.surrogate is not None
        W, inverse = state.W.copy(), state.inverse.copy()
        try:
            state.surrogate.minimise(
                state.W, state.inverse, state.densities, iterations=self.iterations, backend=backend
            )
        except np.linalg.LinAlgError:
            state.W[:], state.inverse[:] = W, inverse
        if not np.isfinite(state.W).all():
            state.W[:], state.inverse[:] = W, inverse
        _keep_signs(state, inverse)

    def _is_flat(self, state: OnlineState, Z: Array, far: bool) -> bool:
        """Whether samples, with those before them if they are too few, have no variance along some direction.

        As long as they are too few they count as those before did, or as flat if all are `far` out. Those that go on
        to be far from each other as well are of another size, not flat.
        """
        assert state.surrogate is not None
        known, p = state.surrogate.covariance, len(state.W)
        if not state.judged:
            state.units = state.W / np.sqrt(variances(state.W, known))[:, None]
        found = flat.spread(Z @ state.units.T)
        if state.judged:
            found = flat.join(state.judged, state.centre, state.scatter, *found) if found[0] else (0, *found[1:])
        state.judged, state.centre, state.scatter = found
        waits = state.judged or len(state.flat) or len(Z) < flat.enough(p)
        state.waited = state.waited + len(Z) if waits else 0
        if state.judged < flat.enough(p):
            return state.waited < flat.PATIENCE * flat.enough(p) and (len(state.flat) > 0 or (far and state.judged > 0))
        digits = float(np.finfo(Z.dtype).eps) * float(np.abs(state.centre).max())
        state.flat = flat.directions(state.scatter / state.judged, state.units, digits) @ state.units
        state.judged = state.waited = 0
        return len(state.flat) > 0

    def _look_at(self, state: OnlineState, Z: Array, kernels: ModuleType) -> tuple[Glance, F64] | None:
        """What samples show before they are learnt from, and their scatter about the mean so far; None if flat.

        That is their loss, how far out they are; those far out drawn in.
        """
        assert state.surrogate is not None
        averages, densities = state.averages, state.densities
        b, p = len(Z), len(state.W)
        memory, answer = self.memory(p, state.seen), 0 if averages is None else averages.best
        candidates = state.W[None] if averages is None else averages.candidates
        # At least where the mean sample is: else a very short memory, all of it drawn in, would shrink without end.
        reach = max(state.reach or outliers.first_reach(p, memory), math.sqrt(p))
        allowed = outliers.REACH * reach if self.averaged else math.inf
        precisions = 1 / variances(state.W, state.surrogate.covariance)
        glance: Glance = kernels.look_at(Z, state.shift, candidates, answer, precisions, allowed, densities)
        scatter = np.asarray(glance.samples.T @ glance.samples, np.float64) / b
        farthest, within = glance.reached.tolist()
        plain = farthest <= allowed and b >= flat.enough(p) and not state.judged and not len(state.flat)
        if plain and flat.is_alive(scatter, glance.total / b, state.surrogate.covariance):
            state.waited = 0
        elif self._is_flat(state, Z, within == 0):
            return None
        if self.averaged:
            state.excess = max(state.excess, farthest / allowed)
            state.reach = max(math.exp(-b / (outliers.RECENT * memory)) * reach, within)
        log_dets = np.linalg.slogdet(candidates)[1]
        losses = glance.losses.sum(axis=1) / b + densities.log_normalisers.sum() - log_dets
        if averages is not None:
            averages.compare(losses, b, memory)
        state.loss = float(losses[answer])
        return glance, scatter

    def _learn_all(self, state: OnlineState, glance: Glance, kernels: ModuleType, engine: Engine | None) -> None:
        """Every statistic learns from every sample; p^3 operations a sample, shared by threads if they are many."""
        assert state.surrogate is not None
        surrogate, (b, p) = state.surrogate, glance.samples.shape
        unit = self.unit(p)
        rates = np.asarray(self.rate(state.visits, float(b), unit=unit))
        learnt = (surrogate.moments, surrogate.tilts, surrogate.offsets)
        given = (glance, state.densities, 1 - rates, rates / b, *learnt)
        products = b * p * p * np.count_nonzero(state.densities.super_gaussian)
        if engine is None or products < WORTH_SHARING:
            kernels.learn_from(*given)
        else:
            _share(engine, p, lambda tasks: kernels.learn_from(*given, tasks))
        state.visits += b / unit

    def _learn_some(self, state: OnlineState, glance: Glance, q: int, kernels: ModuleType) -> None:
        """`q` statistics learn from each sample."""
        assert state.surrogate is not None
        surrogate, densities = state.surrogate, state.densities
        Z, Y = glance.samples.astype(np.float64, copy=False), glance.sources.T.astype(np.float64)
        b, p = Z.shape
        unit = self.unit(p)
        if self.selection == "turn":
            chosen = np.zeros((b, p), dtype=bool)
            chosen[:, (state.turn + np.arange(q)) % p] = True
            state.turn = (state.turn + q) % p
            counts = chosen.sum(axis=0)
            rates = np.where(counts > 0, self.rate(state.visits, counts, p / q, unit=unit), 0.0)
            state.visits += counts / unit
        else:
            chosen = kernels.select_largest(state.rng.random((b, p)), q)
            counts = chosen.sum(axis=0)
            rates = np.where(counts > 0, self.rate(state.visits, counts * (p / q), unit=unit), 0.0)
            state.visits += counts * (p / q) / unit
        for i in np.flatnonzero(rates).tolist():
            surrogate.moments[i] *= 1 - rates[i]
        surrogate.tilts *= (1 - rates)[:, None]
        surrogate.offsets *= 1 - rates
        scales = rates / np.maximum(counts, 1)
        rest = (surrogate.moments, surrogate.tilts, surrogate.offsets)
        kernels.add_moments(Z, Y, chosen, densities, scales, *rest)


def _share(engine: Engine, p: int, work: Callable[[npt.NDArray[np.int64]], None]) -> None:
    """Call `work` on the threads of `engine`, with the p components as tasks."""
    tasks = np.array([0, p], np.int64)

    def stop() -> None:
        tasks[1] = 0

    with assisted(engine, p - 1, lambda first: work(tasks), stop):
        work(tasks)


def _keep_signs(state: OnlineState, before: F64) -> None:
    """Turn rows back that the M-step turned round; `before` is the inverse it began with.

    Nearly Gaussian rows of small tilts may do so. Densities are symmetric: a
    row and its tilt of the other sign have the same surrogate.
    """
    assert state.surrogate is not None
    turned = np.einsum("ij,ji->i", state.W, before) < 0
    if turned.any():
        state.W[turned] *= -1
        state.inverse[:, turned] *= -1
        state.surrogate.tilts[turned] *= -1
