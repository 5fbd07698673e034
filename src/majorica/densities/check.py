"""Numerical self-check of a density, as scikit-learn's ``check_estimator`` for estimators."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.integrate import quad

from majorica.densities.base import Density
from majorica.errors import DensityError


def integrate_normaliser(density: Density) -> float:
    """:math:`\\log \\int \\exp(-G(y)) dy` by adaptive quadrature around the smallest :math:`G`."""
    grid = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 4000)])
    with np.errstate(over="ignore"):
        losses = np.asarray(density.loss(grid), dtype=float)
    at = int(np.where(np.isnan(losses), np.inf, losses).argmin())
    lowest, peak = float(losses[at]), float(grid[at])

    def integrand(y: float) -> float:
        return math.exp(lowest - float(density.loss(np.array([y]))[0]))

    edges = [*sorted({0.0, 1.0, 4.0, 16.0, 256.0, peak}), np.inf]
    pieces = [quad(integrand, a, b, limit=200, full_output=1)[:2] for a, b in itertools.pairwise(edges)]
    total, error = (2 * math.fsum(column) for column in zip(*pieces, strict=True))
    if not (math.isfinite(total) and total > 0 and error <= 1e-6 * total):
        raise DensityError(f"density {density}: exp(-G) does not integrate to a positive finite number")
    return math.log(total) - lowest


def check_density(density: Density, *, n_points: int = 400, seed: int = 0) -> None:
    """Check numerically that `density` keeps every property the guarantees rest on.

    Parameters
    ----------
    density : Density
        Object with ``loss, score, curvature, weight, tilt, offset,
        log_normaliser``.
    n_points : int
        How many points the properties are tried on.
    seed : int
        Seed of the random points.

    Raises
    ------
    DensityError
        Naming the first property that fails and where: a missing method,
        non-finite values (0 and 1e300 included), asymmetry, a derivative that
        does not match, a majorizer that does not touch or does not majorize,
        a weight that is not monotone, a wrong normaliser.
    """
    for attribute in ("loss", "score", "curvature", "weight", "tilt", "offset", "log_normaliser"):
        if attribute not in dir(density):  # hasattr would already integrate the normaliser
            raise DensityError(
                f"{type(density).__name__} has no {attribute!r}: subclass majorica.densities.Density, "
                "which supplies all but loss, score and curvature"
            )
    rng = np.random.default_rng(seed)
    moderate = np.concatenate([np.geomspace(1e-6, 50, n_points // 2), rng.uniform(0, 5, n_points // 2)])
    extreme = np.array([0.0, 5e-324, 1e-300, 1e-160, 1e-8, 1e8, 1e100, 1e153])
    _check_finite(density, np.concatenate([extreme, [1e300]]), moderate)
    _check_derivatives(density, moderate)
    _check_majorizer(density, moderate, rng)
    _check_normaliser(density)


def _fail(density: Density, what: str, where: float) -> None:
    raise DensityError(f"density {density}: {what} at y = {where:.6g}")


def _check_finite(density: Density, extreme: np.ndarray, moderate: np.ndarray) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        quadratic = not np.isfinite(density.loss(np.array([1e300])))[0]  # y^2/2 overflows past 1e154: allowed
    points = np.concatenate([extreme if not quadratic else extreme[extreme < 1e153], moderate])
    with np.errstate(over="ignore"):
        for name in ("loss", "score", "curvature", "weight", "tilt", "offset"):
            method = getattr(density, name)
            for sign in (1.0, -1.0):
                bad = ~np.isfinite(method(sign * points))
                if bad.any():
                    _fail(density, f"{name} is not finite", sign * points[bad][0])
    even = np.isclose(density.loss(points), density.loss(-points), rtol=1e-12)
    if not even.all():
        _fail(density, "G is not symmetric", points[~even][0])


def _check_derivatives(density: Density, points: np.ndarray) -> None:
    step = 1e-5 * np.maximum(points, 1e-3)
    for value, derivative, kinks in (("loss", "score", 0.0), ("score", "curvature", 0.02)):
        f, g = getattr(density, value), getattr(density, derivative)
        numeric = (f(points + step) - f(points - step)) / (2 * step)
        noise = 1e-15 * (np.abs(f(points)) + points * points) / step
        bad = ~(np.abs(numeric - g(points)) <= 1e-5 * (1e-3 + np.abs(numeric)) + 4 * noise)
        if bad.mean() > kinks:  # a score may have a few kinks, such as Huber's
            _fail(density, f"{derivative} is not the derivative of {value}", points[bad][0])


def _check_majorizer(density: Density, points: np.ndarray, rng: np.random.Generator) -> None:
    points = np.concatenate([[0.0], points])
    at = points * rng.choice([-1.0, 1.0], points.size)
    scale = 1 + np.abs(density.loss(at))
    touch = np.abs(density.gap(at, at)) / scale
    if (touch > 1e-10).any():
        _fail(density, "the majorizer does not touch G", at[touch.argmax()])
    for y in (points, -points, rng.permutation(at), 0.5 * at, 3 * at):
        below = density.gap(y, at) / (1 + np.abs(density.loss(y)) + np.abs(density.majorizer(y, at)))
        if (below < -1e-10).any():
            _fail(density, f"the majorizer from y0 = {at[below.argmin()]:.6g} falls below G", y[below.argmin()])
    weight = density.weight(np.sort(points))
    if (weight < 0).any():
        _fail(density, "weight is negative", np.sort(points)[weight.argmin()])
    if (np.diff(weight) > 1e-9 * (1 + weight[:-1])).any():
        where = np.sort(points)[np.diff(weight).argmax()]
        _fail(density, "weight is not decreasing in abs(y), so the density is not super-Gaussian", where)


def _check_normaliser(density: Density) -> None:
    given, integrated = density.log_normaliser, integrate_normaliser(density)
    if not abs(given - integrated) <= 1e-6 * max(1, abs(integrated)):
        raise DensityError(f"density {density}: log_normaliser is {given:.9g}, integration gives {integrated:.9g}")
