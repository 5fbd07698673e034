"""From the runs of an experiment to median curves and the numbers quoted in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.paper.experiment import Curves

#: How close to its plateau the left-out loss counts as near, and as there; nats a component.
NEAR, THERE = 1e-2, 1e-4
#: Where curves of the shifted loss are cut: below is noise of the left-out samples.
LOSS_FLOOR = 1e-5


@dataclass
class Curve:
    """Median and quartiles of a measure over repeats, on a common grid."""

    x: np.ndarray
    median: np.ndarray
    low: np.ndarray
    high: np.ndarray


def column(run: dict[str, Any], name: str) -> np.ndarray:
    """One measure of one run; NaN where it does not apply or has blown up."""
    return np.array([np.nan if v is None else v for v in run[name]], dtype=float)


def plateaus(curves: Curves, *, lowest: bool) -> list[float]:
    """The level of each repeat's left-out loss that counts as 0.

    Online with known sources, the loss of the best matrix there is. Else that
    of the run with the smallest final gradient (the minimiser of the training
    loss), or, with `lowest`, the smallest final loss of any run: for real
    data, which have several minima.
    """
    repeats = len(next(iter(curves.values())))
    levels = []
    for r in range(repeats):
        optima = [runs[r]["notes"]["optimum"] for runs in curves.values() if "optimum" in runs[r]["notes"]]
        if optima:
            levels.append(optima[0])
            continue
        ends = [(column(runs[r], "gradient")[-1], column(runs[r], "loss")[-1]) for runs in curves.values()]
        known = [(g, v) for g, v in ends if np.isfinite(v)]
        with_gradient = [(g, v) for g, v in known if np.isfinite(g)]
        if lowest or not with_gradient:
            levels.append(min(v for _, v in known))
        else:
            levels.append(min(with_gradient)[1])
    return levels


def values(runs: list[dict[str, Any]], measure: str, levels: list[float] | None) -> list[np.ndarray]:
    """A measure of each repeat, the loss shifted by its plateau."""
    found = [column(run, measure) for run in runs]
    if measure == "loss" and levels is not None:
        found = [np.maximum(v - level, LOSS_FLOOR) for v, level in zip(found, levels, strict=True)]
    return found


def median_curve(runs: list[dict[str, Any]], x: str, measure: str, levels: list[float] | None) -> Curve | None:
    """Median over repeats, to where half of them have ended; an ended run keeps its last value. None without data."""
    ys = values(runs, measure, levels)
    xs = [column(run, x) for run in runs]
    moved = [(column(run, "passes") > 0) & np.isfinite(y) for run, y in zip(runs, ys, strict=True)]  # not the start
    pairs = [(a[keep], b[keep]) for a, b, keep in zip(xs, ys, moved, strict=True) if keep.any()]
    if not pairs:
        return None
    start, stop = max(a[0] for a, _ in pairs), float(np.median([a[-1] for a, _ in pairs]))
    grid = np.geomspace(start, max(stop, start * 1.001), 50)
    lines = [np.exp(np.interp(np.log(grid), np.log(a), np.log(np.maximum(b, 1e-300)))) for a, b in pairs]
    low, median, high = np.quantile(lines, [0.25, 0.5, 0.75], axis=0)
    return Curve(grid, median, low, high)


def summarise(curves: Curves, levels: list[float], p: int) -> dict[str, dict[str, float | None]]:
    """For each algorithm, medians over repeats: how long to the plateau, and where it ended."""
    return {key: _summary(runs, levels, p) for key, runs in curves.items()}


def arrival(runs: list[dict[str, Any]], levels: list[float], x: str, within: float) -> float | None:
    """Median passes or seconds until the loss is first `within` of its plateau; None for never."""
    found = []
    for run, level in zip(runs, levels, strict=True):
        close = np.flatnonzero(column(run, "loss") - level <= within)
        found.append(column(run, x)[close[0]] if len(close) else np.inf)
    return _median(found)


def _summary(runs: list[dict[str, Any]], levels: list[float], p: int) -> dict[str, float | None]:
    ends = {
        name: [column(run, name)[-1] for run in runs] for name in ("loss", "passes", "seconds", "amari", "gradient")
    }
    excess = [v - level for v, level in zip(ends["loss"], levels, strict=True)]
    row = {
        "passes_to_near": arrival(runs, levels, "passes", NEAR * p),
        "seconds_to_near": arrival(runs, levels, "seconds", NEAR * p),
        "passes_to_plateau": arrival(runs, levels, "passes", THERE * p),
        "seconds_to_plateau": arrival(runs, levels, "seconds", THERE * p),
        "excess_loss": _median(excess),
        "largest_excess_loss": float(np.max(np.abs(excess))) if np.isfinite(excess).all() else None,
        "amari": _median(ends["amari"]),
        "gradient": _median(ends["gradient"]),
        "largest_gradient": float(np.max(ends["gradient"])) if np.isfinite(ends["gradient"]).all() else None,
        "passes": _median(ends["passes"]),
        "seconds": _median(ends["seconds"]),
    }
    rises = [run["notes"]["largest_rise"] for run in runs if "largest_rise" in run["notes"]]
    if rises:
        row["largest_rise"] = max(rises)
    steps = [run["notes"]["step"] for run in runs if "step" in run["notes"]]
    if steps:
        row["step"] = steps[0]
    return row


def _median(found: list[float]) -> float | None:
    """Median with infinity for "never"; None if undefined or never for half of them."""
    found = [np.inf if np.isnan(v) else v for v in found]
    middle = float(np.median(found))
    return middle if np.isfinite(middle) else None


def crossing(curves: Curves, below: str, above: str, *, x: str = "passes", measure: str = "gradient") -> float | None:
    """Median over repeats of the `x` from which on `below` stays under `above`, while both run; None for never."""
    found = []
    for one, other in zip(curves[below], curves[above], strict=True):
        xs, ys = column(one, x), column(one, measure)
        both = xs <= column(other, x)[-1]
        xs, ys = xs[both], ys[both]
        reference = np.exp(np.interp(xs, column(other, x), np.log(column(other, measure))))
        under = ys < reference
        if not under[-1]:
            found.append(np.inf)
            continue
        last_over = np.flatnonzero(~under)
        found.append(float(xs[min(last_over[-1] + 1, len(xs) - 1)]) if len(last_over) else float(xs[0]))
    return _median(found)
