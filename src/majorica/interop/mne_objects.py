"""The attributes of ``mne.preprocessing.ICA``: what Majorica knows of them is in this file.

MNE computes sources as ``unmixing_matrix_ @ pca_components_[:k] @ (x /
pre_whitener_ - pca_mean_)``, with orthonormal ``pca_components_``, and applies
an ICA by zeroing sources and going back through the transposed components.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from majorica.errors import DataError, ParameterError, UnitWarning, optional_import, warn
from majorica.estimator import ICA
from majorica.interop.matrices import ica_from_matrices, symmetrising_scale
from majorica.statistics import F64
from majorica.units import MOST, model_said_in, spread

#: MNE's code for volts.
_VOLTS = 107


def to_mne(ica: ICA, info: Any, *, exclude: list[int] | None = None, units: str | None = None) -> Any:
    """A fitted ICA as an ``mne.preprocessing.ICA`` object.

    Plots, ``apply``, ``save``, ``find_bads_eog`` and MNE-ICALabel work on it.
    Its sources are those of ``ica.transform``, and ``apply`` with nothing
    excluded gives the recording back, however far the dimension was reduced.

    Parameters
    ----------
    ica : ICA
        Fitted on the recording's channels; one fitted in microvolts
        (``unit_``) is converted. One that does not know its unit (fits of
        arrays and tables) is taken to be in MNE's, volts for EEG, unless
        `units` says otherwise; a ``UnitWarning`` says if that is unlikely.
    info : mne.Info or object with ``.info``
        Measurement info; channels are matched by name, or all are taken, in
        order, if the ICA has no names.
    exclude : list of int, optional
        Components marked for removal.
    units : {"uV", "V"}, optional
        What the ICA was fitted on. Fits of recordings know it (``unit_``).

    Returns
    -------
    mne.preprocessing.ICA
        With ``method="infomax"``, the criterion being the likelihood, and
        ``fit_params["extended"]`` true if sub-Gaussian sources were modelled.
        Projections of `info` are not carried over: the data that was fitted
        had been projected already.
    """
    mne = optional_import("mne", extra="mne", purpose="making MNE objects")
    if not hasattr(ica, "components_"):
        raise ParameterError("the ICA is not fitted yet; call fit, or fit_raw, before to_mne")
    excluded = _components(exclude, ica.n_components_)
    unknown = units is None and getattr(ica, "unit_", None) is None
    ica = model_said_in(ica, units, "V")
    info = _picked_info(mne, ica, getattr(info, "info", info))
    if unknown:
        _warn_unlikely(ica, info)
    extended = ica.density == "adaptive" or not bool(ica._fitted.densities.super_gaussian.all())
    out = mne.preprocessing.ICA(method="infomax", fit_params={"extended": extended}, max_iter="auto", verbose="ERROR")
    scale = symmetrising_scale(ica.components_, ica.mixing_)
    basis, variance = _principal_axes(ica, scale)
    k = ica.n_components_
    out.n_components = k
    out.n_components_ = k
    out.n_pca_components = None
    out.info = info
    out.ch_names = list(info["ch_names"])
    out.pre_whitener_ = scale[:, None]
    out.pca_mean_ = ica.mean_ / scale
    out.pca_components_ = basis.T
    out.pca_explained_variance_ = variance
    out.unmixing_matrix_ = (ica.components_ * scale) @ basis[:, :k]
    out.mixing_matrix_ = basis[:, :k].T @ (ica.mixing_ / scale[:, None])
    out.n_samples_ = int(ica.n_samples_seen_)
    out.n_iter_ = int(ica.n_iter_)
    out.reject_ = None
    out.exclude = excluded
    out.current_fit = "raw"
    out._update_ica_names()  # the one private call: names "ICA000", ...
    return out


def from_mne(mne_ica: Any) -> ICA:
    """A fitted ``mne.preprocessing.ICA`` as a :class:`majorica.ICA`.

    ``transform`` then gives MNE's sources, in MNE's order, sign and scale, from
    the recording (channels ``mne_ica.ch_names``); ``save``, ``score`` and
    ``inverse_transform`` work too.
    """
    optional_import("mne", extra="mne", purpose="reading MNE objects")
    if not hasattr(mne_ica, "unmixing_matrix_"):
        raise ParameterError("the MNE object is not a fitted ICA; call its fit first")
    k, names = int(mne_ica.n_components_), list(mne_ica.ch_names)
    whitener: F64 = np.asarray(mne_ica.pre_whitener_, dtype=np.float64)
    colour: F64
    projector: F64
    if whitener.shape == (len(names), 1):
        whitener, colour = np.diag(1 / whitener[:, 0]), np.diag(whitener[:, 0])
        projector = _active_projector(mne_ica.info, names)
    else:  # from a noise covariance, projections included
        colour = np.linalg.pinv(whitener, rcond=1e-14).astype(np.float64, copy=False)
        projector = np.eye(len(names))
    axes = np.asarray(mne_ica.pca_components_, dtype=np.float64)[:k]
    mean = np.zeros(len(names)) if mne_ica.pca_mean_ is None else np.asarray(mne_ica.pca_mean_, dtype=np.float64)
    return ica_from_matrices(
        mne_ica.unmixing_matrix_ @ axes @ whitener @ projector,
        colour @ axes.T @ mne_ica.mixing_matrix_,
        colour @ mean,
        names=names,
        unit="V",
        n_samples=int(getattr(mne_ica, "n_samples_", None) or 0),
        n_iter=int(getattr(mne_ica, "n_iter_", None) or 1),
        origin=f"by MNE, method {mne_ica.method}",
    )


def _components(exclude: list[int] | None, k: int) -> list[int]:
    """Components to exclude, each of which there is: MNE fails on others, as late as when it prints the object."""
    given = [] if exclude is None else list(exclude)
    known = [isinstance(i, numbers.Integral) and not isinstance(i, bool) and 0 <= i < k for i in given]
    if not all(known):
        wrong = given[known.index(False)]
        raise ParameterError(f"exclude names component {wrong!r}; pass numbers from 0 to {k - 1}, as there are {k}")
    return [int(i) for i in given]


def _picked_info(mne: Any, ica: ICA, info: Any) -> Any:
    """A copy of `info` with the ICA's channels only, without projections."""
    names = getattr(ica, "feature_names_in_", None)
    if names is None:
        if len(info["ch_names"]) != ica.n_features_in_:
            raise DataError(
                f"the ICA has {ica.n_features_in_} features without names, info has {len(info['ch_names'])} channels; "
                "pass an info of exactly the channels that were fitted"
            )
        names = info["ch_names"]
    missing = [str(name) for name in names if name not in info["ch_names"]]
    if missing:
        raise DataError(f"info lacks {len(missing)} channel(s) of the ICA: {', '.join(missing[:5])}")
    picked = mne.pick_info(info, [info["ch_names"].index(str(name)) for name in names])
    picked["projs"].clear()
    return picked


