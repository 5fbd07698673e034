"""Adaptive shapes: the fit is the minimum of a convex problem, families are nested, refits never raise the loss."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progressive_watch import define_loss
from scipy import integrate, optimize

from majorica import check_density
from majorica.densities import Piecewise
from majorica.densities.piecewise import KNOTS
from majorica.densities.table import Densities
from majorica.kernels import compiled, partition, reference, shapes
from majorica.solvers.progressive.rotations import rotate_pairs, suspicious_pairs
from majorica.solvers.shapes import Shapes, basis_means, diagonal_sums

BOX = [(shapes.SLOPE_MIN, shapes.SLOPE_MAX)] * 4 + [(shapes.TAIL_MIN, shapes.SLOPE_MAX)]
SOURCES = {
    "laplace": lambda rng, n: rng.laplace(size=n),
    "gn0.7": lambda rng, n: np.sign(rng.normal(size=n)) * rng.gamma(1 / 0.7, size=n) ** (1 / 0.7),
    "student": lambda rng, n: rng.standard_t(2.5, size=n),
    "cauchy-like": lambda rng, n: rng.standard_t(1.2, size=n),
    "gaussian": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "sine": lambda rng, n: np.sin(rng.uniform(0, 2 * np.pi, n)),
    "bimodal": lambda rng, n: np.sign(rng.normal(size=n)) + 0.3 * rng.normal(size=n),
    "binary": lambda rng, n: np.sign(rng.normal(size=n)),
}
over_sources = pytest.mark.parametrize("source", SOURCES)
slopes_in_the_box = st.tuples(*[st.floats(-30, 60)] * 4, st.floats(1e-3, 60))
mild_slopes = st.tuples(*[st.floats(-2, 4)] * 4, st.floats(0.05, 4))


def draw(source: str, n: int = 4000, seed: int = 0) -> np.ndarray:
    y = SOURCES[source](np.random.default_rng(seed), n)
    return y / y.std()


def means_of(y: np.ndarray) -> np.ndarray:
    return partition.basis(np.abs(y)).mean(axis=1)


def log_partition(slopes) -> tuple[float, np.ndarray, np.ndarray]:
    work = partition.room()
    work[partition.TRIED, :5] = slopes
    log_z = partition.log_partition(work)
    return log_z, work[partition.MEAN, :5].copy(), work[partition.COVARIANCE :, :5][:5].copy()


# ------------------------------------------------------------------- log Z


@given(slopes_in_the_box)
def test_log_partition_is_the_log_normaliser(slopes: tuple[float, ...]) -> None:
    wanted = Piecewise(slopes).log_normaliser
    assert abs(log_partition(slopes)[0] - wanted) <= 1e-11 * max(1.0, abs(wanted))


@settings(max_examples=60)
@given(mild_slopes)
def test_log_partition_is_the_numerical_integral(slopes: tuple[float, ...]) -> None:
    density = Piecewise(slopes)
    log_z = log_partition(slopes)[0]
    edges = [0.0, *KNOTS, 10.0, 40.0, 200.0]

    def shape(y: float) -> float:
        return float(np.exp(-density.loss(np.array([y]))[0] - log_z))

    pieces = [integrate.quad(shape, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(edges)]
    assert 2 * sum(pieces) == pytest.approx(1.0, abs=1e-9)


@settings(max_examples=60)
@given(mild_slopes, st.integers(0, 10**6))
def test_mean_and_covariance_are_derivatives_of_log_z(slopes: tuple[float, ...], seed: int) -> None:
    """``d log Z = -mean . dk`` and ``d mean = -covariance dk``: what makes the Newton steps Newton steps."""
    direction = np.random.default_rng(seed).normal(size=5)
    direction *= 1e-4 / np.linalg.norm(direction)
    _, mean, covariance = log_partition(slopes)
    ahead, behind = log_partition(slopes + direction), log_partition(slopes - direction)
    size = np.linalg.norm(mean) + 1
    assert abs((ahead[0] - behind[0]) / 2 + mean @ direction) <= 1e-6 * np.linalg.norm(direction) * size**3
    np.testing.assert_allclose(
        (ahead[1] - behind[1]) / 2, -covariance @ direction, atol=1e-5 * np.abs(covariance).max() * 1e-4 * size**2
    )
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-12 * np.abs(covariance).max()  # convex


# ------------------------------------------------------------------- densities


@settings(max_examples=60)
@given(slopes_in_the_box)
def test_every_shape_in_the_box_is_a_density(slopes: tuple[float, ...]) -> None:
    """Majorizer, derivatives and normaliser: the self-check that users run on their own densities.

    Humps are kept within 50 standard deviations of a unit source: quadrature
    from outside cannot resolve needles at 80,000, `log_partition` does.
    """
    score_at_last_knot = float(np.diff([0.0, *KNOTS]) @ slopes[:4])
    tail = min(60.0, max(slopes[4], -score_at_last_knot / 50))
    check_density(Piecewise((*slopes[:4], tail)))


@given(slopes_in_the_box, st.floats(-50, 50))
def test_basis_times_slopes_is_the_loss(slopes: tuple[float, ...], y: float) -> None:
    at = np.array([y])
    wanted = Piecewise(slopes).loss(at)
    size = np.abs(slopes).max() * max(1.0, y * y)
    np.testing.assert_allclose(np.array(slopes) @ partition.basis(np.abs(at)), wanted, atol=1e-13 * size)


@given(mild_slopes)
def test_families_are_named_by_their_majorizer(slopes: tuple[float, ...]) -> None:
    density = Piecewise(slopes)
    y = np.linspace(0.01, 8, 400)
    ratio = density.score(y) / y
    if density.super_gaussian:
        assert (np.diff(ratio) <= 1e-12).all()
    if density.family == "sub":
        assert (np.diff(ratio) >= -1e-12).all()
    table = Densities.piecewise(np.array([slopes]), np.array([density.log_normaliser]))
    np.testing.assert_array_equal(table.shapes[0], Densities([density]).shapes[0])
    assert table.super_gaussian[0] == density.super_gaussian


# ------------------------------------------------------------------- the convex fit


def minimise_with_scipy(t: np.ndarray, P: np.ndarray, bounds) -> float:
    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        k = x @ P
        log_z, mean, _ = log_partition(k)
        return float(k @ t + log_z), P @ (t - mean)

    starts = [np.ones(len(P)), np.linspace(2.0, 0.3, len(P)), np.linspace(-1.0, 3.0, len(P))]
    options = {"maxiter": 3000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10}
    found = [optimize.minimize(value, x, jac=True, bounds=bounds, method="L-BFGS-B", options=options) for x in starts]
    return min(float(one.fun) for one in found)


@over_sources
@pytest.mark.parametrize("family", ["coarse", "fine"])
def test_the_fit_is_the_minimum(source: str, family: str) -> None:
    """From any start: the problem is convex."""
    t = means_of(draw(source))
    P = partition.TIED if family == "coarse" else partition.FREE
    bounds = BOX if family == "fine" else [BOX[0], BOX[-1]]
    wanted = minimise_with_scipy(t, P, bounds)
    rng = np.random.default_rng(0)
    for trial in range(4):
        start = np.ones(len(P)) if trial == 0 else rng.uniform(0.1, 8, len(P))
        k, value, log_z = shapes.fit_slopes(t, P, start, 1e-12, 1e-12)
        assert value <= wanted + 1e-8
        assert value == pytest.approx(float(k @ t + log_z), abs=1e-12)
        assert log_z == pytest.approx(Piecewise(tuple(k)).log_normaliser, abs=1e-10)
        assert (k >= [low for low, _ in BOX]).all()
        assert (k <= [high for _, high in BOX]).all()


@over_sources
def test_no_shape_beats_the_fit(source: str) -> None:
    """The loss from its definition, against shapes all over the box and near the fit."""
    y = draw(source)
    k, value, _ = shapes.fit_slopes(means_of(y), partition.FREE, np.ones(5), 1e-12, 1e-12)
    rng = np.random.default_rng(1)
    low, high = np.array(BOX).T
    others = np.vstack([rng.uniform(low, high, (50, 5)), np.clip(k + rng.normal(size=(50, 5)) * 0.1, low, high)])
    for other in others:
        density = Piecewise(tuple(other))
        assert density.loss(y).mean() + density.log_normaliser >= value - 1e-9


def test_families_are_nested_and_contain_the_gaussian() -> None:
    np.testing.assert_allclose(np.ones(2) @ partition.TIED, np.ones(5), rtol=1e-15)
    np.testing.assert_allclose(partition.TIED[:, [0, -1]], np.eye(2), atol=1e-15)  # centre and tail are free
    y = np.linspace(-6, 6, 101)
    gaussian = Piecewise()
    np.testing.assert_allclose(gaussian.loss(y), 0.5 * y * y, rtol=1e-15)
    assert gaussian.log_normaliser == pytest.approx(0.5 * np.log(2 * np.pi), abs=1e-14)
    assert log_partition(np.ones(5))[0] == pytest.approx(0.5 * np.log(2 * np.pi), abs=1e-13)


@over_sources
def test_fine_is_at_least_as_good_as_coarse_and_both_as_the_gaussian(source: str) -> None:
    t = means_of(draw(source))
    _, coarse, _ = shapes.fit_slopes(t, partition.TIED, np.ones(2), 1e-12, 1e-12)
    _, fine, _ = shapes.fit_slopes(t, partition.FREE, np.ones(5), 1e-12, 1e-12)
    gaussian = t.sum() + 0.5 * np.log(2 * np.pi)
    assert fine <= coarse + 1e-10
    assert coarse <= gaussian + 1e-12


def test_the_gate() -> None:
    """A Gaussian stays coarse, a uniform source pays for its extra slopes."""
    for source, wanted in [("gaussian", False), ("uniform", True)]:
        t = means_of(draw(source, 20_000))
        _, value, _, fine = shapes.best_shape(t, np.ones(5), False, True, 20_000.0, 1e-9)
        assert fine is wanted
        _, coarse, _ = shapes.fit_slopes(t, partition.TIED, np.ones(2), 1e-12, 1e-12)
        assert value <= coarse + 1e-9
        assert shapes.best_shape(t, np.ones(5), False, False, 20_000.0, 1e-9)[3] is False


# ------------------------------------------------------------------- refits and rotations in a solver


def passed(Y: np.ndarray, densities: Densities):
    p = Y.shape[1]
    return compiled.statistics(np.ascontiguousarray(Y), np.zeros(p), np.eye(p), densities)


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(SOURCES)),
    st.sampled_from(sorted(SOURCES)),
    st.floats(0.05, 20),
    st.booleans(),
    st.integers(2, 3000),
    st.integers(0, 10**6),
)
def test_a_refit_never_raises_the_loss(one: str, two: str, scale: float, fine: bool, n: int, seed: int) -> None:
    """From any shapes, at any scale of the sources, twice in a row: measured from the definition."""
    rng = np.random.default_rng(seed)
    Y = np.column_stack([SOURCES[one](rng, n), scale * SOURCES[two](rng, n)])
    state = Shapes.gaussian(2)
    if rng.random() < 0.5:  # a start elsewhere in the fine family
        state.slopes[:] = rng.uniform(0.05, 3, (2, 5))
        state.log_normalisers[:] = [Piecewise(tuple(slopes)).log_normaliser for slopes in state.slopes]
        state.fine[:] = True
    state.allow_fine = fine
    before, size = define_loss(np.eye(2), Y, state.densities())
    for _ in range(2):
        statistics = passed(Y, state.densities())
        np.testing.assert_allclose(
            basis_means(statistics),
            [means_of(y) for y in Y.T],
            rtol=1e-9,
            atol=1e-13 * (1 + np.square(Y).mean()),
        )
        gains = state.refit(statistics, 0.0)
        after, size_after = define_loss(np.eye(2), Y, state.densities())
        size = max(size, size_after)
        assert after <= before + 1e-12 * size
        assert before - after == pytest.approx(gains.sum(), abs=1e-10 * size)
        assert statistics.loss.sum() / n + state.log_normalisers.sum() == pytest.approx(after, abs=1e-10 * size)
        before = after


@pytest.mark.parametrize("kind", ["uniform", "sine", "laplace"])
def test_rotations_leave_the_saddle_and_lower_the_loss(kind: str) -> None:
    """Two sources mixed by 45 degrees: a stationary point that no small step leaves."""
    rng = np.random.default_rng(3)
    n = 4000
    S = np.column_stack([draw(kind, n, seed) for seed in (1, 2)] + [rng.normal(size=n)])
    turn = np.eye(3)
    turn[:2, :2] = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
    Z, W, state = S @ turn.T, np.eye(3), Shapes.gaussian(3)
    state.refit(passed(Z, state.densities()), 0.0)
    before, _ = define_loss(W, Z, state.densities())
    assert (0, 1) in suspicious_pairs(np.ascontiguousarray(Z.T), 6)
    assert rotate_pairs(Z.T.copy(), W, state) >= 1
    after, _ = define_loss(W, Z, state.densities())
    assert after < before - 1 / n
    P = np.abs(W @ turn)[:2, :2]
    assert min(P.max(axis=1) / P.min(axis=1)) > 5  # separated


def test_independent_sources_are_left_alone() -> None:
    rng = np.random.default_rng(0)
    Z = rng.laplace(size=(4000, 4))
    state = Shapes.gaussian(4)
    state.refit(passed(Z, state.densities()), 0.0)
    W, slopes = np.eye(4), state.slopes.copy()
    assert rotate_pairs(Z.T.copy(), W, state) == 0
    np.testing.assert_array_equal(W, np.eye(4))
    np.testing.assert_array_equal(state.slopes, slopes)


# ------------------------------------------------------------------- compiled kernels


@settings(max_examples=40)
@given(
    st.lists(slopes_in_the_box, min_size=1, max_size=3),
    st.sampled_from([1, 7, 1024 + 3]),
    st.sampled_from([np.float64, np.float32]),
    st.integers(0, 10**6),
)
def test_kernels_for_any_slopes(slopes: list, n: int, dtype: type, seed: int) -> None:
    """One component, one sample, a tail tile: compiled sums are those of the definition."""
    rng = np.random.default_rng(seed)
    p = len(slopes)
    X = rng.laplace(size=(n, p)).astype(dtype)
    W = np.eye(p) + 0.3 * rng.normal(size=(p, p))
    densities = Densities([Piecewise(one) for one in slopes])
    steepest = np.abs(densities.shapes).max()
    tolerance = {np.float64: 1e-13, np.float32: 1e-5}[dtype] * n * (1 + steepest) * (1 + np.square(X).max()) * p**2
    mean, K = np.zeros(p), np.eye(p)
    got, wanted = (kernels.statistics(X, mean, W, densities) for kernels in (compiled, reference))
    fields = ["loss", "gradient", "power", "ramps", "reaches"]
    if dtype is np.float64:  # the second derivative jumps: a rounded sample may fall on the other side of a knot
        fields += ["curvature", "diagonal"]
    for field in fields:
        np.testing.assert_allclose(getattr(got, field), getattr(wanted, field), rtol=0, atol=tolerance, err_msg=field)
    got, wanted = (kernels.moments(X, mean, K, W, densities) for kernels in (compiled, reference))
    for field in ("packed", "tilts", "offsets"):
        np.testing.assert_allclose(getattr(got, field), getattr(wanted, field), rtol=0, atol=tolerance, err_msg=field)
    for i, density in enumerate(densities):
        got, wanted = (kernels.row_moments(X, mean, K, W[i], density) for kernels in (compiled, reference))
        np.testing.assert_allclose(got.packed, wanted.packed, rtol=0, atol=tolerance)
        np.testing.assert_allclose(got.tilts, wanted.tilts, rtol=0, atol=tolerance)


def test_small_kernels_equal_their_twins() -> None:
    rng = np.random.default_rng(0)
    slopes = rng.uniform(-2, 4, size=(40, 5))
    slopes[:, -1] = np.abs(slopes[:, -1]) + 0.1
    slopes[:10] = -np.sort(-np.abs(slopes[:10]), axis=1)
    twin = Densities.piecewise(slopes, np.zeros(40))
    table, heavy = shapes.shape_table(slopes)
    np.testing.assert_array_equal(table, twin.shapes)
    np.testing.assert_array_equal(heavy, twin.super_gaussian)
    assert 10 <= heavy.sum() < 40
    for p, m in ((1, 2), (3, 1000)):
        Y = rng.laplace(size=(p, m))
        np.testing.assert_allclose(shapes.sample_means(Y[0]), partition.basis(np.abs(Y[0])).mean(axis=1), rtol=1e-12)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(0, 10**6), st.booleans())
def test_a_refit_brings_loss_and_diagonal_to_the_new_shapes(p: int, seed: int, fine: bool) -> None:
    """Without a pass: what a pass at the new shapes would find."""
    rng = np.random.default_rng(seed)
    X = np.where(np.arange(p) % 2, rng.uniform(-1.7, 1.7, (700, p)), 0.7 * rng.laplace(size=(700, p)))
    X = X @ (np.eye(p) + 0.2 * rng.normal(size=(p, p)))
    fitted = Shapes.gaussian(p)
    fitted.allow_fine = fine
    before = compiled.statistics(X, np.zeros(p), np.eye(p), fitted.densities())
    assert fitted.refit(before, 0.0).max() > 0
    after = compiled.statistics(X, np.zeros(p), np.eye(p), fitted.densities())
    np.testing.assert_allclose(before.loss, after.loss, rtol=1e-11)
    np.testing.assert_allclose(np.diag(before.gradient), np.diag(after.gradient), rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(np.diag(before.gradient), diagonal_sums(fitted.slopes, after), rtol=1e-11, atol=1e-9)
    means = basis_means(after)
    np.testing.assert_allclose(before.loss, np.einsum("im,im->i", fitted.slopes, means) * 700, rtol=1e-11)


def test_threads_fit_shapes_in_rooms_of_their_own() -> None:
    """Side by side they find what one thread finds: compiled fits release the interpreter's lock."""
    means = [means_of(draw(source)) for source in ("laplace", "uniform", "gaussian", "laplace")]

    def fit(t: np.ndarray) -> np.ndarray:
        return np.stack([shapes.best_shape(t, np.ones(5), False, True, 2000.0, 1e-12)[0] for _ in range(200)])

    wanted = [fit(t)[0] for t in means]
    with ThreadPoolExecutor(4) as pool:
        for found, alone in zip(pool.map(fit, means), wanted, strict=True):
            assert (found == alone).all()
