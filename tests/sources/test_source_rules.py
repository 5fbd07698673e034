"""Dtypes, shapes, layouts and kinds of input."""

from __future__ import annotations

import itertools

import dask
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.errors import DataError, DataTypeError, ParameterError
from majorica.sources import Source, Stream, as_source, check_source, read_block
from majorica.sources.chunks import ChunkCache, bounds_of, slab_bounds
from majorica.sources.rules import float_dtype

SMALL = ["float16", "float32", "bool", "int8", "uint8", "int16", "uint16"]
LARGE = ["float64", "int32", "uint32", "int64", "uint64", "longdouble"]


@pytest.mark.parametrize("dtype", SMALL + LARGE)
def test_one_dtype_rule_for_all_containers(dtype, tmp_path):
    import dask.array

    x = (np.arange(60).reshape(20, 3) % 7).astype(dtype)
    expected = x.astype(np.float32 if dtype in SMALL else np.float64)
    np.save(tmp_path / "x.npy", x)
    np.savez_compressed(tmp_path / "x.npz", x)
    for given_ in (x, tmp_path / "x.npy", tmp_path / "x.npz", dask.array.from_array(x), [x[:5], x[5:]]):
        source = as_source(given_)
        assert source.dtype == expected.dtype
        np.testing.assert_array_equal(source.read(0, 20), expected)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16"])
def test_dtype_rule_in_typed_files(dtype, tmp_path):
    h5py, pandas, polars = (pytest.importorskip(name) for name in ("h5py", "pandas", "polars"))
    zarr, parquet = pytest.importorskip("zarr"), pytest.importorskip("pyarrow.parquet")
    import pyarrow

    x = (np.arange(60).reshape(20, 3) % 2).astype(dtype)
    columns = {name: x[:, j].copy() for j, name in enumerate("abc")}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    zarr.create_array(str(tmp_path / "x.zarr"), data=x)
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    frames = [pandas.DataFrame(columns), pyarrow.table(columns)]
    if dtype != "float16":
        frames.append(polars.DataFrame(columns))
    for given_ in (tmp_path / "x.h5", tmp_path / "x.zarr", tmp_path / "x.parquet", *frames):
        source = as_source(given_)
        assert source.dtype == float_dtype(dtype)
        np.testing.assert_array_equal(source.read(0, 20), x.astype(float))


def test_mixed_columns_have_one_dtype():
    import pandas

    frame = pandas.DataFrame({"a": np.ones(4, np.float32), "b": np.ones(4, np.int16)})
    assert as_source(frame).dtype == np.float32
    frame["c"] = np.arange(4)
    assert as_source(frame).dtype == np.float64


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.ones((3, 2), complex), DataError, "Complex data not supported"),
        (np.array([["a", "b"]]), DataTypeError, "real numbers"),
        (np.array([["a", 1.0]], dtype=object), DataTypeError, "strings"),
        (np.array([[{}, 1.0]], dtype=object), DataTypeError, "argument must be .* string.* number"),
        (np.zeros((3, 2), "datetime64[s]"), DataTypeError, "real numbers"),
        (np.zeros(3, [("a", float)]), DataError, "Reshape your data"),
        (np.ones(3), DataError, "Reshape your data"),
        (np.float64(1), DataError, "Reshape your data"),
        ([1.0, 2.0], DataError, "Reshape your data"),
        ([], DataError, "Reshape your data"),
        ([[1.0, 2.0], [1.0]], DataTypeError, "one length"),
        (np.ones((3, 2, 2)), DataError, "3D"),
        (np.ones((0, 3)), DataError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.ones((3, 0)), DataError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (scipy.sparse.csr_array(np.eye(3)), DataTypeError, "Sparse"),
        (None, DataTypeError, "pass an array, a data frame"),
        (3, DataTypeError, "pass an array"),
        ({"a": 1}, DataTypeError, "pass an array"),
        (b"abc", DataTypeError, "pass an array"),
        (object(), DataTypeError, "pass an array"),
        ([np.ones((3, 2)), np.ones((3, 4))], DataError, "one width"),
        ([np.ones((3, 2)), iter([])], DataTypeError, "array of numbers|real numbers"),
        (np.ma.masked_less(np.eye(3), 1), DataTypeError, "Masked"),
        (dask.delayed(np.ones)((3, 2)), DataTypeError, "from_delayed"),
    ],
)
def test_named_errors(x, error, message):
    with pytest.raises(error, match=message):
        as_source(x)


