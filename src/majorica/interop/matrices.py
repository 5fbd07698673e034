"""From a model's matrices to other packages' conventions, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities import LogCosh
from majorica.densities.table import Densities
from majorica.errors import DataError
from majorica.estimator import ICA
from majorica.fitting import Fitted
from majorica.origin import Origin
from majorica.solvers import StopReason, Trace
from majorica.statistics import F64
from majorica.units import keep_unit
from majorica.whitening import Whitening

#: Products of projector entries below this are rounding error.
_DUST = 1e-16


def symmetrising_scale(components: F64, mixing: F64) -> F64:
    r"""Channel scales in which the model's projector is symmetric, ``(n_features,)``.

    A model that reduces the dimension keeps the part :math:`P x` of a centred
    sample, :math:`P` = mixing times components. `P` is an oblique projector in
    input units; it is orthogonal after each channel is divided by the scale
    :math:`d_c` the reduction was made in, where :math:`P_{cd} / P_{dc} =
    d_c^2 / d_d^2`. The scales are found from these ratios by least squares,
    each weighted by its precision, so they come out whatever the reduction
    used (scales per channel, per channel type, none at all). Only ratios
    matter; what the ratios leave open is the deviation of the kept part.
    Costs n_features^3.
    """
    prior = np.sqrt((mixing**2).sum(axis=1))
    prior = np.where(prior > 0, prior, 1.0)
    projector = (mixing / prior[:, None]) @ (components * prior)
    strength = projector * projector.T
    known = strength > _DUST
    np.fill_diagonal(known, False)
    weights = np.where(known, strength, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(known, 0.5 * np.log(np.abs(projector / projector.T)), 0.0)
    # Normal equations of sum w_cd (t_c - t_d - ratio_cd)^2: a graph Laplacian, solved with least norm.
    laplacian = np.diag(weights.sum(axis=1)) - weights
    shift = np.linalg.lstsq(laplacian, (weights * ratios).sum(axis=1), rcond=1e-12)[0]
    return prior * np.exp(shift)


def ica_from_matrices(
    components: npt.ArrayLike,
    mixing: npt.ArrayLike,
    mean: npt.ArrayLike,
    *,
    names: list[str] | None = None,
    unit: str | None = None,
    n_samples: int = 0,
    n_iter: int = 1,
    origin: str = "imported",
) -> ICA:
    """A fitted :class:`majorica.ICA` from matrices that were found elsewhere.

    Order, signs and scale of the components stay as they are.

    Parameters
    ----------
    components : array (n_components, n_features)
        Unmixing matrix.
    mixing : array (n_features, n_components)
        Mixing matrix, ``components @ mixing`` the identity.
    mean : array (n_features,)
        Mean of the features.
    names : list of str, optional
        Feature names.
    unit : str, optional
        Unit of the features.
    n_samples, n_iter : int
        Samples and iterations of the fit, as far as known.
    origin : str
        Shown in ``stop_reason_``.
    """
    B, M = np.asarray(components, dtype=np.float64), np.asarray(mixing, dtype=np.float64)
    k, f = B.shape
    if M.shape != (f, k) or not np.allclose(B @ M, np.eye(k), atol=1e-6):
        raise DataError(
            f"components {B.shape} and mixing {M.shape} do not belong together: their product must be the identity"
        )
    ica = ICA(n_components=k, whiten="arbitrary-variance", density="logcosh")
    ica.n_features_in_ = f
    if names is not None:
        ica.feature_names_in_ = np.asarray(names, dtype=object)
    keep_unit(ica, unit)
    fitted = Fitted(
        whitening=Whitening(np.asarray(mean, dtype=np.float64), B, M, k, np.ones(k)),
        W=np.eye(k),
        densities=Densities.same(LogCosh(), k),
        covariance=np.eye(k),
        loss=float("nan"),
        passes=float(n_iter),
        n_samples=n_samples,
        stop=StopReason.FLOOR,
        gradient=float("nan"),
        trace=Trace().array(),
    )
    ica._origin = Origin("elsewhere")
    keep_order(ica, k)
    ica._publish(fitted, keep_order=True)
    ica.stop_reason_ = f"not fitted here: {origin}"
    return ica


def keep_order(ica: Any, k: int) -> None:
    """Have the next model published on `ica` keep the order and signs it comes in."""
    ica._order, ica._signs = np.arange(k), np.ones(k)
