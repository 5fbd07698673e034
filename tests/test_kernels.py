"""Each compiled kernel gives what its NumPy twin, the definition, gives."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.densities.table import Densities
from majorica.kernels import compiled, kernels_for, reference
from majorica.statistics import pack_symmetric, unpack_symmetric
from makers import ALL_DENSITIES, densities_of

NAMES = [*ALL_DENSITIES, "mixed"]
#: (samples, features, components): one component, one sample, a tail block, several tiles, wide.
SHAPES = {"p=1": (37, 1, 1), "b=1": (1, 4, 4), "tail": (1024 + 3, 5, 5), "two-tiles": (2048, 3, 3), "f>k": (50, 7, 4)}
TOLERANCE = {np.float64: 1e-12, np.float32: 3e-5}

over_densities = pytest.mark.parametrize("name", NAMES)
over_shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
over_dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])


def block(shape: tuple[int, int, int], dtype: type, seed: int = 0):
    """Samples with an offset, a whitening, an unmixing matrix."""
    b, f, k = shape
    rng = np.random.default_rng(seed)
    X = (rng.laplace(size=(b, f)) * 2 + 0.5).astype(dtype)
    K = rng.normal(size=(k, f)) / np.sqrt(f)
    W = np.eye(k) + 0.3 * rng.normal(size=(k, k))
    return X, np.full(f, 0.5), K, W


def assert_close(got: np.ndarray, wanted: np.ndarray, tolerance: float, samples: int) -> None:
    """Sums over `samples` agree to `tolerance` of their typical size."""
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * samples)


@over_densities
@over_shapes
@over_dtypes
def test_statistics(name: str, shape: tuple[int, int, int], dtype: type) -> None:
    X, mean, K, W = block(shape, dtype)
    densities = densities_of(name, len(W))
    got = compiled.statistics(X, mean, W @ K, densities)
    wanted = reference.statistics(X, mean, W @ K, densities)
    assert got.n == wanted.n == len(X)
    for field in ("loss", "gradient", "power"):
        assert_close(getattr(got, field), getattr(wanted, field), TOLERANCE[dtype], len(X))
    if dtype is np.float64:  # in float32 a sample may fall on the other side of a kink
        assert_close(got.curvature, wanted.curvature, 1e-12, len(X))
        assert_close(got.diagonal, wanted.diagonal, 1e-12, len(X))
    else:
        assert_close(got.curvature, wanted.curvature, 5e-3, len(X))


@over_densities
@over_shapes
@over_dtypes
def test_moments(name: str, shape: tuple[int, int, int], dtype: type) -> None:
    X, mean, K, W = block(shape, dtype)
    densities = densities_of(name, len(W))
    for points in (None, np.float32(reference.project(X, mean, W @ K)).astype(np.float64)):
        got, wanted = (kernels.moments(X, mean, K, W, densities, points) for kernels in (compiled, reference))
        for field in ("packed", "tilts", "offsets"):
            assert_close(getattr(got, field), getattr(wanted, field), TOLERANCE[dtype], len(X))
        for kernels, whole in ((compiled, got), (reference, wanted)):
            part = kernels.moments(X, mean, K, W, densities, points, squares=False)
            assert part.packed.shape == (len(W), 0)
            np.testing.assert_array_equal(part.tilts, whole.tilts)


@over_dtypes
@pytest.mark.parametrize(
    ("b", "f", "k"),
    [
        (37, 7, 6),
        (1100, 18, 17),
        (1, 25, 24),
        (700, 33, 32),
        (300, 300, 9),
        (700, 34, 33),
        (513, 72, 71),
        (40, 130, 129),
    ],
)
def test_moments_of_many_components(b: int, f: int, k: int, dtype: type) -> None:
    """By products of pairs, and by panels beyond those."""
    X, mean, K, W = block((b, f, k), dtype)
    densities = densities_of("mixed", k)
    got, wanted = (kernels.moments(X, mean, K, W, densities) for kernels in (compiled, reference))
    for field in ("packed", "tilts", "offsets"):
        assert_close(getattr(got, field), getattr(wanted, field), 10 * TOLERANCE[dtype], len(X))


@over_densities
@over_shapes
@over_dtypes
def test_row_moments(name: str, shape: tuple[int, int, int], dtype: type) -> None:
    X, mean, K, W = block(shape, dtype)
    for i, density in enumerate(densities_of(name, len(W))):
        got, wanted = (kernels.row_moments(X, mean, K, W[i], density) for kernels in (compiled, reference))
        for field in ("packed", "tilts", "offsets"):
            assert_close(getattr(got, field), getattr(wanted, field), TOLERANCE[dtype], len(X))


@over_densities
@over_shapes
def test_gaps_and_selection(name: str, shape: tuple[int, int, int]) -> None:
    X, mean, K, W = block(shape, np.float64)
    densities = densities_of(name, len(W))
    Y = reference.project(X, mean, W @ K)
    old = np.random.default_rng(1).normal(size=Y.shape) * (np.arange(len(Y)) % 3)[:, None]
    new = Y.astype(np.float32).astype(np.float64)
    got, wanted = (kernels.gaps(Y, new, old, densities) for kernels in (compiled, reference))
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    for q in (1, 2, len(W)):
        np.testing.assert_array_equal(
            compiled.select_largest(wanted, min(q, len(W))), reference.select_largest(wanted, min(q, len(W)))
        )


def test_selection_takes_the_first_of_equals() -> None:
    gap = np.array([[1.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -2.0, -3.0, 5.0]])
    wanted = [[False, True, True, False], [True, True, False, False], [True, False, False, True]]
    for kernels in (compiled, reference):
        np.testing.assert_array_equal(kernels.select_largest(gap, 2), wanted)


#: (densities, samples, components) of mini-batches: only one, tails, several tiles and parts, more than registers hold.
STREAMS = [
    *((name, b, p) for name in NAMES for b, p in ((1, 1), (1, 5), (37, 1), (700, 3), (1027, 9))),
    *((name, b, p) for name in ("huber", "mixed") for b, p in ((1500, 20), (500, 40), (600, 131))),
]


def mini_batch(b: int, p: int, dtype: type, many: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples of which two lie far out, a mean, and some candidates."""
    rng = np.random.default_rng([b, p])
    X = rng.laplace(size=(b, p)) + 0.5
    X[[0, b // 2]] += 100
    return X.astype(dtype), np.full(p, 0.5), np.eye(p) + 0.3 / p * rng.normal(size=(many, p, p))


def assert_near(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """The same but for `tolerance` of the largest."""
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(1.0, np.abs(wanted).max()))


@over_dtypes
@pytest.mark.parametrize(("name", "b", "p"), STREAMS)
@pytest.mark.parametrize(("allowed", "many", "answer"), [(np.inf, 1, 0), (30.0, 3, 1), (30.0, 3, 2)])
def test_looking_at_a_mini_batch(
    name: str, dtype: type, b: int, p: int, allowed: float, many: int, answer: int
) -> None:
    X, mean, candidates = mini_batch(b, p, dtype, many)
    given = (X, mean, candidates, answer, np.linspace(0.5, 2, p), allowed, densities_of(name, p))
    got, wanted = compiled.look_at(*given), reference.look_at(*given)
    assert got.n == b
    for one, other in zip(got.arrays, wanted.arrays, strict=True):
        assert_near(one, other, TOLERANCE[dtype])
    assert wanted.reached[0] > 30
    assert wanted.reached[1] <= allowed


@pytest.mark.parametrize(("dtype", "far"), [(np.float64, 1e160), (np.float64, 1e300), (np.float32, 1e37)])
@pytest.mark.parametrize("allowed", [np.inf, 30.0])
def test_a_sample_whose_squares_overflow(dtype: type, far: float, allowed: float) -> None:
    """Its distance is infinite: it is drawn in to the mean, or left as it is where none is drawn in."""
    X, mean, _ = mini_batch(50, 3, dtype)
    X[7] = far
    W = 100 * np.eye(3)[None] * (1e10 if far == 1e300 else 1)  # sources overflow, too
    for kernels in (compiled, reference):
        with np.errstate(over="ignore", invalid="ignore"):
            found = kernels.look_at(X, mean, W, 0, np.ones(3), allowed, densities_of("huber", 3))
        wanted = X[7] - mean.astype(dtype) if allowed == np.inf else np.zeros(3)
        np.testing.assert_allclose(found.samples[7], wanted)
        assert not np.isnan(found.sources).any()
        assert np.isfinite(found.losses).all() or allowed == np.inf


@over_dtypes
@pytest.mark.parametrize(("name", "b", "p"), STREAMS)
def test_learning_from_a_mini_batch(name: str, dtype: type, b: int, p: int) -> None:
    X, mean, candidates = mini_batch(b, p, dtype)
    densities, rng = densities_of(name, p), np.random.default_rng(p)
    before = unpack_symmetric(rng.normal(size=(p, p * (p + 1) // 2))), rng.normal(size=(p, p)), rng.normal(size=p)
    keep, share = rng.random((2, p))
    covariance = unpack_symmetric(rng.normal(size=p * (p + 1) // 2))
    results = []
    for kernels in (compiled, reference):
        glance = kernels.look_at(X, mean, candidates, 0, np.ones(p), 30.0, densities)
        learnt = [array.copy() for array in before]
        tasks = np.array([0, p // 2], np.int64)
        kernels.learn_from(glance, densities, keep, share, *learnt, tasks)
        assert tasks[0] == p // 2
        for one, other in zip(learnt, before, strict=True):
            np.testing.assert_array_equal(one[p // 2 :], other[p // 2 :])
        kernels.learn_from(glance, densities, keep, share, *learnt, np.array([p // 2, p], np.int64))
        kernels.settle(learnt[0], densities.flat_weights, covariance)
        np.testing.assert_array_equal(learnt[0], learnt[0].transpose(0, 2, 1))
        results.append(learnt)
    for one, other in zip(*results, strict=True):
        assert_near(one, other, TOLERANCE[dtype])
    for i in np.flatnonzero(~densities.super_gaussian):
        np.testing.assert_array_equal(results[0][0][i], densities.flat_weights[i] * covariance)


@over_densities
@over_shapes
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_update_and_add_moments(name: str, shape: tuple[int, int, int], share: float) -> None:
    X, mean, K, W = block(shape, np.float64)
    densities, p, k = densities_of(name, len(W)), len(W), len(K)
    rng = np.random.default_rng(3)
    Z = reference.project(X, mean, K)
    new, old = Z @ W.T, rng.normal(size=(len(X), p))
    chosen = rng.random((len(X), p)) < share
    scales = rng.uniform(0.5, 2, p) / len(X)
    results = []
    for kernels in (compiled, reference):
        moments, tilts, offsets = np.ones((p, k, k)), np.ones((p, k)), np.ones(p)
        kernels.update_moments(Z, new, old, chosen, densities, scales, moments, tilts, offsets)
        kernels.add_moments(Z, new, chosen, densities, scales, moments, tilts, offsets)
        results.append((moments, tilts, offsets))
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)
    if share == 0:
        assert (results[0][0] == 1).all()


@over_densities
@pytest.mark.parametrize("p", [1, 2, 6])
@pytest.mark.parametrize("iterations", [0, 1, 3, 20])
def test_sweep(name: str, p: int, iterations: int) -> None:
    X, mean, K, W = block((200, p, p), np.float64)
    densities = densities_of(name, p)
    sums = reference.moments(X, mean, K, W, densities)
    moments, tilts = unpack_symmetric(sums.packed) / len(X), sums.tilts / len(X)
    Z = reference.project(X, mean, K)
    C = Z.T @ Z / len(Z)
    flat = np.array([0.0 if d.super_gaussian else float(d.weight(np.zeros(1))[0]) for d in densities])
    results = []
    for kernels in (compiled, reference):
        V, inverse = W.copy(), np.linalg.inv(W)
        kernels.sweep(V, inverse, moments, tilts, flat, np.linalg.inv(C), iterations)
        results.append((V, inverse))
        np.testing.assert_allclose(inverse @ V, np.eye(p), atol=1e-9)
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-10, atol=1e-10)
    row = [
        kernels.improve_row(moments[0], W[0], np.linalg.inv(W)[:, 0], iterations) for kernels in (compiled, reference)
    ]
    np.testing.assert_allclose(*row, rtol=1e-9, atol=1e-9)


def test_packing_round_trip() -> None:
    matrices = np.arange(2 * 9.0).reshape(2, 3, 3)
    symmetric = matrices + matrices.transpose(0, 2, 1)
    np.testing.assert_array_equal(unpack_symmetric(pack_symmetric(symmetric)), symmetric)


def test_backends_by_name_and_by_density() -> None:
    assert kernels_for(densities_of("huber", 2)) is compiled
    assert kernels_for(densities_of("huber", 2), "reference") is reference

    class Own(type(ALL_DENSITIES["logcosh"])):  # type: ignore[misc]
        code = -1

    assert kernels_for(Densities([Own()])) is reference


@over_dtypes
def test_kernels_do_not_write_to_their_block(dtype: type) -> None:
    X, mean, K, W = block((30, 4, 4), dtype)
    X.flags.writeable = False
    densities = densities_of("mixed", 4)
    for kernels in (compiled, reference):
        kernels.statistics(X, mean, W @ K, densities)
        kernels.moments(X, mean, K, W, densities)


def test_nan_and_infinity_are_not_swallowed() -> None:
    """Fast arithmetic must not hide a bad sample: the loss says so."""
    for bad in (np.nan, np.inf):
        X, mean, K, W = block((40, 3, 3), np.float64)
        X[7, 1] = bad
        for name in ("huber", "logcosh", "student", "twogaussian"):
            loss = compiled.statistics(X, mean, W @ K, densities_of(name, 3)).loss
            assert not np.isfinite(loss).all(), name


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("b", "f"), [(1, 1), (1, 3), (64, 1), (7, 9), (1500, 5), (3000, 40), (1030, 131), (300, 260)])
def test_scatter_equals_its_twin(dtype, b: int, f: int) -> None:
    rng = np.random.default_rng(b + f)
    X = np.ascontiguousarray(rng.laplace(size=(b, f)) * np.geomspace(1e-6, 1e6, f) + 1e3, dtype)
    X[b // 2 : b // 2 + 3] = X[b // 2]
    (mean, one, *extremes, repeats), (twin, other, *others, twins) = compiled.scatter(X), reference.scatter(X)
    np.testing.assert_array_equal(extremes, others)
    assert repeats == twins >= min(b - b // 2, 3) - 1
    scale = np.sqrt(np.diag(other)) + 1e-30
    np.testing.assert_allclose(mean, twin, rtol=1e-12)
    np.testing.assert_allclose(one / scale / scale[:, None], other / scale / scale[:, None], atol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scatter_shows_what_is_no_number(bad: float) -> None:
    X = np.random.default_rng(0).normal(size=(700, 6))
    X[650, 4] = bad
    mean, found, *_ = compiled.scatter(X)
    assert not np.isfinite(mean[4])
    assert np.isfinite(np.delete(mean, 4)).all()
    assert not np.isfinite(found[4]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("b", "f", "k"), [(1, 1, 1), (1, 3, 2), (1100, 1, 1), (3001, 5, 5), (700, 90, 40)])
def test_whiten_equals_its_twin(dtype, b: int, f: int, k: int) -> None:
    rng = np.random.default_rng(f)
    X = (100 + rng.normal(size=(b, f))).astype(dtype)
    mean, K = X.mean(axis=0, dtype=np.float64), rng.normal(size=(k, f))
    got, wanted = compiled.whiten(X, mean, K), reference.whiten(X, mean, K)
    assert got.dtype == wanted.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
