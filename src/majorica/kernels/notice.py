"""What happens when kernels are compiled for the first time: one line on stderr, so that nobody wonders about the wait.

The environment variable ``MAJORICA_QUIET`` keeps it silent. Meanwhile the
collector of cyclic garbage rests: it would search all that the compiler
builds again and again, a tenth of the time.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from typing import Any

from numba.core import event

import majorica.kernels.patience  # noqa: F401  (Ctrl-C waits)


class _Notice(event.Listener):  # type: ignore[misc]
    """Hears of every compilation, one inside the other; Numba makes one at a time. Loading from the cache is silent."""

    def __init__(self) -> None:
        self.given = False
        self.depth = 0  #: compilations under way, from the first of ours on
        self.collects = False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            function = getattr(event.data.get("dispatcher"), "py_func", None)
            if not (getattr(function, "__module__", None) or "").startswith("majorica."):
                return
            self._speak()
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        if self.depth == 1 and self.collects:
            gc.enable()
        self.depth = max(0, self.depth - 1)

    def _speak(self) -> None:
        if not self.given and not os.environ.get("MAJORICA_QUIET"):
            self.given = True
            with suppress(Exception):  # nobody may be listening
                print(
                    "majorica: compiling its kernels, once for this kind of fit (15 s, or up to a minute) ...",
                    file=sys.stderr,
                )


event.register("numba:compile", _Notice())
