"""One line on stderr when kernels are compiled for the first time, so that nobody wonders about the wait.

The environment variable ``MAJORICA_QUIET`` keeps it silent.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from numba.core import event


class _Notice(event.Listener):  # type: ignore[misc]
    """Speaks up at the first compilation of one of our kernels; loading from the cache is silent."""

    def __init__(self) -> None:
        self.given = False

    def on_start(self, event: Any) -> None:
        module = getattr(getattr(event.data.get("dispatcher"), "py_func", None), "__module__", "")
        if not self.given and module.startswith("majorica.") and not os.environ.get("MAJORICA_QUIET"):
            self.given = True
            print(
                "majorica: compiling its kernels, once on this machine (15 s, or up to a minute) ...", file=sys.stderr
            )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Notice())
