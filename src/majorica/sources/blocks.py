"""Several sources one after the other, as one matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from majorica.errors import DataError
from majorica.sources.base import Array, Source
from majorica.sources.chanlocs import Sensors
from majorica.sources.chunks import bounds_of
from majorica.sources.matrix import MatrixSource
from majorica.sources.names import differences, same_names
from majorica.sources.rules import as_block, float_dtype
from majorica.sources.units import in_one_unit


class JoinedSource(MatrixSource):
    """Sources (blocks in memory, recordings, ...) joined along the sample axis without copying them.

    Parameters
    ----------
    parts : sequence of Source
        All of one width; recordings in another unit than the first are converted to its.
    """

    kind = "list of blocks"

    def __init__(self, parts: Sequence[Source]) -> None:
        self.parts = list(parts)
        first = self.parts[0]
        for k, part in enumerate(self.parts):
            if part.n_features != first.n_features:
                which = differences(first.feature_names, part.feature_names)
                advice = f": {which}; pass picks=NAMES (as_source takes it) to choose what all have" if which else ""
                raise DataError(
                    f"Blocks must have one width: block {k} has {part.n_features} features, block 0 has "
                    f"{first.n_features}{advice}."
                )
            if not same_names(part.feature_names, first.feature_names):
                which = differences(first.feature_names, part.feature_names)
                raise DataError(
                    f"The feature names of block {k} differ from those of block 0: "
                    f"{which or 'another order, or only one of them has names'}."
                )
        self.parts, self.unit = in_one_unit(self.parts)
        self._bounds = bounds_of([part.n_samples for part in self.parts])
        self.n_samples, self.n_features = self._bounds[-1], first.n_features
        self.dtype = float_dtype(*(part.dtype for part in self.parts))
        self.in_memory = all(part.in_memory for part in self.parts)
        self.feature_names = first.feature_names
        rates = {getattr(part, "sfreq", None) for part in self.parts}
        self.sfreq = rates.pop() if len(rates) == 1 else None

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return getattr(self.parts[0], "sensors", None)

    def _load(self, start: int, stop: int) -> Array:
        k = max(0, int(np.searchsorted(self._bounds, start, side="right")) - 1)
        k = min(k, len(self.parts) - 1)
        if stop <= self._bounds[k + 1]:
            return self.parts[k].read(start - self._bounds[k], stop - self._bounds[k])
        block = np.empty((stop - start, self.n_features), self.dtype)
        row = start
        while row < stop:
            end = min(stop, self._bounds[k + 1])
            part = self.parts[k].read(row - self._bounds[k], end - self._bounds[k])
            block[row - start : end - start] = as_block(part, self.dtype)
            row, k = end, k + 1
        return block

    def close(self) -> None:
        """Close the parts."""
        super().close()
        for part in self.parts:
            close = getattr(part, "close", None)
            if close is not None:
                close()
