"""Standard streams that were closed before the program began (``>&-``)."""

from __future__ import annotations

import errno
import os
import sys

_closed: set[str] = set()


def open_missing_streams() -> None:
    """Put the null device where a standard stream is missing.

    Python has None there, and the next file opened would take its place: what
    a library says to a closed stderr would end in a model file.
    """
    _closed.clear()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        _closed.add(name)
        handle = os.open(os.devnull, os.O_RDWR)
        try:
            os.fstat(number)  # somebody may have taken the place already
        except OSError:
            os.dup2(handle, number)
            os.close(handle)
            handle = number
        setattr(sys, name, os.fdopen(handle, mode, encoding="utf-8", closefd=False))


def need_stdout() -> None:
    """Refuse to send a result to a standard output that is closed."""
    if "stdout" in _closed:
        raise OSError(errno.EBADF, "is closed; the result has nowhere to go", "standard output")
