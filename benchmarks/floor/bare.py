"""The bare products of a pass, compiled, on cache-sized tiles with preallocated outputs; nothing else.

Matrix products go straight to BLAS (``C = A B + C`` needs no second buffer),
so that not even an allocation stands between them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numba as nb
import numpy as np
from numba.extending import get_cython_function_address

_POINTER = ctypes.c_void_p


def _gemm(name: str) -> Callable[..., None]:
    address = get_cython_function_address("scipy.linalg.cython_blas", name)
    return ctypes.CFUNCTYPE(None, *[_POINTER] * 13)(address)


_BLAS = {np.dtype(np.float64): _gemm("dgemm"), np.dtype(np.float32): _gemm("sgemm")}


def make_product(dtype: np.dtype) -> Callable[..., None]:
    """Compiled ``out = A B + keep out`` for C-ordered matrices; `transpose` takes A as its transpose."""
    gemm = _BLAS[np.dtype(dtype)]

    @nb.njit(nogil=True)
    def product(A, B, out, transpose, keep):
        # BLAS is column-major: ask for out^T = B^T A^T
        rows, columns = out.shape
        inner = B.shape[0]
        flags = np.array([ord("N"), ord("T") if transpose else ord("N")], dtype=np.int8)
        sizes = np.array([columns, rows, inner, B.shape[1], A.shape[1], columns], dtype=np.int32)
        factors = np.array([1.0, 1.0 if keep else 0.0]).astype(A.dtype)
        n, f = sizes.ctypes, factors.ctypes
        step, wide = 4, A.itemsize
        gemm(
            flags.ctypes.data,
            flags.ctypes.data + 1,
            n.data,
            n.data + step,
            n.data + 2 * step,
            f.data,
            B.ctypes.data,
            n.data + 3 * step,
            A.ctypes.data,
            n.data + 4 * step,
            f.data + wide,
            out.ctypes.data,
            n.data + 5 * step,
        )

    return product


def progressive(dtype: np.dtype) -> Callable[..., None]:
    """``X W^T`` and ``psi^T Y``, tile by tile."""
    product = make_product(dtype)

    @nb.njit(nogil=True)
    def run(X, WT, Y, psi, gradient):
        tile = Y.shape[0]
        for start in range(0, X.shape[0], tile):
            m = min(tile, X.shape[0] - start)
            product(X[start : start + m], WT, Y[:m], False, False)
            product(psi[:m], Y[:m], gradient, True, True)

    return run


@nb.njit(nogil=True, fastmath=True)
def read(touch):
    """Read where each majorizer touches, and no more: nothing can be chosen without that."""
    seen = np.float32(0)
    for k in range(touch.size):
        seen += touch[k]
    return seen


def incremental(dtype: np.dtype) -> Callable[..., None]:
    """A mini-batch at a time: ``X W^T``, products of ``q b p^2`` into the moments, one read of memory and moments."""
    product = make_product(dtype)

    @nb.njit(nogil=True)
    def run(X, WT, Y, batch, q, touch, moments, total):
        p = WT.shape[0]
        tile = Y.shape[0]
        for begin in range(0, X.shape[0], batch):
            end = min(begin + batch, X.shape[0])
            for start in range(begin, end, tile):
                m = min(tile, end - start)
                product(X[start : start + m], WT, Y[:m], False, False)
            total[0] += read(touch[begin * p : end * p])
            pairs = q * (end - begin)
            for i in range(p):  # component i has its share of the pairs
                first, last = pairs * i // p, pairs * (i + 1) // p
                if last > first:
                    bucket = X[begin + first % (end - begin) :][: last - first]
                    product(bucket, bucket, moments[i], True, True)
            for i in range(p):
                total += np.dot(moments[i], WT[i])

    return run


def batch(dtype: np.dtype) -> Callable[..., None]:
    """``X W^T`` and all components' weighted second moments, upper triangle, ``p^3`` operations a sample."""
    product = make_product(dtype)

    @nb.njit(nogil=True)
    def run(X, WT, Y, weights, products, packed):
        tile = Y.shape[0]
        for start in range(0, X.shape[0], tile):
            m = min(tile, X.shape[0] - start)
            product(X[start : start + m], WT, Y[:m], False, False)
            product(weights[:m], products[:m], packed, True, True)

    return run


def make(solver: str, X: np.ndarray, *, tile: int, batch_size: int = 1000, q: int = 2) -> Callable[[], None]:
    """The bare pass of `solver` over `X`, as a function without arguments."""
    p, dtype = X.shape[1], X.dtype
    rng = np.random.default_rng(0)
    WT = np.ascontiguousarray(rng.normal(size=(p, p)).astype(dtype))
    Y = np.zeros((tile, p), dtype)
    other = rng.normal(size=(tile, p)).astype(dtype)
    if solver == "progressive":
        run, gradient = progressive(dtype), np.zeros((p, p), dtype)
        return lambda: run(X, WT, Y, other, gradient)
    if solver == "batch":
        size = p * (p + 1) // 2
        products = rng.normal(size=(tile, size)).astype(dtype)
        run, packed = batch(dtype), np.zeros((p, size), dtype)
        return lambda: run(X, WT, Y, other, products, packed)
    run, moments, total = incremental(dtype), np.zeros((p, p, p), dtype), np.zeros(p, dtype)
    touch = np.zeros(X.size, np.float32)
    return lambda: run(X, WT, Y, batch_size, q, touch, moments, total)
