"""What went wrong, in one line and one exit code."""

from __future__ import annotations

import sys
import traceback as tracebacks
from typing import Any

from majorica.cli.messages import say
from majorica.cli.words import for_the_shell
from majorica.errors import (
    DensityError,
    MajoricaError,
    MemoryLimitError,
    MissingDependencyError,
    ParameterError,
)

DONE, BUG, USAGE, DATA, NOT_CONVERGED, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 3, 4, 130, 141

_USAGE_ERRORS = (ParameterError, DensityError, MemoryLimitError, MissingDependencyError)


class Stop(Exception):
    """End the program with `code`; everything has been said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class UsageError(ParameterError):
    """The command line asks for something that cannot be."""


def explain(error: Exception, *, traceback: bool = False) -> int:
    """Say in one line what `error` means for the user, and return the exit code."""
    if traceback:
        tracebacks.print_exception(error, file=sys.stderr)
    if hasattr(error, "format_message"):  # the command-line parser's own errors
        context: Any = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "majorica")
        said = error.format_message().replace("Value error, ", "").rstrip(".")
        say(f"{said}; see {command} --help")
        return USAGE
    if isinstance(error, MajoricaError):
        say(for_the_shell(str(error)))
        return USAGE if isinstance(error, _USAGE_ERRORS) else DATA
    if isinstance(error, MemoryError):
        say("out of memory; pass --memory-limit, fewer --n-components, or a smaller input")
        return DATA
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror or error}")
        return DATA
    say(f"internal error, {type(error).__name__}: {error}; please report it, with the output of -vv")
    return BUG
