"""The arithmetic of one block: plain NumPy definitions and their compiled twins."""

from __future__ import annotations

from types import ModuleType

from majorica.densities.table import Densities


def kernels_for(densities: Densities) -> ModuleType:
    """The compiled kernels where they know every density's formula, the NumPy ones otherwise."""
    if densities.compiled:
        from majorica.kernels import compiled

        return compiled
    from majorica.kernels import reference

    return reference
