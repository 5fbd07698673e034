"""Streams and reading ahead."""

from __future__ import annotations

import gc
import io
import itertools
import os
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majorica.errors import DataError, DataTypeError, ParameterError, SourceError, TruncatedWarning
from majorica.sources import Stream, as_source, prefetch, split_blocks

X = np.random.default_rng(0).standard_normal((2500, 3)).astype(np.float32)


def collect(stream):
    return np.concatenate(list(stream))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_generator(dtype):
    x = X.astype(dtype)
    stream = as_source(x[start : start + 99] for start in range(0, 2500, 99))
    assert isinstance(stream, Stream)
    assert (stream.n_samples, stream.n_features, stream.dtype) == (None, 3, np.dtype(dtype))
    assert collect(stream).tobytes() == x.tobytes()
    with pytest.raises(SourceError, match="only once"):
        iter(stream)


def test_endless_stream_goes_on_where_the_last_loop_stopped():
    stream = as_source(np.full((2, 3), float(k)) for k in itertools.count())
    first = [block[0, 0] for block in itertools.islice(stream, 3)]
    then = [block[0, 0] for block in itertools.islice(stream, 2)]
    assert first + then == [0, 1, 2, 3, 4]
    stream.close()
    with pytest.raises(SourceError):
        iter(stream)


def test_an_iterable_that_starts_again_when_asked_for_an_iterator():
    class Restarting:
        def __iter__(self):
            self.position = 0
            return self

        def __next__(self):
            if self.position == 50:
                raise StopIteration
            self.position += 5
            return X[self.position - 5 : self.position]

    blocks = list(itertools.islice(as_source(Restarting()), 20))
    np.testing.assert_array_equal(np.concatenate(blocks), X[:50])


def test_channels_first_blocks_and_empty_ones():
    stream = as_source(iter([np.empty((3, 0)), X[:5].T, X[5:9].T]), layout="channels-first")
    np.testing.assert_array_equal(collect(stream), X[:9])


@pytest.mark.parametrize(
    ("blocks", "error", "message"),
    [
        ([], DataError, "single sample"),
        ([np.ones(3)], DataError, "Reshape"),
        ([X[:5], X[:5, :2]], DataError, "Block 2 .* 2 features, expected 3"),
        ([X[:5], X[:5].astype(float)], DataError, "one dtype"),
        ([X[:5], "text"], DataError, "Reshape"),
        ([["a", "b"], "text"], DataError, "Reshape"),
        ([X[:5] * 1j], DataError, "Complex"),
    ],
)
def test_bad_blocks(blocks, error, message):
    with pytest.raises(error, match=message):
        collect(as_source(iter(blocks)))


def test_errors_of_the_producer_are_its_own():
    def produce():
        yield X[:5]
        raise ZeroDivisionError("mine")

    stream = as_source(produce())
    with pytest.raises(ZeroDivisionError, match="mine"):
        collect(stream)


def test_data_loader():
    class Tensor:
        def __init__(self, array):
            self.array = array

        def detach(self):
            return self

        def cpu(self):
            return self

        def __array__(self, dtype=None, copy=None):
            return self.array

    class DataLoader:
        __module__ = "torch.utils.data.dataloader"

        def __init__(self, batches):
            self.batches = batches

        def __iter__(self):
            return iter(self.batches)

    for wrap in (lambda t: t, lambda t: [t], lambda t: (t, "labels")):
        loader = DataLoader([wrap(Tensor(X[:10])), wrap(Tensor(X[10:15]))])
        np.testing.assert_array_equal(collect(as_source(loader)), X[:15])


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data):
        self.data, self.position = data, 0

    def readable(self):
        return True

    def read(self, size=-1):
        part = self.data[self.position : self.position + min(size, 7)]
        self.position += len(part)
        return part


@pytest.mark.parametrize("file", [io.BytesIO(X[:1100].tobytes()), Trickle(X[:1100].tobytes())])
def test_raw_binary(file):
    stream = as_source(file, n_features=3)
    assert stream.dtype == np.float32
    blocks = list(stream)
    assert [len(block) for block in blocks] == [1000, 100]
    assert np.concatenate(blocks).tobytes() == X[:1100].tobytes()


def test_standard_input(monkeypatch):
    class Input:
        buffer = io.BytesIO(X.tobytes())

    monkeypatch.setattr(sys, "stdin", Input)
    np.testing.assert_array_equal(collect(as_source("-", n_features=3)), X)


