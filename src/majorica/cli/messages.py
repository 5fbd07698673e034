"""Words to the user on stderr, results on stdout."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from majorica.cli.streams import need_stdout
from majorica.cli.words import for_the_shell, printable


def say(text: str) -> None:
    """One line on stderr; quiet if nobody reads it any more."""
    line = printable(str(text))
    try:
        encoding = sys.stderr.encoding or "utf-8"
        safe = line.encode(encoding, "backslashreplace").decode(encoding)
        print(f"majorica: {safe}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        pass


def emit(result: dict[str, Any]) -> None:
    """A result as one JSON object on stdout; numbers that JSON has no word for become null."""
    need_stdout()
    print(json.dumps({key: plain(value) for key, value in result.items()}, ensure_ascii=True, indent=2))


def plain(value: Any) -> Any:
    """`value` with NumPy numbers and arrays as Python's own."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@contextmanager
def spoken_warnings(*, quiet: bool) -> Iterator[None]:
    """Warnings as one line each on stderr, or not at all; those of other libraries never."""
    from majorica.errors import MajoricaWarning

    if quiet:
        os.environ["MAJORICA_QUIET"] = "1"

    def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
        own = issubclass(category, MajoricaWarning) or category.__name__ == "ConvergenceWarning"
        if own and not quiet:
            say(f"warning: {for_the_shell(str(message))}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def progress_level(*, verbose: int, quiet: bool) -> int:
    """The estimator's ``verbose``: a bar on terminals, lines if asked for, nothing in pipes."""
    if quiet:
        return 0
    return max(verbose, 1 if sys.stderr.isatty() else 0)
