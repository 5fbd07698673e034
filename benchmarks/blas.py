"""BLAS as users have it: what the environment says of the processor must not slow the products all are measured by."""

from __future__ import annotations

import os
import sys

#: Variables that tell OpenBLAS to take the processor for another one.
OVERRIDES = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def let_it_choose() -> None:
    """Start this program anew without these variables, if there are any: BLAS looks at them once, when it is loaded."""
    found = [name for name in OVERRIDES if name in os.environ]
    if found:
        print(f"once more without {', '.join(found)}, so that BLAS chooses its own code", flush=True)
        kept = {name: value for name, value in os.environ.items() if name not in found}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], kept)
