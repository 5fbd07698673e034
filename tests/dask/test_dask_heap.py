"""Workers of a nanny give freed memory back at once; inside a task it is kept."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from majorica.engines.heap import kept_heap

def faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(200):
        np.empty(2**17).fill(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
with kept_heap(), kept_heap():
    faults()
    print(faults())
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_tiles_are_not_faulted_in_again_and_again() -> None:
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    before, inside, after = map(int, done.stdout.split())
    assert before > 1000, "the setting does nothing here, so the guard is not needed"
    assert inside < before / 100
    assert after > 1000, "the worker's own setting holds again"
