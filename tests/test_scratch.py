"""Arrays that begin with a cache line, and large ones on pages of their own."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from majorica.kernels import scratch


def owner(array: np.ndarray) -> object:
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 700, 2**17])
def test_large_arrays_are_apart_from_the_heap(rows: int, dtype: type) -> None:
    array = scratch.on_own_pages((rows, 9), dtype)
    assert array.shape == (rows, 9)
    assert array.dtype == dtype
    array[:] = 7
    assert (array == 7).all()
    assert isinstance(owner(array), mmap.mmap) == (array.nbytes >= scratch.OWN_PAGES)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("size", [1, 1000])
def test_arrays_begin_with_a_cache_line(size: int, zero: bool) -> None:
    array = scratch.aligned(size, np.dtype(np.float32), 128, zero=zero)
    assert array.size == size
    assert array.ctypes.data % scratch.LINE == 0
    assert not zero or (array == 0).all()
    same = scratch.begin_with_line(array)
    assert same is array
    moved = scratch.begin_with_line(np.arange(40.0)[1:])
    assert moved.ctypes.data % scratch.LINE == 0
    np.testing.assert_array_equal(moved, np.arange(1, 40))
