"""Ctrl-C while kernels are compiled or loaded waits until the one under way is done.

LLVM calls back into Python, where an interrupt is lost, or leaves a kernel
half made that fails later as if by a bug. Other people's kernels are left alone.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher


class _Patience(event.Listener):  # type: ignore[misc]
    """Hears of Numba's lock, which is held while it loads, compiles or stores a kernel and those within it."""

    def __init__(self, is_ours: Callable[[], bool]) -> None:
        self.is_ours = is_ours
        self.depth = 0  #: locks of the main thread, from the first of ours on
        self.handler: Any = None  #: the user's
        self.came = False

    def on_start(self, event: Any) -> None:
        if threading.current_thread() is not threading.main_thread():  # Python interrupts no other
            return
        if self.depth == 0:
            handler = signal.getsignal(signal.SIGINT)
            if not callable(handler) or not self.is_ours():  # ignored, or not Python's to handle
                return
            self.handler, self.came = handler, False
            signal.signal(signal.SIGINT, self._note)
        self.depth += 1

    def on_end(self, event: Any) -> None:
        if self.depth == 0 or threading.current_thread() is not threading.main_thread():
            return
        self.depth -= 1
        if self.depth:
            return
        handler, self.handler = self.handler, None
        if signal.getsignal(signal.SIGINT) == self._note:  # else somebody has set another meanwhile
            signal.signal(signal.SIGINT, handler)
        if self.came:
            handler(signal.SIGINT, sys._getframe())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True


def _is_ours() -> bool:
    """Whether the kernel that Numba is asked for is one of this package: the lock does not say."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        kernel = frame.f_locals.get("self")
        if isinstance(kernel, Dispatcher):
            function = getattr(kernel, "py_func", None)  # none yet while it is being made
            return (getattr(function, "__module__", None) or "").startswith("majorica.")
        frame = frame.f_back
    return False


event.register("numba:compiler_lock", _Patience(_is_ours))
