"""What an EEGLAB dataset says of its channels: labels, and where the sensors are.

EEGLAB's X points to the nose and Y to the left ear; positions here are as MNE
has them, x to the right ear and y to the nose. Datasets with polar
coordinates alone are read too: ``theta`` is in degrees from the nose to the
right ear, a ``radius`` of 0.5 is the equator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: Where the sensors are, by name, ``(3,)`` each.
Sensors = dict[str, npt.NDArray[np.float64]]


def matlab_column(chanlocs: Any) -> Callable[[str], list[Any]]:
    """Reads a field of all channels from a structure of MATLAB 5; missing ones are None."""
    found = np.atleast_1d(np.asarray(chanlocs, dtype=object)).ravel()
    return lambda name: [getattr(location, name, None) for location in found]


def hdf5_column(file: Any, eeg: Any) -> Callable[[str], list[Any]]:
    """Reads a field of all channels from a file of MATLAB 7.3; no channels if it has none."""

    def column(name: str) -> list[Any]:
        try:
            references = np.asarray(eeg["chanlocs"][name]).ravel()
            return [_hdf5_value(file[reference]) for reference in references]
        except (KeyError, ValueError, TypeError, AttributeError):
            return []

    return column


def _hdf5_value(stored: Any) -> Any:
    values = np.asarray(stored).ravel()
    if values.dtype.kind == "u" and "MATLAB_empty" not in stored.attrs:
        return "".join(map(chr, values))
    return values if values.dtype.kind == "f" else None


def labels_of(column: Callable[[str], list[Any]]) -> list[str] | None:
    """Names of the channels, None unless all have one."""
    labels = column("labels")
    return [str(label) for label in labels] if labels and all(isinstance(label, str) for label in labels) else None


def sensors_of(column: Callable[[str], list[Any]], names: Sequence[str] | None) -> Sensors | None:
    """Positions of the sensors that have one, None if there are none."""
    found: Sensors = {}
    fields = [column(name) for name in ("X", "Y", "Z", "theta", "radius")]
    if names is None or any(len(values) not in (0, len(names)) for values in fields):
        return None
    for j, name in enumerate(names):
        x, y, z, theta, radius = (_number(values[j]) if values else math.nan for values in fields)
        if math.isnan(x + y + z):
            angle, turn = math.pi * radius, math.radians(theta)
            x, y, z = math.sin(angle) * math.cos(turn), -math.sin(angle) * math.sin(turn), math.cos(angle)
        if not math.isnan(x + y + z):
            found[name] = np.array([-y, x, z])
    return found or None


def _number(value: Any) -> float:
    """A finite number, or NaN for whatever else a field may hold."""
    array = np.asarray(value).ravel()
    number = float(array[0]) if array.size == 1 and array.dtype.kind in "iuf" else math.nan
    return number if math.isfinite(number) else math.nan
