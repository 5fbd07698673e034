"""Models of disjoint data into one: components matched, moments brought to one basis and averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.errors import MajoricaWarning, ParameterError, warn
from majorica.statistics import F64, invert, source_variances
from majorica.surrogate import Surrogate, stationary_surrogate
from majorica.whitening import Whitening

#: Median cosine between matched components below which models are hardly of one mixture: models of random others have
#: 0.3 to 0.82, of one with thousands of samples 0.99.
ALIKE = 0.85


@dataclass
class Part:
    """One model that goes into a merge."""

    whitening: Whitening  #: mean included
    W: F64
    densities: Densities
    surrogate: Surrogate  #: in this part's own whitened coordinates
    seen: int  #: samples seen
    weight: float  #: samples it still remembers


@dataclass
class Merged:
    """The merged model, in the whitened coordinates of the first part."""

    whitening: Whitening
    W: F64
    densities: Densities
    surrogate: Surrogate
    seen: int


def merge_parts(parts: Sequence[Part], *, sweeps: int = 30) -> Merged:
    """Average the surrogates of models fitted on disjoint data and minimise the average.

    Each part's surrogate stands for its own data near its own answer, so the
    average, weighted by samples, stands for all data. Cost p^4 a part.
    """
    first = parts[0]
    weights = np.array([part.weight for part in parts])
    weights = weights / weights.sum()
    mean = sum(w * part.whitening.mean for w, part in zip(weights, parts, strict=True))
    moved = [first.surrogate] + [_into_basis(part, first) for part in parts[1:]]
    sums = [np.zeros_like(a) for a in (moved[0].moments, moved[0].tilts, moved[0].offsets, moved[0].covariance)]
    for weight, part, surrogate in zip(weights, parts, moved, strict=True):
        shift = first.whitening.matrix @ (part.whitening.mean - mean)
        covariance = surrogate.covariance + np.outer(shift, shift)
        for sum_, a in zip(sums, (surrogate.moments, surrogate.tilts, surrogate.offsets, covariance), strict=True):
            sum_ += weight * a
    surrogate = Surrogate(sums[0], sums[1], sums[2], sums[3])
    _settle_densities(first.densities, surrogate)
    W = first.W.copy()
    inverse = invert(W)
    for _ in range(sweeps):
        before = W.copy()
        surrogate.minimise(W, inverse, first.densities, iterations=10)
        if np.abs(W - before).max() <= 1e-12 * np.abs(W).max():
            break
    whitening = replace(first.whitening, mean=mean)
    return Merged(whitening, W, first.densities, surrogate, sum(part.seen for part in parts))


def _settle_densities(densities: Densities, surrogate: Surrogate) -> None:
    """Sub-Gaussian rows share the covariance, as the M-step expects."""
    for i in np.flatnonzero(~densities.super_gaussian):
        surrogate.moments[i] = densities.flat_weights[i] * surrogate.covariance


def _into_basis(part: Part, first: Part) -> Surrogate:
    """A part's surrogate in the coordinates, row order and signs of the first one."""
    if part.whitening.matrix.shape != first.whitening.matrix.shape:
        raise ParameterError(
            f"models of shapes {first.whitening.matrix.shape} and {part.whitening.matrix.shape} "
            "(components, features) cannot be merged; fit them with one n_components"
        )
    back = first.whitening.inverse @ (first.whitening.matrix @ part.whitening.inverse)
    scale = np.abs(part.whitening.inverse).max(axis=1, keepdims=True)
    scale[scale == 0] = 1.0
    if np.abs((back - part.whitening.inverse) / scale).max() > 1e-3:
        raise ParameterError(
            "the models span different subspaces of the features and cannot be merged; "
            "keep all components, or fit both on one reduction"
        )
    T = first.whitening.matrix @ part.whitening.inverse
    B = part.W @ part.whitening.matrix
    order, signs = match_components(B, first.whitening.inverse, first.W)
    _warn_apart(_cosines(B, first.whitening.inverse, first.W)[order, np.arange(len(order))])
    W = signs[:, None] * part.W[order]
    chosen = part.densities.take(order)
    source = part.surrogate
    # Shapes are made for their own scale, at which alone a row is where the first's shapes would leave it.
    scales = source_variances(first.W, first.surrogate.covariance) / source_variances(W, source.covariance)
    fresh = stationary_surrogate(np.sqrt(scales)[:, None] * W, source.covariance, first.densities)
    out = Surrogate(fresh.moments, fresh.tilts, fresh.offsets, source.covariance)
    for i, j in enumerate(order):
        if chosen[i] == first.densities[i]:  # otherwise the part's moments are of another density: use the model's own
            out.moments[i], out.offsets[i] = source.moments[j], source.offsets[j]
            out.tilts[i] = signs[i] * source.tilts[j]
    return Surrogate(T @ out.moments @ T.T, out.tilts @ T.T, out.offsets, T @ out.covariance @ T.T)


def match_components(B: F64, inverse: F64, W: F64) -> tuple[npt.NDArray[np.intp], F64]:
    """Order and signs that turn the rows of the unmixing `B` ``(k, f)`` into those of the model ``W``.

    `inverse` ``(f, k)`` takes the model's whitened coordinates to features.
    """
    from scipy.optimize import linear_sum_assignment

    turn = _cosines(B, inverse, W)
    _, order = linear_sum_assignment(-np.abs(turn).T)
    signs = np.where(turn[order, np.arange(len(order))] < 0, -1.0, 1.0)
    return order, signs


def _cosines(B: F64, inverse: F64, W: F64) -> F64:
    """Rows of `B` as combinations of the model's sources, of length 1 each."""
    turn: F64 = B @ inverse @ np.linalg.inv(W)
    return turn / np.linalg.norm(turn, axis=1, keepdims=True)


def _warn_apart(matched: F64) -> None:
    """Say that a model's components are hardly the first's, by the cosines between matched ones."""
    typical = float(np.median(np.abs(matched)))
    if len(matched) > 1 and typical < ALIKE:
        degrees = np.degrees(np.arccos(typical))
        warn(
            f"half of a model's components are turned against the first model's by {degrees:.0f} degrees or more; "
            "those of one mixture, fitted on enough samples, differ by few, and what is merged of others is neither's: "
            "fit all of the data at once if you can",
            MajoricaWarning,
        )
