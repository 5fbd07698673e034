"""The race as tables and figures, printed and written into the page."""

from __future__ import annotations

from typing import Any

from benchmarks.common import IMAGES, describe_machine, number, table, verdict, write_section
from benchmarks.race.methods import BY_NAME
from benchmarks.race.ratios import Ratio, compare
from benchmarks.race.run import Race, say

LOSSES = ("adaptive", "huber")


def write(race: Race, command: str) -> None:
    """Print all tables; full-size ones of all data also go into ``docs/benchmarks.md``, others beside the results."""
    found = {name: results for name in race.entries if (results := race.summary(name))}
    parts = [f"`{command}` on {describe_machine()}."]
    parts += ["### Times as fast as the fastest peer of the same quality", ratio_table(race, found)]
    whole = not race.quick and all("majorica" in found.get(name, ()) for name in race.entries)
    figures = IMAGES if whole else race.home
    drawn = draw_all(race, found, figures)
    for name, results in found.items():
        parts += [f"### {race.entries[name].title}", result_table(results)]
        if name in drawn or (figures / f"race-{name}.svg").exists():  # one of an earlier run is better than none
            parts.append(f"![Left-out loss against time, {race.entries[name].title}](images/race-{name}.svg)")
    text = "\n\n".join(parts)
    print(text)
    if whole:
        write_section("race", text)
    else:
        race.home.mkdir(parents=True, exist_ok=True)
        (race.home / "page.md").write_text(text + "\n")


def ratio_table(race: Race, found: dict[str, dict[str, Any]]) -> str:
    """One line a dataset and loss: quality reached, ratio, target."""
    rows = []
    for name, results in found.items():
        target = race.entries[name].target
        for loss in LOSSES:
            ours = "majorica" if loss == "adaptive" else "majorica-huber"
            ratio = compare(results, loss, ours)
            if ratio is not None:
                rows.append([race.entries[name].title, *ratio_row(ratio, loss, target)])
    header = [
        "data",
        "loss",
        "majorica less best peer (nats a component)",
        "fastest peer of that quality",
        "times as fast",
    ]
    return table([*header, "were it stopped early", "target", "met", "never slower"], rows)


def ratio_row(ratio: Ratio, loss: str, target: float) -> list[str]:
    """The cells after the title."""
    met = verdict(ratio.ratio, target) if ratio.reached else "**no** (loss)"
    return [
        loss,
        f"{ratio.short:+.1e}",
        BY_NAME[ratio.peer].title,
        number(ratio.ratio),
        number(ratio.early),
        number(target),
        met,
        f"{verdict(ratio.slowest_margin, 1.0)} ({number(ratio.slowest_margin)})",
    ]


def result_table(results: dict[str, Any]) -> str:
    """One line a method."""
    header = ["method", "first fit (s)", "later fits (s)", "passes", "loss, adaptive", "loss, Huber", "Amari"]
    rows = []
    for name, run in results.items():
        if "failed" in run:
            rows.append([BY_NAME[name].title, run["failed"], *["-"] * 7])
            continue
        quality = [f"{run['adaptive']:.5f}", f"{run['huber']:.5f}", number(run["amari"])]
        memory = ["-", "-"] if run["memory"] is None else [f"{run['memory']:.0f}", f"{run['share']:.2f}"]
        seconds = [number(run["first"]), number(run["later"])]
        rows.append([BY_NAME[name].title, *seconds, f"{run['passes']:.1f}", *quality, *memory])
    return table([*header, "memory of a fit (MB)", "times the data"], rows)


def draw_all(race: Race, found: dict[str, Any], folder: Any) -> set[str]:
    """Figures of the datasets that have curves; returns which."""
    curves = {name: {m: run["curve"] for m, run in res.items() if run.get("curve")} for name, res in found.items()}
    if not any(curves.values()):
        return set()
    try:
        from benchmarks.race.figure import draw
    except ImportError:
        say("no figures: matplotlib is not installed")
        return set()
    for name, points in curves.items():
        if points:
            draw(points, race.entries[name].title, folder / f"race-{name}")
    return {name for name, points in curves.items() if points}
