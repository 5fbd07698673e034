"""Fits after a reduction of the dimension in which channels are scaled per type, as MNE does."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from majorica.engines import ThreadEngine, single_threaded_blas
from majorica.engines.base import total
from majorica.errors import OutlierWarning
from majorica.estimator import ICA
from majorica.sources.base import Array, Source, split_blocks
from majorica.sources.matrix import MatrixSource
from majorica.sources.units import unit_of
from majorica.statistics import F64
from majorica.units import keep_unit
from majorica.whitening import (
    Covariance,
    Whitening,
    choose_dimension,
    covariance_block,
    numerical_rank,
    raise_not_finite,
    warn_outlier,
)


class ReducedSource(MatrixSource):
    """Samples of another source in fewer coordinates, ``reduction @ (x - mean)``."""

    kind = "reduced samples"

    def __init__(self, base: Source, mean: F64, reduction: F64) -> None:
        self.base, self.mean, self.reduction = base, mean, reduction
        self.n_samples, self.n_features = base.n_samples, len(reduction)
        self.dtype, self.in_memory = np.dtype(np.float64), base.in_memory

    def _load(self, start: int, stop: int) -> Array:
        return (self.base.read(start, stop) - self.mean) @ self.reduction.T


def fit_reduced(source: Source, n_components: int | float, types: Sequence[str], **ica_params: Any) -> ICA:
    """Fit an ICA to the `n_components` largest principal components.

    All channels of one type are divided by one number, the deviation of that
    type, before the principal components are taken; a float keeps that share
    of the scaled variance. Costs one pass more than ``ICA.fit``.
    """
    covariance = _covariance(source, ica_params.get("n_jobs"))
    scale = _scale_by_type(covariance, types)
    scaled = covariance.matrix / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(scaled)
    values, vectors = values[::-1], vectors[:, ::-1]
    k = choose_dimension(values, _rank(covariance), n_components, source.n_features)
    root = np.sqrt(values[:k])
    reduction, expansion = (vectors[:, :k] / root).T / scale, scale[:, None] * vectors[:, :k] * root
    warn_outlier(source, covariance.n, covariance.share_of_one)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)  # of principal components, which nobody knows by name
        ica = ICA(None, **ica_params).fit(ReducedSource(source, covariance.mean, reduction))
    inner = ica._fitted
    whitening = Whitening(
        covariance.mean + expansion @ inner.whitening.mean,
        inner.whitening.matrix @ reduction,
        expansion @ inner.whitening.inverse,
        _rank(covariance),
        values[:k].copy(),
    )
    ica.set_params(n_components=n_components)
    ica.n_features_in_ = source.n_features
    if source.feature_names is not None:
        ica.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
    keep_unit(ica, unit_of(source))
    ica._publish(replace(inner, whitening=whitening))
    return ica


def _covariance(source: Source, n_jobs: int | None) -> Covariance:
    blocks = split_blocks(source.n_samples, 10_000)
    engine = ThreadEngine(n_jobs)
    try:
        with single_threaded_blas():
            covariance = total(engine, covariance_block, source, blocks)
            if not np.isfinite(covariance.scatter).all():
                raise_not_finite(source, blocks)
            return covariance
    finally:
        engine.close()


def _scale_by_type(covariance: Covariance, types: Sequence[str]) -> F64:
    """One deviation a channel type, over all its channels and samples."""
    mean, variance = covariance.mean, np.diag(covariance.matrix)
    scale = np.ones(len(mean))
    for kind in set(types):
        chosen = np.array([other == kind for other in types])
        deviation = np.sqrt(variance[chosen].mean() + mean[chosen].var())
        scale[chosen] = deviation if deviation > 0 else 1.0
    return scale


def _rank(covariance: Covariance) -> int:
    deviation = np.sqrt(np.diag(covariance.matrix))
    deviation = np.where(deviation > 0, deviation, 1.0)
    return numerical_rank(np.linalg.eigvalsh(covariance.matrix / np.outer(deviation, deviation))[::-1], len(deviation))
