"""Ways in and out of other packages: MNE-Python and EEGLAB.

``majorica.interop.mne`` fits recordings as MNE users know it and turns results
into ``mne.preprocessing.ICA`` objects and back; ``majorica.interop.eeglab``
writes results into EEGLAB datasets and reads them from there. Neither package
is imported before it is needed.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["eeglab", "mne"]


def __getattr__(name: str) -> ModuleType:
    """Import a submodule when it is first asked for."""
    if name in __all__:
        return importlib.import_module(f"majorica.interop.{name}")
    raise AttributeError(f"module 'majorica.interop' has no attribute {name!r}")
