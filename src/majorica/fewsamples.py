"""The warning that samples are too few to tell their components apart, as those of a transposed matrix are."""

from __future__ import annotations

from majorica.errors import FewSamplesWarning, warn
from majorica.fitting import Fitted

#: Samples a component from which on components are reliable.
ENOUGH_A_COMPONENT = 20
#: Samples a component below which a fit says that they determine nothing: in n - 1 dimensions n white samples are the
#: corners of a simplex, whatever was mixed.
NONE_A_COMPONENT = 2


def warn_few(fitted: Fitted, n_features: int) -> None:
    """Say that components are not determined, and that a matrix with few rows may lie on its side."""
    n, k = fitted.n_samples, len(fitted.W)
    if n >= NONE_A_COMPONENT * k:
        return
    on_its_side = (
        f"; rows of X ({n:,} x {n_features:,}) are samples: transpose it (X.T) if yours are channels"
        if n < n_features
        else ""
    )
    fitting = n // ENOUGH_A_COMPONENT
    warn(
        f"{n:,} samples do not tell {k:,} components apart, it takes {ENOUGH_A_COMPONENT} a component{on_its_side}; "
        f"else give more samples{f', or pass n_components<={fitting}' if fitting else ''}",
        FewSamplesWarning,
    )
