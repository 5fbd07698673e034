"""Mean, covariance and whitening of a source in one stable pass."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from majorica.drifts import warn_drifting
from majorica.engines.base import Engine, total
from majorica.errors import DataError, OutlierWarning, ParameterError, RankError, RankWarning, RepeatWarning, warn
from majorica.quantised import warn_rounded
from majorica.sources.base import Block, Source
from majorica.sources.names import feature_label, some_of
from majorica.statistics import F64

Array = npt.NDArray[np.floating]

#: Eigenvalues of the correlation matrix below this times p times the largest are numerical dust. Mixtures of
#: condition 1e6 reach 1e-12; an average reference taken in float32 leaves 1e-14, in float64 nothing.
RANK_TOLERANCE = {np.dtype(np.float64): 1e-15, np.dtype(np.float32): 1e-14}
_TINY = float(np.finfo(np.float64).tiny)
#: Part of a feature in all components below which it has none; rounding leaves 1e-30.
DUST = 1e-20
#: Share of a feature's scatter from which one sample is an outlier (heavy tails come to half of it now and then),
#: where there are enough samples to tell.
MOST, ENOUGH = 0.9, 100
#: Share of samples that equal the one before from which on they may be fitted instead of the sources.
REPEATED = 0.05
#: Share from which on sums of float32 cannot tell what all other samples would gain.
HEAVY = 0.1
#: Range of all features below which their squares are no normal numbers.
TOO_SMALL = 1e-150
#: Below this ratio of eigenvalues, a second pass over whitened samples refines the whitening.
REFINE_BELOW = 1e-7


@dataclass
class Covariance:
    """Mean and scatter of some samples; mergeable in any grouping (Chan's update), float64."""

    n: int
    mean: F64  #: (f,)
    scatter: F64  #: sum of (x - mean)(x - mean)^T, (f, f)
    low: F64  #: lowest value of each feature
    high: F64  #: highest
    repeats: int = 0  #: samples that equal the one before

    def __iadd__(self, other: Covariance) -> Covariance:
        n = self.n + other.n
        shift = other.mean - self.mean
        self.scatter += other.scatter
        self.scatter += np.outer(shift, shift * (self.n * other.n / n))
        self.mean += shift * (other.n / n)
        self.n = n
        self.repeats += other.repeats
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)
        return self

    @property
    def matrix(self) -> F64:
        """The covariance matrix, normalised by n."""
        return self.scatter / self.n

    @property
    def share_of_one(self) -> F64:
        """Share of each feature's scatter that its farthest sample holds; 0 if it is constant."""
        peak = np.maximum(self.high - self.mean, self.mean - self.low)
        return np.where(peak > 1e-13 * np.abs(self.mean), peak**2 / np.maximum(self.scatter.diagonal(), _TINY), 0.0)


@dataclass(frozen=True)
class Whitening:
    """Affine map to white samples: ``z = matrix (x - mean)``."""

    mean: F64  #: (f,)
    matrix: F64  #: (k, f)
    inverse: F64  #: (f, k), from white samples back
    rank: int  #: numerical rank of the data
    variance: F64  #: variance of each kept direction, in units of standardised channels, (k,)
    wide: bool = False  #: whether passes take samples of float32 in float64, as single ones outweigh many others

    @classmethod
    def identity(cls, k: int) -> Whitening:
        """Of samples that are white already."""
        return cls(np.zeros(k), np.eye(k), np.eye(k), k, np.ones(k))

    @property
    def k(self) -> int:
        """Number of white dimensions."""
        return len(self.matrix)

    @property
    def left_out(self) -> npt.NDArray[np.intp]:
        """Features that no component has a part of, as they were constant; in whatever unit others are."""
        parts = np.abs(self.matrix).max(axis=0) * np.abs(self.inverse).max(axis=1)  # without squares, which overflow
        return np.flatnonzero(parts < DUST)

    @property
    def log_volume(self) -> float:
        """Log of the volume factor from input units to white coordinates.

        The longest rows first: squares of units that differ by 1e8, or rows in another order, leave no digit.
        """
        rows = self.matrix.T
        longest_first = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
        triangle = np.asarray(np.linalg.qr(rows[longest_first], mode="r"))
        return float(np.log(np.abs(triangle.diagonal())).sum())


def covariance_block(X: Array) -> Covariance:
    """Mean and scatter of one block."""
    from majorica.kernels.compiled import scatter

    return Covariance(len(X), *scatter(X))


def whiten_block(X: Array, mean: F64, K: F64) -> F64:
    """Whitened samples of one block, in float64."""
    white: F64 = (X - mean) @ K.T
    return white


def whitened_covariance_block(X: Array, mean: F64, K: F64) -> Covariance:
    """Covariance of the whitened samples of one block."""
    return covariance_block(whiten_block(X, mean, K))


