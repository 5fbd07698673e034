"""One file: read it, fit it, each from a cold cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.big.reading import forget, read_through
from benchmarks.common import run_child

CHILD = "benchmarks.big.child"


def measure(path: Path, *, memory_limit: str, timeout: float) -> dict[str, Any]:
    """Seconds of reading and of fitting the file, and the fit's memory; one after the other, nothing else running."""
    cold = forget(path)
    reading = read_through(path)
    say(f"{path.name}: read in {reading:.1f} s")
    forget(path)
    fit = run_child(CHILD, {"path": str(path), "memory_limit": memory_limit}, timeout=timeout)
    say(f"{path.name}: {fit}")
    return {"reading": reading, "cold": cold, "memory_limit": memory_limit, "fit": fit}


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
