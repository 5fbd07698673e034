"""Bounded sources are scaled until their edge lies at a knot: where their score rises, the shape can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progressive_watch import run

from majorica import ICA
from majorica.densities.piecewise import KNOTS
from majorica.metrics import amari_distance
from majorica.solvers.progressive import solver
from majorica.solvers.progressive.ridges import EDGE_GAIN, has_edges, stretch
from majorica.solvers.progressive.rotations import _fit, _loss
from majorica.solvers.shapes import Shapes

SOURCES = {
    "uniform": lambda n, rng: rng.uniform(-1, 1, n),
    "sine": lambda n, rng: np.sin(rng.uniform(0, 2 * np.pi, n)),
    "saw with noise": lambda n, rng: rng.uniform(-1, 1, n) + 0.01 * rng.normal(size=n),
    "laplace": lambda n, rng: rng.laplace(size=n),
    "exponential": lambda n, rng: rng.exponential(size=n) - 1,
    "lumps": lambda n, rng: np.sign(rng.normal(size=n)) + 0.2 * rng.normal(size=n),
}
BOUNDED = ["uniform", "sine", "saw with noise"]


def fitted(kinds: list[str], scale: float, n: int, seed: int) -> tuple[np.ndarray, Shapes]:
    """Sources ``(p, n)`` of about variance one, and the best shapes at that scale."""
    rng = np.random.default_rng(seed)
    Y = np.stack([SOURCES[kind](n, rng) for kind in kinds])
    Y *= scale / Y.std(axis=1, keepdims=True)
    shapes = Shapes.gaussian(len(Y))
    shapes.allow_fine = True
    for i, y in enumerate(Y):
        shapes.slopes[i], _, shapes.log_normalisers[i], shapes.fine[i] = _fit(y, True, False)
    return Y, shapes


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(SOURCES)), min_size=1, max_size=3),
    st.floats(0.5, 2),
    st.sampled_from([100, 2000]),
    st.integers(0, 10**6),
)
def test_what_is_scaled_has_gained(kinds: list[str], scale: float, n: int, seed: int) -> None:
    """Loss of each source with its log scale, recomputed: lower by three nats over all samples, or nothing moved."""
    Y, shapes = fitted(kinds, scale, n, seed)
    before = [_loss(Y[i], shapes, i) for i in range(len(Y))]
    W = np.eye(len(Y))
    stretch(Y, W, shapes)
    assert np.count_nonzero(W) == len(W)
    for i, factor in enumerate(W.diagonal()):
        after = _loss(factor * Y[i], shapes, i) - np.log(factor)
        assert after < before[i] - 0.99 * EDGE_GAIN / n if factor != 1 else after == before[i]


@pytest.mark.parametrize("kind", BOUNDED)
def test_edges_come_to_the_last_knot(kind: str) -> None:
    Y, shapes = fitted([kind], 1.0, 2000, 0)
    assert has_edges(shapes).all()
    W = np.eye(1)
    assert stretch(Y, W, shapes) == 1
    assert W[0, 0] * np.abs(Y).max() == pytest.approx(KNOTS[-1], rel=0.2)


@pytest.mark.parametrize("scale", [0.7, 0.85, 1.0])
def test_an_edge_on_one_side_comes_to_a_late_knot(scale: float) -> None:
    """Its other side lies farther out than any knot should: an edge at an early one was left where it was."""
    Y, shapes = fitted(["exponential"], scale, 2000, 0)
    W = np.eye(1)
    assert stretch(Y, W, shapes) == 1
    assert -W[0, 0] * Y.min() == pytest.approx(KNOTS[-2], rel=0.1)


@pytest.mark.parametrize("size", [0.0, 1e-17, 0.3])
def test_samples_of_a_source_at_rest_show_no_edge(size: float) -> None:
    """Scaled to the last knot they would gain without end, and other sources' edges be tried in vain with them."""
    Y, shapes = fitted(["uniform", "lumps"], 1.0, 2000, 0)
    Y[1] = size * np.random.default_rng(0).choice([-1.0, 1.0], 2000)
    assert has_edges(shapes).all()
    W = np.eye(2)
    assert stretch(Y, W, shapes) == 1
    assert W[1, 1] == 1


@pytest.mark.parametrize("kind", ["uniform", "sine"])
@pytest.mark.parametrize("n", [2000, 30_000])
def test_fits_that_stretch_descend(monkeypatch: pytest.MonkeyPatch, kind: str, n: int) -> None:
    rng, stretched, own = np.random.default_rng(1), [], solver.stretch_edges
    S = np.column_stack([SOURCES[kind](n, rng) for _ in range(3)])

    def noted(*args):
        stretched.append(own(*args))
        return stretched[-1]

    monkeypatch.setattr(solver, "stretch_edges", noted)
    watched = run(S @ rng.normal(size=(3, 3)), None)
    assert any(stretched)
    assert max(watched.rises()) <= 1e-12
    assert max(watched.lies()) <= 1e-9


def test_sources_without_edges_are_not_tried() -> None:
    assert not has_edges(fitted(["laplace"], 1.0, 4000, 0)[1]).any()


@pytest.mark.parametrize("n", [2000, 30_000])
def test_bounded_sources_are_told_apart_better(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    losses, distances = [], []
    for helped in (True, False):
        if not helped:
            monkeypatch.setattr(solver, "stretch_edges", lambda *_: False)
        for seed in range(16):
            rng = np.random.default_rng(seed)
            A = rng.normal(size=(2, 2))
            ica = ICA(random_state=0).fit(rng.uniform(-1, 1, (n, 2)) @ A.T)
            losses.append(ica.loss_)
            distances.append(amari_distance(ica.components_, A))
    assert (np.subtract(losses[16:], losses[:16]) > 0.01).all()
    assert np.log(np.divide(distances[:16], distances[16:])).mean() < np.log(0.85)


def test_ordinary_fits_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).laplace(size=(5000, 5))
    ica = ICA(random_state=0).fit(X)
    monkeypatch.setattr(solver, "stretch_edges", lambda *_: False)
    np.testing.assert_array_equal(ica.components_, ICA(random_state=0).fit(X).components_)