def fit_whitening(
    source: Source,
    blocks: Sequence[Block],
    engine: Engine,
    *,
    n_components: int | float | None = None,
    adaptive: bool = False,
) -> Whitening:
    """Centre, standardise, find the rank and whiten; says what is odd, also of what `adaptive` densities would fit.

    The rank is judged on the correlation matrix, so channels of very
    different units do not hide each other. Costs one pass (two for very
    ill-conditioned data) and f^2 memory; wide sources (more features than
    samples) go through the Gram matrix instead, n^2 memory.
    """
    n = sum(stop - start for block in blocks for start, stop in block)
    if n < 2:
        raise DataError(
            f"n_samples={n}: independent component analysis needs at least 2 samples, better 20 a component"
        )
    if source.n_features > n:
        return _fit_wide(source, blocks, n_components)
    covariance = total(engine, covariance_block, source, blocks)
    if not np.isfinite(covariance.scatter).all():
        raise_not_finite(source, blocks)
    matrix = covariance.matrix
    deviation = np.sqrt(matrix.diagonal())
    varying = deviation > 1e-13 * np.maximum(np.abs(covariance.mean), _TINY)
    scale = deviation if varying.all() else np.where(varying, deviation, 1.0)
    correlation = matrix / (scale[:, None] * scale)
    if scale is not deviation:
        correlation = np.where(np.outer(varying, varying), correlation, 0.0)
    values, vectors = np.linalg.eigh(correlation)
    values, vectors = values[::-1], vectors[:, ::-1]
    if not varying.any():
        _refuse_constant(covariance.high, covariance.low)
    rank = numerical_rank(values, len(values), source.dtype)
    k = choose_dimension(values, rank, n_components, source.n_features, why=_why(source, varying, rank))
    _warn_reduced(source, varying, rank, k, n_components)
    if k == source.n_features:
        warn_rounded(source, matrix, values)
    warn_drifting(source, matrix, varying)
    shares = covariance.share_of_one
    warn_outlier(source, n, shares)
    if adaptive:
        warn_repeats(n, covariance.repeats)
    root = np.sqrt(values[:k])
    K = (vectors[:, :k] / root).T / scale
    inverse = scale[:, None] * vectors[:, :k] * root
    if values[k - 1] < REFINE_BELOW * values[0]:
        residual = total(engine, whitened_covariance_block, source, blocks, covariance.mean, K).matrix
        spread, basis = np.linalg.eigh(residual)
        if not spread[0] > 0:
            raise RankError(f"the data's rank is below {k}; pass a smaller n_components")
        K = (basis / np.sqrt(spread)) @ basis.T @ K
        inverse = inverse @ ((basis * np.sqrt(spread)) @ basis.T)
    wide = is_heavy(source, shares)
    return Whitening(covariance.mean, K, inverse, rank, values[:k].copy(), wide)


