"""A fitted model on Dask collections: blockwise, on the workers, nothing computed before it is asked for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.errors import DataError
from majorica.kernels import kernels_for
from majorica.sources.rules import as_block, check_two_dimensional, float_dtype
from majorica.statistics import F64

Array = npt.NDArray[np.floating]


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask array, a Dask data frame or a list of delayed blocks; imports nothing."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(type(x).__module__ == "dask.delayed" for x in X)
    loaded = sys.modules.get("dask.array")
    if loaded is not None and isinstance(X, loaded.Array):
        return True
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_dask_array")


def as_lazy_array(X: Any, width: int, what: str) -> Any:
    """`X` as a Dask array ``(n, width)``, each chunk all features wide; lengths may be unknown."""
    if isinstance(X, list | tuple):
        import dask.array as da

        # The dtype of delayed blocks is not known before they are computed: float64 for all.
        parts = [da.from_delayed(x, shape=(np.nan, width), dtype=np.float64) for x in X]
        array = da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)
    elif hasattr(X, "to_dask_array"):
        array = X.astype(float_dtype(*X.dtypes)).to_dask_array()
    else:
        array = X
    check_two_dimensional(array.shape)
    if array.shape[1] != width:
        raise DataError(f"{what.format(array.shape[1])}, but ICA is expecting {width} features as input")
    return array.rechunk({1: -1}) if array.numblocks[1] > 1 else array


def transform_lazily(X: Any, mean: F64, components: F64) -> Any:
    """Sources of a Dask collection as a Dask array ``(n, n_components)``; float32 stays float32."""
    array = as_lazy_array(X, len(mean), "X has {} features")
    dtype = float_dtype(array.dtype)
    return array.map_blocks(
        unmix_block,
        mean=mean,
        components=components,
        width=dtype.str,
        name=_name("transform", array, mean, components),
        dtype=dtype,
        chunks=(array.chunks[0], (len(components),)),
        meta=np.empty((0, 0), dtype),
    )


def inverse_transform_lazily(X: Any, mean: F64, mixing: F64) -> Any:
    """Samples from a Dask array of sources, as a Dask array ``(n, n_features)``."""
    array = as_lazy_array(X, mixing.shape[1], "X has {} sources")
    dtype = float_dtype(array.dtype)
    return array.map_blocks(
        mix_block,
        mean=mean,
        mixing=mixing,
        width=dtype.str,
        name=_name("inverse-transform", array, mean, mixing),
        dtype=dtype,
        chunks=(array.chunks[0], (len(mixing),)),
        meta=np.empty((0, 0), dtype),
    )


def unmix_block(X: Any, *, mean: F64, components: F64, width: str) -> Array:
    """Sources of one block."""
    block = _finite_block(X, width)
    return (block - mean.astype(block.dtype)) @ components.T.astype(block.dtype)


def mix_block(X: Any, *, mean: F64, mixing: F64, width: str) -> Array:
    """Samples from one block of sources."""
    block = _finite_block(X, width)
    return block @ mixing.T.astype(block.dtype) + mean.astype(block.dtype)


def _finite_block(X: Any, width: str) -> Array:
    """A block of the dtype `width`, refused if it holds what is no number."""
    block = as_block(X, np.dtype(width))
    if not np.isfinite(block).all():
        raise DataError("Input X contains NaN or infinity; drop or interpolate such samples first")
    return block


def loss_of_block(X: Array, mean: F64, B: F64, densities: Densities) -> float:
    """Sum of the negative log-densities of one block's sources ``B (x - mean)``, without normalisers."""
    return float(kernels_for(densities).statistics(X, mean, B, densities).loss.sum())


def _name(what: str, *content: Any) -> str:
    """A task name that says what it is and changes with what it is computed from."""
    from dask.base import tokenize

    return f"majorica-{what}-{tokenize(*content)}"
