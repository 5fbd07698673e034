"""Rows of a stream are brought back to size where a gain changed, and by nothing that only looks like it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from majorica import ICA
from majorica.solvers.online.following import ENOUGH, FAR_OFF

START = 10_000


def sources(n: int, seed: int) -> np.ndarray:
    """Light, heavy and bursting ones: of the last two most samples are small, and their shapes know."""
    rng = np.random.default_rng(seed)
    bursts = rng.laplace(size=n) * (rng.random(n) < 0.3) + 0.05 * rng.normal(size=n)
    lumps = np.sign(rng.normal(size=n)) + 0.2 * rng.normal(size=n)
    S = np.column_stack([rng.uniform(-1, 1, n), lumps, bursts, rng.normal(size=n) ** 3])
    return S / S.std(axis=0)


MIXING = np.random.default_rng(7).normal(size=(4, 4))


@pytest.fixture(scope="module")
def started() -> ICA:
    return ICA(random_state=0).partial_fit(sources(START, 0) @ MIXING.T)


def copy(ica: ICA) -> ICA:
    return pickle.loads(pickle.dumps(ica))


@pytest.mark.parametrize("block", [1, 4, 37, 500])
def test_blocks_of_few_samples_wreck_nothing(started: ICA, block: int) -> None:
    """The median of one sample is often far off."""
    ica, more, other = copy(started), sources(3000, 1) @ MIXING.T, sources(20_000, 2) @ MIXING.T
    before, sizes = ica.score(other), np.linalg.norm(ica._stream.state.W, axis=1)
    for start in range(0, len(more), block):
        ica.partial_fit(more[start : start + block])
        assert np.abs(np.log(np.linalg.norm(ica._stream.state.W, axis=1) / sizes)).max() < 0.5
    assert ica.score(other) > before - 0.05


@pytest.mark.parametrize("n", [1, 4, 8])
def test_a_dead_stretch_too_short_to_be_told_leaves_rows_alone(started: ICA, n: int) -> None:
    ica, other = copy(started), sources(20_000, 2) @ MIXING.T
    before = ica.score(other)
    ica.partial_fit(np.zeros((n, 4)))
    ica.partial_fit(sources(500, 3) @ MIXING.T)
    assert ica.score(other) > before - 0.2


@pytest.mark.parametrize("gain", [100.0, 0.01])
@pytest.mark.parametrize("block", [1, 100, 1000])
def test_rows_of_light_tails_are_brought_back_when_a_gain_changes(gain: float, block: int) -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    ica = ICA(random_state=0).partial_fit(rng.uniform(-1, 1, (START, 3)) @ A.T)
    X = gain * rng.uniform(-1, 1, (3 * ENOUGH, 3)) @ A.T
    for start in range(0, len(X), block):
        ica.partial_fit(X[start : start + block])
    state = ica._stream.state
    sizes = np.abs((X - ica.mean_) @ ica.whitening_.T @ state.W.T).mean(axis=0)
    assert (sizes < FAR_OFF).all()
    assert (sizes > 0.1).all()


def test_what_was_counted_goes_on_in_a_copy(started: ICA) -> None:
    ica = copy(started)
    for start in range(0, 300, 100):
        ica.partial_fit(sources(100, start) @ MIXING.T)
    assert ica._stream.state.sized > 0
    again = copy(ica)
    for model in (ica, again):
        model.partial_fit(100 * sources(600, 5) @ MIXING.T)
    np.testing.assert_array_equal(ica.components_, again.components_)


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")
def test_single_samples_of_another_size_do_not_freeze_the_stream() -> None:
    """Each lies far from the one before it: they used to wait for ever to be told from a rail."""
    rng = np.random.default_rng(0)
    ica = ICA(random_state=0).partial_fit(rng.laplace(size=(START, 3)))
    for x in 1e3 * rng.laplace(size=(300, 1, 3)):
        ica.partial_fit(x)
    assert ica._stream.state.unlearnt < 100


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning", "ignore::majorica.errors.FlatWarning")
@pytest.mark.parametrize("good", [0, 5])
def test_a_burst_of_another_size_is_no_excuse_to_learn_from_a_later_rail(good: int) -> None:
    """What was waited for during the burst was told long ago."""
    rng = np.random.default_rng(0)
    ica = ICA(random_state=0).partial_fit(rng.laplace(size=(START, 4)))
    ica.partial_fit(60 * rng.choice([-1, 1], size=(100, 4)) * np.exp(0.5 * rng.normal(size=(100, 4))))
    for _ in range(good):
        ica.partial_fit(rng.laplace(size=(1000, 4)))
    before = ica._stream.state.unlearnt
    for _ in range(2):
        ica.partial_fit(np.full((4, 4), [300.0, -250.0, 400.0, 350.0]))
    assert ica._stream.state.unlearnt == before + 8


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning", "ignore::majorica.errors.FlatWarning")
@pytest.mark.parametrize("block", [1, 2, 100])
def test_after_a_rail_samples_of_another_size_are_learnt_from(block: int) -> None:
    rng = np.random.default_rng(0)
    ica = ICA(random_state=0).partial_fit(rng.laplace(size=(START, 3)))
    ica.partial_fit(np.full((50, 3), [3.0, -2.0, 4.0]))
    assert len(ica._stream.state.flat)
    X = 1e3 * rng.laplace(size=(1000, 3))
    for start in range(0, len(X), block):
        ica.partial_fit(X[start : start + block])
    assert ica._stream.state.unlearnt < 50 + 100
