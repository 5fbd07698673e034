"""The claims of the paper's discussion (section 4.5), judged from the figures' numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.paper.claims.base import FAILS, HOLDS, PARTLY, Verdict

Results = dict[str, Any]
NAMES = {"synthetic": "Laplace", "images": "patches", "eeg": "EEG", "huge": "patches, p = 100"}


def title(experiment: str) -> str:
    """Its short name."""
    return NAMES.get(experiment.removesuffix("-online"), experiment)


def number(value: float | None, form: str = ".3g") -> str:
    """A number for a table; "never" for None."""
    return "never" if value is None else format(value, form)


def finite(results: Results) -> Iterator[tuple[str, dict[str, Any]]]:
    """The finite-sum experiments there are."""
    return ((name, results[name]["rows"]) for name in ("synthetic", "images", "eeg") if name in results)


def online(results: Results) -> Iterator[tuple[str, dict[str, Any]]]:
    """The online experiments there are."""
    names = ("synthetic-online", "huge", "images-online", "eeg-online")
    return ((name, results[name]["rows"]) for name in names if name in results)


def judge(good: int, total: int) -> str:
    """All, some or none."""
    return HOLDS if good == total else PARTLY if good else FAILS


def never(value: float | None) -> float:
    """Infinity for None."""
    return np.inf if value is None else value


def best_finite(results: Results) -> Verdict:
    """Left-out loss, finite sum: who is first near the plateau and at it, in passes and in seconds."""
    parts, good, total = [], 0, 0
    for name, rows in finite(results):
        paper = {k: r for k, r in rows.items() if k not in ("progressive", "fastica")}
        shown = []
        for goal, where in (("near", "near"), ("plateau", "at the plateau")):
            for unit in ("passes", "seconds"):
                key = f"{unit}_to_{goal}"
                best = min(paper, key=lambda k, key=key, paper=paper: never(paper[k][key]))
                if paper[best][key] is None:
                    continue
                total += 1
                first = never(rows["incremental"][key]) <= paper[best][key]
                good += first
                own = "never" if rows["incremental"][key] is None else f"after {rows['incremental'][key]:.2g} {unit}"
                other = "" if first else f" ({paper[best]['label']} {paper[best][key]:.2g} {unit})"
                shown.append(f"{where} {own}{other}")
        parts.append(f"{title(name)}: {', '.join(shown)}")
    return Verdict(
        "Incremental MM performs best on the left-out loss (finite sum)",
        "4.5",
        "incremental MM, in brackets the best of the paper's other algorithms where it is ahead; " + "; ".join(parts),
        judge(good, total),
    )


def best_online(results: Results) -> Verdict:
    """Left-out loss, online."""
    parts, good = [], 0
    for name, rows in online(results):
        good += never(rows["online"]["excess_loss"]) <= never(rows["sgd"]["excess_loss"])
        parts.append(
            f"{title(name)}: MM {number(rows['online']['excess_loss'], '.1e')}, "
            f"SGD {number(rows['sgd']['excess_loss'], '.1e')}"
        )
    return Verdict(
        "Online MM performs best on the left-out loss (online)",
        "4.5",
        "loss above the plateau at the end of the stream: " + "; ".join(parts),
        judge(good, len(parts)),
    )


def amari_similar(results: Results) -> Verdict:
    """Amari distance of the finite sum."""
    rows = results["synthetic"]["rows"]
    own = rows["incremental"]["amari"]
    close = all(own < 1.5 * rows[k]["amari"] for k in ("newton", "fastica"))
    ahead = all(own <= 1.02 * rows[k]["amari"] for k in ("sgd", "sag", "batch"))
    order = sorted((k for k in rows if k != "progressive"), key=lambda k: never(rows[k]["amari"]))
    listed = ", ".join(f"{rows[k]['label']} {number(rows[k]['amari'], '.2g')}" for k in order)
    return Verdict(
        "Amari distance: MM as FR-Newton and FastICA, ahead of the others",
        "4.5",
        f"at the end: {listed}",
        HOLDS if close and ahead else PARTLY if close or ahead else FAILS,
    )


def newton_overtakes(results: Results) -> Verdict:
    """Gradient norm: whether FR-Newton ends lower than incremental MM, and when it gets there."""
    parts, good, total = [], 0, 0
    for name, rows in finite(results):
        overtakes = results[name]["newton_overtakes"]["passes"]
        plateau = rows["incremental"]["passes_to_plateau"]
        good += never(rows["newton"]["gradient"]) < never(rows["incremental"]["gradient"])
        good += plateau is not None and never(overtakes) > plateau
        total += 2
        ends = " and ".join(
            f"{rows[k]['label']} {number(rows[k]['gradient'], '.1e')}" for k in ("newton", "incremental")
        )
        when = (
            "not yet the smaller one when MM ends"
            if overtakes is None
            else f"the smaller one from pass {overtakes:.3g}"
        )
        flat = "does not become flat" if plateau is None else f"is flat from pass {plateau:.3g}"
        parts.append(f"{title(name)}: gradients end at {ends}, FR-Newton's is {when}, MM's left-out loss {flat}")
    return Verdict(
        "FR-Newton overtakes MM in gradient norm, but after the test error is flat",
        "4.5",
        "; ".join(parts),
        judge(good, total),
    )


def epoch_cost(results: Results) -> Verdict:
    """Seconds a pass."""
    parts, ratios = [], []
    for name, rows in finite(results):
        cost = {
            k: rows[k]["seconds"] / max(rows[k]["passes"], 1e-9) for k in ("sgd", "newton", "picard", "incremental")
        }
        ratios += [cost["newton"] / cost["sgd"], cost["picard"] / cost["sgd"]]
        others = ", ".join(
            f"{rows[k]['label']} {cost[k] / cost['sgd']:.1f}" for k in ("newton", "picard", "incremental")
        )
        parts.append(f"{title(name)}: {others}")
    return Verdict(
        "An epoch of FR-Newton or Picard costs over 3 times one of SGD or MM",
        "4.1",
        "seconds a pass over those of SGD (a pass of FR-Newton is fused: loss, gradient and Hessian of one point): "
        + "; ".join(parts),
        judge(sum(r > 3 for r in ratios), len(ratios)),
    )


def greedy_choice(results: Results) -> Verdict:
    """Figure 4."""
    rows = results["greedy"]["rows"]
    better = [never(rows[f"greedy-{q}"]["excess_loss"]) < never(rows[f"random-{q}"]["excess_loss"]) for q in (1, 3)]
    better.append(never(rows["greedy-3"]["passes_to_plateau"]) <= 1.5 * never(rows["full"]["passes_to_plateau"]))
    listed = "; ".join(
        f"{row['label']}: {number(row['passes_to_plateau'])}, ends {number(row['excess_loss'], '.1e')} nats above it"
        for row in rows.values()
    )
    return Verdict(
        "The greedy choice is much faster than the random one and close to the full update",
        "4.5, figure 4",
        f"passes to the plateau: {listed}",
        judge(sum(better), 3),
    )


def step_critical(results: Results) -> Verdict:
    """How much the step of SGD and SAG matters."""
    parts, counts, steps = [], [], []
    for name, found in sorted(results.get("searches", {}).items()):
        losses = [np.inf if v is None else v for v in found["losses"]]
        best = int(np.argmin(losses))
        usable = sum(v < losses[best] + 0.05 for v in losses)
        counts.append(usable)
        if name.startswith("SGD"):
            steps.append(found["steps"][best])
        parts.append(f"{name}: {found['steps'][best]:g} best, {usable} of {len(losses)} within 0.05 nats of it")
    return Verdict(
        "The step of SGD and SAG is critical and differs between datasets",
        "1, 4.1",
        "grid of half decades: " + "; ".join(parts),
        HOLDS if np.median(counts) <= 2 and max(steps) > 5 * min(steps) else PARTLY,
    )


JUDGES: dict[str, tuple[Callable[[Results], Verdict], tuple[str, ...]]] = {
    "best-finite": (best_finite, ("synthetic",)),
    "best-online": (best_online, ("synthetic-online",)),
    "amari": (amari_similar, ("synthetic",)),
    "newton-overtakes": (newton_overtakes, ("synthetic",)),
    "epoch-cost": (epoch_cost, ("synthetic",)),
    "greedy": (greedy_choice, ("greedy",)),
    "step-critical": (step_critical, ("searches",)),
}


def judge_figures(results: Results) -> dict[str, Verdict]:
    """Every verdict whose experiments have been run."""
    return {name: judge_(results) for name, (judge_, needs) in JUDGES.items() if all(need in results for need in needs)}
