"""What every plot shares: figures that belong to nobody, quiet axes, two colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from majorica.errors import ParameterError, optional_import
from majorica.report.png import DIVERGING

BLUE, ORANGE, INK, SOFT, WASH = "#0b6299", "#c8600f", "#1d232b", "#767e88", "#cfe0ec"


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to nobody."""
    figures = optional_import("matplotlib.figure", extra="plot", purpose="plotting")
    return figures.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def make_axes(ax: Any, count: int, width: float, height: float, *, columns: int | None = None) -> tuple[Any, list[Any]]:
    """The figure and `count` axes: `ax` (one or several), or those of a new figure."""
    if ax is not None:
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) < count:
            raise ParameterError(f"this plot needs {count} axes, ax has {len(given)}")
        return given[0].figure, given[:count]
    figure = new_figure(width, height)
    columns = min(count, columns or count)
    grid = figure.subplots(math.ceil(count / columns), columns, squeeze=False).ravel()
    for unused in grid[count:]:
        unused.set_axis_off()
    return figure, list(grid[:count])


def tidy(ax: Any) -> None:
    """Quiet spines and small labels."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#c9cbce")
    ax.tick_params(colors=SOFT, labelsize=8, length=3)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(INK)
        label.set_size(9)
    ax.title.set_size(10)
    ax.title.set_color(INK)


def chosen_components(ica: Any, components: Sequence[int] | None, most: int) -> list[int]:
    """The components to draw: those given, or the first `most`."""
    k = int(ica.n_components_)
    listed = list(range(min(k, most))) if components is None else [int(i) for i in components]
    if not listed or any(not 0 <= i < k for i in listed):
        raise ParameterError(f"components={components} must name some of 0 to {k - 1}")
    return listed


def diverging_map() -> Any:
    """Blue over white to orange."""
    colours = optional_import("matplotlib.colors", extra="plot", purpose="plotting")
    return colours.LinearSegmentedColormap.from_list("majorica", DIVERGING / 255)
