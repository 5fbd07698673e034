"""What a fit found as the estimator's attributes: components in canonical order, sign and scale."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.fitting import Fitted
from majorica.statistics import F64, source_variances

#: Share by which explained variances may differ and say nothing about the order: fits know them to about a thousandth.
ALIKE = 0.01
#: Order of the solver's rows as published, and their signs.
Arrangement = tuple[npt.NDArray[np.intp], F64]


def attributes(fitted: Fitted, *, whiten: str, kept: Arrangement | None = None) -> dict[str, Any]:
    """The fitted attributes by name, components in canonical order and sign, or as `kept` if it is of as many."""
    whitening = fitted.whitening
    scale = np.sqrt(source_variances(fitted.W, fitted.covariance))
    mixing = whitening.inverse @ np.linalg.inv(fitted.W)
    unit = whiten == "unit-variance"
    if unit:
        mixing *= scale  # in place: few samples of many features are no larger than this
    order, signs = canonical_order(mixing if unit else mixing * scale)
    if kept is not None and len(kept[0]) == len(order):
        order, signs = kept
    W = signs[:, None] * fitted.W[order]
    mixing = mixing[:, order]
    mixing *= signs
    factor = scale[order] if unit else np.ones_like(scale)
    fitted = replace(fitted, W=W, densities=fitted.densities.take(order))
    return {
        "_fitted": fitted,
        "_order": order,
        "_signs": signs,
        "components_": (W / factor[:, None]) @ whitening.matrix,
        "mixing_": mixing,
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
    """Order by descending explained variance, and signs that make each column's largest entry positive.

    Components of white data all explain as much as each other. Where they are
    ALIKE they come in the order of the features they load on most, which differs less from fit to fit.
    """
    explained, largest = (mixing**2).sum(axis=0), np.abs(mixing).argmax(axis=0)
    entries = mixing[largest, np.arange(mixing.shape[1])]
    order = np.argsort(-explained, kind="stable")
    if explained[order[0]] <= (1 + ALIKE) * explained[order[-1]]:
        order = np.lexsort([-np.abs(entries), largest])
    return order, np.where(entries < 0, -1.0, 1.0)[order]
