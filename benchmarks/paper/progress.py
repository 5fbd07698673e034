"""One line on the terminal that says what is being run; plain lines in a log."""

from __future__ import annotations

import sys
import time


class Progress:
    """Writes to stderr."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.live = sys.stderr.isatty()
        self.shown = ""

    def begin(self, group: str, what: str) -> None:
        """Something starts."""
        line = f"[{time.perf_counter() - self.started:6.0f} s] {group}: {what}"
        if self.live:
            sys.stderr.write(f"\r\x1b[2K{line}")
        elif group != self.shown:
            sys.stderr.write(f"{line.rsplit(':', 1)[0]}\n")
        self.shown = group
        sys.stderr.flush()

    def end(self) -> None:
        """A group is done."""
        if self.live:
            sys.stderr.write("\n")
