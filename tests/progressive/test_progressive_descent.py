"""Every step of the progressive solver lowers the loss of the samples in play, whatever the data, start and density."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progressive_data import DATA, make_data
from progressive_watch import DENSITIES, Run, run

from majorica.solvers import Progressive
from majorica.solvers.progressive import solver
from makers import matrix_of_condition

#: Outliers and tails without variance are part of what is tried.
pytestmark = pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")

#: Rises allowed to rounding, relative to the largest term of the loss.
SLACK = 1e-12


def make_start(kind: str, seed: int, p: int) -> np.ndarray:
    """Invertible starts, good and bad."""
    rng = np.random.default_rng(seed)
    if kind == "rotation":
        return np.linalg.qr(rng.normal(size=(p, p)))[0]
    if kind == "ill-conditioned":
        return matrix_of_condition(p, 1e6, rng) * 1e-3
    if kind == "flipped":
        return -np.eye(p)[rng.permutation(p)]
    scale = {"huge": 1e5, "small": 1e-5}[kind]
    return scale * matrix_of_condition(p, 10.0, rng)


def assert_descends(watched: Run) -> None:
    assert max(watched.rises(), default=0.0) <= SLACK
    assert max(watched.lies()) <= 1e-9
    assert np.isfinite([one.loss for one in watched.seen]).all()


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES)
@pytest.mark.parametrize("kind", DATA)
def test_every_kind_of_data_over_several_levels(kind: str, density) -> None:
    watched = run(make_data(kind, 5003, 4, seed=1), density, few=0)
    assert_descends(watched)
    assert len({one.level for one in watched.seen}) == 2
    assert watched.seen[-1].n_samples == 5003
    if density is None and kind in ("mixed", "discrete", "heavy"):
        assert watched.shape_changes() >= 1  # changes of shape are among the steps that were looked at


@settings(max_examples=150)
@given(
    data=st.sampled_from(sorted(DATA)),
    name=st.sampled_from(["huber", "logcosh", "student", "own", "adaptive", "adaptive", "adaptive"]),
    start=st.sampled_from(["rotation", "rotation", "ill-conditioned", "flipped", "huge", "small"]),
    p=st.integers(1, 5),
    extra=st.sampled_from([1, 2, 5, 40, 300, 1500]),
    tol=st.sampled_from([None, 0.0, 1e-6]),
    seed=st.integers(0, 10**6),
)
def test_any_data_any_start(data: str, name: str, start: str, p: int, extra: int, tol: float | None, seed: int) -> None:
    X = make_data(data, p + extra, p, seed)
    assert_descends(run(X, DENSITIES[name], start=partial(make_start, start, seed), tol=tol, max_iter=40, seed=seed))


@settings(max_examples=40)
@given(
    data=st.sampled_from(sorted(DATA)),
    name=st.sampled_from(["huber", "logcosh", "student", "own", "adaptive", "adaptive"]),
    start=st.sampled_from(["rotation", "ill-conditioned", "flipped", "huge", "small"]),
    p=st.integers(1, 4),
    extra=st.sampled_from([1, 5, 300, 1500]),
    every=st.sampled_from([1, 3]),
    seed=st.integers(0, 10**6),
)
def test_rows_take_over_when_line_searches_fail(
    data: str, name: str, start: str, p: int, extra: int, every: int, seed: int
) -> None:
    """The MM rows descend from any point: with no quasi-Newton step at all, or with some that fail."""
    X = make_data(data, p + extra, p, seed)
    search, rows, straighten = solver.step_along, solver.sweep_rows, Progressive._straighten
    calls = {"search": 0, "rows": 0, "straighten": 0}

    def fail(*args):
        calls["search"] += 1
        return False if calls["search"] % every == 0 else search(*args)

    def count(*args):
        calls["rows"] += 1
        return rows(*args)

    def count_first(self, *args):
        calls["straighten"] += 1  # sweeps from nearly dependent rows, before any search
        return straighten(self, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "step_along", fail)
        patch.setattr(solver, "sweep_rows", count)
        patch.setattr(Progressive, "_straighten", count_first)
        watched = run(X, DENSITIES[name], start=partial(make_start, start, seed), tol=1e-6, max_iter=100, seed=seed)
    assert_descends(watched)
    if every == 1:
        assert calls["rows"] == calls["search"] + calls["straighten"]


@pytest.mark.parametrize("kind", ["mixed", "discrete", "laplace"])
def test_rotations_tried_on_few_samples_lower_the_loss_of_all(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a few samples gain by may be their noise: it counts only if all samples in play gain."""
    monkeypatch.setattr("majorica.solvers.progressive.moves.ROTATION_NUMBERS", 4 * 150)
    monkeypatch.setattr("majorica.solvers.progressive.rotations.SUSPICIOUS", 0.5)
    for seed in range(4):
        assert_descends(run(make_data(kind, 5003, 4, seed=seed), None, seed=seed, few=0))
