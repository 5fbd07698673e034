"""Plots of components over their features: image filters and maps over the head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.errors import ParameterError
from majorica.report.figures import INK, SOFT, chosen_components, diverging_map, make_axes
from majorica.report.layout import HeadMap, image_shape_of, positions_of
from majorica.report.measure import unit_variance_unmixing
from majorica.sources import as_source


def plot_filters(
    ica: Any,
    *,
    image_shape: tuple[int, int] | None = None,
    which: str = "components",
    components: Sequence[int] | None = None,
    ax: Any = None,
) -> Any:
    """Components of image patches as a sheet of small images.

    Parameters
    ----------
    ica : ICA
        Fitted on patches, one pixel a feature.
    image_shape : (height, width), optional
        Of a patch; a square number of features is taken as a square.
    which : {"components", "mixing"}, default="components"
        The filters that find the components in a patch, or what each
        component adds to one.
    components : sequence of int, optional
        Which; the first 256 by default.
    ax : Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    if which not in ("components", "mixing"):
        raise ParameterError(f"which={which!r} must be 'components' or 'mixing'")
    chosen = chosen_components(ica, components, 256)
    side = math.isqrt(int(ica.n_features_in_))
    shape = image_shape_of(ica, (side, side) if image_shape is None else image_shape)
    assert shape is not None
    filters = unit_variance_unmixing(ica)[0] if which == "components" else np.asarray(ica.mixing_).T
    sheet = tile([filters[i].reshape(shape) for i in chosen])
    height, width = sheet.shape
    figure, (axes,) = make_axes(ax, 1, 7.2, 7.2 * height / width)
    axes.imshow(sheet, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    return figure


def tile(images: Sequence[npt.NDArray[np.floating]], gap: int = 1) -> npt.NDArray[np.float64]:
    """Images of one shape on one nearly square sheet, each scaled to its own largest size, white between them."""
    height, width = images[0].shape
    columns = math.ceil(math.sqrt(len(images) * height / width))
    rows = math.ceil(len(images) / columns)
    sheet = np.ones((rows * (height + gap) + gap, columns * (width + gap) + gap))
    for k, image in enumerate(images):
        row, column = divmod(k, columns)
        top, left = gap + row * (height + gap), gap + column * (width + gap)
        sheet[top : top + height, left : left + width] = image / (np.abs(image).max() or 1.0)
    return sheet


def plot_topographies(
    ica: Any,
    X: Any = None,
    *,
    positions: npt.ArrayLike | None = None,
    components: Sequence[int] | None = None,
    ax: Any = None,
) -> Any:
    """Components as maps over the head, nose up; contours are dashed where negative.

    Parameters
    ----------
    ica : ICA
        Fitted on sensors.
    X : object, optional
        A recording that knows where its sensors are.
    positions : array (n_features, 2) or (n_features, 3), optional
        Where the sensors are; found from `X`, or from names of the 10-05
        system if MNE is installed.
    components : sequence of int, optional
        Which; the first 16 by default.
    ax : Axes or sequence of Axes, optional
        One a component.

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = chosen_components(ica, components, 16)
    names = getattr(ica, "feature_names_in_", None)
    source = as_source(np.zeros((1, ica.n_features_in_)) if X is None else X)
    places = positions_of(source, None if names is None else [str(name) for name in names], positions)
    if places is None:
        raise ParameterError("where the sensors are is not known; pass positions=, or X= a recording with a montage")
    head = HeadMap(places, size=80)
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = make_axes(ax, len(chosen), 2.1 * min(4, len(chosen)), 2.2 * rows, columns=4)
    grid = (np.arange(head.size) + 0.5) / head.size * 2 - 1
    circle = np.exp(2j * np.pi * np.linspace(0, 1, 100))
    for axes, i in zip(all_axes, chosen, strict=True):
        image = head(np.asarray(ica.mixing_)[:, i])
        limit = float(np.nanmax(np.abs(image))) or 1.0
        levels = np.linspace(-limit, limit, 10)
        axes.contourf(grid, -grid, image, levels=levels, cmap=diverging_map())
        axes.contour(grid, -grid, image, levels=levels[1:-1], colors=INK, linewidths=0.4)
        axes.plot(circle.real, circle.imag, color=SOFT, lw=1.2)
        axes.plot([-0.15, 0, 0.15], [0.99, 1.14, 0.99], color=SOFT, lw=1.2)
        axes.plot(*places.T, ".", color=INK, ms=1.5)
        axes.set_title(f"IC {i}", size=10, color=INK)
        axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.2))
        axes.set_axis_off()
    return figure
