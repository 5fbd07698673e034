"""Where fits of many components set out: a random rotation, turned by fixed-point steps while all shapes are Gaussian.

A random rotation of many sources looks Gaussian in all its rows. Shapes fitted there take their signs from noise, and
with few samples a component what follows is a poor minimum. Fixed-point steps (Hyvärinen, 1999) need no signs: each row
goes to the nearest extremum of its contrast, a maximum or a minimum. Gaussian shapes have the same loss at
every rotation, so such steps raise nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from majorica.densities.table import Densities
from majorica.kernels.partition import TIED
from majorica.kernels.shapes import sample_means
from majorica.sources.base import Array
from majorica.statistics import F64, Statistics

#: Components from which on a start is sought: fewer find their way from anywhere.
LEAST_SOUGHT = 12
#: Slopes of the steps' contrast.
SLOPES = np.array([1.0, 1e-3]) @ TIED
#: Fixed-point steps at most, and the share of the passes a fit may make that they may be.
MOST_STEPS, SHARE = 250, 0.5
#: Steps end when rows turn by no more: the mean cosine of their turns falls short of one by so much. Once it is `NEAR`,
#: so many more steps do: rows of nearly Gaussian sources keep turning.
TURNED, NEAR, MOST_NEAR = 0.002, 0.1, 30
#: Where all samples are in play at once no later level mends what is left mixed: if they are at most `FEW_EACH` a
#: component, `FEW_STEPS` and `FEW_NEAR` take the place of the limits above; if at most half of that, `FEW_TURNED` too.
FEW_EACH, FEW_STEPS, FEW_NEAR, FEW_TURNED = 100.0, 400, 200, 1e-5
#: Mean of the contrast for a Gaussian source; how far steps on `n` samples get from that with `p` Gaussian ones, and a
#: little more, in units of the root of p / n; and steps at most on the next level where most rows got no farther.
GAUSSIAN_CONTRAST, CHANCE, AGAIN = 0.375860, 0.15, 60
#: From so many components on the end of a level tells as much where no start was sought, beyond a smaller distance.
LEAST_WATCHED, CHANCE_FITTED = 6, 0.13
#: How long rows set out with shapes of their own, in standard deviations of their sources: knots are late ones then.
LENGTH = 1.2


def most_steps(max_iter: float) -> int:
    """Fixed-point steps that a fit of at most so many passes may begin with."""
    return math.floor(min(MOST_STEPS, SHARE * max_iter))


def contrast(p: int) -> Densities:
    """Densities of `p` components whose score is a piecewise-linear tanh: the contrast of the steps."""
    return Densities.piecewise(np.tile(SLOPES, (p, 1)), np.zeros(p))


def fixed_point(W: F64, statistics: Statistics, relative: F64) -> tuple[F64, F64, float]:
    """One symmetric fixed-point step from the rotation `W`: the next, its `relative`, and how far rows turned.

    `statistics` are those of :func:`contrast` at `W`, `relative` is the
    relative gradient of Gaussian shapes, covariance less identity. With its
    score ``g`` a row goes to ``E[g(y) x] - E[g'(y)] C w``, and the rows
    together to the nearest rotation; the samples of a level are not quite
    white, and without their covariance `C` that would outweigh all else. How
    far is one less the mean cosine.
    """
    n = statistics.n
    covariance = relative + np.eye(len(W))
    M = statistics.gradient / n - (statistics.curvature / n)[:, None] * covariance
    left, _, right = np.linalg.svd(M @ W)
    new = np.ascontiguousarray(left @ right)
    turn = new @ W.T
    return new, turn @ covariance @ turn.T - np.eye(len(W)), float(1 - np.abs(turn.diagonal()).mean())


def looks_gaussian(contrasts: F64, n: int, chance: float = CHANCE) -> bool:
    """Whether half of the rows, of these mean contrasts over `n` samples, are as near Gaussian as Gaussian samples'."""
    return float(np.median(np.abs(contrasts - GAUSSIAN_CONTRAST))) < chance * math.sqrt(len(contrasts) / n)


def shows_nothing(p: int, sources: Callable[[], Array], n: int) -> bool:
    """Whether a level of `n` samples led too few components to be sought no farther; `sources` gives some, ``(p, m)``.

    They are asked for only if the components are watched: to read them is a journey through the data.
    """
    if not LEAST_WATCHED <= p < LEAST_SOUGHT:
        return False
    Y = sources().astype(np.float64)
    Y /= np.sqrt(np.einsum("it,it->i", Y, Y) / Y.shape[1])[:, None]
    return looks_gaussian(np.array([SLOPES @ sample_means(y) for y in Y]), n, CHANCE_FITTED)


def first_steps(steps: int, each: float) -> int:
    """Steps to set out with: `steps`, or more where `each` component has few samples for good and passes are many."""
    return FEW_STEPS if steps >= MOST_STEPS and each <= FEW_EACH else steps


def steps_left(steps: int, turned: float, each: float = math.inf) -> int:
    """How many of `steps` are left after one that turned rows so far; `each` as in :func:`first_steps`."""
    if turned <= (TURNED if each > FEW_EACH / 2 else FEW_TURNED):
        return 0
    return min(steps - 1, MOST_NEAR if each > FEW_EACH else FEW_NEAR) if turned <= NEAR else steps - 1
