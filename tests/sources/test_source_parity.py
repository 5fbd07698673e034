"""Every container of the same matrix gives the same bits."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from source_containers import CASES, NAMED

from majorica.errors import ParameterError, SourceError
from majorica.sources import Source, as_source, check_source, fingerprint, read_block, split_blocks

N, P = 257, 5
RANGES = [(0, N), (0, 1), (N - 1, N), (0, 0), (N, N), (99, 101), (32, 67), (6, 7), (3, 250)]


def matrix(dtype):
    x = np.random.default_rng(0).standard_normal((N, P)).astype(dtype)
    x[3, 2], x[50, 0], x[200, 4] = 1e-30, -0.0, 1e30
    return x


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].__name__}-{np.dtype(case[1])}")
def case(request, tmp_path):
    builder, dtype = request.param
    x = matrix(dtype)
    given, options = builder(x, tmp_path)
    return builder, x, as_source(given, **options)


def assert_same_bits(block, expected):
    assert block.dtype == expected.dtype
    assert block.shape == expected.shape
    assert block.tobytes() == expected.tobytes()


def test_same_bits(case):
    builder, x, source = case
    assert isinstance(source, Source)
    check_source(source)
    starts = np.random.default_rng(1).integers(0, N, (20, 2))
    for start, stop in [*RANGES, *(sorted(pair) for pair in starts.tolist())]:
        assert_same_bits(source.read(start, stop), x[start:stop])
    for block in split_blocks(N, 50):
        assert_same_bits(read_block(source, block), x[slice(*block[0])])
    assert fingerprint(source) == fingerprint(as_source(x))
    assert source.feature_names == (tuple(f"c{j}" for j in range(P)) if builder in NAMED else None)
    assert f"{N} samples x {P} features" in repr(source)


def test_outside_and_closed(case):
    _, _, source = case
    for start, stop in [(-1, 3), (3, 2), (0, N + 1)]:
        with pytest.raises(ParameterError, match="are not within"):
            source.read(start, stop)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.read(0, 1)


def test_pickle(case):
    builder, x, source = case
    if builder.__name__ == "zarr_object":
        pytest.skip("as pickleable as the store behind it")
    copy = pickle.loads(pickle.dumps(source))
    assert_same_bits(copy.read(30, 80), x[30:80])
    assert copy.feature_names == source.feature_names
    if hasattr(source, "path"):
        assert len(pickle.dumps(source)) < 1000, "a file pickles as its path"


def test_blocks_in_memory_are_views():
    x = matrix(np.float32)
    assert np.shares_memory(as_source(x).read(5, 10), x)


def test_source_passes_through():
    source = as_source(matrix(np.float32))
    assert as_source(source) is source
    with pytest.raises(ParameterError, match="layout"):
        as_source(source, layout="channels-first")


@pytest.mark.parametrize("view", [np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2], lambda x: x[:, ::2]])
def test_random_samples_of_views_are_read_without_a_copy_of_all(view):
    """Every block of a subset had copied the whole array first."""
    x = view(np.random.default_rng(0).standard_normal((50_000, 10)))
    source, block = as_source(x), ((100, 164), (40_000, 40_064))
    tracemalloc.start()
    got = read_block(source, block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_same_bits(got, np.concatenate([x[100:164], x[40_000:40_064]]))
    assert peak < 0.1 * x.nbytes
