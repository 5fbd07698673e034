"""One block of white samples: single calls that do what passes, searches and refits in turn would do."""

from __future__ import annotations

import numpy as np
import pytest
from progressive_data import make_data

from majorica import ICA
from majorica.densities import Huber, LogCosh, Piecewise, Student
from majorica.densities.table import Densities
from majorica.kernels import elementwise, partition, reference, scales
from majorica.kernels import shapes as fits
from majorica.solvers import Progressive
from majorica.solvers.progressive.held import Evaluation, Held, evaluation, shortened
from majorica.solvers.progressive.levels import FEW_PRODUCTS, Levels
from majorica.solvers.progressive.moves import step_along
from majorica.solvers.progressive.ridges import profile, settle_scales
from majorica.solvers.shapes import Shapes
from makers import make_problem

SHAPES = (Piecewise((1.4, 1.2, 0.7, 0.5, 0.3)), Piecewise((-1.0, 0.5, 1.0, 3.0, 4.0)), Huber(), LogCosh(), Student())


def kinds(p: int, first: int = 0) -> Densities:
    return Densities([SHAPES[(first + i) % len(SHAPES)] for i in range(p)])


def hold(Z: np.ndarray) -> Held:
    held = Held.empty(*Z.shape)
    held.Z[:] = Z
    return held


def assert_same(one: Evaluation, two: Evaluation) -> None:
    assert one.loss == pytest.approx(two.loss, rel=1e-11, abs=1e-11)
    assert one.largest == pytest.approx(two.largest, rel=1e-9, abs=1e-9)
    for name in ("W", "relative", "upper"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-10)
    for name in ("loss", "gradient", "curvature", "power", "diagonal", "ramps", "reaches"):
        wanted = getattr(two.statistics, name)
        np.testing.assert_allclose(getattr(one.statistics, name), wanted, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("n", [1, 63, 1024, 1025, 4000])
@pytest.mark.parametrize("p", [1, 2, 6, 7, 17, 64])
def test_a_pass_is_that_of_the_reference(p: int, n: int) -> None:
    rng = np.random.default_rng(p + n)
    Z, W = rng.normal(size=(p, n)), np.eye(p) + 0.1 * rng.normal(size=(p, p))
    densities = kinds(p, n)
    statistics = reference.statistics(np.ascontiguousarray(Z.T), np.zeros(p), W, densities)
    assert_same(hold(Z).evaluate(W, densities), evaluation(W, statistics, densities))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 30.0, -1.0])
@pytest.mark.parametrize("kind", ["laplace", "mixed"])
def test_a_search_is_that_over_several_blocks(kind: str, factor: float) -> None:
    """The same point, the same passes and the same memory, for steps that are taken at once, later or never."""
    problem = make_problem(make_data(kind, 3000, 5, seed=3))
    solver, rng = Progressive(adaptive=True), np.random.default_rng(0)
    W = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    one, two = (solver.init(problem, W, kinds(5), np.random.default_rng(0)) for _ in range(2))
    two.levels.held = lambda *_: None  # type: ignore[method-assign]
    for _ in range(4):
        before = one.passes
        direction = factor * one.memory.direction(one.relative, one.upper)[0]
        found = step_along(problem, one, direction)
        assert found == step_along(problem, two, direction)
        assert found == (factor > 0)
        assert one.passes == pytest.approx(two.passes, rel=1e-12)
        assert (one.passes == before) == (factor < 0)
        assert one.loss == pytest.approx(two.loss, rel=1e-11)
        assert (one.memory.count, one.memory.newest) == (two.memory.count, two.memory.newest)
        for name in ("W", "relative", "upper"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.memory.steps, two.memory.steps, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.memory.changes, two.memory.changes, rtol=1e-6, atol=1e-9)


def test_a_step_is_shortened_to_a_parabola_within_bounds() -> None:
    assert shortened(1.0, 2.0, -1.0) == 0.25
    assert shortened(1.0, 1e9, -1.0) == 0.1
    assert shortened(1.0, 0.1, -1.0) == 0.5
    assert shortened(0.5, np.nan, -1.0) == 0.25
    assert shortened(0.5, np.inf, -1.0) == 0.25


def test_a_loss_that_is_no_number_is_found_nowhere() -> None:
    Z = np.full((2, 10), 1e200)
    found = hold(Z).search(np.eye(2), -np.eye(2), kinds(2), np.eye(2), 1.0, below=1.0, memory=None)
    assert found == (10, None)


