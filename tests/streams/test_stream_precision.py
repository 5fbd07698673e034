"""Streams of float32 are learnt from in float32, but for samples that are too far out for its sums."""

from __future__ import annotations

import numpy as np
import pytest

from majorica import ICA
from majorica.metrics import amari_distance
from majorica.solvers.online.solver import Online
from majorica.streaming import SHORT_REACH


def mixture(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(p, p))
    return rng.laplace(size=(n, p)) @ A.T + 3, A


def learnt_in(monkeypatch: pytest.MonkeyPatch) -> list[np.dtype]:
    """The precisions that mini-batches will be learnt in."""
    seen: list[np.dtype] = []
    real = Online.update

    def spy(self: Online, state, Z, **options) -> None:
        seen.append(Z.dtype)
        real(self, state, Z, **options)

    monkeypatch.setattr(Online, "update", spy)
    return seen


def test_float32_learns_as_float64_does(monkeypatch: pytest.MonkeyPatch) -> None:
    X, A = mixture(60_000, 6)
    models = {}
    for dtype in (np.float32, np.float64):
        seen = learnt_in(monkeypatch)
        models[dtype] = ICA(random_state=0, solver="online")
        for start in range(0, len(X), 5000):
            models[dtype].partial_fit(X[start : start + 5000].astype(dtype))
        assert set(seen) == {np.dtype(dtype)}
        monkeypatch.undo()
    short, long = models[np.float32], models[np.float64]
    assert amari_distance(short.components_, A) < 2e-2
    np.testing.assert_allclose(short.components_, long.components_, atol=2e-3 * np.abs(long.components_).max())


@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")
@pytest.mark.parametrize("far", [10 * SHORT_REACH, 1e6])
def test_samples_far_out_are_learnt_in_float64(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    X = mixture(40_000, 4)[0].astype(np.float32)
    X[25_500] *= far
    seen = learnt_in(monkeypatch)
    ica = ICA(random_state=0, solver="online")
    for start in range(0, len(X), 1000):
        ica.partial_fit(X[start : start + 1000])
    assert seen.count(np.dtype(np.float64)) == 1
    assert seen.count(np.dtype(np.float32)) == len(seen) - 1
    assert np.isfinite(ica.components_).all()


@pytest.mark.parametrize("dtype", [np.int16, ">i2", np.int32, np.float16, np.longdouble])
def test_blocks_of_any_numbers_are_learnt_from_as_those_of_floats(dtype: type | str) -> None:
    X = (100 * mixture(13_000, 4)[0]).astype(dtype)
    counts, floats = ICA(random_state=0), ICA(random_state=0)
    for start in range(0, len(X), 1000):
        block = X[start : start + 1000]
        counts.partial_fit(block)
        floats.partial_fit(block.astype(np.float64))
    np.testing.assert_allclose(counts.components_, floats.components_, rtol=1e-3, atol=1e-5)
    assert counts.n_samples_seen_ == len(X)
