"""Settings of the whole process that hold while anyone needs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Setting = Callable[[], AbstractContextManager[object]]


class Guard:
    """``with guard():`` holds a setting; nested and concurrent uses are counted.

    The first one in makes the setting, whichever thread it is in, the last
    one out takes it back. A forked child starts with a free lock and nobody
    inside.

    Parameters
    ----------
    setting : callable
        Makes the context manager that changes the process and changes it back.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start)

    def _start(self) -> None:
        self._inside = _Inside(self._setting)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the setting."""
        inside = self._inside
        inside.enter()
        try:
            yield
        finally:
            inside.leave()


class _Inside:
    """How many are inside, and what the first one changed."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._lock = threading.Lock()
        self._count = 0
        self._held: AbstractContextManager[object] | None = None

    def enter(self) -> None:
        with self._lock:
            if self._count == 0:
                held = self._setting()
                held.__enter__()
                self._held = held
            self._count += 1

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                assert self._held is not None
                self._held.__exit__(None, None, None)
                self._held = None