def _warn_unlikely(ica: ICA, info: Any) -> None:
    """Say that channels taken to be in volts deviate by more than electrodes do."""
    volts = [i for i, channel in enumerate(info["chs"]) if channel["unit"] == _VOLTS]
    if not volts:
        return
    typical = float(np.median(np.linalg.norm(spread(ica)[volts], axis=1)))
    if 1e6 * typical > MOST:
        warn(
            f"the ICA does not know the unit of its samples; they are taken as volts, but half of the channels deviate "
            f"by {typical:.3g} or more; pass units='uV' if it was fitted on microvolts, or units='V' if not",
            UnitWarning,
        )


def _principal_axes(ica: ICA, scale: F64) -> tuple[F64, F64]:
    """Orthonormal axes of all scaled channels, the kept ones first, and the variance along each.

    What was left out of the fit has variance 0 here: it is not known.
    """
    basis, deviation, _ = np.linalg.svd(spread(ica) / scale[:, None], full_matrices=True)
    variance = np.zeros(len(scale))
    variance[: len(deviation)] = deviation**2
    return basis, variance


def _active_projector(info: Any, names: list[str]) -> F64:
    active = [] if info is None else [proj for proj in info["projs"] if proj["active"]]
    if not active:
        return np.eye(len(names))
    proj = optional_import("mne.proj", extra="mne", purpose="reading projections")
    projector: F64 = proj.make_projector(active, names, include_active=True)[0]
    return projector
