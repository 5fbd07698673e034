"""The floor as tables, printed and written into the page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.common import describe_machine, number, table, verdict


def target(solver: str, p: int) -> float | None:
    """Largest ratio over the bare products asked for."""
    if p <= 10:
        return 3.0
    if p <= 100:
        return 1.5
    return {"progressive": 1.5, "incremental": 2.5}.get(solver)


def render(found: dict[str, Any], command: str) -> str:
    """All tables that were measured."""
    parts = [f"`{command}` on {describe_machine()}; processor time of one thread, wall time where two are compared."]
    if "floors" in found:
        parts += ["### A pass over its bare products", floor_table(found["floors"])]
        parts += ["### float32 over float64", precision_table(found["floors"])]
    if "threads" in found:
        parts += ["### Two threads over one", thread_table(found["threads"])]
    if "transcription" in found:
        parts += [
            "### Incremental over a plain transcription of Algorithm 1",
            transcription_text(found["transcription"]),
        ]
    if "exponents" in found:
        rows = [[r["solver"], f"{r['slopes']['n']:.2f}", f"{r['slopes']['p']:.2f}"] for r in found["exponents"]]
        spread = "-".join(str(found["exponents"][0]["sizes"][i]) for i in (0, -1))
        parts += ["### Fitted powers in the cost of a pass", table(["solver", "of n", f"of p ({spread})"], rows)]
    if "startup" in found:
        parts += ["### Start-up", startup_table(found["startup"])]
    return "\n\n".join(parts)


def floor_table(records: list[dict[str, Any]]) -> str:
    """Ratios of seconds, one line a size and solver; the target holds for all four."""
    rows = []
    for record in records:
        seconds, limit = record["seconds"], target(record["solver"], record["p"])
        ratios = [
            seconds[f"{kind} {dtype}"] / seconds[f"bare {dtype}"]
            for dtype in ("float64", "float32")
            for kind in ("huber", "adaptive")
        ]
        met = "-" if limit is None else verdict(max(ratios), limit, at_most=True)
        cost = seconds["bare float64"] / record["n"] * 1e9
        rows.append([record["solver"], record["p"], number(cost), *(f"{r:.2f}" for r in ratios), number(limit), met])
    header = ["solver", "p", "bare, ns a sample", "Huber", "adaptive", "Huber, float32", "adaptive, float32"]
    return table([*header, "target", "met"], rows)


def precision_table(records: list[dict[str, Any]]) -> str:
    """How many times as fast float32 is."""
    rows = []
    for record in records:
        if record["p"] < 32:
            continue
        seconds = record["seconds"]
        gains = [seconds[f"{kind} float64"] / seconds[f"{kind} float32"] for kind in ("huber", "adaptive", "bare")]
        rows.append([record["solver"], record["p"], *(f"{g:.2f}" for g in gains), 1.6, verdict(min(gains[:2]), 1.6)])
    return table(["solver", "p", "Huber", "adaptive", "bare products", "target", "met"], rows)


def thread_table(records: list[dict[str, Any]]) -> str:
    """How many times as fast two threads are."""
    rows = []
    for record in records:
        gain = record["seconds"]["1"] / record["seconds"]["2"]
        wanted = {"incremental": 1.3, "online": None}.get(record["solver"], 1.7)
        met = "-" if wanted is None else verdict(gain, wanted)
        rows.append([record["solver"], record["p"], f"{gain:.2f}", number(wanted), met])
    return table(["solver", "p", "times as fast", "target", "met"], rows)


def transcription_text(found: dict[str, Any]) -> str:
    """Times as fast, and how far the iterates are apart."""
    gain = found["seconds"]["theirs"] / found["seconds"]["ours"]
    same = verdict(found["apart"], 1e-8, at_most=True)
    return (
        f"p = 10, q = 2, mini-batches of 1000: {found['seconds']['ours']:.3g} s a pass against "
        f"{found['seconds']['theirs']:.3g} s, {gain:.1f} times as fast (target 5: {verdict(gain, 5)}). "
        f"Iterates of three passes are {found['apart']:.0e} apart (target 1e-8: {same})."
    )


def startup_table(found: dict[str, Any]) -> str:
    """What beginning costs."""
    heavy = ", ".join(found["import"]["heavy"]) or "nothing heavy"
    lines = len(found["notice"])
    rows = [
        ["`import majorica`", f"{found['import']['seconds']:.3f} s, loads {heavy}", "-", "-"],
        ["`majorica --help`", f"{found['help']:.2f} s (Python alone {found['python']:.2f} s)", "-", "-"],
        ["`from majorica import ICA`", f"{found['estimator']:.2f} s", "-", "-"],
        _limit("first fit less second, warm cache", found["first_less_second"], 0.5),
        _limit("one-time compilation", statistics.median(found["compile"]), 15.0, found["compile"]),
        ["lines it says meanwhile", lines, 1, "yes" if lines == 1 else "**no**"],
    ]
    return table(["what", "measured", "target", "met"], rows)


def _limit(what: str, seconds: float, limit: float, tries: Sequence[float] = ()) -> list[str]:
    listed = f" (the median of {', '.join(f'{one:.1f}' for one in tries)})" if tries else ""
    return [what, f"{seconds:.2f} s{listed}", f"{limit:g} s", verdict(seconds, limit, at_most=True)]
