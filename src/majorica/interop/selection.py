"""Which samples of a recording take part in a fit: time limits, decimation, rejected tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from majorica.errors import DataError, ParameterError
from majorica.sources.base import Array, Source
from majorica.sources.chanlocs import Sensors
from majorica.sources.chunks import bounds_of
from majorica.sources.matrix import MatrixSource
from majorica.sources.units import unit_of

#: Samples read at once while decimating.
_CHUNK = 65536


class SelectedSource(MatrixSource):
    """Every `step`-th sample of some ranges of another source, read through it.

    Parameters
    ----------
    base : Source
        Where samples are read.
    ranges : sequence of (start, stop)
        Ranges of `base`, in order.
    step : int
        Within each range, samples ``start, start + step, ...`` are taken.
    """

    kind = "selected samples"

    def __init__(self, base: Source, ranges: Sequence[tuple[int, int]], *, step: int = 1) -> None:
        self.base, self.step = base, step
        self.ranges = [(start, stop) for start, stop in ranges if stop > start]
        self._bounds = np.asarray(bounds_of([math.ceil((b - a) / step) for a, b in self.ranges]), dtype=np.intp)
        self.n_samples, self.n_features = int(self._bounds[-1]), base.n_features
        self.dtype, self.feature_names = base.dtype, base.feature_names
        self.in_memory, self.unit = base.in_memory, unit_of(base)
        rate = getattr(base, "sfreq", None)
        self.sfreq = None if rate is None else rate / step

    @property
    def sensors(self) -> Sensors | None:
        """Where the sensors are, by name."""
        return getattr(self.base, "sensors", None)

    def _load(self, start: int, stop: int) -> Array:
        block = np.empty((stop - start, self.n_features), self.dtype)
        k = int(np.searchsorted(self._bounds, start, side="right")) - 1
        row = start
        while row < stop:
            end = min(stop, int(self._bounds[k + 1]), row + max(1, _CHUNK // self.step))
            first = self.ranges[k][0] + (row - int(self._bounds[k])) * self.step
            last = first + (end - row - 1) * self.step + 1
            block[row - start : end - start] = self.base.read(first, last)[:: self.step]
            row = end
            k += row == int(self._bounds[k + 1])
        return block


def good_tiles(
    source: Source,
    limits: Mapping[str, tuple[float, float]],
    types: Sequence[str],
    length: int,
) -> list[tuple[int, int]]:
    """Tiles of `length` samples whose peak-to-peak amplitudes all lie within `limits`; one pass.

    As in MNE, tiles are laid over the samples that are left after bad spans
    and decimation, and a last tile that is not full is not used.

    Parameters
    ----------
    source : Source
    limits : mapping of channel type to (smallest, largest)
        Peak-to-peak amplitudes.
    types : sequence of str
        Type of each channel, ``""`` for channels that are not judged.
    length : int
        Samples in a tile.
    """
    lowest, highest = np.array([limits.get(kind, (-math.inf, math.inf)) for kind in types]).T
    good = []
    for start in range(0, source.n_samples - length + 1, length):
        span = np.ptp(source.read(start, start + length), axis=0)
        if (span >= lowest).all() and (span <= highest).all():
            good.append((start, start + length))
    if not good:
        raise DataError(
            f"no tile of {length} samples passes reject and flat; check that the thresholds are in the recording's "
            "units (volts for EEG), and raise reject or lower flat"
        )
    return good


def check_limits(
    reject: Mapping[str, float] | None, flat: Mapping[str, float] | None, known: set[str]
) -> dict[str, tuple[float, float]]:
    """MNE's `reject` and `flat` as one table: channel type to smallest and largest peak-to-peak amplitude."""
    table: dict[str, tuple[float, float]] = {}
    for name, thresholds in (("flat", flat), ("reject", reject)):
        for kind, value in (thresholds or {}).items():
            if kind not in known:
                raise ParameterError(f"{name}={{{kind!r}: ...}}: no channel type of that name; use eeg, mag, grad, ...")
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not value >= 0:
                raise ParameterError(f"{name}={{{kind!r}: {value!r}}}: the threshold must be a number >= 0")
            lowest, highest = table.get(kind, (-math.inf, math.inf))
            table[kind] = (float(value), highest) if name == "flat" else (lowest, float(value))
    return table


def check_step(decim: int | None) -> int:
    """`decim` as a step of samples."""
    if decim is None:
        return 1
    if isinstance(decim, bool) or not isinstance(decim, int | np.integer) or decim < 1:
        raise ParameterError(f"decim={decim!r} must be a positive integer or None")
    return int(decim)
