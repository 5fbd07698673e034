"""How figures look: one colour an algorithm everywhere, safe for colour-blind readers (Okabe and Ito)."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from benchmarks.paper.cache import ROOT

IMAGES = ROOT / "docs" / "images" / "paper"

#: Colour, dash and marker.
LOOKS = {
    "sgd": ("#E69F00", "--", "s"),
    "sag": ("#CC79A7", "--", "D"),
    "newton": ("#56B4E9", "-", "^"),
    "picard": ("#0072B2", "-", "v"),
    "fastica": ("#000000", ":", "x"),
    "batch": ("#999999", "-.", "o"),
    "incremental": ("#D55E00", "-", "o"),
    "online": ("#D55E00", "-", "o"),
    "online-20": ("#882255", "-.", "P"),
    "progressive": ("#009E73", "-", "*"),
    "stream": ("#009E73", "-", "*"),
    "greedy-1": ("#D55E00", "-", "o"),
    "greedy-3": ("#E69F00", "-", "s"),
    "random-1": ("#0072B2", "--", "v"),
    "random-3": ("#56B4E9", "--", "^"),
    "full": ("#999999", "-.", "D"),
}
LABELS = {
    "passes": "passes over the data",
    "seconds": "time (s)",
    "loss": "left-out loss above its plateau (nats)",
    "amari": "Amari distance",
    "gradient": "norm of the relative gradient",
}

plt.rcParams.update(
    {
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "svg.hashsalt": "majorica",
        "svg.fonttype": "none",
        "figure.dpi": 100,
    }
)


def save(figure: Figure, name: str, folder: Path = IMAGES) -> None:
    """As SVG and PNG, without dates, so that the same results give the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
    figure.savefig(folder / f"{name}.png", dpi=160, metadata={"Software": None}, bbox_inches="tight")
    plt.close(figure)
