"""Shapes of a stream's sources: followed as the stream goes on, and a source much louder or less loud brought back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from majorica.densities.piecewise import Piecewise
from majorica.kernels.partition import TIED, basis
from majorica.solvers.shapes import Shapes, basis_means
from majorica.statistics import F64, Glance
from majorica.surrogate import stationary_surrogate

if TYPE_CHECKING:
    from majorica.solvers.online.solver import OnlineState

#: Mini-batches between two looks at the shapes, at least.
REFIT_EVERY = 10
#: Nats a shape must gain to change in a stream.
LEAST_GAIN = 1e-3
#: Samples that sizes are judged by, at least: in fewer, chance or a pause can look like a gain that changed.
ENOUGH = 500
#: Size that a source too large for its shape has most of the time, which is made for sizes of about 1/2.
FAR_OFF = 4.0
#: And that one too small stays under, unless its shape has more than so much of its probability there: sources at rest
#: most of the time do.
TOO_SMALL, AT_REST = 0.1, 0.25
#: The shape that such a source starts again with, until means tell: super-Gaussian, whose rows move fastest.
FIRST = Piecewise(tuple(np.array([1.8, 0.1]) @ TIED))


def follow(state: OnlineState, glance: Glance, rate: float, batch_size: int) -> None:
    """Follow the sources' distributions: running means of the shapes' basis, refitted now and then.

    With hysteresis: a shape changes only if it gains `LEAST_GAIN` nats, or
    two nats over all that the means remember if that is more. A changed
    component's moments start again from those that make its row optimal.
    """
    shapes = state.shapes
    if shapes is None or state.surrogate is None:
        return
    if _bring_back(state, shapes, glance):
        return
    means = basis_means(glance)
    state.gathered += glance.n
    rate = max(rate, glance.n / state.gathered)  # plain means at first: one short mini-batch is too few
    state.means = means if not len(state.means) else state.means + rate * (means - state.means)
    state.unfitted += glance.n
    remembered = glance.n / max(rate, 1e-12)
    if state.unfitted < max(REFIT_EVERY * batch_size, 0.5 * remembered):
        return
    refit(state, remembered)


def refit(state: OnlineState, remembered: float) -> None:
    """Look at the shapes; `remembered` is how many samples the means remember."""
    shapes = state.shapes
    assert shapes is not None
    state.unfitted = 0
    changed = shapes.refit_means(state.means, remembered, max(LEAST_GAIN, 2.0 / remembered)) > 0
    if changed.any():
        _start_again(state, shapes, changed)


def _bring_back(state: OnlineState, shapes: Shapes, glance: Glance) -> bool:
    """Bring rows back at once that have many times the size their shapes are made for, or a small part of it.

    So it is when a source has become louder, or less loud. Its row shrinks or grows by itself, but
    by ever the same small steps if its density is not super-Gaussian, whose majorizer
    is as steep far out as at its steepest; and the shape would follow the row. Returns whether there were any.
    Shapes with light tails stay: they are rarely found again. Others start again with `FIRST`.
    """
    assert state.surrogate is not None
    sizes = _judge(state, shapes, np.abs(glance.sources))
    far = sizes > 0
    if not far.any():
        return False
    state.W[far] /= sizes[far, None]
    state.inverse[:, far] *= sizes[far]
    if state.averages is not None:
        state.averages.resize(far, state.W, state.surrogate.covariance)
    heavy = far & (shapes.slopes[:, 4] < 1)
    if heavy.any():
        shapes.slopes[heavy], shapes.log_normalisers[heavy] = FIRST.slopes, FIRST.log_normaliser
        shapes.fine[heavy] = False
        state.means, before = basis_means(glance), state.means
        if len(before):
            state.means[far] = before[far]
        sources = np.abs(glance.sources[heavy]) / sizes[heavy, None]
        state.means[heavy] = basis(sources).mean(axis=2).T
        state.gathered, state.unfitted = glance.n, 0
    _start_again(state, shapes, far)
    return True


def _judge(state: OnlineState, shapes: Shapes, sources: npt.NDArray[np.floating]) -> F64:
    """Mean sizes of the `sources`, not negative, that are far off what their shapes are made for, and 0 for others.

    That is once in :data:`ENOUGH` samples; until then they are counted.
    """
    flat: npt.NDArray[np.bool_] = state.densities.flat_weights > 0
    none = np.zeros(len(flat))
    if not flat.any():
        return none
    if state.sized == 0:
        state.sizes = np.zeros((3, len(flat)))
    state.sized += sources.shape[1]
    state.sizes += [(sources > FAR_OFF).sum(axis=1), (sources < TOO_SMALL).sum(axis=1), sources.sum(axis=1)]
    if state.sized < ENOUGH:
        return none
    large, small, sizes = state.sizes / state.sized
    state.sized = 0
    far = large > 0.5
    if (small > 0.5).any():
        middle = shapes.slopes @ basis(np.array([0.5 * TOO_SMALL]))[:, 0] + shapes.log_normalisers
        far |= (small > 0.5) & (sizes > 0) & (2 * TOO_SMALL * np.exp(-middle) < AT_REST)
    return np.where(far & flat, sizes, none)


def _start_again(state: OnlineState, shapes: Shapes, changed: npt.NDArray[np.bool_]) -> None:
    """Take over `shapes`; moments of those `changed` start again from those that make their rows optimal."""
    surrogate = state.surrogate
    assert surrogate is not None
    state.densities = shapes.densities()
    fresh = stationary_surrogate(state.W, surrogate.covariance, state.densities)
    surrogate.moments[changed] = fresh.moments[changed]
    surrogate.tilts[changed] = fresh.tilts[changed]
    surrogate.offsets[changed] = fresh.offsets[changed]
