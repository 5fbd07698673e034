"""Fits of MNE recordings, as MNE users know them, and MNE's own ICA objects.

>>> from majorica.interop.mne import fit_raw, to_mne
>>> ica = fit_raw(raw, n_components=20, random_state=0)  # doctest: +SKIP
>>> to_mne(ica, raw.info).plot_components()  # doctest: +SKIP
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

from majorica.errors import DataError, DataTypeError, ParameterError, optional_import
from majorica.estimator import ICA
from majorica.interop.mne_objects import from_mne, to_mne
from majorica.interop.reduction import fit_reduced
from majorica.interop.selection import SelectedSource, check_limits, check_step, good_tiles
from majorica.origin import Origin
from majorica.sources.base import Source
from majorica.sources.mne import RawSource, epochs_source

__all__ = ["fit_epochs", "fit_raw", "from_mne", "raw_source", "to_mne"]


def fit_raw(
    raw: Any,
    n_components: int | float | None = None,
    *,
    picks: Any = None,
    start: int | float | None = None,
    stop: int | float | None = None,
    decim: int | None = None,
    reject: Mapping[str, float] | None = None,
    flat: Mapping[str, float] | None = None,
    tstep: float = 2.0,
    reject_by_annotation: bool = True,
    **ica_params: Any,
) -> ICA:
    """Fit an ICA to an MNE recording without loading it.

    Blocks are read as they are needed, so a recording that was opened with
    ``preload=False`` may be larger than memory. Projections that are applied
    and average references lower the rank; this is found and dealt with.

    Parameters
    ----------
    raw : mne.io.BaseRaw
        The recording; high-pass filter it first, at 1 Hz or so.
    n_components : int, float in (0, 1) or None
        How many principal components to unmix, or which share of the
        variance; channels are scaled per type (magnetometers, gradiometers,
        EEG) for this, as in MNE. None unmixes the whole numerical rank.
    picks : as in MNE, optional
        Names, types or numbers; default all good data channels.
    start, stop : int or float, optional
        First sample and the one after the last; a float is a time in seconds.
    decim : int, optional
        Use every `decim`-th sample only.
    reject, flat : mapping of channel type to float, optional
        Leave out tiles with a larger (smaller) peak-to-peak amplitude in any
        channel of that type that is not marked bad, such as
        ``reject={"eeg": 150e-6}``. Costs one pass.
    tstep : float
        Length of the tiles in seconds.
    reject_by_annotation : bool
        Leave out samples under annotations that start with ``BAD``.
    **ica_params
        Parameters of :class:`majorica.ICA`.

    Returns
    -------
    ICA
        Fitted; ``ica.transform(raw)`` and :func:`to_mne` go on from there.
    """
    source = raw_source(
        raw,
        picks=picks,
        start=start,
        stop=stop,
        decim=decim,
        reject=reject,
        flat=flat,
        tstep=tstep,
        reject_by_annotation=reject_by_annotation,
    )
    return _fit(source, n_components, channel_types(raw.info, source), ica_params, Origin("fit_raw"))


def fit_epochs(
    epochs: Any,
    n_components: int | float | None = None,
    *,
    picks: Any = None,
    decim: int | None = None,
    **ica_params: Any,
) -> ICA:
    """Fit an ICA to the samples of MNE epochs, loading a few epochs at a time.

    Parameters
    ----------
    epochs : mne.BaseEpochs
        Epochs; those that its own `reject` and `flat` refuse are left out.
    n_components, picks, decim, **ica_params
        As in :func:`fit_raw`; `decim` counts within each epoch.

    Returns
    -------
    ICA
    """
    mne = optional_import("mne", extra="mne", purpose="fitting epochs")
    if not isinstance(epochs, mne.BaseEpochs):
        raise DataTypeError(f"fit_epochs takes MNE epochs, not a {type(epochs).__name__}; use fit_raw or ICA().fit")
    source = epochs_source(epochs, picks=picks, step=check_step(decim))
    return _fit(source, n_components, channel_types(epochs.info, source), ica_params, Origin("fit_epochs"))


def raw_source(
    raw: Any,
    *,
    picks: Any = None,
    start: int | float | None = None,
    stop: int | float | None = None,
    decim: int | None = None,
    reject: Mapping[str, float] | None = None,
    flat: Mapping[str, float] | None = None,
    tstep: float = 2.0,
    reject_by_annotation: bool = True,
) -> Source:
    """The samples :func:`fit_raw` fits, as a source; parameters as there."""
    mne = optional_import("mne", extra="mne", purpose="fitting recordings")
    if not isinstance(raw, mne.io.BaseRaw):
        raise DataTypeError(f"fit_raw takes an MNE Raw object, not a {type(raw).__name__}; use fit_epochs or ICA().fit")
    if isinstance(tstep, bool) or not isinstance(tstep, numbers.Real) or not tstep > 0:
        raise ParameterError(f"tstep={tstep!r} must be a positive number of seconds")
    known = set(mne.io.get_channel_type_constants())
    limits, step = check_limits(reject, flat, known), check_step(decim)
    base = RawSource(raw, picks=picks) if reject_by_annotation else _every_sample(raw, picks)
    first, last = (_sample(raw, start, 0), _sample(raw, stop, raw.n_times))
    # Samples under BAD annotations are gone from `base`: count the good ones before each limit.
    lo, hi = (sum(min(max(edge - a, 0), b - a) for a, b in base.ranges) for edge in (first, last))
    if hi <= lo:
        raise DataError(f"no good samples between start={start!r} and stop={stop!r}")
    source: Source = base
    if (lo, hi, step) != (0, base.n_samples, 1):
        source = SelectedSource(base, [(lo, hi)], step=step)
    if limits:
        length = math.ceil(math.ceil(tstep * raw.info["sfreq"]) / step)
        types = channel_types(raw.info, source, skip=set(raw.info["bads"]))
        source = SelectedSource(source, good_tiles(source, limits, types, length))
    return source


def channel_types(info: Any, source: Source, *, skip: set[str] | None = None) -> list[str]:
    """Channel type of each feature, ``""`` for the names in `skip`."""
    mne = optional_import("mne", extra="mne", purpose="reading channel types")
    return [
        "" if skip and name in skip else str(mne.channel_type(info, info["ch_names"].index(name)))
        for name in source.feature_names or ()
    ]


def _fit(
    source: Source, n_components: int | float | None, types: list[str], ica_params: dict[str, Any], origin: Origin
) -> ICA:
    if n_components is None:
        ica: ICA = ICA(None, **ica_params).fit(source)
    else:
        ica = fit_reduced(source, n_components, types, **ica_params)
    ica._origin = origin
    return ica


def _every_sample(raw: Any, picks: Any) -> RawSource:
    """A source of `raw` that does not look at annotations."""
    return RawSource(raw.copy().set_annotations(None, verbose="ERROR"), picks=picks)


def _sample(raw: Any, edge: int | float | None, default: int) -> int:
    """A limit in samples; floats are seconds, as in MNE."""
    if edge is None:
        return default
    if isinstance(edge, bool) or not isinstance(edge, numbers.Real):
        raise ParameterError(f"start and stop must be samples (int) or seconds (float), not {edge!r}")
    return int(edge) if isinstance(edge, numbers.Integral) else int(raw.time_as_index(float(edge))[0])
