"""xarray ``DataArray``: an array whose axes have names."""

from __future__ import annotations

from typing import Any

from majorica.errors import DataError
from majorica.sources.dask import DaskSource
from majorica.sources.rules import Layout, check_two_dimensional
from majorica.sources.sliced import SlicedSource

_TIME = {"time", "times", "sample", "samples"}


def labelled_source(x: Any, *, layout: Layout | None = None) -> DaskSource | SlicedSource:
    """A source of a ``DataArray``, lazy if it is (backed by Dask or by a file).

    Without `layout` the first axis holds the samples, unless the second one is
    called time or sample, which is an error. Text labels of the other axis
    become feature names.
    """
    check_two_dimensional(x.shape)
    first, second = (str(name) for name in x.dims)
    if layout is None and second.lower() in _TIME and first.lower() not in _TIME:
        raise DataError(
            f"The second axis of the DataArray is called {second!r}: pass layout='channels-first' (as_source takes "
            "it) if that axis holds the samples, layout='samples-first' if not."
        )
    features = x.dims[0] if layout == "channels-first" else x.dims[1]
    names = x.coords[features].values.tolist() if features in x.coords else None
    if x.chunks is not None:
        return DaskSource(x.data, layout=layout, names=names)
    return SlicedSource(x, layout=layout or "samples-first", names=names)
