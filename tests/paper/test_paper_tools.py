"""Clock, storage, datasets and claims of the reproduction."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("picard")

from benchmarks.paper import cache, curves
from benchmarks.paper.claims.decorrelation import decorrelation
from benchmarks.paper.claims.em import em_identity, em_iterates
from benchmarks.paper.claims.minimisation import conjugate_gradient, exact_row
from benchmarks.paper.claims.noise import noisy_em
from benchmarks.paper.datasets import laplace_optimum, laplace_stream, patches
from benchmarks.paper.measures import gradient_norm
from benchmarks.paper.recorder import Recorder


def test_clock_leaves_out_what_is_not_the_algorithms():
    recorder = Recorder(passes=1)
    recorder.start()
    with recorder.paused():
        time.sleep(0.05)

    def slow():
        for _ in range(2):
            time.sleep(0.05)
            yield np.zeros(1)

    assert len(list(recorder.off_clock(slow()))) == 2
    assert recorder.clock() < 0.05


def test_recorder_keeps_first_last_and_whole_passes():
    recorder = Recorder(passes=100)
    for k in range(1001):
        recorder.record(k / 100, np.full((1, 1), k))
    recorder.finish()
    assert recorder.passes[0] == 0
    assert recorder.passes[-1] == 10
    assert np.diff(recorder.passes).max() <= 1 + 1e-9
    assert len(recorder.passes) < 100
    assert recorder.iterates[-1][0, 0] == 1000


def test_recorder_copies():
    recorder = Recorder(passes=1)
    W = np.eye(2)
    recorder.record(0, W)
    W[:] = 5
    np.testing.assert_array_equal(recorder.iterates[0], np.eye(2))


def test_stored_results_are_found_again_and_stale_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "RESULTS", tmp_path)
    store = cache.Store("quick")
    config = {"experiment": "e", "what": "w", "n": 3}
    assert store.get(config, lambda: {"value": 1}) == {"value": 1}
    assert store.get(config, lambda: {"value": 2}) == {"value": 1}
    assert store.get({**config, "n": 4}, lambda: {"value": 2}) == {"value": 2}
    monkeypatch.setattr(cache, "versions", lambda: {"code": "other"})
    assert store.find(config) is None
    assert cache.Store("quick", keep_stale=True).find(config) == {"value": 1}


def test_stream_is_the_same_each_time_it_is_read():
    data = laplace_stream(3, 25_000, seed=0, left_out=100)
    first, second = (np.concatenate(list(data.batches())) for _ in range(2))
    assert len(first) == 25_000
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(data.first(), first[:10_000])


def test_patches_are_windows_of_the_images():
    image = np.arange(400, dtype=np.float32).reshape(20, 20)
    found = patches([image], 50, np.random.default_rng(0), side=3).reshape(-1, 3, 3)
    np.testing.assert_array_equal(np.diff(found, axis=2), 1)
    np.testing.assert_array_equal(np.diff(found, axis=1), 20)


def test_laplace_optimum_has_no_expected_gradient():
    S = np.random.default_rng(0).laplace(size=(400_000, 2))
    assert gradient_norm(laplace_optimum(np.eye(2)), S) < 0.01


def test_median_curve_and_arrival():
    run = {
        "passes": [0, 1, 2, 4],
        "seconds": [0, 1, 2, 4],
        "loss": [5.0, 2.0, 1.00005, 1.0],
        "amari": [None] * 4,
        "gradient": [1, 0.1, 0.01, 0.001],
        "notes": {},
    }
    levels = curves.plateaus({"a": [run]}, lowest=False)
    assert levels == [1.0]
    assert curves.summarise({"a": [run]}, levels, 1)["a"]["passes_to_plateau"] == 2
    curve = curves.median_curve([run], "passes", "gradient", None)
    assert curve is not None
    np.testing.assert_allclose([curve.median[0], curve.median[-1]], [0.1, 0.001], rtol=1e-9)
    assert curves.median_curve([run], "passes", "amari", None) is None


@pytest.mark.parametrize("claim", [em_identity, em_iterates, noisy_em, exact_row, decorrelation])
def test_claims_that_need_no_clock_hold(claim):
    assert claim().verdict == "holds"


def test_conjugate_gradient_is_near_the_exact_row():
    numbers = conjugate_gradient().numbers  # the verdict is the clock's as well
    assert min(numbers[f"{who}_{where}_3"] for who in ("paper", "ours") for where in ("near", "far")) > 0.95
