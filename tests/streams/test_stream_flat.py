"""Sensors that come off, rail or copy another one: nothing is learnt from that, and the model is there afterwards."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica import ICA
from majorica.errors import FlatWarning, MajoricaWarning, OutlierWarning, RankError
from majorica.metrics import amari_distance
from majorica.solvers.online import flat
from majorica.streaming import flat_features
from majorica.whitening import Whitening
from makers import unit_rows

BEFORE, FAULT, AFTER = 14_000, 10_000, 10_000


def dead(X: np.ndarray) -> None:
    X[:, 1] = 0.0


def railed(X: np.ndarray) -> None:
    X[:, 1] = 500.0


def copied(X: np.ndarray) -> None:
    X[:, 1] = X[:, 2]


def all_dead(X: np.ndarray) -> None:
    X[:] = 5.0


FAULTS = {dead: "feature 1 ", railed: "feature 1 ", copied: "features 1, 2 ", all_dead: "features 0, 1, 2, 3 "}


def stream(fault: Callable[[np.ndarray], None], dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    X = rng.laplace(size=(BEFORE + FAULT + AFTER, 4)) @ A.T
    fault(X[BEFORE : BEFORE + FAULT])
    return X.astype(dtype), A * np.sqrt(2)


def learn(ica: ICA, X: np.ndarray, block: int = 500) -> list[str]:
    """The warnings, all of the package's own; no number that is not finite is ever published."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for start in range(0, len(X), block):
            ica.partial_fit(X[start : start + block])
            if hasattr(ica, "components_"):
                for name in ("components_", "mixing_", "mean_", "loss_", "drift_"):
                    assert np.isfinite(getattr(ica, name)).all()
    assert {each.category for each in caught} <= {FlatWarning, OutlierWarning}
    return [str(each.message) for each in caught if each.category is FlatWarning]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("options", "dtype", "block"),
    [
        ({}, np.float64, 500),
        ({"half_life": 3_000}, np.float64, 500),
        ({"half_life": 3_000}, np.float32, 500),
        ({"half_life": 3_000}, np.float64, 61),  # faults begin and end within mini-batches
        ({"half_life": 3_000, "density": "huber"}, np.float32, 500),
        ({"density": "student"}, np.float64, 500),
    ],
)
def test_a_fault_leaves_the_model_as_it_was(
    fault: Callable[[np.ndarray], None], options: dict, dtype: type, block: int
) -> None:
    X, A = stream(fault, dtype)
    ica = ICA(random_state=0, **options)
    assert learn(ica, X[:BEFORE], block) == []
    before = ica.components_.copy()
    said = learn(ica, X[BEFORE : BEFORE + FAULT], block)
    assert len(said) == 1
    assert f"no variance along {FAULTS[fault]}" in said[0]
    if block == 500:
        np.testing.assert_array_equal(ica.components_, before)
    assert ica.n_samples_seen_ == BEFORE + FAULT
    assert learn(ica, X[BEFORE + FAULT :], block) == []
    assert amari_distance(ica.components_, A) < 0.005
    assert (np.diag(ica.components_ @ np.linalg.inv(before)) > 0.9).all()  # component i is still component i


def test_a_short_memory_of_a_long_fault_stays_finite() -> None:
    X, A = stream(all_dead)
    ica = ICA(random_state=0, half_life=100)
    for part in (X[:BEFORE], *[X[BEFORE : BEFORE + FAULT]] * 5, X[BEFORE + FAULT :]):
        learn(ica, part)
    assert amari_distance(ica.components_, A) < 0.1


@pytest.mark.parametrize("block", [1, 3, 8])
def test_blocks_of_a_few_samples_are_judged_together(block: int) -> None:
    X, A = stream(dead)
    ica = ICA(random_state=0, half_life=3_000)
    learn(ica, X[:BEFORE])
    said = learn(ica, X[BEFORE : BEFORE + 800], block)
    assert len(said) == 1
    learn(ica, X[BEFORE + FAULT : BEFORE + FAULT + 800], block)
    assert amari_distance(ica.components_, A) < 0.01


