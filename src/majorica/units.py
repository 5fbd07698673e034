"""The unit a model was fitted in: kept with it, and changed where another package has its own."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from majorica.errors import ParameterError, UnitWarning, warn
from majorica.sources.base import Source, Stream
from majorica.sources.units import MICROVOLTS, factor, in_unit, unit_of
from majorica.statistics import F64

#: Microvolts by which half the channels of a recording hardly deviate: less, or more.
LEAST, MOST = 1e-3, 5e4


def keep_unit(ica: Any, unit: str | None) -> None:
    """Note the unit of the samples that `ica` is fitted on; without one it has no ``unit_``."""
    vars(ica).pop("unit_", None)
    if unit is not None:
        ica.unit_ = unit


def in_unit_of(ica: Any, source: Source | Stream) -> Source | Stream:
    """`source` in the unit that `ica` was fitted in, where both are known; warns if the one unknown is unlikely."""
    known, given = getattr(ica, "unit_", None), unit_of(source)
    if known is None and given in MICROVOLTS:
        _warn_unlikely(ica, given)
    return in_unit(source, known)


def _warn_unlikely(ica: Any, unit: str) -> None:
    """Say that a model of numbers is given a recording whose unit these had hardly been in."""
    typical = float(np.median(np.linalg.norm(spread(ica), axis=1)))
    if LEAST < typical * MICROVOLTS[unit] < MOST:
        return
    other = "uV" if unit == "V" else "V"
    warn(
        f"the ICA was fitted on numbers of an unknown unit and is given samples in {unit}, which it takes as they are; "
        f"in {unit} half of the features would have deviated by {typical:.3g} or more: "
        f"set ica.unit_ = {other!r} if it was fitted on those, or fit the recording itself",
        UnitWarning,
    )


def spread(ica: Any) -> F64:
    """A root of the covariance of the features as the ICA has it, ``(f, k)``."""
    root: F64 = ica._fitted.whitening.inverse @ np.linalg.cholesky(ica._fitted.covariance)
    return root


def model_in_unit(ica: Any, unit: str) -> Any:
    """`ica` as if fitted on the same samples in `unit`: itself if it was, or if its unit is not known.

    Of a converted copy the matrices may be used; it does not go on learning.
    """
    ratio = factor(getattr(ica, "unit_", None), unit)
    if ratio == 1.0:
        return ica
    out, old = copy.copy(ica), ica._fitted.whitening
    whitening = replace(old, mean=old.mean * ratio, matrix=old.matrix / ratio, inverse=old.inverse * ratio)
    out._fitted = replace(ica._fitted, whitening=whitening)
    out.components_, out.mixing_ = ica.components_ / ratio, ica.mixing_ * ratio
    out.mean_, out.whitening_ = whitening.mean, whitening.matrix
    out.unit_ = unit
    return out


def check_units(units: Any) -> None:
    """Refuse what is no unit that a caller can say."""
    if units not in (None, "uV", "V"):
        raise ParameterError(f"units={units!r} must be 'uV' or 'V'")


def model_said_in(ica: Any, units: str | None, wanted: str) -> Any:
    """`ica` in the unit `wanted`; `units` is what the caller says it was fitted on, if it does not know."""
    check_units(units)
    known = getattr(ica, "unit_", None)
    if known is not None and units not in (None, known):
        raise ParameterError(f"units={units!r}, but the ICA was fitted on samples in {known}; leave units out")
    said = copy.copy(ica)
    keep_unit(said, known or units)
    return model_in_unit(said, wanted)
