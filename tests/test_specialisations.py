"""Kernels are compiled once for each precision, and not again for a constant or a layout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FITS = """
import json, pkgutil, importlib, warnings
import numpy as np
import majorica.kernels
from majorica import ICA

warnings.simplefilter("ignore")
X = np.random.default_rng(0).laplace(size=(5000, 6))
for solver in ("progressive", "incremental", "online", "batch"):
    ICA(solver=solver, max_iter=3, random_state=0).fit(X)
found = {}
for module in pkgutil.iter_modules(majorica.kernels.__path__, "majorica.kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if not isinstance(value, type) and getattr(value, "nopython_signatures", None):
            found[name] = [[str(kind) for kind in signature] for signature in value.signatures]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_nothing_is_compiled_for_a_constant_or_a_layout(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "MAJORICA_QUIET": "1"}
    done = subprocess.run([sys.executable, "-c", FITS], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) > 40  # an empty cache: inner functions are there too
    del found["claim"]  # a few lines, and its places are constants
    assert {name: signatures for name, signatures in found.items() if len(signatures) > 1} == {}
