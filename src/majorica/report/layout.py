"""How to draw a component over its features: as an image, as a head map, or as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.errors import ParameterError

F64 = npt.NDArray[np.float64]


def image_shape_of(ica: Any, image_shape: tuple[int, int] | bool | None) -> tuple[int, int] | None:
    """The image that the features form: as given, or found from a square number of unnamed, image-like features."""
    n = int(ica.n_features_in_)
    if isinstance(image_shape, tuple | list):
        height, width = image_shape
        if height * width != n:
            raise ParameterError(f"image_shape={image_shape} has {height * width} pixels, the data has {n} features")
        return int(height), int(width)
    if image_shape is False:
        return None
    side = math.isqrt(n)
    if side * side != n or side < 4 or getattr(ica, "feature_names_in_", None) is not None:
        return None
    return (side, side) if _neighbours_agree(np.asarray(ica.mixing_), side) else None


def _neighbours_agree(mixing: F64, side: int) -> bool:
    """Whether features above and beside each other are alike, as pixels are; 64 unordered channels are not."""
    norms = np.sqrt((mixing**2).sum(axis=1))
    unit = mixing / np.where(norms > 0, norms, 1.0)[:, None]
    grid = unit.reshape(side, side, -1)
    down = float((grid[1:] * grid[:-1]).sum(axis=2).mean())
    across = float((grid[:, 1:] * grid[:, :-1]).sum(axis=2).mean())
    anywhere = float((unit.sum(axis=0) ** 2).sum() / len(unit) ** 2)
    return min(down, across) > max(0.3, anywhere + 0.1)


def positions_of(source: Any, names: Sequence[str] | None, positions: npt.ArrayLike | None) -> F64 | None:
    """Flat sensor positions ``(n_features, 2)`` in a unit disc: as given, from the recording, or by 10-05 names."""
    if positions is not None:
        given = np.asarray(positions, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] not in (2, 3) or len(given) != source.n_features:
            raise ParameterError(
                f"positions has shape {given.shape}; needed is ({source.n_features}, 2) or ({source.n_features}, 3)"
            )
        return to_disc(given)
    if names is None or len(names) < 4:
        return None
    found = getattr(source, "sensors", None)
    if found is None or not set(names) <= set(found):
        found = _standard_positions(names)
    if found is None:
        return None
    points = np.array([found[name] for name in names])
    return to_disc(points) if np.isfinite(points).all() and np.ptp(points, axis=0).max() > 0 else None


def _standard_positions(names: Sequence[str]) -> dict[str, F64] | None:
    """Positions of the 10-05 system if all names belong to it and MNE is installed.

    PhysioNet fills names up with dots ("Cz..", "Fc5.").
    """
    plain = {name: name.lower().rstrip(".") for name in names}
    if not set(plain.values()) & {"cz", "c3", "c4", "pz", "fz", "o1", "fp1"}:
        return None
    try:
        import mne
    except ImportError:
        return None
    known = mne.channels.get_builtin_montages()
    kind = "colin27_1005" if "colin27_1005" in known else "standard_1005"  # its new and its old name
    standard = mne.channels.make_standard_montage(kind).get_positions()["ch_pos"]
    lower = {str(name).lower(): np.asarray(point) for name, point in standard.items()}
    found = {name: lower.get(plain[name]) for name in names}
    return None if any(point is None for point in found.values()) else found  # type: ignore[return-value]


def to_disc(points: F64) -> F64:
    """Points in the unit disc, nose up; points in space are unrolled about the top of their sphere."""
    if points.shape[1] == 3:
        # The centre of the sphere that fits best, then distance along the sphere from its top.
        A = np.column_stack([2 * points, np.ones(len(points))])
        centre = np.linalg.lstsq(A, (points**2).sum(axis=1), rcond=None)[0][:3]
        x, y, z = (points - centre).T
        angle = np.arctan2(np.hypot(x, y), z)
        direction = np.arctan2(y, x)
        flat = np.column_stack([angle * np.cos(direction), angle * np.sin(direction)]) / (math.pi / 2)
    else:
        flat = points - (points.max(axis=0) + points.min(axis=0)) / 2
    reach = float(np.hypot(*flat.T).max()) or 1.0
    return np.asarray(flat * (0.94 / reach if points.shape[1] == 2 or reach > 0.94 else 1.0))


class HeadMap:
    """Interpolates sensor values to a square grid over the unit disc (a thin-plate spline).

    Parameters
    ----------
    positions : ndarray (n_features, 2)
        In the unit disc.
    size : int
        Pixels a side.
    """

    def __init__(self, positions: F64, size: int = 96) -> None:
        self.positions = positions
        axis = (np.arange(size) + 0.5) / size * 2 - 1
        grid_x, grid_y = np.meshgrid(axis, -axis)
        pixels = np.column_stack([grid_x.ravel(), grid_y.ravel()])
        self.outside = (np.hypot(grid_x, grid_y) > 1.03).astype(bool)
        self.size = size
        n = len(positions)
        system = np.zeros((n + 3, n + 3))
        system[:n, :n] = _spline(positions, positions) + 1e-4 * np.eye(n)
        plane = np.column_stack([np.ones(n), positions])
        system[:n, n:], system[n:, :n] = plane, plane.T
        weights = np.linalg.pinv(system)[:, :n]
        basis = np.column_stack([_spline(pixels, positions), np.ones(len(pixels)), pixels])
        self._matrix = basis @ weights

    def __call__(self, values: npt.ArrayLike) -> F64:
        """The image ``(size, size)`` of `values` ``(n_features,)``; NaN outside the head."""
        image = (self._matrix @ np.asarray(values, dtype=np.float64)).reshape(self.size, self.size)
        return np.where(self.outside, np.nan, image)


def _spline(a: F64, b: F64) -> F64:
    """Thin-plate kernel between two sets of points."""
    squared = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(0.5 * squared * np.log(np.maximum(squared, 1e-12)))