def test_levels_are_left_out_of_short_passes() -> None:
    rng = np.random.default_rng(0)
    assert Levels.start(FEW_PRODUCTS // 4, 2, rng, few=FEW_PRODUCTS).last
    assert Levels.start(FEW_PRODUCTS // 4, 2, rng, few=FEW_PRODUCTS).skipped
    assert not Levels.start(FEW_PRODUCTS // 4 + 1, 2, rng, few=FEW_PRODUCTS).last
    assert not Levels.start(1500, 2, rng, few=FEW_PRODUCTS).skipped


def test_float32_samples_are_held_as_float64() -> None:
    X = make_data("laplace", 2000, 3, seed=0)
    short, long = (ICA(random_state=0).fit(X.astype(np.float32).astype(kind)) for kind in ("f4", "f8"))
    np.testing.assert_allclose(short.components_, long.components_, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------- scale and shape together


def source(kind: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = {"uniform": rng.uniform(-1, 1, n), "laplace": rng.laplace(size=n), "heavy": rng.standard_t(2.2, size=n)}[kind]
    return y / y.std()


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("kind", ["uniform", "laplace", "heavy"])
def test_a_settled_scale_is_a_minimum_of_its_profile(kind: str, scale: float) -> None:
    n = 3000
    y, enough = scale * source(kind, n, 1), 0.1 / n
    slopes = fits.best_shape(fits.sample_means(y), np.ones(5), False, True, float(n), 1e-9)[0]
    factor, k, log_z, fine, loss = scales.settle_scale(y, slopes, True, True, 5.0, enough)
    start, _ = profile(y, 1.0, slopes, fine=True, allow_fine=True)
    assert loss <= start + 1e-12
    assert loss == pytest.approx(k @ fits.sample_means(factor * y) + log_z - np.log(factor), abs=1e-12)
    here, slope = profile(y, factor, k, fine=fine, allow_fine=True)
    assert here == pytest.approx(loss, abs=2 * fits.FIT_TOLERANCE / n)
    for way in (-0.02, -0.005, 0.005, 0.02):
        near, _ = profile(y, factor * np.exp(way), k, fine=fine, allow_fine=True)
        assert near > loss - 5 * enough, (way, slope)


@pytest.mark.parametrize("kind", ["uniform", "laplace", "heavy"])
def test_the_slope_of_a_profile_is_its_derivative(kind: str) -> None:
    y, step = source(kind, 5000, 2), 1e-4
    slopes = fits.best_shape(fits.sample_means(y), np.ones(5), False, True, 5000.0, 1e-12)[0]
    t, c = np.empty(5), np.empty(5)
    for scale in (0.8, 1.0, 1.3):
        up, down = (profile(y, scale * np.exp(way), slopes, fine=True, allow_fine=True)[0] for way in (step, -step))
        _, slope = profile(y, scale, slopes, fine=True, allow_fine=True)
        assert slope == pytest.approx((up - down) / (2 * step), abs=0.02)  # fits end at their tolerance
        scales.scaled_means(y, scale, t, c)
        np.testing.assert_allclose(t, partition.basis(np.abs(scale * y)).mean(axis=1), rtol=1e-10, atol=1e-12)
        k = fits.best_shape(t, slopes, True, True, 5000.0, fits.FIT_TOLERANCE / 5000)[0]
        assert k @ c - 1 == pytest.approx(slope, abs=1e-9)


def test_settling_changes_what_gains_and_lowers_the_loss() -> None:
    Z = np.stack([source("uniform", 4000, 3), source("laplace", 4000, 4)])
    W, shapes = np.eye(2), Shapes.gaussian(2)
    shapes.allow_fine = True
    means = np.stack([fits.sample_means(row) for row in Z])
    shapes.refit_means(means, 4000, 0.0)
    held = hold(Z)
    before = held.evaluate(W, shapes.densities())
    assert settle_scales(lambda i: W[i] @ Z, W, shapes, before.statistics, 0.1 / 4000) >= 1
    after = held.evaluate(W, shapes.densities())
    assert after.loss < before.loss - 0.1 / 4000
    assert settle_scales(lambda i: W[i] @ Z, W, shapes, after.statistics, 0.1 / 4000) == 0


def test_sparse_sources_are_found_from_every_start() -> None:
    """Fine shapes at the start fit the mixtures of such sources, and no step leads away from there."""
    rng = np.random.default_rng(0)
    S = (rng.random((3000, 8)) < 0.012) * rng.normal(2, 0.5, (3000, 8)) + 0.05 * rng.normal(size=(3000, 8))
    X = S @ rng.normal(size=(8, 8))
    for seed in range(3):
        found = ICA(random_state=seed).fit_transform(X)
        assert (np.abs(np.corrcoef(S.T, found.T)[:8, 8:]).max(axis=1) > 0.99).all()


def test_scale_and_shape_do_not_creep() -> None:
    """Two uniform sources: in turn, scale and shape took 40 passes and more."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2)) @ rng.normal(size=(2, 2))
    ica = ICA(random_state=0).fit(X)
    assert ica.converged_
    assert ica.n_iter_ <= 20


# ------------------------------------------------------------- exponentials


def test_exponentials() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([-(10.0 ** rng.uniform(-12, 2.8, 10_001)), [0.0, -699.0, -701.0, -1e300, -np.inf]])
    got = 3.0 + x
    shifted = got - 3.0
    elementwise.exponentials(got, 3.0, np.empty_like(got))
    np.testing.assert_allclose(got, np.exp(np.maximum(shifted, -700.0)), rtol=4e-16)


def test_exponentials_are_the_same_inside_reassociating_callers() -> None:
    """A compiled function without flags of its own takes those of whoever calls it first."""
    work = partition.room()
    for slopes in ((1.0, 1.0, 1.0, 1.0, 1.0), (-5.0, 2.0, 9.0, 4.0, 0.01), (8.0, -3.4, -1.2, 60.0, 60.0)):
        work[partition.TRIED, :5] = slopes
        log_z, covariance = partition.log_partition(work), work[partition.COVARIANCE :, :5][:5]
        assert log_z == pytest.approx(Piecewise(slopes).log_normaliser, abs=1e-10)
        np.testing.assert_allclose(covariance, covariance.T, rtol=1e-12, atol=1e-300)
