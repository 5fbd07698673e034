"""Units of recordings: volts, as MNE reads every file, or microvolts, as EEGLAB stores them.

Sources that know theirs have it as ``unit``; all others hold numbers, which nobody converts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from majorica.errors import DataError, DataTypeError
from majorica.sources.base import Array, Source, Stream
from majorica.sources.chanlocs import Sensors
from majorica.sources.matrix import MatrixSource

#: Microvolts in one of each.
MICROVOLTS = {"uV": 1.0, "mV": 1e3, "V": 1e6}


def unit_of(x: object) -> str | None:
    """The unit that a source's samples are in, None if it is not known."""
    unit = getattr(x, "unit", None)
    return unit if isinstance(unit, str) else None


def factor(unit: str | None, wanted: str | None) -> float:
    """What numbers in `unit` are multiplied by to be in `wanted`; 1 where either is not known."""
    if unit is None or wanted is None or unit == wanted:
        return 1.0
    for name in (unit, wanted):
        if name not in MICROVOLTS:
            raise DataError(f"samples in {unit} cannot be turned into {wanted}: only {', '.join(MICROVOLTS)} are known")
    return MICROVOLTS[unit] / MICROVOLTS[wanted]


class ScaledSource(MatrixSource):
    """Samples of another source in another unit.

    Parameters
    ----------
    base : Source
        Where samples are read.
    unit : str
        What they become.
    """

    kind = "converted samples"

    def __init__(self, base: Source, unit: str) -> None:
        self.base, self.unit = base, unit
        self._factor = factor(unit_of(base), unit)
        self.n_samples, self.n_features = base.n_samples, base.n_features
        self.dtype, self.feature_names = base.dtype, base.feature_names
        self.in_memory = base.in_memory
        self.sfreq = getattr(base, "sfreq", None)

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return getattr(self.base, "sensors", None)

    def _load(self, start: int, stop: int) -> Array:
        scaled: npt.NDArray[np.floating] = self.base.read(start, stop) * self.dtype.type(self._factor)
        return scaled

    def close(self) -> None:
        """Close what is read."""
        super().close()
        close = getattr(self.base, "close", None)
        if close is not None:
            close()


def in_unit(source: Source | Stream, unit: str | None) -> Source | Stream:
    """`source` in `unit`; as it is where either unit is not known, or both are the same."""
    if factor(unit_of(source), unit) == 1.0:
        return source
    if not isinstance(source, Source):
        raise DataTypeError(f"a stream in {unit_of(source)} is not converted to {unit}; convert its blocks")
    assert unit is not None
    return ScaledSource(source, unit)


def in_one_unit(parts: Sequence[Source]) -> tuple[list[Source], str | None]:
    """`parts` in the unit of the first that has one, and that unit if all have one."""
    units = [unit_of(part) for part in parts]
    first = next((unit for unit in units if unit is not None), None)
    converted = [
        part if factor(unit, first) == 1.0 else ScaledSource(part, str(first))
        for part, unit in zip(parts, units, strict=True)
    ]
    return converted, None if None in units else first
