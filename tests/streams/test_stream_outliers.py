"""Single samples far out in a stream: drawn in, named once, and harmless however far out they are."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica import ICA
from majorica.errors import OutlierWarning
from majorica.metrics import amari_distance
from majorica.solvers.online import outliers
from majorica.solvers.online.outliers import distances, draw_in, draw_in_all, first_reach
from majorica.streaming import START_SAMPLES
from makers import unit_rows

KINDS = {
    "laplace": lambda rng, size: rng.laplace(size=size) / np.sqrt(2),
    "uniform": lambda rng, size: rng.uniform(-np.sqrt(3), np.sqrt(3), size=size),
}


def mixture(kind: str = "laplace", n: int = 40_000, p: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(p, p))
    return KINDS[kind](rng, (n, p)) @ A.T + 3, A


def learn(X: np.ndarray, **options) -> ICA:
    """A stream in blocks of 1,000; warnings of outliers are looked at elsewhere."""
    ica = ICA(random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutlierWarning)
        for start in range(0, len(X), 1000):
            ica.partial_fit(X[start : start + 1000])
    return ica


def error(ica: ICA, A: np.ndarray, X: np.ndarray) -> float:
    return amari_distance(unit_rows(ica.components_, X), A)


@pytest.mark.parametrize(("kind", "density"), [("laplace", "adaptive"), ("laplace", "huber"), ("uniform", "adaptive")])
@pytest.mark.parametrize("at", [500, START_SAMPLES - 1, START_SAMPLES, 25_500])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e15])
def test_one_sample_far_out_does_little_harm(kind: str, density: str, at: int, far: float) -> None:
    """Uniform sources lose most by one in the start: there it counts until the shapes' slow means forget it."""
    X, A = mixture(kind)
    spoilt = X.copy()
    spoilt[at, 0] += far * X[:, 0].std()
    worse = 2e-4 if kind == "laplace" or at > START_SAMPLES else 1e-3
    assert error(learn(spoilt, density=density), A, X) < error(learn(X, density=density), A, X) + worse


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_faults_that_come_again_do_no_harm(dtype: type) -> None:
    X, A = mixture(n=60_000)
    rng = np.random.default_rng(1)
    spoilt = X.astype(dtype)
    for at in range(700, len(X), 3_000):  # in other directions each time: no source
        spoilt[at] = 10.0 ** rng.uniform(2, 9) * rng.normal(size=4)
    assert error(learn(spoilt), A, X) < error(learn(X), A, X) + 2e-3


