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

from majorica.errors import ParameterError
from majorica.report.components import family, feature_names
from majorica.report.convergence import steps, target
from majorica.report.figures import BLUE, INK, ORANGE, SOFT, WASH, chosen_components, diverging_map, make_axes, tidy
from majorica.report.maps import plot_filters, plot_topographies
from majorica.report.measure import EDGES, measure, sampling_rate, source_variance
from majorica.sources import as_source

__all__ = [
    "plot_convergence",
    "plot_densities",
    "plot_filters",
    "plot_mixing",
    "plot_psd",
    "plot_sources",
    "plot_topographies",
]


def plot_convergence(ica: Any, *, ax: Any = None) -> Any:
    """Loss and gradient against passes (samples, of a stream) and time.

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
    figure, (loss_passes, gradient_passes, loss_time, gradient_time) = make_axes(ax, 4, 8.5, 5.2, columns=2)
    level, over, name = steps(ica)
    last = level == level[-1]
    shown = last if last.sum() > 1 else np.ones_like(last)  # losses of other samples do not compare
    known = trace["gradient"] > 0
    goal = target(ica)
    for x, label, top, bottom in (
        (over, name, loss_passes, gradient_passes),
        (trace["seconds"], "seconds", loss_time, gradient_time),
    ):
        top.plot(x[shown], trace["loss"][shown], color=BLUE, lw=1.6)
        bottom.set_yscale("log")
        for number, size in enumerate(np.unique(level[~last])):  # a line each: between them more samples joined in
            part = known & (level == size)
            label_once = None if number else "on a subset"
            bottom.plot(x[part], trace["gradient"][part], color=SOFT, lw=1, ls="--", label=label_once)
        bottom.plot(x[known & last], trace["gradient"][known & last], color=BLUE, lw=1.6, label="on all samples")
        if goal:
            bottom.axhline(goal, color=ORANGE, lw=1.2, ls=(0, (6, 4)), label="goal")
        if not known.any():
            bottom.set(yscale="linear", yticks=[])
            bottom.text(0.5, 0.5, "none over all samples", transform=bottom.transAxes, ha="center", color=SOFT)
        end = float(x[-1]) or 1.0
        span = (-0.04 * end, 1.04 * end)
        top.set(xlabel=label, ylabel="loss, nats a sample", xlim=span)
        bottom.set(xlabel=label, ylabel="largest relative gradient", xlim=span)
        tidy(top)
        tidy(bottom)
    if goal or not last.all():
        gradient_passes.legend(frameon=False, fontsize=8)
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
    chosen = chosen_components(ica, components, 10**6)
    mixing = (np.asarray(ica.mixing_) * np.sqrt(source_variance(ica)))[:, chosen]
    features, k = mixing.shape
    figure, (axes,) = make_axes(ax, 1, min(12, 2.2 + 0.24 * k), min(12, 1.6 + 0.2 * features))
    limit = float(np.abs(mixing).max()) or 1.0
    image = axes.imshow(mixing, cmap=diverging_map(), vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    bar = figure.colorbar(image, ax=axes, shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, colors=SOFT)
    axes.set(xlabel="component", ylabel="feature")
    if getattr(ica, "feature_names_in_", None) is not None and features <= 64:
        axes.set_yticks(range(features), [_label(name) for name in feature_names(ica)])
    if k <= 40:
        axes.set_xticks(range(k), [str(i) for i in chosen])
    tidy(axes)
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
        Samples a second; recordings know it.
    ax : Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = chosen_components(ica, components, 16)
    source = as_source(X)
    sfreq = sampling_rate(source) if sfreq is None else sfreq
    measures = measure(ica, source, sfreq=sfreq, max_samples=20_000)
    figure, (axes,) = make_axes(ax, 1, 9, 1.2 + 0.42 * len(chosen))
    position = measures.trace_start + np.arange(measures.trace.shape[1])
    time = position / sfreq if sfreq else position
    for row, i in enumerate(chosen):
        axes.plot(time, np.clip(measures.trace[i], -6, 6) / 7 - row, color=INK, lw=0.7)
    axes.set_yticks([-row for row in range(len(chosen))], [f"IC {i}" for i in chosen])
    axes.set(xlabel="seconds" if sfreq else "samples", ylim=(-len(chosen) + 0.2, 0.9))
    axes.margins(x=0)
    tidy(axes)
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
    chosen = chosen_components(ica, components, 12)
    measures = measure(ica, as_source(X))
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = make_axes(ax, len(chosen), 2.5 * min(4, len(chosen)) + 0.6, 2.0 * rows + 0.3, columns=4)
    s = np.linspace(EDGES[0], EDGES[-1], 241)
    for axes, i in zip(all_axes, chosen, strict=True):
        axes.stairs(measures.histogram[i], EDGES, fill=True, color=WASH, label="data")
        axes.plot(s, np.exp(-0.5 * s * s) / np.sqrt(2 * np.pi), color=SOFT, lw=1, ls=(0, (2, 2)), label="Gaussian")
        axes.plot(s, measures.model_density(i, s), color=ORANGE, lw=1.6, label="model")
        axes.set_title(f"IC {i}, {family(measures.densities[i])}")
        axes.set_yticks([])
        tidy(axes)
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
        Samples a second; recordings know it.
    components : sequence of int, optional
        Which; the first 12 by default.
    ax : Axes or sequence of Axes, optional
        One a component.

    Returns
    -------
    matplotlib.figure.Figure
    """
    chosen = chosen_components(ica, components, 12)
    source = as_source(X)
    sfreq = sampling_rate(source) if sfreq is None else sfreq
    measures = measure(ica, source, sfreq=sfreq)
    if not measures.spectrum.shape[1]:
        raise ParameterError(f"a spectrum needs at least 512 samples, there are {measures.n_used}")
    rows = math.ceil(len(chosen) / 4)
    figure, all_axes = make_axes(ax, len(chosen), 2.6 * min(4, len(chosen)) + 0.6, 2.0 * rows + 0.3, columns=4)
    for axes, i in zip(all_axes, chosen, strict=True):
        axes.semilogy(measures.frequencies[1:], measures.spectrum[i][1:], color=BLUE, lw=1)
        axes.set_title(f"IC {i}")
        tidy(axes)
    for axes in all_axes[-4:]:
        axes.set_xlabel("Hz" if sfreq else "cycles a sample", size=8)
    return figure


def _label(name: str) -> str:
    """A name on an axis: short, and without Matplotlib's mathematics."""
    return (name if len(name) <= 24 else name[:23] + "…").replace("$", r"\$")
