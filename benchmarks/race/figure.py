"""Left-out loss against time, one figure a dataset, colours safe for colour-blind readers (Okabe and Ito)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.race.methods import BY_NAME

#: Colour, dash and marker.
LOOKS = {
    "majorica": ("#009E73", "-", "*"),
    "majorica-float32": ("#009E73", ":", "."),
    "majorica-huber": ("#009E73", "--", "P"),
    "majorica-incremental": ("#D55E00", "-", "o"),
    "majorica-online": ("#D55E00", ":", "s"),
    "majorica-batch": ("#999999", "-.", "o"),
    "fastica": ("#000000", ":", "x"),
    "picard": ("#0072B2", "-", "v"),
    "picard-o": ("#56B4E9", "-", "^"),
    "picard-huber": ("#0072B2", "--", "<"),
    "infomax": ("#CC79A7", "-", "D"),
}
FLOOR = 1e-6


def draw(curves: dict[str, list[dict[str, Any]]], title: str, path: Path) -> None:
    """Save `path` as SVG and PNG, without dates, so that the same results give the same files."""
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "majorica", "legend.frameon": False})
    best = min(point["adaptive"] for points in curves.values() for point in points)
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for name, points in curves.items():
        colour, dash, marker = LOOKS[name]
        heights = [max(point["adaptive"] - best, FLOOR) for point in points]
        axes.loglog(
            [point["seconds"] for point in points],
            heights,
            color=colour,
            linestyle=dash,
            marker=marker,
            markersize=4,
            linewidth=1.2,
            label=BY_NAME[name].title,
        )
    axes.axhline(1e-3, color="#888888", linewidth=0.7)
    axes.set(xlabel="time (s)", ylabel="left-out loss above the best (nats a component)", title=title)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None}, bbox_inches="tight")
    figure.savefig(path.with_suffix(".png"), dpi=160, metadata={"Software": None}, bbox_inches="tight")
    plt.close(figure)