def test_how_far_out_makes_no_difference() -> None:
    X, _ = mixture(n=30_000)
    models = []
    for far in (1e6, 1e9):
        spoilt = X.copy()
        spoilt[20_100] *= far
        models.append(learn(spoilt))
    np.testing.assert_allclose(models[0].components_, models[1].components_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(models[0].mean_, models[1].mean_, atol=1e-4)


def test_a_stream_goes_on_from_a_fit_past_an_outlier() -> None:
    X, A = mixture()
    ica = ICA(random_state=0).fit(X[:20_000])
    X[20_010] *= 1e7
    with pytest.warns(OutlierWarning, match="times as far out"):
        ica.partial_fit(X[20_000:21_000])
    ica.partial_fit(X[21_000:])
    assert error(ica, A, X[:20_000]) < 0.005


def test_streams_without_far_samples_are_learnt_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = mixture("uniform")
    plain = learn(X)
    monkeypatch.setattr(outliers, "REACH", np.inf)
    monkeypatch.setattr(outliers, "ROUNDS", 0)
    np.testing.assert_array_equal(plain.components_, learn(X).components_)


def test_a_sensor_that_becomes_loud_is_followed() -> None:
    X, A = mixture(n=60_000)
    gains = np.array([1e4, 1, 1, 1])
    X -= 3  # of its mean a stream has a longer memory
    X[20_000:] *= gains
    A = gains[:, None] * A
    assert error(learn(X), A, X[20_000:]) < 0.01


@pytest.mark.parametrize("half_life", [None, 5000])
def test_flat_sources_are_found_again_after_a_loud_stretch(half_life: float | None) -> None:
    """Their rows, made for the loud one, had grown so slowly that shapes followed them: sources stayed lost."""
    X, A = mixture("uniform", n=120_000)
    X -= 3
    X[20_000:40_000] *= 100
    assert error(learn(X, half_life=half_life), A, X[-20_000:]) < 0.01


def test_the_warning_comes_once_and_costs_nothing() -> None:
    X, _ = mixture(n=14_000)
    X[11_200] *= 1e6
    X[12_200] *= 1e6
    ica = ICA(random_state=0).partial_fit(X[:11_000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OutlierWarning, match=r"first 12,000 samples .* drop them"):
            ica.partial_fit(X[11_000:12_000])
    assert ica.n_samples_seen_ == 12_000  # learnt and published all the same
    ica.partial_fit(X[12_000:])
    assert ica.n_samples_seen_ == 14_000
    np.testing.assert_array_equal(ica.components_, learn(X).components_)


def test_what_is_known_of_distances_is_pickled() -> None:
    X, _ = mixture(n=15_000)
    X[11_200] *= 1e6
    ica = learn(X[:13_000])
    again = pickle.loads(pickle.dumps(ica))
    X[13_400] *= 50
    for model in (ica, again):
        model.partial_fit(X[13_000:])  # it warned before
    np.testing.assert_array_equal(ica.components_, again.components_)


def test_states_that_know_no_distances_go_on() -> None:
    X, A = mixture(n=40_000)
    ica = learn(X[:15_000])
    ica._stream.state.reach = 0.0
    for start in range(15_000, len(X), 1000):
        ica.partial_fit(X[start : start + 1000])
    assert error(ica, A, X) < 0.002


def test_a_memory_of_a_few_samples_does_not_shrink() -> None:
    X, _ = mixture(n=20_000)
    ica = learn(X, half_life=5)
    assert np.isfinite(ica.components_).all()
    assert 0.2 < ica.transform(X[-2000:]).std() < 5


@pytest.mark.parametrize("n", [6_000, 13_000])
def test_fit_of_a_stream_warns_too(n: int) -> None:
    X, _ = mixture(n=n)
    X[4_000] *= 1e6
    with pytest.warns(OutlierWarning, match="drawn in"):
        ICA(solver="online", random_state=0).fit(X)
    with pytest.warns(OutlierWarning, match="drawn in"):
        ICA(random_state=0).fit(iter(np.split(X, n // 1000)))


# ---------------------------------------------------------------------------- parts


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 6), power=st.floats(1, 140), many=st.integers(1, 4))
def test_samples_together_end_without_far_ones(seed: int, p: int, power: float, many: int) -> None:
    """From anywhere: none is left far out, none has turned, and what was near has not moved."""
    rng = np.random.default_rng(seed)
    n = 4000
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)
    spoilt = X.copy()
    where = rng.choice(n, many, replace=False)
    spoilt[where] += 10.0**power * rng.normal(size=(many, p))
    drawn, most = draw_in_all(spoilt)
    Z = drawn - drawn.mean(axis=0)
    far = np.sqrt(np.einsum("ij,ij->i", Z @ np.linalg.pinv(Z.T @ Z / n), Z))
    assert far.max() <= first_reach(p, n)
    near = np.setdiff1d(np.arange(n), where)
    np.testing.assert_array_equal(drawn[near], spoilt[near])
    assert np.isfinite(drawn).all()
    assert most >= 1
    assert (most > 1) == (drawn is not spoilt)


def test_a_few_components_of_many_features_are_protected_too() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(900, 3))
    X = rng.laplace(size=(12_000, 3)) @ A.T + 0.1 * rng.normal(size=(12_000, 900))
    X[5_000] *= 1e5
    ica = learn(X, n_components=3)
    assert amari_distance(unit_rows(ica.components_, np.delete(X, 5_000, axis=0)), A * np.sqrt(2)) < 0.02


def test_samples_together_are_left_alone_where_none_is_far() -> None:
    rng = np.random.default_rng(0)
    spike = np.hstack([rng.normal(size=(5000, 2)), np.zeros((5000, 1))])
    spike[70, 2] = 1.0
    for X in (
        spike,  # a sensor that is dead but for one sample: alone in its direction
        rng.laplace(size=(5000, 3)),
        np.hstack([rng.normal(size=(5000, 2)), np.zeros((5000, 1))]),  # a dead channel
        np.repeat(rng.normal(size=(5000, 2)), 2, axis=1),  # each channel twice
        1e9 * rng.normal(size=(20, 50)),  # more features than samples
        np.zeros((10, 3)),
        np.ones((1, 2)),
    ):
        assert draw_in_all(X)[0] is X


def test_distances_do_not_depend_on_scales_or_units() -> None:
    rng = np.random.default_rng(0)
    Z, W = rng.normal(size=(50, 3)), rng.normal(size=(3, 3))
    C = np.cov(rng.normal(size=(3, 100)))
    far = distances(Z, W, C)
    B = rng.normal(size=(3, 3))
    np.testing.assert_allclose(distances(Z @ B.T, W @ np.linalg.inv(B), B @ C @ B.T), far, rtol=1e-9)
    np.testing.assert_allclose(distances(Z, np.diag([1e3, 1.0, 1e-3]) @ W, C), far, rtol=1e-9)
    assert np.isfinite(distances(Z, W, np.zeros((3, 3)))).all()


def test_drawn_in_samples_keep_their_direction() -> None:
    rng = np.random.default_rng(0)
    Z, mean, shares = rng.normal(size=(5, 3)), rng.normal(size=3), np.array([1.0, 0.5, 0.1, 1e-9, 1.0])
    drawn = draw_in(Z, mean, shares)
    np.testing.assert_allclose(drawn - mean, shares[:, None] * (Z - mean), atol=1e-12)
    assert draw_in(Z.astype(np.float32), mean, shares).dtype == np.float32
