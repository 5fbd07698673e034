"""The algorithms the reproduction compares are themselves right."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("picard")

from benchmarks.paper.algorithms import FINITE, GREEDY, ONLINE, newton, sag, sgd, tuning
from benchmarks.paper.datasets import Finite, as_stream, laplace
from benchmarks.paper.measures import amari, gradient_norm, left_out_loss
from benchmarks.paper.model import relative_gradient, statistics
from benchmarks.paper.recorder import Recorder


@pytest.fixture(scope="module")
def data() -> Finite:
    return laplace(4, 20_500, seed=0, left_out=20_000)


def run(name: str, data: Finite, *, passes: float = 15, **options: float) -> Recorder:
    recorder = Recorder(passes=passes)
    FINITE[name].run(data, recorder, np.random.default_rng(0), **options)
    recorder.finish()
    return recorder


def test_relative_gradient_is_the_derivative_of_the_loss(data):
    W, D = data.start, np.random.default_rng(1).normal(size=(4, 4))
    step = 1e-6
    there, back = (newton.evaluate(data.X, W + s * step * D @ W).loss for s in (1, -1))
    slope = (there - back) / (2 * step)
    assert slope == pytest.approx((relative_gradient(statistics(data.X, W)) * D).sum(), rel=1e-5)


def test_sgd_lowers_the_loss_for_small_steps(data):
    recorder = run("sgd", data, passes=3, step=0.05)
    losses = [left_out_loss(W, data.X) for W in recorder.iterates]
    assert np.all(np.diff(losses) < 0)


def test_sgd_blows_up_without_an_error(data):
    recorder = run("sgd", data, passes=3, step=1e6)
    assert left_out_loss(recorder.iterates[-1], data.left_out) > left_out_loss(recorder.iterates[0], data.left_out)


def test_sag_average_is_the_full_gradient_after_a_pass_without_moving(data):
    memory = sag.descend(data.X, data.start, 0.0, np.random.default_rng(0), Recorder(passes=1))
    full = relative_gradient(statistics(data.X, data.start))
    np.testing.assert_allclose(memory.average, full, rtol=0, atol=1e-12)


def test_sag_replaces_and_does_not_add():
    memory = sag.GradientMemory(2, 1)
    memory.replace(0, np.array([[1.0]]), 10)
    memory.replace(1, np.array([[3.0]]), 30)
    memory.replace(0, np.array([[5.0]]), 10)
    assert memory.average == pytest.approx((5 * 10 + 3 * 30) / 40)


def test_newton_never_raises_the_loss_and_converges(data):
    point = newton.evaluate(data.X, data.start)
    losses = [point.loss]
    while np.abs(point.gradient).max() > 1e-10:
        point, _ = newton.step(data.X, point)
        losses.append(point.loss)
    assert np.diff(losses).max() < 1e-12
    assert np.linalg.norm(point.gradient) < 1e-9
    assert len(losses) < 40


def test_newton_rate_improves_with_the_number_of_samples():
    from benchmarks.paper.claims.newton import newton_rate

    assert -0.8 < newton_rate().numbers["power"] < -0.3


@pytest.mark.parametrize("name", ["newton", "picard", "progressive"])
def test_converged_algorithms_agree(data, name):
    reference = run("newton", data, passes=100).iterates[-1]
    W = run(name, data, passes=300).iterates[-1]
    assert left_out_loss(W, data.left_out) == pytest.approx(left_out_loss(reference, data.left_out), abs=1e-6)
    assert gradient_norm(W, data.X) < 1e-7


@pytest.mark.parametrize("name", list(FINITE))
def test_every_algorithm_starts_at_the_start_and_separates(data, name):
    options = {}
    if FINITE[name].tuned:
        options["step"] = tuning.best(tuning.search_finite(name, data, passes=15))
    recorder = run(name, data, passes=60 if name in ("batch", "picard") else 15, **options)
    np.testing.assert_allclose(recorder.iterates[0], data.start, rtol=1e-9)
    assert recorder.passes[0] == 0
    assert np.all(np.diff(recorder.passes) > 0)
    assert np.all(np.diff(recorder.seconds) >= 0)
    first, last = (amari(recorder.iterates[k], data.A, data.left_out) for k in (0, -1))
    assert last < 0.1 * first


@pytest.mark.parametrize("name", list(ONLINE))
def test_every_online_algorithm_reads_the_stream_once(name):
    data = as_stream(laplace(4, 60_000, seed=2, left_out=20_000))
    options = {"step": tuning.best(tuning.search_online(data))} if ONLINE[name].tuned else {}
    recorder = Recorder(passes=5)
    ONLINE[name].run(data, recorder, np.random.default_rng(0), **options)
    recorder.finish()
    assert recorder.passes[-1] == pytest.approx(1)
    first, last = (amari(recorder.iterates[k], data.A, data.left_out) for k in (0, -1))
    assert last < 0.1 * first


def test_greedy_beats_random_and_nothing_rises():
    data = laplace(10, 10_000, seed=4, left_out=1000)
    ends = {}
    for name, algorithm in GREEDY.items():
        recorder = Recorder(passes=8)
        algorithm.run(data, recorder, np.random.default_rng(0))
        recorder.finish()
        ends[name] = gradient_norm(recorder.iterates[-1], data.X)
        assert recorder.notes["largest_rise"] <= 1e-12
    assert ends["greedy-1"] < ends["random-1"]
    assert ends["greedy-3"] < ends["random-3"]


def test_search_refuses_steps_that_blow_up():
    assert tuning.best({0.1: 3.0, 1.0: 2.0, 10.0: np.inf}) == 1.0


def test_batches_of_a_pass_hold_every_sample_once():
    X = np.arange(2500.0)[:, None]
    batches = sgd.shuffled_batches(X, np.random.default_rng(0))
    seen = np.concatenate([next(batches) for _ in range(3)])
    np.testing.assert_array_equal(np.sort(seen[:, 0]), X[:, 0])
