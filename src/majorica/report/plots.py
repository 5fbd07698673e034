"""Plots with Matplotlib, of fitted models. Needs the extra ``majorica[plot]``.

Each function draws into `ax` if it is given and returns the figure. Figures
are made without pyplot, so nothing stays behind and no window opens: show one
in a notebook, or ``figure.savefig(path)``.

Colours are told apart by colour-blind readers, and lines also by their dashes
or their lightness, so that the plots read in grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.errors import ParameterError, optional_import
from majorica.report.components import family, feature_names
from majorica.report.convergence import target
from majorica.report.layout import HeadMap, image_shape_of, positions_of
from majorica.report.measure import EDGES, Measures, measure, source_variance, unit_variance_unmixing
from majorica.report.png import DIVERGING
from majorica.sources import as_source

BLUE, ORANGE, INK, SOFT, WASH = "#0b6299", "#c8600f", "#1d232b", "#767e88", "#cfe0ec"


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to nobody."""
    figures = optional_import("matplotlib.figure", extra="plot", purpose="plotting")
    return figures.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _axes(ax: Any, count: int, width: float, height: float, *, columns: int | None = None) -> tuple[Any, list[Any]]:
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


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#c9cbce")
    ax.tick_params(colors=SOFT, labelsize=8, length=3)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(INK)
        label.set_size(9)
    ax.title.set_size(10)
    ax.title.set_color(INK)


def _chosen(ica: Any, components: Sequence[int] | None, most: int) -> list[int]:
    k = int(ica.n_components_)
    listed = list(range(min(k, most))) if components is None else [int(i) for i in components]
    if not listed or any(not 0 <= i < k for i in listed):
        raise ParameterError(f"components={components} must name some of 0 to {k - 1}")
    return listed


def plot_convergence(ica: Any, *, ax: Any = None) -> Any:
    """Loss and gradient against passes and time.

    Parameters
    ----------
    ica : ICA
        Fitted.
    ax : sequence of 4 Axes, optional
        Loss and gradient against passes, then both against seconds.

    Returns
    -------
    matplotlib.figure.Figure
    """
    trace = ica.trace_
    figure, (loss_passes, gradient_passes, loss_time, gradient_time) = _axes(ax, 4, 8.5, 5.2, columns=2)
    last = trace["n_samples"] == trace["n_samples"][-1]
    known = trace["gradient"] > 0
    goal = target(ica)
    for field, label, top, bottom in (
        ("passes", "passes over the data", loss_passes, gradient_passes),
        ("seconds", "seconds", loss_time, gradient_time),
    ):
        x = trace[field]
        top.plot(x[~last], trace["loss"][~last], color=SOFT, lw=1, ls="--", label="on a subset")
        top.plot(x[last], trace["loss"][last], color=BLUE, lw=1.6, label="on all samples")
        if last.sum() > 1:
            low, high = np.nanmin(trace["loss"][last]), np.nanmax(trace["loss"][last])
            top.set_ylim(low - 0.06 * (high - low + 1e-9), high + 0.06 * (high - low + 1e-9))
        bottom.semilogy(x[known & ~last], trace["gradient"][known & ~last], color=SOFT, lw=1, ls="--")
        bottom.semilogy(x[known & last], trace["gradient"][known & last], color=BLUE, lw=1.6)
        if goal:
            bottom.axhline(goal, color=ORANGE, lw=1.2, ls=(0, (6, 4)), label="goal")
            bottom.legend(frameon=False, fontsize=8)
        top.set(xlabel=label, ylabel="loss, nats a sample")
        bottom.set(xlabel=label, ylabel="largest relative gradient")
        _tidy(top)
        _tidy(bottom)
    if (~last).any():
        loss_passes.legend(frameon=False, fontsize=8)
    return figure


