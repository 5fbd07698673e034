"""Panels of the paper's figures from median curves."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.paper.algorithms import Algorithm
from benchmarks.paper.curves import LOSS_FLOOR, median_curve
from benchmarks.paper.experiment import Curves
from benchmarks.paper.style import LABELS, LOOKS


def panel(axes: Axes, curves: Curves, x: str, measure: str, levels: list[float] | None) -> None:
    """One measure against passes or time, all algorithms: median, and quartiles as a band."""
    for key, runs in curves.items():
        curve = median_curve(runs, x, measure, levels)
        if curve is None:
            continue
        colour, dash, marker = LOOKS[key]
        every = max(1, len(curve.x) // 5)
        axes.plot(
            curve.x, curve.median, dash, color=colour, marker=marker, markevery=(every // 2, every), ms=3.5, lw=1.2
        )
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if measure == "loss" and axes.get_ylim()[0] < 3 * LOSS_FLOOR:
        axes.set_ylim(bottom=LOSS_FLOOR * 0.8)
    axes.set_xlabel(LABELS[x])
    axes.set_title(LABELS[measure])


def legend(figure: Figure, algorithms: dict[str, Algorithm], *, y: float, columns: int = 4) -> None:
    """Names above the panels they are for."""
    handles = [
        Line2D([], [], color=LOOKS[key][0], ls=LOOKS[key][1], marker=LOOKS[key][2], ms=4, lw=1.2, label=algorithm.label)
        for key, algorithm in algorithms.items()
    ]
    figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, y), ncol=columns)


def grid(rows: int, columns: int, *, height: float = 2.4) -> tuple[Figure, list[list[Axes]]]:
    """An empty figure of the docs' width."""
    figure, axes = plt.subplots(rows, columns, figsize=(3.1 * columns, height * rows), squeeze=False)
    figure.subplots_adjust(wspace=0.28, hspace=0.55)
    return figure, axes.tolist()