def test_a_fit_of_a_stream_says_so_and_a_copy_of_it_does_not_again() -> None:
    X, _ = stream(dead)
    with pytest.warns(FlatWarning, match="went flat before sample 15,000"):
        ica = ICA(random_state=0).fit(iter(np.split(X[: BEFORE + 2_000], 16)))
    again = pickle.loads(pickle.dumps(ica))
    assert learn(again, X[BEFORE + 2_000 : BEFORE + 4_000]) == []
    np.testing.assert_array_equal(again.components_, ica.components_)


@pytest.mark.parametrize("density", ["adaptive", "huber"])
@pytest.mark.parametrize("noise", [1e-3, 1e-2, 0.1])
def test_a_sensor_of_little_noise_is_followed_and_back_again(density: str, noise: float) -> None:
    """It is alive, so rows follow it; shapes used to hold them there when it was back."""
    X, A = stream(dead)
    X[BEFORE : BEFORE + FAULT, 1] = noise * np.random.default_rng(1).normal(size=FAULT)
    ica = ICA(random_state=0, density=density, half_life=3_000)
    learn(ica, X)
    more = np.random.default_rng(2).laplace(size=(30_000, 4)) @ A.T / np.sqrt(2)
    learn(ica, more)
    assert amari_distance(unit_rows(ica.components_, more), A) < 0.01


@pytest.mark.parametrize("gain", [0.01, 1e5])
def test_a_gain_that_changes_and_changes_back_freezes_nothing(gain: float) -> None:
    X, _ = stream(lambda X: None)
    X[BEFORE : BEFORE + FAULT, 1] *= gain
    ica = ICA(random_state=0, half_life=3_000)
    assert learn(ica, X) == []
    assert ica._stream.state.unlearnt == 0


@pytest.mark.parametrize("half_life", [None, 5_000])
def test_sources_silent_for_whole_mini_batches_do_not_blow_up(half_life: float | None) -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 4))
    S = np.where(rng.random((40_000, 4)) < 1e-3, rng.laplace(size=(40_000, 4)), 0.0)
    S /= S.std(axis=0)
    ica = ICA(random_state=0, half_life=half_life)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MajoricaWarning)  # of the first blocks
        for X in np.split(S[:10_000] @ A.T, 20):
            ica.partial_fit(X)
    started = amari_distance(ica.components_, A)
    learn(ica, S[10_000:] @ A.T)
    assert amari_distance(ica.components_, A) < started + 1e-3
    assert np.abs(ica._stream.state.W).max() < 1e3


def test_callbacks_of_this_process_do_not_keep_a_model_from_being_pickled() -> None:
    X, _ = stream(lambda X: None)
    ica = ICA(solver="online", random_state=0, callbacks=lambda step: None).fit(X)
    ica.set_params(callbacks=None)
    again = pickle.loads(pickle.dumps(ica))
    again.partial_fit(X[:500])
    assert again.n_samples_seen_ == len(X) + 500


