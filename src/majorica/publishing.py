"""What a fit found as the estimator's attributes: components in canonical order, sign and scale."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.fitting import Fitted
from majorica.statistics import F64, source_variances

#: Order of the solver's rows as published, and their signs.
Arrangement = tuple[npt.NDArray[np.intp], F64]


def attributes(fitted: Fitted, *, whiten: str, kept: Arrangement | None = None) -> dict[str, Any]:
    """The fitted attributes by name, components in canonical order and sign, or as `kept` if it is of as many."""
    whitening = fitted.whitening
    scale = np.sqrt(source_variances(fitted.W, fitted.covariance))
    mixing = whitening.inverse @ np.linalg.inv(fitted.W)
    order, signs = canonical_order(mixing * scale)
    if kept is not None and len(kept[0]) == len(order):
        order, signs = kept
    W = signs[:, None] * fitted.W[order]
    mixing, scale = mixing[:, order] * signs, scale[order]
    factor = scale if whiten == "unit-variance" else np.ones_like(scale)
    fitted = replace(fitted, W=W, densities=fitted.densities.take(order))
    return {
        "_fitted": fitted,
        "_order": order,
        "_signs": signs,
        "components_": (W / factor[:, None]) @ whitening.matrix,
        "mixing_": mixing * factor,
        "mean_": whitening.mean,
        "whitening_": whitening.matrix,
        "n_components_": len(W),
        "rank_": whitening.rank,
        "n_iter_": max(1, math.ceil(fitted.passes)),
        "n_samples_seen_": fitted.n_samples,
        "loss_": fitted.loss,
        "trace_": fitted.trace,
        "converged_": fitted.stop.converged,
        "stop_reason_": fitted.stop.value,
        "densities_": fitted.densities.names,
    }


def canonical_order(mixing: F64) -> Arrangement:
    """Order by descending explained variance, and signs that make each column's largest entry positive."""
    order = np.argsort(-(mixing**2).sum(axis=0), kind="stable")
    largest = np.abs(mixing).argmax(axis=0)
    signs = np.where(mixing[largest, np.arange(mixing.shape[1])] < 0, -1.0, 1.0)
    return order, signs[order]
