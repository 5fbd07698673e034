"""Every recorded loss is the one plain NumPy finds from what a callback sees; both backends agree."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from majorica import ICA
from majorica.solvers import Batch, Incremental, Online, Progressive, StopReason, drive
from majorica.solvers.base import stalled
from majorica.surrogate import Surrogate
from makers import densities_of, empirical_loss, laplace, make_problem, memory_of, surrogate_loss, whiten

NAMED = ["huber", "logcosh", "student"]


def watch(X: np.ndarray, **options: object):
    """A fit, its trace and, for each step, the loss recomputed by `recompute(step, Z)` later."""
    seen: list = []

    def callback(step) -> None:
        memory = None
        if hasattr(step.state, "touch"):
            memory = [None if m is None else np.array(m) for m in (step.state.touch, step.state.ledger)]
        levels = getattr(step.state, "levels", None)
        rows = None if levels is None or levels.last else (np.sort(levels.order[: levels.size]), levels.unit)
        seen.append((step.unmixing.copy(), step.densities, step.loss, step.passes, step.n_samples, memory, rows))

    ica = ICA(callbacks=callback, random_state=0, **options).fit(X)
    Z = (X - ica.mean_) @ ica.whitening_.T
    return ica, seen, Z


@pytest.mark.parametrize("density", [*NAMED, "adaptive"])
@pytest.mark.parametrize("n", [700, 40_000])
def test_progressive_losses_over_the_samples_in_play(density: str, n: int) -> None:
    X, _ = laplace(n, 4)
    ica, seen, Z = watch(X, solver="progressive", density=density)
    assert len(ica.trace_) == len(seen)
    sizes = set()
    for record, (W, densities, loss, passes, n_samples, _, rows) in zip(ica.trace_, seen, strict=True):
        samples = Z
        if rows is not None:
            units, unit = rows
            index = (units[:, None] * unit + np.arange(unit)).ravel()
            samples = Z[index[index < n]]
        assert n_samples == len(samples)
        wanted = empirical_loss(W, samples, densities)
        assert loss == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        assert record["loss"] == loss
        assert record["passes"] == passes
        sizes.add(n_samples)
    assert len(sizes) > 1 or n == 700
    assert ica.loss_ == ica.trace_["loss"][-1]
    inside = np.diff(ica.trace_["n_samples"]) == 0
    assert (np.diff(ica.trace_["loss"])[inside] <= 1e-12 * abs(ica.loss_)).all()
    assert (np.diff(ica.trace_["seconds"]) >= 0).all()


@pytest.mark.parametrize("density", NAMED)
def test_batch_losses(density: str) -> None:
    X, _ = laplace(3001, 4)
    ica, seen, Z = watch(X, solver="batch", density=density)
    for record, (W, densities, loss, *_) in zip(ica.trace_, seen, strict=True):
        assert loss == pytest.approx(empirical_loss(W, Z, densities), rel=1e-9, abs=1e-9)
        assert record["loss"] == loss
        assert record["n_samples"] == 3001
    assert (np.diff(ica.trace_["loss"]) <= 0).all()


@pytest.mark.parametrize("density", NAMED)
@pytest.mark.parametrize(
    ("solver", "q"), [("incremental", 1), ("incremental", 2), ("incremental", None), ("incremental-codes", 2)]
)
def test_incremental_losses_are_the_surrogate(density: str, solver: str, q: int | None) -> None:
    X, _ = laplace(2050, 4)
    ica, seen, Z = watch(X, solver=solver, density=density, n_updates=q, batch_size=300, max_iter=4, tol=0)
    assert len(seen) == len(ica.trace_) == 4 * 7
    for record, (W, densities, loss, _, _, (touch, ledger), _) in zip(ica.trace_, seen, strict=True):
        state = type("Memory", (), {"touch": touch, "ledger": ledger, "densities": densities})
        wanted = surrogate_loss(W, Z, memory_of(state, Z, 300), densities)
        assert loss == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        assert record["loss"] == loss
    assert (np.diff(ica.trace_["loss"]) <= 1e-12).all()


def test_trace_is_the_same_with_and_without_a_callback() -> None:
    """Without one, the incremental solver makes many mini-batches at a time."""
    X, _ = laplace(20_000, 3)
    options = {"solver": "incremental", "density": "huber", "max_iter": 3, "tol": 0, "batch_size": 97}
    plain = ICA(random_state=0, **options).fit(X)
    seen: list = []
    watched = ICA(random_state=0, callbacks=[seen.append], **options).fit(X)
    assert len(seen) == len(watched.trace_) == len(plain.trace_)
    for name in ("loss", "passes", "n_samples"):
        np.testing.assert_array_equal(watched.trace_[name], plain.trace_[name])
    np.testing.assert_array_equal(watched.components_, plain.components_)


def test_each_second_of_a_stream_is_that_at_the_end_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start's as well: it is no gift."""
    ticks = count()
    monkeypatch.setattr("majorica.streaming.time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    ica = ICA(solver="online", random_state=0).fit(laplace(12_000, 3)[0])
    seconds = ica.trace_["seconds"]
    assert ica.trace_["n_samples"][0] == 10_000
    assert seconds[0] == 1
    assert (np.diff(seconds) >= 1).all()


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_a_callback_stops_the_fit(kind: type) -> None:
    X, _ = laplace(5000, 3)
    calls: list = []

    def stop(step):
        calls.append(step.passes)
        return kind(len(calls) == 3)

    for solver in ("progressive", "incremental", "batch"):
        calls.clear()
        ica = ICA(solver=solver, density="huber", callbacks=stop, random_state=0, tol=1e-12).fit(X)
        assert len(calls) == len(ica.trace_) == 3
        assert ica.stop_reason_ == "stopped by a callback"
        assert not ica.converged_


def test_loss_can_be_recomputed_from_components() -> None:
    """``whiten="arbitrary-variance"`` keeps the model's own scale."""
    X, _ = laplace(4000, 3)
    ica = ICA(whiten="arbitrary-variance", density="huber", random_state=0).fit(X)
    W = ica.components_ @ np.linalg.pinv(ica.whitening_)
    Z = (X - ica.mean_) @ ica.whitening_.T
    assert ica.loss_ == pytest.approx(empirical_loss(W, Z, densities_of("huber", 3)), rel=1e-9)
    log_volume = np.linalg.slogdet(ica.whitening_)[1]
    assert ica.score(X) == pytest.approx(log_volume - ica.loss_, rel=1e-9)
    unit = ICA(density="huber", random_state=0).fit(X)
    assert unit.loss_ == ica.loss_
    np.testing.assert_allclose(unit.transform(X).std(axis=0), 1, rtol=1e-9)


@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("units", [(1, 1, 1e-8), (1e-13, 1, 1e11), (1e12, 1e-4, 1)])
def test_scores_are_those_of_other_units(units: tuple[float, ...], n_components: int | None) -> None:
    """Magnetometers and electrodes differ by 1e8 and more: the volume of a change of units is lost in its square."""
    X, _ = laplace(5000, 3)
    ica = ICA(n_components, density="huber", random_state=0).fit(X * units)
    K = ica.whitening_
    if n_components is None:
        volume = np.linalg.slogdet(K * units)[1] - np.log(units).sum()
    else:  # by Cauchy and Binet, from minors of any size
        volume = np.log(np.hypot.reduce([np.linalg.det(K[:, pair]) for pair in ([0, 1], [0, 2], [1, 2])]))
    assert ica.score(X * units) == pytest.approx(volume - ica.loss_, abs=1e-6)


SOLVERS = {
    "batch": Batch(tol=0),
    "incremental-1": Incremental(q=1, batch_size=150, tol=0),
    "incremental-2": Incremental(q=2, batch_size=150, tol=0),
    "incremental-random": Incremental(q=2, batch_size=150, tol=0, selection="random"),
    "incremental-codes": Incremental(q=2, batch_size=150, tol=0, memory="codes"),
    "incremental-codes-random": Incremental(q=2, batch_size=150, tol=0, selection="random", memory="codes"),
    "incremental-p": Incremental(q=None, batch_size=150, tol=0),
    "progressive": Progressive(),
}


@pytest.mark.parametrize("name", ["huber", "logcosh", "student", "piecewise-super", "mixed"])
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_reference_and_compiled_backends_agree(solver, name: str) -> None:
    X, _ = laplace(700, 4)
    results = []
    for backend in ("reference", "compiled"):
        problem = make_problem(X, backend, block=256)
        state = solver.init(problem, np.eye(4), densities_of(name, 4), np.random.default_rng(0))
        trace = drive(solver, problem, state, max_iter=6, callbacks=[lambda step: None])
        results.append((state.W, trace.array()["loss"]))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-10)


