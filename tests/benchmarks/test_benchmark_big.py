"""The large files: written as the patches come, read and fitted within the limit, shown with what was missed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from benchmarks.big import data, page
from benchmarks.big.measure import measure
from benchmarks.big.reading import read_through
from benchmarks.paper.datasets import load_images, patch_stream


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "images.npz"
    rng = np.random.default_rng(0)
    np.savez(path, *(rng.integers(256, size=(60, 80)).astype(np.uint8) for _ in range(2)))
    return path


def test_file_holds_the_patches(tmp_path, images):
    path = tmp_path / "new" / "patches.npy"
    data.write_patches(path, 25_300, images)
    X = np.load(path)
    assert X.shape == (25_300, 100)
    assert X.dtype == np.float32
    stream = patch_stream(load_images(images), 25_300, seed=0, left_out=1000)
    np.testing.assert_array_equal(X, np.concatenate(list(stream.batches())).astype(np.float32))
    assert [file.name for file in path.parent.iterdir()] == ["patches.npy"]
    assert read_through(path) > 0


def test_sizes_are_bytes():
    assert data.samples_in(16) == 40_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and RLIMIT_DATA")
def test_fit_stays_within_the_limit_and_too_low_a_one_stops_it(tmp_path, images):
    path = tmp_path / "patches.npy"
    data.write_patches(path, 20_000, images)
    run = measure(path, memory_limit="300MB", timeout=250)
    fit = run["fit"]
    assert fit["n"] == 20_000
    assert fit["peak"]["data"] <= fit["before"]["data"] + 300e6
    assert fit["peak"]["anonymous"] - fit["before"]["anonymous"] <= fit["planned"] <= 300e6
    assert "MemoryLimitError" in measure(path, memory_limit="3MB", timeout=250)["fit"]["failed"]
    assert "1.00 (target 1.1: yes)" in page.render({"0.008": run}, "command")


def fake(gigabytes, memory, planned=200e6):
    before = {"anonymous": 100_000_000, "data": 400_000_000}
    peak = {name: value + memory for name, value in before.items()}
    fit = {"n": 10, "bytes": gigabytes * 1e9, "seconds": 20.0, "processor": 38.0, "before": before, "peak": peak}
    fit |= {"limit": 10**9, "planned": planned, "passes": 7.0, "levels": {"10": 3}, "stop": "converged: so it says"}
    return {"reading": 2.0, "cold": True, "memory_limit": "1GB", "fit": fit}


def test_page_names_memory_that_grows():
    flat = page.render({"1": fake(1, 50e6), "10": fake(10, 60e6)}, "command")
    assert "**no**" not in flat
    assert "| 1 GB | 1.00e1 | 2 | 20 | 1.9 | 10 | 7.0 | 3 | 50 | 200 | 150 | converged |" in flat
    assert flat.index("| 1 GB") < flat.index("| 10 GB")
    grown = page.render({"1": fake(1, 50e6), "10": fake(10, 500e6)}, "command")
    assert grown.count("**no**") == 2
    assert "failed: > 5 s" in page.render({"1": {**fake(1, 1), "fit": {"failed": "> 5 s"}}}, "command")
