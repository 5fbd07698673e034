"""Dask arrays and data frames."""

from __future__ import annotations

import numpy as np
import pytest

from majorica.errors import DataError, DataTypeError, ParameterError, SourceError
from majorica.sources import as_source
from majorica.sources.dask import DaskSource

da = pytest.importorskip("dask.array")
X = np.random.default_rng(0).standard_normal((100, 4))


def test_array_stays_lazy_and_is_computed_chunk_by_chunk():
    computed = []

    def chunk(block, block_info=None):
        computed.append(block_info[0]["chunk-location"] if block_info else None)
        return block

    array = da.from_array(X, chunks=(30, -1)).map_blocks(chunk, dtype=X.dtype, meta=np.empty((0, 0)))
    source = as_source(array)
    assert isinstance(source, DaskSource)
    assert computed == []
    for start in range(0, 100, 7):
        np.testing.assert_array_equal(source.read(start, min(100, start + 7)), X[start : start + 7])
    assert computed == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_exposed_array_is_samples_first_float_and_reblocked():
    source = as_source(
        da.from_array(np.arange(40, dtype=np.int8).reshape(4, 10), chunks=(2, 3)), layout="channels-first"
    )
    assert source.array.shape == (10, 4)
    assert source.array.dtype == source.dtype == np.float32
    assert source.array.chunks[1] == (4,)
    assert source.with_blocks(4).chunks == ((4, 4, 2), (4,))
    np.testing.assert_array_equal(source.with_blocks(4).blocks[1].compute(), source.read(4, 8))


def test_unknown_lengths_do_not_change_the_given_array():
    array = da.from_array(X, chunks=(30, 2))
    some = array[array[:, 0] > 0]
    source = as_source(some)
    np.testing.assert_array_equal(source.read(0, source.n_samples), X[X[:, 0] > 0])
    assert np.isnan(some.shape[0])


def test_empty_selection():
    array = da.from_array(X, chunks=(30, -1))
    with pytest.raises(DataError, match="0 sample"):
        as_source(array[array[:, 0] > 1e9])


def test_frame():
    dd, pandas = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "b": np.arange(100), "s": ["x"] * 100})
    lazy = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(DataTypeError, match="'s'"):
        as_source(lazy)
    source = as_source(lazy, picks=["b", "a"])
    assert source.feature_names == ("b", "a")
    np.testing.assert_array_equal(source.read(0, 100), frame[["b", "a"]].to_numpy())
    with pytest.raises(ParameterError, match="'z'"):
        as_source(lazy, picks=["z"])


def test_errors_of_the_graph_are_named():
    def fail(block):
        raise RuntimeError("disk on fire")

    array = da.from_array(X, chunks=(50, -1)).map_blocks(fail, dtype=X.dtype, meta=np.empty((0, 0)))
    with pytest.raises(SourceError, match="disk on fire"):
        as_source(array).read(0, 10)


@pytest.mark.parametrize(
    ("array", "error"),
    [(da.ones(5), DataError), (da.ones((2, 2, 2)), DataError), (da.ones((3, 2), dtype=complex), DataError)],
)
def test_refused(array, error):
    with pytest.raises(error):
        as_source(array)