def test_pipe():
    reader, writer = os.pipe()

    def write():
        with os.fdopen(writer, "wb") as file:
            file.write(X.tobytes())

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reader, "rb", buffering=0) as file:
        assert collect(as_source(file, n_features=3)).tobytes() == X.tobytes()
    thread.join()


def test_raw_binary_errors():
    with pytest.raises(ParameterError, match="n_features="):
        as_source(io.BytesIO(b"1234"))
    with pytest.raises(ParameterError, match="at least 1"):
        as_source(io.BytesIO(b"1234"), n_features=0)
    with pytest.raises(SourceError, match="8 bytes left over"):
        as_source(io.BytesIO(b"\0" * 8), n_features=3)
    with pytest.raises(DataError, match="single sample"):
        as_source(io.BytesIO(b""), n_features=3)
    with pytest.raises(DataTypeError, match="binary mode"):
        as_source(io.StringIO("1234"), n_features=3)


@pytest.mark.parametrize("n", [1, 999, 1000, 1001, 2500])
def test_a_cut_sample_is_dropped_and_the_whole_ones_kept(n):
    stream = as_source(io.BytesIO(X[:n].tobytes() + b"abcde"), n_features=3)
    blocks = []
    with pytest.warns(TruncatedWarning, match=r"5 bytes left over, a sample of n_features=3 float32 has 12; .*dropped"):
        blocks.extend(stream)
    assert np.concatenate(blocks).tobytes() == X[:n].tobytes()


def test_what_came_before_a_cut_sample_is_learnt_even_where_warnings_are_errors():
    blocks = []
    with pytest.raises(TruncatedWarning):  # noqa: PT012 - the blocks before it are what is tested
        for block in as_source(io.BytesIO(X[:1500].tobytes() + b"abcde"), n_features=3):
            blocks.append(block)
    assert np.concatenate(blocks).tobytes() == X[:1500].tobytes()


class Slow:
    """A source that counts reads, fails where told, and is read by one thread only."""

    n_samples, n_features, in_memory, feature_names = 1000, 2, False, None
    dtype = np.dtype(np.float64)

    def __init__(self, fails_at=None, seconds=0.0):
        self.fails_at, self.seconds, self.reads, self.threads = fails_at, seconds, 0, set()

    def read(self, start, stop):
        self.reads += 1
        self.threads.add(threading.current_thread())
        time.sleep(self.seconds)
        if self.fails_at is not None and start >= self.fails_at:
            raise SourceError("the disk is gone")
        return np.arange(2.0 * start, 2.0 * stop).reshape(-1, 2)


def reader_threads():
    return [thread for thread in threading.enumerate() if thread.name == "majorica-prefetch"]


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(1, 5))
def test_prefetch_keeps_order(length, depth):
    source = Slow()
    blocks = split_blocks(1000, length)
    arrays = list(prefetch(source, blocks, depth))
    assert [len(array) for array in arrays] == [block[0][1] - block[0][0] for block in blocks]
    assert np.concatenate(arrays).tobytes() == np.arange(2000.0).tobytes()
    assert source.threads.isdisjoint({threading.main_thread()})
    assert len(source.threads) == 1
    assert reader_threads() == []


def test_prefetch_of_no_blocks_and_of_bad_depth():
    assert list(prefetch(Slow(), [])) == []
    with pytest.raises(ParameterError, match="depth=0"):
        prefetch(Slow(), [], 0)


def test_prefetch_reads_ahead_but_not_further():
    source = Slow()
    arrays = prefetch(source, split_blocks(1000, 10), 3)
    next(arrays)
    deadline = time.monotonic() + 5
    while source.reads < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert source.reads == 4, "one in use and three ahead"
    arrays.close()
    assert reader_threads() == []


def test_prefetch_error_comes_at_its_block():
    arrays = prefetch(Slow(fails_at=50), split_blocks(1000, 10))
    assert len(list(itertools.islice(arrays, 5))) == 5
    with pytest.raises(SourceError, match="the disk is gone"):
        next(arrays)
    assert reader_threads() == []


def test_prefetch_error_of_the_blocks_themselves():
    def blocks():
        yield ((0, 10),)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(prefetch(Slow(), blocks()))


@pytest.mark.parametrize("how", ["close", "delete", "error"])
def test_prefetch_stops_early_without_leak(how):
    arrays = prefetch(Slow(seconds=0.002), split_blocks(1000, 1))
    next(arrays)
    if how == "close":
        arrays.close()
    elif how == "delete":
        del arrays
        gc.collect()
    else:
        with pytest.raises(KeyboardInterrupt):
            arrays.throw(KeyboardInterrupt)
    assert reader_threads() == []