def test_layout_of_array_files(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    x = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x)
    zarr.create_array(str(tmp_path / "x.zarr"), data=x)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    for name in ("x.npy", "x.npz", "x.zarr", "x.h5"):
        with pytest.raises(
            DataError, match=r"x\..*: .*\(3, 4\).*ambiguous.*layout='channels-first' \(as_source takes it\)"
        ):
            as_source(tmp_path / name)
        np.testing.assert_array_equal(as_source(tmp_path / name, layout="samples-first").read(0, 3), x)
        np.testing.assert_array_equal(as_source(tmp_path / name, layout="channels-first").read(0, 4), x.T)
    assert as_source(x).n_samples == 3, "arrays in memory are samples first"
    np.save(tmp_path / "one.npy", x[:1])
    with pytest.raises(DataError, match=r"1 channel, .* 1 sample of 4 features"):
        as_source(tmp_path / "one.npy")
    np.save(tmp_path / "none.npy", x[:0])
    with pytest.raises(DataError, match=r"0 sample\(s\)"):
        as_source(tmp_path / "none.npy")
    with pytest.raises(ParameterError, match="layout='wide'"):
        as_source(x, layout="wide")


def test_options_without_meaning(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    for given_, options in [
        (np.ones((4, 2)), {"picks": ["a"]}),
        (tmp_path / "x.npy", {"picks": ["a"]}),
        (tmp_path / "x.csv", {"layout": "channels-first"}),
    ]:
        with pytest.raises(ParameterError):
            as_source(given_, **options)


def test_xarray_axis_called_time_is_not_guessed():
    xarray = pytest.importorskip("xarray")
    x = xarray.DataArray(np.ones((3, 4)), dims=("channel", "time"))
    with pytest.raises(DataError, match=r"'time'.*channels-first"):
        as_source(x)
    assert as_source(x, layout="samples-first").n_samples == 3


def test_tensors_are_converted_by_their_own_method():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.ones((4, 2), np.float32)

    assert as_source(Tensor()).dtype == np.float32


def test_array_api_objects():
    strict = pytest.importorskip("array_api_strict")
    np.testing.assert_array_equal(as_source(strict.ones((4, 2))).read(0, 4), np.ones((4, 2)))


def test_frames_with_missing_values_read_nan():
    import pandas
    import polars
    import pyarrow

    values = {"a": [1.0, None, 3.0], "b": [1, 2, None], "c": [True, None, False]}
    expected = np.array([[1, 1, 1], [np.nan, 2, np.nan], [3, np.nan, 0]])
    for frame in (polars.DataFrame(values), pyarrow.table(values), pandas.DataFrame(values).convert_dtypes()):
        np.testing.assert_array_equal(as_source(frame).read(0, 3), expected)


def test_frame_columns():
    import pandas
    import polars

    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"], "c": pandas.Categorical([1.0, 2.0]), 4: [3, 4]})
    with pytest.raises(DataTypeError, match="'b'"):
        as_source(frame)
    with pytest.raises(DataTypeError, match="'c'"):
        as_source(frame[["a", "c"]])
    with pytest.raises(DataTypeError, match="'b'"):
        as_source(polars.DataFrame({"a": [1.0], "b": ["x"]}))
    assert as_source(frame, picks=["a"]).feature_names == ("a",)
    assert as_source(frame, picks=["a", 4]).feature_names is None, "names are all text or none"
    with pytest.raises(ParameterError, match="'z'"):
        as_source(frame, picks=["z"])
    with pytest.raises(ParameterError, match="layout"):
        as_source(frame, picks=["a"], layout="channels-first")


def test_joined_names_must_agree():
    import pandas

    parts = [pandas.DataFrame({name: [1.0, 2.0]}) for name in "ab"]
    with pytest.raises(DataError, match="feature names of block 1"):
        as_source(parts)


def test_protocols():
    assert isinstance(as_source(np.ones((3, 2))), Source)
    assert isinstance(as_source(iter([np.ones((3, 2))])), Stream)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(sum), st.data())
