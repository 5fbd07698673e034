"""The arithmetic of one block: plain NumPy definitions and their compiled twins."""

from __future__ import annotations

import importlib
from functools import cache
from types import ModuleType
from typing import Literal

from majorica.densities.table import Densities

#: Which kernels to run: the choice is the densities' when None.
Backend = Literal["reference", "compiled"] | None


def kernels_for(densities: Densities, backend: Backend = None) -> ModuleType:
    """The compiled kernels where they know every density's formula, the NumPy ones otherwise."""
    return _module(backend or ("compiled" if densities.compiled else "reference"))


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(f"majorica.kernels.{name}")