def plot_mixing(ica: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Any:
    """The mixing matrix, each component at unit variance: how much of each goes into each feature.

    Parameters
    ----------
    ica : ICA
        Fitted.
    components : sequence of int, optional
        Which; all by default.
    ax : Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = _chosen(ica, components, 10**6)
    mixing = (np.asarray(ica.mixing_) * np.sqrt(source_variance(ica)))[:, chosen]
    features, k = mixing.shape
    figure, (axes,) = _axes(ax, 1, min(12, 2.2 + 0.24 * k), min(12, 1.6 + 0.2 * features))
    limit = float(np.abs(mixing).max()) or 1.0
    image = axes.imshow(mixing, cmap=_diverging(), vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=SOFT)
    axes.set(xlabel="component", ylabel="feature")
    if getattr(ica, "feature_names_in_", None) is not None and features <= 64:
        axes.set_yticks(range(features), [_label(name) for name in feature_names(ica)])
    if k <= 40:
        axes.set_xticks(range(k), [str(i) for i in chosen])
    _tidy(axes)
    return figure


def plot_sources(
    ica: Any, X: Any, *, components: Sequence[int] | None = None, sfreq: float | None = None, ax: Any = None
) -> Any:
    """A stretch of each source, one above the other, all at the same scale.

    Parameters
    ----------
    ica : ICA
        Fitted.
    X : object
        The data, anything ``as_source`` takes.
    components : sequence of int, optional
        Which; the first 16 by default.
    sfreq : float, optional
        Samples a second.
    ax : Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = _chosen(ica, components, 16)
    measures = _measures(ica, X, sfreq, max_samples=20_000)
    figure, (axes,) = _axes(ax, 1, 9, 1.2 + 0.42 * len(chosen))
    position = measures.trace_start + np.arange(measures.trace.shape[1])
    time = position / sfreq if sfreq else position
    for row, i in enumerate(chosen):
        axes.plot(time, np.clip(measures.trace[i], -6, 6) / 7 - row, color=INK, lw=0.7)
    axes.set_yticks([-row for row in range(len(chosen))], [f"IC {i}" for i in chosen])
    axes.set(xlabel="seconds" if sfreq else "samples", ylim=(-len(chosen) + 0.2, 0.9))
    axes.margins(x=0)
    _tidy(axes)
    axes.spines["left"].set_visible(False)
    return figure


def plot_densities(ica: Any, X: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Any:
    """Histogram of each source against its fitted density and a Gaussian.

    Parameters
    ----------
    ica : ICA
        Fitted.
    X : object
        The data, anything ``as_source`` takes.
    components : sequence of int, optional
        Which; the first 12 by default.
    ax : Axes or sequence of Axes, optional
        One a component.

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = _chosen(ica, components, 12)
    measures = _measures(ica, X, None)
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = _axes(ax, len(chosen), 2.5 * min(4, len(chosen)) + 0.6, 2.0 * rows + 0.3, columns=4)
    s = np.linspace(EDGES[0], EDGES[-1], 241)
    for axes, i in zip(all_axes, chosen, strict=True):
        axes.stairs(measures.histogram[i], EDGES, fill=True, color=WASH, label="data")
        axes.plot(s, np.exp(-0.5 * s * s) / np.sqrt(2 * np.pi), color=SOFT, lw=1, ls=(0, (2, 2)), label="Gaussian")
        axes.plot(s, measures.model_density(i, s), color=ORANGE, lw=1.6, label="model")
        axes.set_title(f"IC {i}, {family(measures.densities[i])}")
        axes.set_yticks([])
        _tidy(axes)
        axes.spines["left"].set_visible(False)
    all_axes[0].legend(frameon=False, fontsize=7, handlelength=1.4)
    return figure


def plot_psd(
    ica: Any, X: Any, *, sfreq: float | None = None, components: Sequence[int] | None = None, ax: Any = None
) -> Any:
    """Power spectral density of each source.

    Parameters
    ----------
    ica : ICA
        Fitted.
    X : object
        The data, anything ``as_source`` takes.
    sfreq : float, optional
        Samples a second.
    components : sequence of int, optional
        Which; the first 12 by default.
    ax : Axes or sequence of Axes, optional
        One a component.

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = _chosen(ica, components, 12)
    measures = _measures(ica, X, sfreq)
    if not measures.spectrum.shape[1]:
        raise ParameterError(f"a spectrum needs at least 512 samples, there are {measures.n_used}")
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = _axes(ax, len(chosen), 2.6 * min(4, len(chosen)) + 0.6, 2.0 * rows + 0.3, columns=4)
    for axes, i in zip(all_axes, chosen, strict=True):
        axes.semilogy(measures.frequencies[1:], measures.spectrum[i][1:], color=BLUE, lw=1)
        axes.set_title(f"IC {i}")
        _tidy(axes)
    for axes in all_axes[-4:]:
        axes.set_xlabel("Hz" if sfreq else "cycles a sample", size=8)
    return figure


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
    chosen = _chosen(ica, components, 256)
    side = math.isqrt(int(ica.n_features_in_))
    shape = image_shape_of(ica, (side, side) if image_shape is None else image_shape)
    assert shape is not None
    filters = unit_variance_unmixing(ica)[0] if which == "components" else np.asarray(ica.mixing_).T
    sheet = tile([filters[i].reshape(shape) for i in chosen])
    height, width = sheet.shape
    figure, (axes,) = _axes(ax, 1, 7.2, 7.2 * height / width)
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
    chosen = _chosen(ica, components, 16)
    names = getattr(ica, "feature_names_in_", None)
    source = as_source(np.zeros((1, ica.n_features_in_)) if X is None else X)
    places = positions_of(source, None if names is None else [str(name) for name in names], positions)
    if places is None:
        raise ParameterError("where the sensors are is not known; pass positions=, or X= a recording with a montage")
    head = HeadMap(places, size=80)
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = _axes(ax, len(chosen), 2.1 * min(4, len(chosen)), 2.2 * rows, columns=4)
    grid = (np.arange(head.size) + 0.5) / head.size * 2 - 1
    circle = np.exp(2j * np.pi * np.linspace(0, 1, 100))
    for axes, i in zip(all_axes, chosen, strict=True):
        image = head(np.asarray(ica.mixing_)[:, i])
        limit = float(np.nanmax(np.abs(image))) or 1.0
        levels = np.linspace(-limit, limit, 10)
        axes.contourf(grid, -grid, image, levels=levels, cmap=_diverging())
        axes.contour(grid, -grid, image, levels=levels[1:-1], colors=INK, linewidths=0.4)
        axes.plot(circle.real, circle.imag, color=SOFT, lw=1.2)
        axes.plot([-0.15, 0, 0.15], [0.99, 1.14, 0.99], color=SOFT, lw=1.2)
        axes.plot(*places.T, ".", color=INK, ms=1.5)
        axes.set_title(f"IC {i}", size=10, color=INK)
        axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.2))
        axes.set_axis_off()
    return figure


def _measures(ica: Any, X: Any, sfreq: float | None, *, max_samples: int = 200_000) -> Measures:
    return measure(ica, as_source(X), sfreq=sfreq, max_samples=max_samples)


def _diverging() -> Any:
    colours = optional_import("matplotlib.colors", extra="plot", purpose="plotting")
    return colours.LinearSegmentedColormap.from_list("majorica", DIVERGING / 255)


def _label(name: str) -> str:
    """A name on an axis: short, and without Matplotlib's mathematics."""
    return (name if len(name) <= 24 else name[:23] + "…").replace("$", r"\$")