@pytest.mark.parametrize("name", ["huber", "student", "mixed"])
@pytest.mark.parametrize("q", [1, None])
def test_backends_agree_online(name: str, q: int | None) -> None:
    X, _ = laplace(1000, 4)
    problem = make_problem(X)
    Z, densities, results = whiten(X, problem.whitening), densities_of(name, 4), []
    for backend in ("reference", "compiled"):
        solver = Online(q=q, batch_size=100)
        state = solver.init(np.eye(4), densities, Surrogate.start(np.eye(4), densities), 0, np.random.default_rng(0))
        solver.update(state, Z, backend=backend)
        results.append(state.W)
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-10)


def test_a_stall_is_no_success_above_what_was_asked_for() -> None:
    """Codes of one byte stall at gradients of 0.05, float32 at 0.01: working precision costs less."""
    assert stalled(5e-4, 1e-9, 10_000) is StopReason.STALLED
    assert stalled(5e-3, None, 10_000) is StopReason.STALLED  # a gradient of other samples
    assert stalled(5e-3, 1e-9, 10_000) is StopReason.COARSE
    assert stalled(0.05, None, 10_000) is StopReason.COARSE
    assert stalled(0.5, None, 1) is StopReason.STUCK
    assert not StopReason.COARSE.converged


def test_codes_that_stall_far_from_the_minimum_say_so() -> None:
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.laplace(size=(10_000, 2)), rng.uniform(-1, 1, (10_000, 3))])
    X = S @ rng.normal(size=(5, 5)).T
    with pytest.warns(ConvergenceWarning, match="codes: or 'incremental'"):
        ica = ICA(solver="incremental-codes", random_state=0, max_iter=400).fit(X)
    assert not ica.converged_
    assert ica.trace_["gradient"][-1] > 1e-2


def test_a_step_prints_as_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).laplace(size=(2000, 12)) @ np.random.default_rng(1).normal(size=(12, 12))
    ica = ICA(callbacks=[print], random_state=0).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ica.trace_)
    assert all(line.startswith("Step(passes=") and len(line) < 200 for line in lines)
