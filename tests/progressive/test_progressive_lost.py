"""Levels without the events of rare sources lead nowhere: the next one sets out anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from progressive_watch import run

from majorica import ICA, amari_distance
from majorica.solvers.progressive import solver as progressive
from majorica.solvers.progressive.lost import nearest_rotation

N = 100_000


def rare(p: int, events: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One source with a few events, and Laplace sources, mixed."""
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(N, p))
    S[:, 0] = 0
    S[rng.choice(N, events, replace=False), 0] = rng.normal(10, 10, size=events)
    A = rng.normal(size=(p, p))
    return S @ A.T, A


def cauchy(p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sources of which few samples hold all the variance, mixed."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p))
    return rng.standard_cauchy((N, p)) @ A.T, A


@pytest.mark.parametrize(("p", "events"), [(4, 6), (4, 15), (12, 10)])
@pytest.mark.parametrize("seed", [0, 3, 7])
def test_sources_of_a_few_events_are_separated(p: int, events: int, seed: int) -> None:
    X, A = rare(p, events, seed)
    ica = ICA(random_state=0).fit(X)
    assert ica.converged_
    assert amari_distance(ica.components_, A) < 0.01 * p


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")
def test_many_sources_without_a_variance_are_separated() -> None:
    """From a quarter of the samples four of twelve such fits had come to nothing; this one to 2.3 in 501 passes."""
    rng = np.random.default_rng(1)
    S, A = rng.standard_cauchy((60_000, 20)), rng.normal(size=(20, 20))
    ica = ICA(random_state=1).fit(S @ A.T)
    assert ica.converged_
    assert amari_distance(ica.components_, A * S.std(axis=0)) < 1e-3


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")
@pytest.mark.parametrize("make", [lambda: rare(4, 6, 0), lambda: rare(4, 15, 3), lambda: cauchy(4, 10)])
def test_fits_that_set_out_anew_descend_within_levels(make, monkeypatch: pytest.MonkeyPatch) -> None:
    times, is_lost = [], progressive.is_lost
    monkeypatch.setattr(progressive, "is_lost", lambda state: times.append(is_lost(state)) or times[-1])
    watched = run(make()[0], None)
    assert any(times)
    assert max(watched.rises()) <= 1e-12
    assert max(watched.lies()) <= 1e-7  # small levels of long data are kept in float32


def test_ordinary_levels_are_never_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are those of Gaussian sources, which are barely better than what the next level is judged by."""
    times, is_lost = [], progressive.is_lost
    monkeypatch.setattr(progressive, "is_lost", lambda state: times.append(is_lost(state)) or times[-1])
    rng = np.random.default_rng(0)
    draws = [rng.normal, rng.laplace, rng.uniform, lambda size: rng.standard_t(2.5, size)]
    for draw in draws:
        ICA(random_state=0).fit(draw(size=(N, 6)) @ rng.normal(size=(6, 6)))
    assert len(times) > len(draws)
    assert not any(times)


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_the_nearest_rotation_is_one_and_none_is_nearer(p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(p, p)) * 10 ** rng.uniform(-2, 2, (p, 1))
    R = nearest_rotation(W)
    np.testing.assert_allclose(R @ R.T, np.eye(p), atol=1e-9)
    others = np.linalg.qr(rng.normal(size=(20, p, p)))[0]
    assert np.linalg.norm(R - W) <= np.linalg.norm(others - W, axis=(1, 2)).min() * (1 + 1e-12)