# ---------------------------------------------------------------------------- parts


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1),
    p=st.integers(2, 8),
    ratio=st.floats(-12, 1),
    offset=st.sampled_from([0.0, 1e3, 1e9]),
    far=st.sampled_from([1.0, 1e12]),
)
def test_flat_is_what_has_little_variance_in_units_of_the_known(
    seed: int, p: int, ratio: float, offset: float, far: float
) -> None:
    """Whatever the mixing, the mean and single samples far out."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(p, p)))[0]
    Y = rng.normal(size=(20 * p + 50, p))
    Y[:, 0] *= 10.0 ** (ratio / 2)
    Y = Y @ turn + offset
    Y[7] *= far
    n, mean, scatter = flat.spread(Y)
    assert n >= len(Y) - 1
    digits = np.finfo(float).eps * np.abs(mean).max()
    found = flat.directions(scatter / n, np.eye(p), digits)
    if ratio < -8.5:
        assert len(found) == 1
        assert abs(found[0] @ turn[0]) > 0.99 * np.linalg.norm(found[0])
    elif ratio > -7.5 and offset < 1e9:
        assert len(found) == 0


def test_parts_of_samples_have_the_spread_of_all() -> None:
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 3)) + 7
    whole = flat.spread(Y)
    parts = flat.join(*flat.spread(Y[:1]), *flat.spread(Y[1:20]))
    parts = flat.join(*parts, *flat.spread(Y[20:]))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_samples_mostly_far_out_are_not_judged() -> None:
    Y = np.random.default_rng(0).normal(size=(50, 3)) * [1e6, 1, 1]
    assert flat.spread(Y)[0] == 0


def test_features_of_a_combination_are_not_named() -> None:
    whitening = Whitening.identity(8)
    assert flat_features(np.eye(8)[[3, 5]], whitening) == [3, 5]
    assert flat_features(np.ones((1, 8)), whitening) == []


@pytest.mark.parametrize(("begin", "block"), [(37, 500), (170, 500), (33, 8)])
def test_a_rail_within_a_mini_batch_is_soon_forgotten(begin: int, block: int) -> None:
    X, A = stream(lambda X: railed(X[begin:]))
    ica = ICA(random_state=0, half_life=3_000)
    assert len(learn(ica, X, block)) == 1
    assert amari_distance(unit_rows(ica.components_, X[-AFTER:]), A) < 0.03


# ------------------------------------------------------------ features that come alive late


def late(n: int = 14_000, alive: int = 12_000, value: float = 0.0, unit: float = 1.0) -> np.ndarray:
    """Four features of which the third is constant up to sample `alive`."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(n, 4)) @ rng.normal(size=(4, 4)) * unit
    X[:alive, 2] = value
    return X


@pytest.mark.parametrize("block", [1, 500])
@pytest.mark.parametrize("value", [0.0, 0.1, -500.0])
@pytest.mark.parametrize("unit", [1e-12, 1.0])
@pytest.mark.filterwarnings("ignore::majorica.errors.RankWarning")
def test_a_feature_that_comes_alive_after_the_start_is_named_once(block: int, value: float, unit: float) -> None:
    X = late(value=value, unit=unit)
    ica = ICA(random_state=0).partial_fit(X[:11_990])
    assert learn(ica, X[11_990:12_000], block) == []
    (said,) = learn(ica, X[12_000 : 12_000 + 5 * block], block)
    assert said.startswith(f"feature 2 of the stream began to vary before sample {12_000 + block:,} but ")
    again = pickle.loads(pickle.dumps(ica))
    assert learn(again, X[13_000:], 500) == []


@pytest.mark.filterwarnings("ignore::majorica.errors.RankWarning")
def test_a_feature_that_comes_alive_is_named_by_fit_and_after_a_fit_of_finite_data() -> None:
    X = late()
    with pytest.warns(FlatWarning, match="feature 2 of the stream began to vary before sample 12,500"):
        ICA(random_state=0).fit(iter(np.split(X, 28)))
    ica = ICA(random_state=0).fit(X[:5000])
    assert len(learn(ica, X[12_000:])) == 1


def test_a_stream_with_all_components_waits_for_a_late_feature() -> None:
    ica = ICA(n_components=4, random_state=0)
    X = late(n=24_000)
    for start in range(0, len(X), 1000):
        try:
            ica.partial_fit(X[start : start + 1000])
        except RankError:
            continue
    assert ica.components_.shape == (4, 4)
    assert np.linalg.matrix_rank(ica.components_ / np.abs(ica.components_).max(axis=0)) == 4


def test_what_varies_is_never_left_out() -> None:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(12_000, 5)) @ rng.normal(size=(5, 5)) * 10.0 ** np.array([-15, -3, 0, 6, 15])
    for options in ({}, {"n_components": 2}):
        ica = ICA(random_state=0, **options).fit(X)
        assert len(ica._fitted.whitening.left_out) == 0
