"""Awkward input: the right answer, or one named error that says what to do; never NaN in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from majorica import ICA
from majorica.densities import Huber
from majorica.errors import (
    DataError,
    DataTypeError,
    FewSamplesWarning,
    MajoricaError,
    OutlierWarning,
    ParameterError,
    RankError,
    RankWarning,
)
from majorica.sources import as_source
from makers import laplace

SOLVERS = ["auto", "incremental", "batch", "online"]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def make(solver: str = "auto", **options: object) -> ICA:
    return ICA(solver=solver, random_state=0, **({"density": "huber"} | options))


def assert_sane(ica: ICA) -> None:
    for name in ("components_", "mixing_", "mean_", "whitening_", "loss_"):
        assert np.isfinite(getattr(ica, name)).all(), name


def matched(one: np.ndarray, two: np.ndarray) -> float:
    """Largest difference of two sets of unit-variance sources, order and sign apart."""
    correlation = one.T @ two / len(one)
    order = np.abs(correlation).argmax(axis=1)
    assert sorted(order) == list(range(one.shape[1]))
    return float(np.abs(two[:, order] * np.sign(correlation[np.arange(len(order)), order]) - one).max())


# ------------------------------------------------------------------ named errors

BAD_SAMPLES = {
    "nan": (lambda X: np.where(np.arange(len(X))[:, None] == 70, np.nan, X), DataError, "NaN"),
    "inf": (lambda X: np.where(np.arange(len(X))[:, None] == 70, np.inf, X), DataError, "inf"),
    "complex": (lambda X: X + 1j, DataError, "[Cc]omplex"),
    "strings": (lambda X: np.full(X.shape, "a"), (DataError, DataTypeError), "string|numbers|convert"),
    "objects": (lambda X: np.array([[{}, 1]] * 9, dtype=object), (DataError, DataTypeError), "numb|real"),
    "sparse": (lambda X: scipy.sparse.csr_array(X), DataTypeError, "[Ss]parse"),
    "one-dimension": (lambda X: X[:, 0], DataError, "1D|2D"),
    "three-dimensions": (lambda X: X[None], DataError, "3|2D"),
    "no-samples": (lambda X: X[:0], DataError, "0 sample"),
    "no-features": (lambda X: X[:, :0], DataError, "0 feature"),
    "one-sample": (lambda X: X[:1], DataError, "sample"),
    "all-zeros": (lambda X: np.zeros_like(X), DataError, "constant|variance"),
    "all-constant": (lambda X: np.full_like(X, 3.7), DataError, "constant|variance"),
    "overflow": (lambda X: X * 1e200, DataError, "rescale|overflow"),
}


@every_solver
@pytest.mark.parametrize("case", BAD_SAMPLES)
def test_unusable_samples_are_named(solver: str, case: str) -> None:
    spoil, kind, words = BAD_SAMPLES[case]
    X, _ = laplace(200, 3)
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(kind, match=words) as caught:
        make(solver).fit(spoil(X))
    assert isinstance(caught.value, MajoricaError)
    assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize("case", ["nan", "inf", "complex", "strings", "sparse", "one-dimension"])
def test_unusable_samples_are_named_after_fitting(case: str) -> None:
    spoil, kind, _ = BAD_SAMPLES[case]
    X, _ = laplace(200, 3)
    ica = make().fit(X)
    wanted = ica.transform(X)
    for method in (ica.transform, ica.score, ica.partial_fit, ica.inverse_transform):
        with pytest.raises(kind) as caught:
            method(spoil(X))
        assert isinstance(caught.value, MajoricaError)
    np.testing.assert_array_equal(ica.transform(X), wanted)


def test_masked_entries_are_refused_wherever_they_come_in() -> None:
    da = pytest.importorskip("dask.array")
    X, _ = laplace(200, 3)
    masked = np.ma.masked_array(X.copy(), mask=np.arange(600).reshape(200, 3) == 70)
    masked.data[masked.mask] = 1e9
    ica = make().fit(X)
    refused = pytest.raises(DataTypeError, match=r"drop the samples .* or fill them: x\.filled\(value\)")
    for given in (masked, list(masked), [masked, masked], iter([X, masked]), da.from_array(masked, chunks=(50, 3))):
        with refused:
            make().fit(given)
    for method in (ica.transform, ica.score, ica.partial_fit, ica.inverse_transform):
        with refused:
            method(masked)
    with refused:
        ica.transform(da.from_array(masked, chunks=(50, 3))).compute()
    whole = np.ma.masked_array(X, mask=False)
    np.testing.assert_array_equal(make().fit(whole).components_, ica.components_)
    np.testing.assert_array_equal(ica.transform(as_source(whole)), ica.transform(X))


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "i2", "?", "O"])
def test_sources_of_any_real_dtype_are_given_back(kind: str) -> None:
    X, _ = laplace(200, 3)
    ica = make().fit(X)
    S = np.arange(12).reshape(4, 3).astype(kind)
    wanted = S.astype(float) @ ica.mixing_.T + ica.mean_
    for sources in (S, pd.DataFrame(S), S[:0]):
        back = ica.inverse_transform(sources)
        assert back.dtype == (np.float32 if kind == "f4" else np.float64)
        np.testing.assert_allclose(back, wanted[: len(sources)], rtol=1e-4)
    np.testing.assert_allclose(ica.inverse_transform(S.tolist()), wanted)


def test_no_samples_after_fitting() -> None:
    """Nothing to transform is an error; nothing new in a live stream is not."""
    X, _ = laplace(200, 3)
    ica = make().fit(X)
    before = ica.components_.copy()
    for method in (ica.transform, ica.score):
        with pytest.raises(DataError, match="0 sample"):
            method(X[:0])
    np.testing.assert_array_equal(ica.partial_fit(X[:0]).components_, before)


def test_the_first_bad_sample_is_located() -> None:
    X, _ = laplace(40_000, 3)
    X[31_234, 1] = np.nan
    with pytest.raises(DataError, match=r"sample 31234, feature 1"):
        make().fit(X)


def test_another_width_is_named_and_the_estimator_goes_on() -> None:
    X, _ = laplace(400, 3)
    ica = make().partial_fit(X[:200])
    with pytest.raises(DataError, match="features"):
        ica.partial_fit(X[:, :2])
    other = make().partial_fit(X[:200]).partial_fit(X[200:])
    ica.partial_fit(X[200:])
    np.testing.assert_array_equal(ica.components_, other.components_)
    for method in (ica.transform, ica.score):
        with pytest.raises(DataError, match="features"):
            method(X[:, :2])
    with pytest.raises(DataError, match="shape"):
        ica.inverse_transform(np.ones((4, 2)))


def attributes(ica: ICA) -> dict[str, object]:
    return {name: id(value) for name, value in vars(ica).items()}


@every_solver
@pytest.mark.parametrize("kind", ["array", "frame", "stream", "parameter"])
def test_a_fit_that_fails_leaves_the_model_as_it_was(solver: str, kind: str, tmp_path) -> None:
    X, _ = laplace(400, 4)
    ica = make(solver).fit(pd.DataFrame(X, columns=list("abcd")))
    before, wanted = attributes(ica), ica.score(as_source(X))
    bad = X[:, :3].copy()
    bad[70] = np.nan
    given = {"frame": pd.DataFrame(bad, columns=list("xyz")), "stream": (bad[k : k + 50] for k in range(0, 400, 50))}
    if kind == "parameter":
        ica.set_params(tol=-1.0)
        before = attributes(ica)
        bad = X[:, :3]
    with pytest.raises((DataError, DataTypeError, ParameterError)):
        ica.fit(given.get(kind, bad))
    assert attributes(ica) == before
    ica.set_params(tol=None)
    assert ica.score(as_source(X)) == wanted
    ica.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(ICA.load(tmp_path / "m.npz").components_, ica.components_)


def test_a_fit_lets_go_of_what_only_streams_have() -> None:
    X, _ = laplace(400, 3)
    ica = make("online").fit(X)
    assert ica.drift_ >= 0
    assert not hasattr(ica.set_params(solver="auto").fit(X), "drift_")


# ------------------------------------------------------------------ features by name


def write_csv(path, X: np.ndarray, names: str) -> str:
    np.savetxt(path, X, delimiter=",", header=",".join(names), comments="")
    return str(path)


def test_features_in_another_order_or_of_other_names_are_refused(tmp_path) -> None:
    xarray = pytest.importorskip("xarray")
    X, _ = laplace(300, 4)
    ica = make().fit(write_csv(tmp_path / "x.csv", X, "abcd"))
    wanted = ica.transform(X_plain := as_source(X))
    moved = write_csv(tmp_path / "moved.csv", X[:, ::-1], "dcba")
    other = write_csv(tmp_path / "other.csv", X, "abxy")
    labelled = xarray.DataArray(X[:, ::-1], dims=["s", "f"], coords={"f": list("dcba")})
    for method in (ica.transform, ica.score, ica.partial_fit):
        for wrong in (moved, as_source(moved), labelled):
            with pytest.raises(DataError, match=r"order differs: feature 0 is 'd' and was 'a', .* and 1 more; reorder"):
                method(wrong)
        with pytest.raises(DataError, match=r"set of names differs: 'x', 'y' unknown, 'c', 'd' missing; rename"):
            method(other)
    assert ica.n_samples_seen_ == 300
    np.testing.assert_array_equal(ica.transform(X_plain), wanted)
    np.testing.assert_array_equal(ica.transform(as_source(moved, picks=list(ica.feature_names_in_))), wanted)
    np.testing.assert_array_equal(make().fit(X).transform(moved), make().fit(X).transform(X[:, ::-1]))


def test_partial_fit_takes_files_but_no_streams(tmp_path) -> None:
    X, _ = laplace(300, 4)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(make().partial_fit(tmp_path / "x.npy").components_, make().partial_fit(X).components_)
    with pytest.raises(DataTypeError, match=r"not a stream \(generator\)"):
        make().partial_fit(X[k : k + 9] for k in range(0, 300, 9))


def test_a_block_with_nan_is_not_used_and_the_stream_goes_on() -> None:
    X, _ = laplace(25_000, 3)
    one, two = make(), make()
    for start in range(0, 25_000, 5000):
        one.partial_fit(X[start : start + 5000])
        two.partial_fit(X[start : start + 5000])
        spoilt = X[:100].copy()
        spoilt[3, 2] = np.nan
        with pytest.raises(DataError, match="NaN"):
            two.partial_fit(spoilt)
    np.testing.assert_array_equal(one.components_, two.components_)


BAD_PARAMETERS = [
    ("solver", "sgd"), ("solver", None), ("whiten", False), ("whiten", "zca"), ("density", "cauchy"),
    ("density", 3), ("density", Huber), ("batch_size", 0), ("batch_size", 2.5), ("batch_size", "many"),
    ("n_updates", 0), ("n_updates", -1), ("alpha", 0.2), ("alpha", 1.5), ("alpha", float("nan")),
    ("half_life", 0), ("half_life", -3.0), ("max_iter", 0), ("max_iter", "ten"), ("tol", -1e-3),
    ("tol", float("nan")), ("w_init", np.eye(2)), ("w_init", np.zeros((3, 3))), ("w_init", np.full((3, 3), np.nan)),
    ("w_init", "foo"), ("w_init", [[1, 0, 0], [0, 1]]), ("w_init", 1j * np.eye(3)), ("w_init", [["a"] * 3] * 3),
    ("w_init", np.full((3, 3), {}, dtype=object)), ("w_init", np.ones(3)),
    ("random_state", "seed"), ("random_state", -1), ("n_jobs", 0), ("n_jobs", 1.5), ("n_jobs", "all"),
    ("n_components", 0), ("n_components", 2.5), ("n_components", "all"), ("callbacks", 3), ("verbose", "loud"),
    ("memory_limit", "lots"), ("memory_limit", -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_PARAMETERS, ids=[f"{n}={v!r:.20}" for n, v in BAD_PARAMETERS])
def test_bad_parameters_are_named(name: str, value: object) -> None:
    X, _ = laplace(100, 3)
    with pytest.raises(ParameterError, match=name) as caught:
        ICA(**{name: value}).fit(X)
    assert isinstance(caught.value, ValueError)


def test_more_components_than_features_are_refused_at_the_first_block() -> None:
    X, _ = laplace(100, 4)
    with pytest.raises(RankError, match="n_components=5 exceeds the number of features 4; pass n_components<=4"):
        make(n_components=5).partial_fit(X)

    def endless():
        yield X
        raise AssertionError("a second block was asked for")

    for data in (X, endless()):
        with pytest.raises(RankError, match="number of features 4"):
            make("online", n_components=5).fit(data)
    ica = make(n_components=4).fit(X).set_params(n_components=5)
    assert ica.partial_fit(X).n_components_ == 4, "a fitted model goes on as it is"


# ------------------------------------------------------------------ right answers


@every_solver
def test_one_feature(solver: str) -> None:
    X, _ = laplace(500, 1)
    ica = make(solver).fit(X)
    assert_sane(ica)
    np.testing.assert_allclose(ica.transform(X).std(), 1, rtol=0.02)


@pytest.mark.parametrize("solver", ["auto", "incremental", "batch"])
def test_fewer_samples_than_features(solver: str) -> None:
    X = np.random.default_rng(0).laplace(size=(12, 30))
    with pytest.warns(FewSamplesWarning, match=r"12 samples do not tell 11 .* \(12 x 30\) .*X\.T.* give more samples$"):
        ica = make(solver).fit(X)
    assert ica.n_components_ == 11
    assert_sane(ica)
    np.testing.assert_allclose(ica.inverse_transform(ica.transform(X)), X, atol=1e-10)


REDUNDANT = {
    "constant": lambda X: np.column_stack([X, np.full(len(X), 5.0)]),
    "zero": lambda X: np.column_stack([X, np.zeros(len(X))]),
    "duplicate": lambda X: np.column_stack([X, X[:, 1]]),
    "scaled-duplicate": lambda X: np.column_stack([X, 1e-9 * X[:, 0]]),
    "average-reference": lambda X: np.column_stack([X, -X.sum(axis=1)]),
}


def test_a_rank_that_the_samples_limit_is_blamed_on_them() -> None:
    few = pytest.warns(FewSamplesWarning, match="5 samples do not tell 4 .* 20 a component; else")
    with few, pytest.warns(RankWarning, match=r"rank 4 in 5 features \(5 samples span no more\)"):
        ICA(random_state=0).fit(np.random.default_rng(0).laplace(size=(5, 5)))


def test_enough_samples_for_the_components_asked_for_are_no_matter_to_warn_of() -> None:
    """More features than samples are fine where few components are asked for: nobody is told to transpose them."""
    X = np.random.default_rng(0).laplace(size=(300, 400))
    assert ICA(3, random_state=0, density="huber").fit(X).converged_


@every_solver
@pytest.mark.parametrize("case", REDUNDANT)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_redundant_channels_reduce_the_rank_and_nothing_is_lost(solver: str, case: str, dtype: type) -> None:
    X, _ = laplace(3000, 3)
    redundant = REDUNDANT[case](X).astype(dtype)
    with pytest.warns(RankWarning, match="rank 3 in 4"):
        ica = make(solver).fit(redundant)
    assert ica.n_components_ == ica.rank_ == 3
    assert_sane(ica)
    assert np.abs(ica.components_).max() < 1e12
    back = ica.inverse_transform(ica.transform(redundant.astype(np.float64)))
    np.testing.assert_allclose(back, redundant, atol=1e-10 if dtype is np.float64 else 1e-5)


@every_solver
@pytest.mark.parametrize("scale", [1e-13, 1e-6, 1e6, 1e12])
def test_scales_do_not_change_the_sources(solver: str, scale: float) -> None:
    X, _ = laplace(3000, 3)
    plain, scaled = make(solver).fit(X), make(solver).fit(X * scale)
    assert matched(plain.transform(X), scaled.transform(X * scale)) < 1e-6
    np.testing.assert_allclose(scaled.mixing_, plain.mixing_ * scale, rtol=1e-6, atol=1e-9 * scale)


@every_solver
def test_channels_of_very_different_scales(solver: str) -> None:
    """Magnetometers, gradiometers and volts together."""
    X, _ = laplace(3000, 4)
    scales = np.array([1e-13, 1e12, 1.0, 1e-6])
    plain, scaled = make(solver).fit(X), make(solver).fit(X * scales)
    assert matched(plain.transform(X), scaled.transform(X * scales)) < 1e-6
    back = scaled.inverse_transform(scaled.transform(X * scales))
    assert (np.abs(back - X * scales) <= 1e-10 * scales * 30).all()


@every_solver
def test_offset_of_1e8_does_not_change_the_sources(solver: str) -> None:
    X, _ = laplace(3000, 3)
    shifted = X + 1e8
    plain, moved = make(solver).fit(shifted - 1e8), make(solver).fit(shifted)
    assert matched(plain.transform(shifted - 1e8), moved.transform(shifted)) < 1e-6


@every_solver
def test_a_million_sigma_outlier_gives_a_finite_model(solver: str) -> None:
    X, _ = laplace(5000, 3)
    X[123] = 1e6 * X.std(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ica = make(solver).fit(X)
    assert_sane(ica)
    assert np.abs(ica.components_).max() < 1e6
    back = ica.inverse_transform(ica.transform(X))
    np.testing.assert_allclose(back[:100], X[:100], atol=1e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_sample_that_outweighs_all_others_is_named(n_jobs: int) -> None:
    X, _ = laplace(200_000, 3)
    X[150_000, 1] = -1e4
    with pytest.warns(OutlierWarning, match=r"one of 200,000 samples holds 98% of the variance of feature 1 and is"):
        ICA(random_state=0, n_jobs=n_jobs).fit(X)
    X[7, 2] = 1e5
    with pytest.warns(OutlierWarning, match=r"100% of the variance of feature 2 \(and that of 1 more\)"):
        ICA(random_state=0, n_jobs=n_jobs).fit(X)


def test_a_sample_that_outweighs_all_others_of_wide_data_is_named() -> None:
    X = np.random.default_rng(0).laplace(size=(150, 200))
    X[3, 7] = 1e6
    with pytest.warns(OutlierWarning, match="one of 150 samples holds 99% of the variance of feature 7 and is"):
        ICA(5, random_state=0).fit(X)


@pytest.mark.parametrize("tail", [2.5, 5.0])
def test_heavy_tails_and_a_handful_of_samples_are_no_outliers(tail: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        ICA(random_state=0).fit(rng.standard_t(tail, size=(2000, 3)) @ rng.normal(size=(3, 3)))  # warnings are errors
    ICA(random_state=0).fit(np.append(rng.normal(size=(50, 2)), [[1e3, 0]], axis=0))


def test_int16_fortran_and_read_only_maps_give_the_bits_of_the_plain_array(tmp_path) -> None:
    X, _ = laplace(3000, 3)
    counts = np.round(X * 1000).astype(np.int16)
    wanted = make().fit(counts.astype(np.float32))
    np.testing.assert_array_equal(make().fit(counts).components_, wanted.components_)
    plain = make().fit(X)
    np.testing.assert_array_equal(make().fit(np.asfortranarray(X)).components_, plain.components_)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for solver in SOLVERS:
        np.testing.assert_array_equal(make(solver).fit(mapped).components_, make(solver).fit(X).components_)
    np.testing.assert_array_equal(make().fit(X[::-1]).components_, make().fit(X[::-1].copy()).components_)
    np.testing.assert_array_equal(make().fit(X.astype(">f8")).components_, plain.components_)


@every_solver
def test_input_is_not_written_to(solver: str) -> None:
    X, _ = laplace(2000, 3)
    before = X.copy()
    ica = make(solver).fit(X)
    ica.transform(X)
    ica.score(X)
    np.testing.assert_array_equal(X, before)


def test_gaussian_sources_end_in_a_finite_model() -> None:
    """Nothing to separate: no blow-up, an orthonormal-like answer all the same."""
    X = np.random.default_rng(0).normal(size=(5000, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for solver in SOLVERS:
            ica = ICA(solver=solver, random_state=0).fit(X)
            assert_sane(ica)
            np.testing.assert_allclose(ica.transform(X).std(axis=0), 1, rtol=0.05)


def test_half_life_is_above_zero() -> None:
    for half_life in (0, -1.0, 0.0):
        with pytest.raises(ParameterError, match=r"half_life=.* must be a number > 0 or None"):
            ICA(solver="online", half_life=half_life).fit(np.random.default_rng(0).laplace(size=(50, 2)))


def test_a_bad_block_of_a_stream_says_what_fit_and_partial_fit_can_do() -> None:
    blocks = [np.random.default_rng(k).laplace(size=(500, 3)) for k in range(3)]
    blocks[1][7, 2] = np.nan
    with pytest.raises(DataError, match="drop such samples before fit, or go on with the next block by partial_fit"):
        ICA(random_state=0).fit(iter(blocks))


# ------------------------------------------------------------------ what messages name


def _laplace(n: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(n, 4)) @ rng.normal(size=(4, 4))


def test_empty_blocks_of_a_list_are_harmless() -> None:
    X = _laplace()
    whole = ICA(random_state=0).fit(X)
    for parts in ([X[:1000], X[:0], X[1000:]], [X[:0], X], [X, X[:0]]):
        np.testing.assert_array_equal(ICA(random_state=0).fit(parts).components_, whole.components_)
    with pytest.raises(DataError, match="0 sample"):
        ICA().fit([X[:0], X[:0]])


@pytest.mark.parametrize("n", [3000, 4])
def test_too_many_components_of_constant_features_are_refused_by_name(n: int) -> None:
    X = np.hstack([_laplace(n), np.ones((n, 1))])
    with pytest.raises(ValueError, match=r"exceeds the data's rank \d \(constant feature\(s\) 4\)"):
        ICA(n_components=5).fit(X)


@pytest.mark.parametrize("n", [3000, 3])
@pytest.mark.parametrize("scale", [1e-170, 1e-300])
def test_numbers_too_small_to_be_squared_are_no_constants(n: int, scale: float) -> None:
    with pytest.raises(DataError, match="rescale the input"):
        ICA().fit(_laplace(n) * scale)
    with pytest.raises(DataError, match="every feature is constant"):
        ICA().fit(np.full((n, 4), scale))


def test_a_lazy_frame_is_told_to_be_collected() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"call \.collect\(\)"):
        ICA().fit(polars.LazyFrame({"a": [1.0, 2.0]}))


@pytest.mark.parametrize(
    "column",
    [
        list("xyzt") * 20,
        pd.Categorical(list("xy") * 40),
        pd.date_range("2020", periods=80),
        pd.date_range("2020", periods=80).astype("datetime64[ns]"),
        pd.date_range("2020", periods=80, tz="UTC"),
        pd.timedelta_range("1s", periods=80).astype("timedelta64[ns]"),
    ],
)
def test_columns_of_a_frame_that_hold_no_numbers_are_named(column: object) -> None:
    frame = pd.DataFrame(_laplace(80), columns=list("abcd"))
    ica = ICA(random_state=0, density="huber").fit(frame)
    for call in (lambda bad: ICA().fit(bad), ica.transform):
        bad = frame.assign(c=column)
        with pytest.raises(DataTypeError, match="column holds no numbers: 'c'; leave such columns out"):
            call(bad)
        with pytest.raises(DataTypeError, match="columns hold no numbers: 'a', 'c'"):
            call(bad.assign(a="1.5 uV"))


def test_columns_with_missing_numbers_or_one_name_are_named_as_they_are() -> None:
    frame = pd.DataFrame(_laplace(80), columns=list("abcd")).assign(c="x", d="y")
    frame["a"] = pd.array([1, None] * 40, dtype="Int64")
    with pytest.raises(DataTypeError, match="columns hold no numbers: 'c', 'd'; leave"):
        ICA().fit(frame)
    frame.columns = list("abcc")
    with pytest.raises(DataTypeError, match="column holds no numbers: 'c'; leave"):
        ICA().fit(frame)


def test_dates_are_not_taken_for_numbers() -> None:
    polars = pytest.importorskip("polars")
    dates = pd.date_range("2020", periods=80)
    frame = polars.DataFrame(dict(zip("abcd", _laplace(80).T, strict=True)))
    for column in (dates.to_numpy(), dates.to_numpy().astype("datetime64[D]"), (dates - dates[0]).to_numpy()):
        bad = frame.with_columns(polars.Series("c", column))
        with pytest.raises(DataTypeError, match="column holds no numbers: 'c'; leave"):
            ICA().fit(bad)
    zoned = pd.DataFrame(_laplace(80), columns=list("abcd")).assign(c=dates.tz_localize("UTC"))
    with pytest.raises(DataTypeError, match="'c' does not hold real numbers"):
        as_source(zoned)
