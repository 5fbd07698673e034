"""Samples less their mean, and whitened, compiled, in tiles that stay in the cache."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

import majorica.kernels.notice  # noqa: F401  (says so when it compiles)
from majorica.statistics import F64

#: Samples that are whitened at a time: longer tiles are at most 4 % quicker, and take memory.
WHITE_TILE = 256


def tile_length(p: int) -> int:
    """Samples a tile: few enough to stay in the cache, but no fewer than BLAS needs for long products."""
    return int(min(1024, max(512, (32768 // max(p, 1)) // 64 * 64)))


@nb.njit(nogil=True, cache=True)
def repeated(mean):
    """`mean` so many times over that a loop along it is worth vectorising."""
    f = mean.size
    out = np.empty(max(1, 1024 // f) * f, mean.dtype)
    for k in range(out.size):
        out[k] = mean[k % f]
    return out


@nb.njit(nogil=True, cache=True)
def centre(X, start, stop, means, out):
    """Samples `start` to `stop` less their mean, as one long row; `means` is that of :func:`repeated`."""
    f = X.shape[1]
    given, result = X.reshape(X.size)[start * f : stop * f], out.reshape(out.size)
    for begin in range(0, given.size, means.size):
        source, target = given[begin : begin + means.size], result[begin : begin + means.size]
        for k in range(source.size):
            target[k] = source[k] - means[k]


@nb.njit(nogil=True, cache=True)
def _whiten(X, mean, KT, tile, Z):
    f, k = KT.shape
    centred, white, means = np.empty((tile, f)), np.empty((tile, k)), repeated(mean)
    for start in range(0, X.shape[0], tile):
        m = min(tile, X.shape[0] - start)
        centre(X, start, start + m, means, centred)
        np.dot(centred[:m], KT, white[:m])
        for t in range(m):  # assigned at once it takes three seconds more to compile
            for j in range(white.shape[1]):
                Z[start + t, j] = white[t, j]


def whiten(X: npt.NDArray[np.floating], mean: F64, K: F64) -> npt.NDArray[np.float32]:
    """White samples ``(X - mean) K^T``, computed in float64, kept in float32."""
    Z = np.empty((len(X), len(K)), np.float32)
    _whiten(X, mean, np.ascontiguousarray(K.T), min(len(X), WHITE_TILE), Z)
    return Z
