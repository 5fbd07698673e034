"""Iterates with the passes and the seconds they took; what happens inside the recorder is off the clock.

Seconds are of processor time: every algorithm runs on one thread, so on an
idle machine they are seconds of a clock on the wall, and on a busy one they
are still fair.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np


class Recorder:
    """Keeps about one iterate in every 12 % more passes, and every iterate a pass or more after the last.

    Parameters
    ----------
    passes, seconds : float
        The budget; :attr:`over` turns true when either is spent.
    """

    def __init__(self, *, passes: float, seconds: float = np.inf, spacing: float = 1.12) -> None:
        self.limit_passes = passes
        self.limit_seconds = seconds
        self.spacing = spacing
        self.passes: list[float] = []
        self.seconds: list[float] = []
        self.iterates: list[np.ndarray] = []
        self.notes: dict[str, float] = {}
        self._latest: tuple[float, float, np.ndarray] | None = None
        self._now = 0.0
        self._paused = 0.0
        self._started = time.process_time()

    def start(self) -> None:
        """Set the clock to 0: called after whatever is not part of the algorithm."""
        self._started, self._paused = time.process_time(), 0.0

    def clock(self) -> float:
        """Seconds the algorithm has run."""
        return time.process_time() - self._started - self._paused

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self._now >= self.limit_passes or self.clock() >= self.limit_seconds

    def record(self, passes: float, W: np.ndarray) -> None:
        """Offer an iterate, in the coordinates of the data; copied if kept."""
        seconds = self.clock()
        with self.paused():
            self._now = passes
            last = self.passes[-1] if self.passes else -np.inf
            if not self.passes or passes >= min(max(last * self.spacing, 1e-9), last + 1):
                self._keep(passes, seconds, W)
                self._latest = None
            else:
                self._latest = (passes, seconds, W.copy())

    def finish(self) -> None:
        """Keep the last iterate, whatever the spacing."""
        if self._latest is not None:
            self._keep(*self._latest)
            self._latest = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock for what is the benchmark's work, not the algorithm's."""
        entered = time.process_time()
        try:
            yield
        finally:
            self._paused += time.process_time() - entered

    def off_clock(self, items: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The items of an iterable whose own work (reading, generating) is not the algorithm's."""
        iterator = iter(items)
        while True:
            with self.paused():
                item = next(iterator, None)
            if item is None:
                return
            yield item

    def _keep(self, passes: float, seconds: float, W: np.ndarray) -> None:
        self.passes.append(float(passes))
        self.seconds.append(seconds)
        self.iterates.append(np.array(W, dtype=np.float64))
