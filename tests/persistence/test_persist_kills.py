"""Kill -9 at random moments: the checkpoint is always readable and the fit ends in the same bits."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("kill_worker.py")


def run(solver: str, kills: int, seed: int, folder: Path) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(WORKER), solver, str(kills), str(seed), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome = json.loads(done.stdout.splitlines()[-1])
    print(solver, outcome)
    assert outcome["killed"] >= max(1, kills - 1)  # the last one may come too late
    assert outcome["unreadable"] == 0
    assert outcome["same"]
    # Each run went on from where a written checkpoint was, not from the beginning.
    first = [value for value in outcome["first"] if value is not None]
    assert all(a <= b for a, b in itertools.pairwise(first))
    assert outcome["steps"] < outcome["total"]
    assert not [name for name in outcome["left"] if "run.ckpt" in name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("solver", "kills"),
    [("progressive", 1), ("incremental", 1), ("incremental-on-disk", 1), ("batch", 1), ("online", 1)],
)
def test_killed_fits_resume_to_the_same_bits(solver: str, kills: int, tmp_path: Path) -> None:
    run(solver, kills, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("solver", ["progressive", "incremental", "incremental-on-disk", "batch", "online"])
@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_kills(solver: str, seed: int, tmp_path: Path) -> None:
    run(solver, 5, seed, tmp_path)
