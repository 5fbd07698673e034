"""Blocks that come once: generators, data loaders, pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np

from majorica.errors import DataError, DataTypeError, ParameterError, SourceError, TruncatedWarning, warn
from majorica.sources.array import numeric_array
from majorica.sources.base import Array
from majorica.sources.rules import Layout, as_block, check_two_dimensional, float_dtype

#: Samples in a block of a raw binary stream.
RAW_BLOCK = 1000
#: What no producer yields.
_END = object()


class BlockStream:
    """A stream of 2-D blocks from any iterable, each checked as it comes.

    The first non-empty block is taken at once to learn width and dtype; later
    blocks must have that width, and a dtype that fits without loss. Iterating
    again goes on where the last loop stopped; once the producer has ended,
    iterating again is an error.

    Parameters
    ----------
    blocks : iterable of array-like ``(b, n_features)``
    n_features : int, optional
        Width to insist on.
    layout : {"samples-first", "channels-first"}
    unpack : callable, optional
        Turns what the iterable yields into a block.
    """

    n_samples: None = None
    feature_names: Sequence[str] | None = None

    def __init__(
        self,
        blocks: Iterable[Any],
        *,
        n_features: int | None = None,
        layout: Layout | None = None,
        unpack: Callable[[Any], Any] | None = None,
    ) -> None:
        self._iterator = iter(blocks)
        self._transposed = layout == "channels-first"
        self._unpack = unpack
        self._count = 0
        self._ended = False
        first = self._next_array()
        if first is None:
            raise DataError("The stream ended before it gave a single sample.")
        self.dtype = float_dtype(first.dtype)
        self.n_features = int(first.shape[1]) if n_features is None else n_features
        self._first: Array | None = self._checked(first)

    def __iter__(self) -> Iterator[Array]:
        if self._ended:
            raise SourceError("The stream has ended and can be read only once; make a new one.")
        return self._blocks()

    def _blocks(self) -> Iterator[Array]:
        while not self._ended:
            if self._first is not None:
                block, self._first = self._first, None
                yield block
            elif (array := self._next_array()) is None:
                self._ended = True
            else:
                yield self._checked(array)

    def _next_array(self) -> Any:
        """The next block with samples as a samples-first array of any dtype; None at the end."""
        # Not a for loop: it would call iter() for each block, and some iterables then start again.
        while (item := next(self._iterator, _END)) is not _END:
            self._count += 1
            array = numeric_array(item if self._unpack is None else self._unpack(item))
            rows, columns = check_two_dimensional(array.shape)
            if rows and columns:
                return array.T if self._transposed else array
        return None

    def _checked(self, array: Any) -> Array:
        if array.shape[1] != self.n_features:
            raise DataError(
                f"Block {self._count} of the stream has {array.shape[1]} features, expected {self.n_features}."
            )
        if not np.can_cast(float_dtype(array.dtype), self.dtype, "safe"):
            raise DataError(
                f"Block {self._count} of the stream is {array.dtype} but the stream began as {self.dtype}; "
                "give all blocks one dtype."
            )
        return as_block(array, self.dtype)

    def close(self) -> None:
        """End the stream; a generator behind it is closed."""
        self._ended = True
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()

    def __repr__(self) -> str:
        return f"<BlockStream: {self.n_features} features, {self.dtype}>"


def raw_blocks(file: IO[bytes], n_features: int, length: int = RAW_BLOCK, *, live: bool = False) -> Iterator[Array]:
    """Blocks of `length` samples from raw little-endian float32, sample after sample; the last may be short.

    A `live` one waits for no more than one sample: its blocks are what has come, at most `length` samples.
    Of a sample that the end cuts the bytes are dropped, with a warning: all before it was whole.
    """
    sample_bytes = 4 * n_features
    start = True
    while True:
        data = (_read_available if live else _read_exactly)(file, length * sample_bytes)
        if live and len(data) % sample_bytes:
            data += _read_exactly(file, sample_bytes - len(data) % sample_bytes)
        if start and data.startswith((b"\x93NUMPY", b"PK\x03\x04", b"\x89HDF", b"PAR1", b"ARROW1")):
            raise SourceError(
                "The stream is a .npy, .npz, HDF5, Parquet or Arrow file, but raw float32 is expected; "
                "pass the path of the file."
            )
        spare = len(data) % sample_bytes
        cut = (
            f"The stream ended within a sample: {spare} bytes left over, a sample of n_features={n_features} float32 "
            f"has {sample_bytes}"
        )
        if spare and start and len(data) == spare:
            raise SourceError(f"{cut}.")
        start = False
        if len(data) > spare:
            samples = np.frombuffer(data, dtype="<f4", count=(len(data) - spare) // 4)
            yield samples.reshape(-1, n_features).astype(np.float32, copy=False)
        if spare:
            warn(f"{cut}; they were dropped. If samples have another width, none was read rightly.", TruncatedWarning)
        if spare or not data or (len(data) < length * sample_bytes and not live):
            return


def raw_stream(file: IO[bytes], *, n_features: int | None, live: bool = False) -> BlockStream:
    """A stream of raw little-endian float32 samples of `n_features` each from a binary file object."""
    if n_features is None:
        raise ParameterError("A raw binary stream needs n_features=, how many float32 values make one sample.")
    if n_features < 1:
        raise ParameterError(f"n_features={n_features} must be at least 1.")
    return BlockStream(raw_blocks(file, n_features, live=live), n_features=n_features)


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    """`size` bytes, fewer only at the end; pipes and sockets give less at a time."""
    parts = []
    while size > 0:
        part = file.read(size)
        if isinstance(part, str):
            raise DataTypeError("A text file was given; open it in binary mode (for standard input, sys.stdin.buffer).")
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _read_available(file: Any, size: int) -> bytes:
    """What a buffered pipe has by now, `size` bytes at most; nothing only at the end."""
    data: bytes = file.read1(size)
    return data


def first_tensor(item: Any) -> Any:
    """The samples of what a data loader yields: the batch itself or the first of ``(samples, labels)``."""
    batch = item[0] if isinstance(item, list | tuple) and item else item
    return batch.detach().cpu() if hasattr(batch, "detach") else batch
