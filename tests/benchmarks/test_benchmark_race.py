"""The race's judging, storing and comparing; no clock is tested."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("picard")

from benchmarks.race import page, quality
from benchmarks.race.child import main as run_one
from benchmarks.race.datasets import laplace, mixed, reduced
from benchmarks.race.methods import PicardHuber
from benchmarks.race.mixtures import rises
from benchmarks.race.ratios import compare
from benchmarks.race.run import Race

from benchmarks import common
from majorica.densities import Huber
from majorica.metrics import left_out_loss


def test_part_of_the_race_is_not_for_the_page(tmp_path, monkeypatch):
    race = Race(tmp_path, quick=False, eeg=None, images=None, repeats=1)
    monkeypatch.setattr(page, "write_section", lambda *_: pytest.fail("half a table on the page"))
    page.write(race, "command")
    assert "command" in (race.home / "page.md").read_text()


def test_losses_do_not_depend_on_the_rows_scale_order_or_sign():
    data = laplace(3, 500)
    W, X = np.linalg.inv(data["A"]), data["left_out"]
    changed = np.diag([10.0, -0.1, 3.0])[[2, 0, 1]] @ W
    for one, other in zip(quality.losses(W, X).values(), quality.losses(changed, X).values(), strict=True):
        assert one == pytest.approx(other, abs=1e-10)


def test_huber_loss_is_the_lowest_over_scales():
    data = laplace(1, 100)
    X = (data["left_out"] - data["left_out"].mean()) / data["left_out"].std()
    best = quality.losses(np.eye(1), X)["huber"]
    scales = np.geomspace(0.05, 20, 400)[:, None, None]
    assert best <= min(left_out_loss(s, X) for s in scales) + 1e-12
    assert best == pytest.approx(min(left_out_loss(s, X) for s in scales), abs=1e-3)


def test_adaptive_loss_is_below_that_of_a_gaussian_and_tells_good_from_bad():
    data = mixed(5, 100)
    good = quality.losses(np.linalg.inv(data["A"]), data["left_out"])["adaptive"]
    bad = quality.losses(np.linalg.inv(data["A"] + 0.3), data["left_out"])["adaptive"]
    covariance = np.cov(data["left_out"].T)
    gaussian = 0.5 * (np.linalg.slogdet(covariance)[1] / 5 + 1 + np.log(2 * np.pi))
    assert good < min(bad, gaussian)
    assert quality.amari(3 * np.linalg.inv(data["A"]), data["A"], data["left_out"]) < 1e-3


def test_picards_huber_is_ours():
    y = np.linspace(-3, 3, 13)
    assert np.allclose(PicardHuber().log_lik(y), Huber().loss(y))
    assert np.allclose(PicardHuber().score_and_der(y)[0], Huber().score(y))


def test_reduction_drops_what_does_not_vary():
    X = np.random.default_rng(0).normal(size=(300, 3))
    parts = reduced(np.column_stack([X, X.sum(axis=1)]), 200, None)
    assert parts["X"].shape == (200, 3)
    assert parts["left_out"].shape == (100, 3)


@pytest.mark.filterwarnings("ignore")  # short fits of a curve do not converge
@pytest.mark.parametrize("method", ["majorica", "fastica"])
def test_one_process_fits_and_judges(tmp_path, method):
    for name, array in laplace(3, 2000).items():
        np.save(tmp_path / f"{name}.npy", array)
    asked = {"method": method, "folder": str(tmp_path), "seed": 0, "fits": 2, "budget": 10}
    found = run_one(json.dumps(asked))
    assert len(found["seconds"]) >= 2
    assert sum(found["seconds"][1:]) >= 0.5  # short fits go on for so long
    memory = run_one(json.dumps({**asked, "memory": True}))
    assert set(memory) == {"memory", "data"}
    assert memory["data"] == 3 * 2000 * 8
    assert found["amari"] < 0.1
    assert run_one(json.dumps({**asked, "curve": True}))["points"][-1]["adaptive"] == pytest.approx(
        found["adaptive"], 1e-2
    )


def test_ratio_counts_only_peers_of_the_best_quality():
    results = {
        "majorica": {"adaptive": 1.0005, "later": 1.0, "curve": []},
        "fastica": {"adaptive": 1.1, "later": 0.5, "curve": []},
        "picard": {"adaptive": 1.0, "later": 9.0, "curve": [{"seconds": 4.0, "adaptive": 1.0009}]},
        "infomax": {"failed": "> 1 s"},
    }
    ratio = compare(results, "adaptive")
    assert (ratio.reached, ratio.peer, ratio.ratio, ratio.early) == (True, "picard", 9.0, 4.0)
    assert ratio.slowest_margin == 0.5
    results["majorica"]["adaptive"] = 1.002
    assert not compare(results, "adaptive").reached


def test_rises_are_counted_within_a_level():
    trace = np.zeros(3, [("n_samples", "i8"), ("loss", "f8")])
    trace["n_samples"], trace["loss"] = [10, 10, 40], [1.0, 1.1, 5.0]
    assert rises(trace) == 1


def test_page_sections_are_replaced_in_place(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# T\n\n<!-- race -->\nold\n<!-- end race -->\n\nafter\n")
    common.write_section("race", "new", page)
    common.write_section("floor", "more", page)
    text = page.read_text()
    assert "old" not in text
    assert text.index("new") < text.index("after") < text.index("more")


def test_store_finds_what_it_was_given(tmp_path):
    store = common.Store(tmp_path)
    key = {"data": "a", "method": "b", "repeat": 0}
    assert store.find(key) is None
    store.put(key, {"x": 1})
    assert store.find(dict(reversed(key.items()))) == {"x": 1}
    assert store.newest({**key, "repeat": 9}, whatever="repeat") == {"x": 1}
    assert store.newest({**key, "method": "c"}, whatever="repeat") is None


def test_child_that_takes_too_long_says_so():
    assert common.run_child("time", {}, timeout=1e-6)["failed"] == "> 0 s"
