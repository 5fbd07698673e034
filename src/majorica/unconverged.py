"""The warning that a fit ended before it had converged, with figures and advice."""

from __future__ import annotations

import math

from sklearn.exceptions import ConvergenceWarning

from majorica.errors import warn
from majorica.fitting import Fitted
from majorica.solvers import StopReason


def warn_unconverged(fitted: Fitted, tol: float | None) -> None:
    """Say with figures that `max_iter` ended the fit, or that nothing could take it further."""
    stop = fitted.stop
    if tol == 0 or stop not in (StopReason.MAX_ITER, StopReason.COARSE, StopReason.STUCK):
        return
    advice = "raise max_iter, or tol if that is good enough"
    if stop is not StopReason.MAX_ITER:
        advice = stop.value.removeprefix("not converged: ")
    passes = max(1, math.ceil(fitted.passes))
    warn(f"ICA did not converge in {passes} passes: {_achieved(fitted, tol)}; {advice}", ConvergenceWarning)


def _achieved(fitted: Fitted, tol: float | None) -> str:
    wanted = f"tol={tol:g}" if tol is not None else f"the statistical floor {0.1 / math.sqrt(fitted.n_samples):.2g}"
    if math.isnan(fitted.gradient):
        return f"the loss was still falling ({wanted} was asked for)"
    return f"the largest relative gradient is {fitted.gradient:.2g}, asked for was {wanted}"
