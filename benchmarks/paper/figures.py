"""The paper's figures: which experiments each needs and how its panels are laid out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper import datasets
from benchmarks.paper.algorithms import FINITE, GREEDY, ONLINE, WIDE, Algorithm
from benchmarks.paper.cache import Store
from benchmarks.paper.curves import column, crossing, plateaus, summarise
from benchmarks.paper.draw import grid, legend, panel
from benchmarks.paper.experiment import Curves, run_experiment
from benchmarks.paper.progress import Progress
from benchmarks.paper.settings import FULL, QUICK, Size
from benchmarks.paper.style import LABELS, LOOKS, save

#: The real-data panels measure the loss: FastICA minimises another.
FINITE_LOSS = {key: algorithm for key, algorithm in FINITE.items() if algorithm.loss_counts}


@dataclass(eq=False)
class Bench:
    """What every figure needs: sizes, stored results, the paths of real data."""

    full: bool = False
    eeg: Path | None = None
    images: Path | None = None
    fresh: bool = False
    keep_stale: bool = False
    most_repeats: int | None = None  #: fewer repeats than the size asks for; more can be added later
    store: Store = field(init=False)
    progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.store = Store("full" if self.full else "quick", fresh=self.fresh, keep_stale=self.keep_stale)

    def size(self, name: str) -> Size:
        """The size of an experiment."""
        size = (FULL if self.full else QUICK)[name]
        return replace(size, repeats=min(size.repeats, self.most_repeats or size.repeats))

    def run(self, name: str, algorithms: dict[str, Algorithm], make: Any, about: str) -> Curves:
        """The curves of an experiment, computed or found."""
        return run_experiment(name, self.size(name), algorithms, make, self.store, self.progress, about=about)

    @cache  # noqa: B019  (one bench a process)
    def pictures(self) -> list[np.ndarray]:
        """The images patches are cut from."""
        return datasets.load_images(self.images)

    @property
    def pictures_name(self) -> str:
        """Which images they are, for the stored configuration."""
        return "bundled" if self.images is None else self.images.name


def synthetic(bench: Bench) -> dict[str, Any]:
    """Figure 1 (res_synth): Laplace sources, finite sum above and online below."""
    size, online = bench.size("synthetic"), bench.size("synthetic-online")
    top = bench.run(
        "synthetic",
        FINITE,
        lambda r: datasets.laplace(size.p, size.n, seed=r, left_out=size.left_out),
        "laplace",
    )
    bottom = bench.run(
        "synthetic-online",
        ONLINE,
        lambda r: datasets.laplace_stream(online.p, online.n, seed=1000 + r, left_out=online.left_out),
        "laplace",
    )
    levels, online_levels = plateaus(top, lowest=False), plateaus(bottom, lowest=False)
    for x in ("passes", "seconds"):
        figure, axes = grid(2, 3, height=2.6)
        for a, measure in zip(axes[0], ("loss", "amari", "gradient"), strict=True):
            panel(a, top, x, measure, levels)
        for a, measure in zip(axes[1][:2], ("loss", "amari"), strict=True):
            panel(a, bottom, x, measure, online_levels)
        legend_panel(axes[1][2], ONLINE)
        legend(figure, FINITE, y=0.93)
        save(figure, f"synthetic-{x}")
    return {
        "synthetic": report(bench, "synthetic", top, levels, FINITE),
        "synthetic-online": report(bench, "synthetic-online", bottom, online_levels, ONLINE),
    }


def legend_panel(axes: Any, algorithms: dict[str, Algorithm]) -> None:
    """An empty panel that names the algorithms of its row."""
    from matplotlib.lines import Line2D

    axes.set_axis_off()
    handles = [
        Line2D([], [], color=LOOKS[k][0], ls=LOOKS[k][1], marker=LOOKS[k][2], ms=4, lw=1.2, label=a.label)
        for k, a in algorithms.items()
    ]
    axes.legend(handles=handles, loc="center", title="online")


def huge(bench: Bench) -> dict[str, Any]:
    """Figure 2 (res_huge): online on image patches, p = 100; losses above the start are cut."""
    size = bench.size("huge")
    curves = bench.run(
        "huge",
        WIDE,
        lambda r: datasets.patch_stream(bench.pictures(), size.n, seed=r, left_out=size.left_out),
        bench.pictures_name,
    )
    figure, axes = grid(1, 2, height=2.8)
    start = column(curves["online"][0], "loss")[0]
    for a, x in zip(axes[0], ("seconds", "passes"), strict=True):
        for key, runs in curves.items():
            xs, ys = column(runs[0], x), np.minimum(column(runs[0], "loss"), start)
            moved = column(runs[0], "passes") > 0
            colour, dash, marker = LOOKS[key]
            a.plot(xs[moved], ys[moved], dash, color=colour, marker=marker, markevery=5, ms=3.5, lw=1.2)
        a.axhline(start, color="#bbbbbb", lw=0.8)
        a.annotate("start", (0.01, start), xycoords=("axes fraction", "data"), va="bottom", color="#777777")
        a.set_ylim(top=start + 0.1 * (start - a.get_ylim()[0]))
        a.set_xscale("log")
        a.set_xlabel(LABELS[x])
        a.set_title("left-out loss (nats)")
    legend(figure, WIDE, y=0.97, columns=4)
    save(figure, "huge")
    return {"huge": report(bench, "huge", curves, plateaus(curves, lowest=True), WIDE)}


def real(bench: Bench) -> dict[str, Any]:
    """Figure 3 (res_real): image patches above, EEG below; finite sum (left, middle) and online (right)."""
    makers = {"images": image_matrix}
    if bench.eeg is not None:
        makers["eeg"] = eeg_matrix
    results, drawn = {}, {}
    for name, make in makers.items():
        size, online = bench.size(name), bench.size(f"{name}-online")
        about = bench.pictures_name if name == "images" else str(bench.eeg and bench.eeg.name)
        matrix = cache(lambda make=make: make(bench))

        def finite(r: int, size: Size = size, matrix: Any = matrix) -> datasets.Finite:
            return datasets.from_matrix(matrix(), seed=r, n=size.n, left_out=size.left_out)

        def stream(r: int, size: Size = online, matrix: Any = matrix) -> datasets.Endless:
            return datasets.as_stream(datasets.from_matrix(matrix(), seed=r, n=size.n, left_out=size.left_out))

        top = bench.run(name, FINITE_LOSS, finite, about)
        right = bench.run(f"{name}-online", ONLINE, stream, about)
        levels = plateaus(top, lowest=True)
        both = plateaus(right, lowest=True)
        online_levels = [min(pair) for pair in zip(levels, both, strict=True)]  # the same left-out samples
        drawn[name] = (top, levels, right, online_levels)
        results[name] = report(bench, name, top, levels, FINITE_LOSS)
        results[f"{name}-online"] = report(bench, f"{name}-online", right, online_levels, ONLINE)
    for x in ("seconds", "passes"):
        figure, axes = grid(len(drawn), 3, height=2.7)
        for row, (name, (top, levels, right, online_levels)) in zip(axes, drawn.items(), strict=True):
            panel(row[0], top, x, "loss", levels)
            panel(row[1], top, x, "gradient", None)
            panel(row[2], right, x, "loss", online_levels)
            row[2].set_title("online: " + LABELS["loss"])
            row[0].set_ylabel({"images": "image patches", "eeg": "EEG"}[name], fontweight="bold")
        both = {**FINITE_LOSS, **{k: a for k, a in ONLINE.items() if k not in FINITE}}
        legend(figure, both, y=0.95 if len(drawn) > 1 else 1.0, columns=5)
        save(figure, f"real-{x}")
    return results


def image_matrix(bench: Bench) -> np.ndarray:
    """Patches reduced to ten dimensions, enough for a run and what is left out."""
    size = bench.size("images")
    return datasets.reduced_patches(bench.pictures(), size.n + size.left_out + 30_000, p=size.p, seed=0)


def eeg_matrix(bench: Bench) -> np.ndarray:
    """The recording."""
    assert bench.eeg is not None
    return datasets.load_eeg(bench.eeg)


def greedy(bench: Bench) -> dict[str, Any]:
    """Figure 4 (greed): which statistics to update."""
    size = bench.size("greedy")
    reference = {"newton": FINITE["newton"]}  # not shown: it says where the plateau is
    everything = bench.run(
        "greedy",
        {**GREEDY, **reference},
        lambda r: datasets.laplace(size.p, size.n, seed=r, left_out=size.left_out),
        "laplace",
    )
    levels = plateaus(everything, lowest=False)
    curves = {key: everything[key] for key in GREEDY}
    figure, axes = grid(2, 3, height=2.6)
    for row, x in zip(axes, ("passes", "seconds"), strict=True):
        for a, measure in zip(row, ("loss", "amari", "gradient"), strict=True):
            panel(a, curves, x, measure, levels)
    legend(figure, GREEDY, y=0.93, columns=5)
    save(figure, "greedy")
    return {"greedy": report(bench, "greedy", curves, levels, GREEDY)}


def report(
    bench: Bench, name: str, curves: Curves, levels: list[float], algorithms: dict[str, Algorithm]
) -> dict[str, Any]:
    """The numbers of one experiment that the docs quote."""
    size = bench.size(name)
    rows = summarise(curves, levels, size.p)
    result = {
        "scale": "full" if bench.full else "quick",
        "data": data_name(bench, name),
        "n": next(iter(curves.values()))[0]["notes"].get("n", size.n),  # a recording may be shorter than asked for
        "p": size.p,
        "passes": size.passes,
        "repeats": size.repeats,
        "rows": {key: {"label": algorithms[key].label, **row} for key, row in rows.items()},
    }
    if "newton" in curves:
        result["newton_overtakes"] = {x: crossing(curves, "newton", "incremental", x=x) for x in ("passes", "seconds")}
    return result


def data_name(bench: Bench, name: str) -> str:
    """What the samples of an experiment are."""
    if name.startswith("eeg"):
        return "EEG, 64 channels" if bench.eeg is not None else "none"
    if name in ("huge", "images", "images-online"):
        count = len(bench.pictures())
        return f"{count} bundled photographs" if bench.images is None else f"{count} natural images"
    return "Laplace sources"


FIGURES = {"synthetic": synthetic, "huge": huge, "real": real, "greedy": greedy}
