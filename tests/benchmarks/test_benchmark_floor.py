"""The floor's pieces: the transcription makes our iterates, bare passes do the products they name."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.floor import bare, measure, passes
from benchmarks.floor.__main__ import PARTS, is_whole
from benchmarks.floor.page import render, target
from benchmarks.floor.timing import best_of
from benchmarks.floor.transcription import make_pair


def test_transcription_makes_the_solvers_iterates():
    ours, theirs = make_pair(passes.samples(4, 2_300, "float64"), batch=500)
    for _ in range(3):
        assert np.abs(ours() - theirs()).max() < 1e-8


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bare_product_is_the_product(dtype):
    rng = np.random.default_rng(0)
    A, B, C = (rng.normal(size=shape).astype(dtype) for shape in ((5, 3), (5, 4), (3, 4)))
    expected = A.T @ B + C
    product = bare.make_product(np.dtype(dtype))
    product(A, B, C, True, True)
    assert np.allclose(C, expected, atol=1e-5)
    out = np.zeros((5, 4), dtype)
    product(A, C, out, False, False)
    assert np.allclose(out, A @ C, atol=1e-5)


@pytest.mark.parametrize("solver", passes.SOLVERS)
def test_every_solver_has_a_pass_and_a_floor(solver):
    X = passes.samples(4, 2000, "float64")
    calls = {kind: passes.make(solver, X, kind) for kind in ("huber", "adaptive")}
    calls["bare"] = bare.make("incremental" if solver == "online" else solver, X, tile=256)
    assert all(np.isfinite(list(best_of(calls, 1).values())))


def test_incremental_passes_are_timed_by_the_same_work():
    again = passes.make("incremental", passes.samples(4, 2000, "float32"), "adaptive")
    losses = []
    for _ in range(2):
        again.prepare()
        again()
        losses.append(again.state.loss)
    again()
    assert losses[0] == losses[1] > again.state.loss


def test_page_names_what_misses_its_target():
    seconds = {f"{kind} {dtype}": 1.0 for kind in ("huber", "adaptive") for dtype in ("float64", "float32")}
    seconds |= {"bare float64": 0.9, "bare float32": 0.5}
    text = render({"floors": [{"p": 64, "solver": "progressive", "n": 1000, "seconds": seconds}]}, "command")
    assert "**no**" in text
    assert target("progressive", 64) == 1.5
    assert target("batch", 256) is None


def test_half_a_table_is_not_for_the_page():
    lines = [{"p": p, "solver": solver} for p in measure.SIZES for solver in passes.SOLVERS]
    found = {**dict.fromkeys(PARTS), "floors": lines}
    assert is_whole(found)
    assert not is_whole(found | {"floors": lines[1:]})
    assert not is_whole({part: found[part] for part in PARTS[:-1]})
