"""``ICA.merge``: fitted estimators into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from majorica.errors import ParameterError
from majorica.fitting import Fitted, make_online
from majorica.inputs import check_names
from majorica.merging import Part, merge_parts
from majorica.origin import Origin
from majorica.parameters import resolve
from majorica.sources.names import differences
from majorica.streaming import StreamFit
from majorica.surrogate import stationary_surrogate
from majorica.units import model_in_unit


def merge_models(models: Sequence[Any]) -> Any:
    """One estimator of several that were fitted on disjoint data; parameters, order and signs are the first's."""
    if not models:
        raise ParameterError("merge needs at least one fitted model")
    for model in models:
        check_is_fitted(model, "components_")
        if model.n_features_in_ != models[0].n_features_in_:
            which = differences(*(getattr(each, "feature_names_in_", None) for each in (models[0], model)))
            raise ParameterError(
                f"models of {models[0].n_features_in_} and {model.n_features_in_} features cannot be merged"
                f"{f': {which} in the latter' if which else ''}"
            )
        check_names(models[0], getattr(model, "feature_names_in_", None))
    first = models[0]
    unit = getattr(first, "unit_", None)
    parts = [_part(model if unit is None else model_in_unit(model, unit)) for model in models]
    merged = merge_parts(parts)
    out = clone(first)
    options = replace(resolve(out, "online"), callbacks=())  # partial_fit brings them along
    session = StreamFit.new(options)
    session.whitening = merged.whitening
    session.state = make_online(options).init(merged.W, merged.densities, merged.surrogate, merged.seen, session.rng)
    weights = np.array([part.weight for part in parts])
    session.state.loss = float(weights @ [model.loss_ for model in models] / weights.sum())
    session.trace.append((1.0, 0.0, merged.seen, session.state.loss, np.nan))
    session.drift.update(merged.W, merged.seen, options.half_life)
    for name in ("n_features_in_", "feature_names_in_", "unit_"):
        if hasattr(first, name):
            setattr(out, name, getattr(first, name))
    out._origin = Origin("merge")
    shown = _session(first)
    identity = (np.arange(len(merged.W)), np.ones(len(merged.W)))
    session.order, session.signs = identity if shown is None else (shown.order, shown.signs)
    out._order, out._signs = identity if shown is None else (first._order, first._signs)
    out._publish(session.result(), session=session, keep_order=True)
    return out


def _session(model: Any) -> StreamFit | None:
    """The model's stream, if it is past its start."""
    session: StreamFit | None = vars(model).get("_stream")
    return session if session is not None and session.state is not None else None


def _part(model: Any) -> Part:
    fitted: Fitted = model._fitted
    session = _session(model)
    if session is None:
        surrogate = stationary_surrogate(fitted.W, fitted.covariance, fitted.densities)
        return Part(fitted.whitening, fitted.W, fitted.densities, surrogate, fitted.n_samples, fitted.n_samples)
    state, half_life = session.state, session.options.half_life
    assert state is not None
    remembered = state.seen if half_life is None else min(state.seen, half_life / math.log(2))
    # A stream's own moments hold its last samples only; the matrix it answers with is averaged over more.
    surrogate = stationary_surrogate(state.answer, state.covariance, state.densities)
    return Part(fitted.whitening, state.answer, state.densities, surrogate, state.seen, remembered)