def test_chunk_cache(lengths, data):
    bounds = bounds_of(lengths)
    x = np.arange(2.0 * bounds[-1]).reshape(-1, 2)
    cache = ChunkCache(bounds, lambda k: x[bounds[k] : bounds[k + 1]].copy())
    for _ in range(3):
        start = data.draw(st.integers(0, len(x)))
        stop = data.draw(st.integers(start, len(x)))
        np.testing.assert_array_equal(cache.read(start, stop), x[start:stop])


def test_chunks_are_decoded_once_in_a_pass(monkeypatch):
    monkeypatch.setattr("majorica.sources.chunks.CACHE_BYTES", 0)
    decoded = []

    def load(k):
        decoded.append(k)
        return np.ones((100, 2))

    cache = ChunkCache(range(0, 1001, 100), load)
    for start in range(0, 1000, 30):
        cache.read(start, min(start + 30, 1000))
    assert decoded == list(range(10))


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 10**4))
def test_slabs_are_whole_chunks(n_rows, chunk_rows, row_bytes):
    n_rows = min(n_rows, 10**4 * max(chunk_rows, 2**20 // row_bytes))
    bounds = slab_bounds(n_rows, chunk_rows, row_bytes)
    assert bounds[0] == 0
    assert bounds[-1] == n_rows
    assert all(bound % chunk_rows == 0 for bound in bounds[:-1])


def test_check_source_names_what_is_broken():
    class Broken:
        n_samples, n_features, in_memory, feature_names = 10, 2, True, None
        dtype = np.dtype(np.float64)

        def __init__(self, block):
            self.block = block

        def read(self, start, stop):
            return self.block(start, stop)

    random = np.random.default_rng(0)
    for block, message in [
        (lambda a, b: [[0.0, 0.0]] * (b - a), "list"),
        (lambda a, b: np.zeros((b - a, 3)), "shape"),
        (lambda a, b: np.zeros((b - a, 2), np.float32), "float32"),
        (lambda a, b: np.zeros((2, b - a + 1)).T[1:], "contiguous"),
        (lambda a, b: random.standard_normal((b - a, 2)), "twice"),
        (lambda a, b: np.full((b - a, 2), float(a)), "one by one"),
    ]:
        with pytest.raises((DataError, DataTypeError), match=message):
            check_source(Broken(block))
    with pytest.raises(DataTypeError, match="lacks n_samples"):
        check_source(object())


def test_a_memory_view_is_read_as_an_array() -> None:
    X = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(as_source(memoryview(X)).read(0, 4), X)


class Slow:
    """A source that counts its journeys."""

    n_samples, n_features, dtype, in_memory, feature_names = 100_000, 8, np.dtype(np.float64), False, None

    def __init__(self):
        self.journeys = []

    def read(self, start, stop):
        self.journeys.append((start, stop))
        return np.arange(start * 8.0, stop * 8.0).reshape(-1, 8)


@given(st.lists(st.tuples(st.integers(0, 6_000), st.integers(0, 50)), min_size=1, max_size=60))
def test_ranges_that_lie_near_are_read_in_one_journey(steps):
    """Reading what lies between takes less time than a journey of its own; no more is read at once than a block has."""
    ranges, end = [], 0
    for gap, length in steps:
        if end + gap + length > Slow.n_samples:
            break
        ranges.append((end + gap, end + gap + length))
        end += gap + length
    block, source = tuple(ranges or [(0, 1)]), Slow()
    wanted = np.concatenate([Slow().read(*one) for one in block])
    np.testing.assert_array_equal(read_block(source, block), wanted)
    assert len(source.journeys) <= len(block)
    assert all(stop - start <= 2**17 // 8 for start, stop in source.journeys)
    assert all(b[0] - a[1] > 2**15 // 8 or b[1] - a[0] > 2**17 // 8 for a, b in itertools.pairwise(source.journeys))
