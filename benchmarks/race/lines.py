"""The table of kinds of sources: what its lines hold, and how they are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common import describe_machine, number, table
from benchmarks.race.bound import median_amari
from benchmarks.race.chance import interval, places, ratio
from benchmarks.race.kinds import MIXTURES

RACERS = ("majorica", "fastica", "picard-o")
TITLES = ("majorica", "FastICA", "Picard-O")
TOLD = "told"  #: :mod:`benchmarks.race.told`


def threshold(p: int) -> float:
    """Largest Amari distance that counts as separated."""
    return 0.5 if p == 2 else 0.5 * p


def summarise(name: str, n: int, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """One line of the table, from each racer's runs on the same draws."""
    distances = np.array([[run["amari"] for run in runs[racer]] for racer in RACERS]).T
    limit = threshold(len(MIXTURES[name]))
    low, high = interval(distances)
    best, worst = places(distances)
    bound = median_amari(MIXTURES[name], n)
    median = np.median(distances, axis=0)
    told = [run["amari"] for run in runs[TOLD]]
    return {
        "name": name,
        "n": n,
        "draws": len(distances),
        "median": median.tolist(),
        "ratio": float(ratio(distances)),
        "told": float(np.median(told) / median[1:].min()) if len(told) == len(distances) else None,
        "low": low,
        "high": high,
        "best": best,
        "worst": worst,
        "bound": bound,
        "over": [None if bound is None else float(value / bound) for value in median],
        "failures": int(((distances[:, 0] > limit) & (distances[:, 1:] < limit).all(axis=1)).sum()),
        "gains": int(((distances[:, 0] < limit) & (distances[:, 1:] > limit).all(axis=1)).sum()),
        "rises": sum(run["rises"] for run in runs["majorica"]),
    }


def render(lines: list[dict[str, Any]], more: list[dict[str, Any]], seconds: list[dict[str, Any]], command: str) -> str:
    """The tables, and what they add up to: all sizes, more draws of short fits, and times."""
    parts = [f"`{command}` on {describe_machine()}.", quality_table(lines), verdict(lines)]
    if more:
        parts += [f"### The same with {more[0]['draws']} draws", quality_table(more), verdict(more)]
    if seconds:
        parts += ["### Milliseconds of a fit", time_table(seconds)]
    return "\n\n".join(parts)


def quality_table(lines: list[dict[str, Any]]) -> str:
    """Distances, the ratio with what chance can do to it, and the bound."""
    header = ["sources", "n", "draws", *TITLES, "over the better peer", "95 %", "best / worst of three"]
    header += ["told the densities", "bound"]
    header += [f"{title} over it" for title in TITLES] + ["we alone fail", "we alone separate", "rises"]
    rows = [
        [
            *(line["name"], size(line["n"]), line["draws"]),
            *(number(value, 2) for value in line["median"]),
            *(f"{line['ratio']:.2f}", f"{line['low']:.2f} to {line['high']:.2f}", f"{line['best']} / {line['worst']}"),
            *("-" if line["told"] is None else f"{line['told']:.2f}", number(line["bound"], 2)),
            *("-" if value is None else f"{value:.2f}" for value in line["over"]),
            *(line["failures"], line["gains"], line["rises"]),
        ]
        for line in lines
    ]
    return table(header, rows)


def time_table(seconds: list[dict[str, Any]]) -> str:
    """Best times, one line a mixture and size."""
    rows = [
        [line["name"], size(line["n"]), *(number(1e3 * line["seconds"][racer]) for racer in RACERS)] for line in seconds
    ]
    return table(["sources", "n", *TITLES], rows)


def verdict(lines: list[dict[str, Any]]) -> str:
    """What the lines add up to."""
    worse = [line for line in lines if line["ratio"] > 1.05]
    surely = [line for line in lines if line["low"] > 1]
    better = sum(line["high"] < 1 for line in lines)
    told = [line for line in lines if line["told"] is not None]
    return (
        f"Separations both peers manage and we fail: {sum(line['failures'] for line in lines)}; "
        f"that we alone manage: {sum(line['gains'] for line in lines)}; "
        f"rises of the loss within a level: {sum(line['rises'] for line in lines)}. "
        f"Lines where our median is over 1.05 times the better peer's: {len(worse)} of {len(lines)}{_named(worse)}; "
        f"where it is worse beyond chance (the interval lies above 1): {len(surely)}{_named(surely)}; "
        f"where it is better beyond chance: {better}. "
        f"Of the {len(told)} lines that maximum likelihood told the true densities can take part in, "
        f"it is over 1.05 in {sum(line['told'] > 1.05 for line in told)}, "
        f"we in {sum(line['ratio'] > 1.05 for line in told)}."
    )


def size(n: int) -> str:
    """``2e4`` for 20,000."""
    return f"{n:.0e}".replace("e+0", "e")


def _named(lines: list[dict[str, Any]]) -> str:
    names = [f"{line['name']} at {size(line['n'])}" for line in lines]
    return f" ({', '.join(names)})" if names else ""
