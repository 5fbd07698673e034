"""What it costs to begin: import, help, first fit, one-time compilation; each in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEAVY = ("numpy", "scipy", "numba", "sklearn", "pandas", "matplotlib", "dask", "mne", "rich", "typer")

IMPORT = """
import json, sys, time
began = time.perf_counter()
import majorica
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "modules": len(sys.modules),
    "heavy": [name for name in %r if name in sys.modules]}))
"""

FITS = """
import json, time
import numpy as np
began = time.perf_counter()
from majorica import ICA
imported = time.perf_counter() - began
X = np.random.default_rng(0).laplace(size=(2000, 4))
seconds = []
for _ in range(3):
    began = time.perf_counter()
    ICA(random_state=0).fit(X)
    seconds.append(time.perf_counter() - began)
print(json.dumps({"import": imported, "seconds": seconds}))
"""


def run(code: str, **environment: str) -> tuple[dict[str, Any], str]:
    """Answer and standard error of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.strip().splitlines()[-1]), done.stderr


def seconds_of(command: list[str]) -> float:
    """Wall time of a command."""
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - began


def measure(repeats: int = 5) -> dict[str, Any]:
    """All start-up figures."""
    imports = [run(IMPORT % (HEAVY,))[0] for _ in range(repeats)]
    best = min(imports, key=lambda found: found["seconds"])
    program = Path(sys.executable).with_name("majorica")
    asked = [str(program)] if program.exists() else [sys.executable, "-c", "from majorica.cli import main; main()"]
    helps = min(seconds_of([*asked, "--help"]) for _ in range(repeats))
    bare = min(seconds_of([sys.executable, "-c", "pass"]) for _ in range(repeats))
    run(FITS)  # fills the cache
    fits = [run(FITS)[0] for _ in range(repeats)]
    extra = min(found["seconds"][0] - min(found["seconds"][1:]) for found in fits)
    colds = [_cold() for _ in range(min(repeats, 3))]
    return {
        "import": best,
        "help": helps,
        "python": bare,
        "estimator": min(found["import"] for found in fits),
        "first_less_second": extra,
        "compile": sorted(found["seconds"][0] - min(found["seconds"][1:]) for found, _ in colds),
        "notice": colds[0][1].strip().splitlines(),
    }


def _cold() -> tuple[dict[str, Any], str]:
    """Fits of a process that finds nothing compiled."""
    with tempfile.TemporaryDirectory() as empty:
        return run(FITS, NUMBA_CACHE_DIR=empty)
