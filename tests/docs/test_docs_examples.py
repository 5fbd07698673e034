"""Every example runs as a user runs it, has a header, and writes a figure; those over five seconds are slow tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
QUICK = {"own_density", "separate_a_mixture"}


def test_every_example_has_a_header_and_is_listed():
    assert len(EXAMPLES) >= 8
    page = (FOLDER.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    for path in EXAMPLES:
        title, underline, *_ = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "\n").splitlines()
        assert title, path.name
        assert set(underline) == {"="}, path.name
        assert f"`{path.name}`" in page


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem) for path in EXAMPLES],
)
def test_example_runs(path, tmp_path):
    if path.stem == "eeg_blinks":
        pytest.importorskip("mne")
    figure = tmp_path / "figure.png"
    done = subprocess.run(
        [sys.executable, str(path), str(figure)],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert figure.stat().st_size > 5000
    assert done.stdout.strip()
