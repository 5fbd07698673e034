"""Majorica: independent component analysis of large, long and live data.

``from majorica import ICA`` is all most users need. Names are loaded on first
use, so ``import majorica`` costs a few milliseconds.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ICA": "majorica.estimator",
    "as_source": "majorica.sources",
    "check_density": "majorica.densities",
    "amari_distance": "majorica.metrics",
    "MajoricaError": "majorica.errors",
    "Report": "majorica.report",
}

__all__ = ["ICA", "MajoricaError", "Report", "__version__", "amari_distance", "as_source", "check_density"]


def __getattr__(name: str) -> Any:
    """Import a public name, or a submodule, when it is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in {"metrics", "densities", "sources", "errors", "interop", "report"}:
        return importlib.import_module(f"majorica.{name}")
    raise AttributeError(f"module 'majorica' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