def _fit_wide(source: Source, blocks: Sequence[Block], n_components: int | float | None) -> Whitening:
    """Whitening of few samples in many features, through the n x n Gram matrix."""
    ranges = [r for block in blocks for r in block]
    X = np.concatenate([source.read(*r) for r in ranges], dtype=np.float64)
    n = len(X)
    if not np.isfinite(X).all():
        raise_not_finite(source, blocks)
    mean = X.mean(axis=0)
    X -= mean
    deviation = np.sqrt(np.einsum("ij,ij->j", X, X) / n)
    varying = deviation > 1e-13 * np.maximum(np.abs(mean), np.finfo(np.float64).tiny)
    scale = np.where(varying, deviation, 1.0)
    if not varying.any():
        _refuse_constant(X.max(axis=0), X.min(axis=0))
    X /= scale
    X[:, ~varying] = 0.0
    shares = np.maximum(X.max(axis=0), -X.min(axis=0)) ** 2 / n
    warn_outlier(source, n, shares)
    values, vectors = np.linalg.eigh(X @ X.T / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = min(numerical_rank(values, len(values), source.dtype), n - 1)
    k = choose_dimension(values, rank, n_components, source.n_features, why=_why(source, varying, rank))
    _warn_reduced(source, varying, rank, k, n_components)
    directions = X.T @ vectors[:, :k]
    del X  # in place from here on: each of these has the size of the data
    directions /= np.linalg.norm(directions, axis=0)
    root = np.sqrt(values[:k])
    matrix = (directions / root).T
    matrix /= scale
    directions *= scale[:, None]
    directions *= root
    return Whitening(mean, matrix, directions, rank, values[:k].copy(), is_heavy(source, shares))


def numerical_rank(values: F64, p: int, dtype: npt.DTypeLike = np.float64) -> int:
    """How many of the descending eigenvalues stand above the rounding error of samples of `dtype`."""
    if not values[0] > 0:
        raise DataError("every feature is constant: there is no variance to separate; check the input")
    return int((values > values[0] * RANK_TOLERANCE[np.dtype(dtype)] * max(p, 100)).sum())


def _refuse_constant(high: F64, low: F64) -> None:
    """Say that numbers are too small to be squared, if that is why no feature seems to vary."""
    spread = float(np.max(high - low))
    if 0 < spread < TOO_SMALL:
        raise DataError(
            f"the features vary by {spread:.2g} at most, whose square is too small a number; "
            "rescale the input, to about 1 say"
        )


def _constant(source: Source, varying: npt.NDArray[np.bool_]) -> str:
    """Features that are constant, by name and in words; empty if there are none."""
    labels = [feature_label(source.feature_names, int(i)) for i in np.flatnonzero(~varying)]
    return f"constant feature(s) {some_of(labels)}" if labels else ""


def _why(source: Source, varying: npt.NDArray[np.bool_], rank: int) -> str:
    """What lowers the rank, in words: constant features or too few samples; empty if neither does."""
    few = f"{source.n_samples} samples span no more" if rank == source.n_samples - 1 else ""
    return _constant(source, varying) or few


def choose_dimension(
    values: F64, rank: int, n_components: int | float | None, n_features: int, *, why: str = ""
) -> int:
    """Number of directions to keep: a count, a share of the variance, or all of the rank.

    `why` says in words what lowers the rank, where that is known, for messages.
    """
    if n_components is None:
        return rank
    if isinstance(n_components, float | np.floating) and 0 < n_components < 1:
        share = np.cumsum(values[:rank]) / values[:rank].sum()
        return min(rank, int(np.searchsorted(share, n_components)) + 1)
    if isinstance(n_components, bool) or not isinstance(n_components, numbers.Integral) or n_components < 1:
        raise ParameterError(
            f"n_components={n_components!r} must be None, a positive integer, or a share of variance between 0 and 1"
        )
    if n_components > rank:
        hint = why or ("average reference?" if rank == n_features - 1 else "")
        hint = f" ({hint})" if hint else ""
        raise RankError(
            f"n_components={n_components} exceeds the data's rank {rank}{hint}; "
            f"pass n_components<={rank} or leave it None."
        )
    return int(n_components)


def _warn_reduced(
    source: Source, varying: npt.NDArray[np.bool_], rank: int, k: int, n_components: int | float | None
) -> None:
    """Say once, by name, why there are fewer components than features."""
    if rank == source.n_features or n_components is not None or source.n_features > source.n_samples:
        return
    one, more = "average reference or one duplicated feature?", "duplicated or linearly dependent features?"
    why = _why(source, varying, rank) or (one if rank == source.n_features - 1 else more)
    warn(f"the data has rank {rank} in {source.n_features} features ({why}); fitting {k} components.", RankWarning)


def warn_outlier(source: Source, n: int, shares: F64) -> None:
    """Say that one sample outweighs all others of a feature: it is likely to get a component of its own."""
    far = np.flatnonzero(shares > MOST)
    if not len(far) or n < ENOUGH:
        return
    worst = far[np.argmax(shares[far])]
    name = feature_label(source.feature_names, int(worst))
    more = f" (and that of {len(far) - 1} more)" if len(far) > 1 else ""
    warn(
        f"one of {n:,} samples holds {min(shares[worst], 1):.0%} of the variance of feature {name}{more} and is likely "
        "to get a component of its own; drop or mend it first if it is a fault",
        OutlierWarning,
    )


def warn_repeats(n: int, repeats: int) -> None:
    """Say that many samples tell nothing: they are fitted as if sources were at rest, and all at once."""
    if repeats > REPEATED * n and n >= ENOUGH:
        warn(
            f"{repeats / n:.0%} of {n:,} samples equal the one before (padding, a lost connection, sources at rest?) "
            "and may be fitted instead of the sources: drop them unless the sources themselves are at rest, which the "
            "default solver mostly allows for; all solvers mind less with density='huber'",
            RepeatWarning,
        )


def is_heavy(source: Source, shares: F64) -> bool:
    """Whether samples of float32 have to be taken in float64, by the share of a feature's scatter that one holds."""
    return source.dtype == np.float32 and bool(shares.max() > HEAVY)


def raise_not_finite(source: Source, blocks: Sequence[Block]) -> None:
    """Find the first NaN or infinity and say where it is."""
    for block in blocks:
        for start, stop in block:
            X = source.read(start, stop)
            bad = ~np.isfinite(X)
            if bad.any():
                row, column = (int(v) for v in np.argwhere(bad)[0])
                kind = "NaN" if math.isnan(X[row, column]) else "infinity"
                name = feature_label(source.feature_names, column)
                raise DataError(
                    f"Input X contains {kind} (inf or NaN are not accepted) at sample {start + row}, feature {name}; "
                    "drop or interpolate such samples first"
                )
    raise DataError("the samples are finite but their squares overflow; rescale the input (values above 1e150)")
