"""Callbacks and passes of online fits that have fewer samples than a start takes, and of what comes after a stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from majorica import ICA
from majorica.errors import FewSamplesWarning, MajoricaWarning
from majorica.solvers import Progressive, StopReason
from majorica.streaming import START_SAMPLES

N = 4_000
GIVEN: dict[str, Callable[[np.ndarray], Any]] = {
    "array": lambda X: X,
    "stream": lambda X: iter(np.split(X, 8)),
}
as_given = pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)


def mixture(n: int = N, p: int = 3) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p))


def online(**options: Any) -> ICA:
    return ICA(solver="online", random_state=0, **options)


def assert_same_bits(a: ICA, b: ICA) -> None:
    for name in ("components_", "mixing_", "mean_", "loss_", "n_iter_", "n_samples_seen_", "stop_reason_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("passes", "n_samples", "loss", "gradient"):
        np.testing.assert_array_equal(a.trace_[name], b.trace_[name], err_msg=name)


@as_given
@pytest.mark.parametrize("density", ["adaptive", "huber"])
def test_callbacks_see_each_step_of_a_fit_of_few_samples(given: Callable, density: str) -> None:
    steps: list[Any] = []
    plain = online(density=density).fit(given(mixture()))
    watched = online(density=density, callbacks=steps.append).fit(given(mixture()))
    assert_same_bits(plain, watched)
    assert len(steps) == len(watched.trace_) > 3
    for name in ("passes", "n_samples", "loss", "gradient"):
        np.testing.assert_array_equal([getattr(step, name) for step in steps], watched.trace_[name])
    assert steps[-1].unmixing.shape == (3, 3)
    assert watched.stop_reason_ == "the stream ended"
    assert watched.converged_


@as_given
def test_a_callback_stops_a_fit_of_few_samples_and_the_next_block_goes_on(given: Callable) -> None:
    X, calls = mixture(), []
    ica = online(callbacks=lambda step: calls.append(step) or len(calls) == 3).fit(given(X))
    assert len(calls) == len(ica.trace_) == 3
    assert ica.stop_reason_ == "stopped by a callback"
    assert not ica.converged_
    assert ica.n_samples_seen_ == N
    ica.set_params(callbacks=None).partial_fit(mixture(START_SAMPLES))
    assert ica.n_samples_seen_ == N + START_SAMPLES
    assert ica.stop_reason_ == "the stream ended"


def test_a_stream_that_a_callback_stopped_learns_from_the_next_block() -> None:
    X = mixture(14_000)
    ica = online(callbacks=lambda step: True).fit(X)
    assert (ica.stop_reason_, ica.n_samples_seen_) == ("stopped by a callback", START_SAMPLES)
    ica.partial_fit(X[:3_000])  # stops again after one mini-batch
    assert (ica.stop_reason_, ica.n_samples_seen_) == ("stopped by a callback", START_SAMPLES + 1_000)
    ica.set_params(callbacks=None).partial_fit(X[:3_000])
    assert (ica.stop_reason_, ica.n_samples_seen_) == ("the stream ended", START_SAMPLES + 4_000)


@as_given
def test_ctrl_c_within_a_fit_of_few_samples_leaves_the_model_so_far(given: Callable) -> None:
    calls: list[Any] = []

    def interrupt(step: Any) -> None:
        calls.append(step)
        if len(calls) == 4:
            raise KeyboardInterrupt

    ica = online(callbacks=interrupt)
    with pytest.warns(MajoricaWarning, match="interrupted after"):
        ica.fit(given(mixture()))
    assert ica.stop_reason_.startswith("interrupted")
    assert not ica.converged_
    assert len(ica.trace_) == 4


def test_provisional_models_of_a_stream_in_blocks_are_no_steps_of_it() -> None:
    steps: list[Any] = []
    X = mixture(START_SAMPLES)
    ica = ICA(random_state=0, callbacks=steps.append).partial_fit(X[:N]).partial_fit(X[N:-1])
    assert (len(steps), ica.n_samples_seen_) == (0, START_SAMPLES - 1)
    ica.partial_fit(X[-1:])
    assert len(steps) == len(ica.trace_) == 1


# ------------------------------------------------------------------------- max_iter


@pytest.mark.parametrize("n", [N, START_SAMPLES - 1, START_SAMPLES])
def test_max_iter_counts_passes_whatever_the_length(n: int) -> None:
    """The start is the first pass, no sample is in it twice, and the others are learnt from in mini-batches."""
    steps: list[Any] = []
    X = mixture(n)
    ica = online(max_iter=3, callbacks=steps.append).fit(X)
    assert (ica.n_iter_, ica.n_samples_seen_) == (3, 3 * n)
    np.testing.assert_array_equal(ica.trace_["n_samples"][0], n)
    np.testing.assert_allclose(ica.trace_["passes"][[0, -1]], [1.0, 3.0])
    assert ica.trace_["n_samples"].sum() == 3 * n
    assert len(steps) == len(ica.trace_)
    assert (np.diff(ica.trace_["seconds"]) >= 0).all()
    assert_same_bits(ica, online(max_iter=3).fit(X))
    once = online(max_iter=1).fit(X)
    assert_same_bits(once, online().fit(X))
    assert ica.score(X) == pytest.approx(once.score(X), abs=0.005)


def test_a_stream_is_read_once_whatever_max_iter() -> None:
    X = mixture()
    assert_same_bits(ICA(random_state=0).fit(iter([X])), ICA(random_state=0, max_iter=5).fit(iter([X])))


def test_many_passes_over_few_samples_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    X, path = mixture(), tmp_path / "run.ckpt"
    whole = online(max_iter=4).fit(X)
    left = [9]

    def crash(step: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        online(max_iter=4, callbacks=crash).fit(X, checkpoint=path, checkpoint_every=0)
    assert path.exists()
    assert_same_bits(whole, online(max_iter=4).fit(X, checkpoint=path, checkpoint_every=0))


@pytest.mark.parametrize("shape", [(2, 1), (3, 2), (12, 30), (40, 5)])
def test_a_handful_of_samples_over_and_over_gives_a_finite_model(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).laplace(size=shape)
    ica = online(max_iter=30).fit(X)
    assert ica.n_iter_ == 30
    assert np.isfinite(ica.components_).all()
    assert np.isfinite(ica.loss_)


def test_a_fit_of_few_samples_shows_progress(capfd: pytest.CaptureFixture[str]) -> None:
    online(verbose=1).fit(mixture())
    said = capfd.readouterr().err
    assert said.startswith("fitting: ")
    assert said.endswith("done\n")


# ---------------------------------------------------------- partial_fit that ends midway


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("first", [0, 12_000])
def test_a_block_that_ends_midway_is_learnt_as_far_as_the_model_says(error: type[BaseException], first: int) -> None:
    X, left = mixture(20_000), [3]

    def fail(step: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise error

    ica, whole = ICA(random_state=0, callbacks=fail), ICA(random_state=0)
    if first:
        ica.set_params(callbacks=None).partial_fit(X[:first]).set_params(callbacks=fail)
    with pytest.raises(error):
        ica.partial_fit(X[first:])
    learnt = ica.n_samples_seen_
    assert learnt == (first + 3_000 if first else START_SAMPLES + 2_000)
    if first:
        whole.partial_fit(X[:first])
    whole.partial_fit(X[first:learnt])
    assert_same_bits(whole, ica)
    whole.partial_fit(X[learnt:])
    ica.set_params(callbacks=None).partial_fit(X[learnt:])
    assert_same_bits(whole, ica)
    assert ica.n_samples_seen_ == len(X)


def test_ctrl_c_while_a_stream_starts_leaves_the_start_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    step, left = Progressive.step, [3]

    def interrupted(self: Progressive, *given: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        step(self, *given)

    monkeypatch.setattr(Progressive, "step", interrupted)
    ica = ICA(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        ica.partial_fit(mixture(12_000))
    assert ica.n_samples_seen_ == START_SAMPLES
    assert ica.stop_reason_.startswith("interrupted")
    assert not ica.converged_
    assert ica.partial_fit(mixture(1_000)).n_samples_seen_ == START_SAMPLES + 1_000


@pytest.mark.parametrize("first", [0, 12_000])
def test_a_block_of_which_nothing_was_learnt_changes_nothing(first: int) -> None:
    ica = ICA(random_state=0)
    if first:
        ica.partial_fit(mixture(first))
    before = dict(vars(ica))
    with pytest.raises(ValueError, match="NaN"):
        ica.partial_fit(np.full((20_000, 3), np.nan))
    assert vars(ica) == before


# ------------------------------------------------------- fits of few samples that do not converge


def too_few() -> np.ndarray:
    return np.random.default_rng(0).laplace(size=(30, 100))  # as many directions as samples: no minimum


@pytest.mark.parametrize("given", [lambda X: X, lambda X: iter(np.split(X, 5))], ids=GIVEN)
@pytest.mark.parametrize("passes", [None, 1])
def test_an_online_fit_of_too_few_samples_says_that_it_did_not_converge(given: Callable, passes: int | None) -> None:
    few = pytest.warns(FewSamplesWarning, match="30 samples do not tell 29 components apart")
    with few, pytest.warns(ConvergenceWarning, match="largest relative gradient"):
        ica = online(max_iter=passes).fit(given(too_few()))
    assert not ica.converged_
    assert ica.stop_reason_.startswith("not converged: the loss falls no further")


def test_provisional_models_of_too_few_samples_do_not_claim_to_have_converged() -> None:
    ica = ICA(random_state=0)
    for block in (too_few(), too_few()[:10]):  # a fit, and the same one again
        ica.partial_fit(block)
        assert not ica.converged_
        assert ica.stop_reason_.startswith("not converged")


@pytest.mark.parametrize("given", [lambda X: X, lambda X: iter([X[:100], X[100:]])], ids=GIVEN)
def test_a_start_that_did_not_converge_is_one_until_more_is_learnt(
    given: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progressive, "step", lambda self, problem, state: setattr(state, "stop", StopReason.STUCK))
    X = mixture(START_SAMPLES)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        ica = online().fit(given(X))
    assert ica.stop_reason_ == StopReason.STUCK.value
    ica.partial_fit(X[:1000])
    assert (ica.stop_reason_, ica.converged_) == ("the stream ended", True)
