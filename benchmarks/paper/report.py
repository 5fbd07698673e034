"""Results into docs/data/paper/results.json and the generated parts of docs/reproduction.md."""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from benchmarks.paper.cache import ROOT, versions
from benchmarks.paper.claims import CLAIMS
from benchmarks.paper.settings import FULL
from benchmarks.paper.verdicts import judge_figures, never, number, title

DATA = ROOT / "docs" / "data" / "paper" / "results.json"
PAGE = ROOT / "docs" / "reproduction.md"


def save_results(bench: Any, results: dict[str, Any]) -> None:
    """Add this run's results to those of earlier ones."""
    stored = load_results()
    claims = {**stored.get("claims", {}), **results.pop("claims", {})}
    searches = {**stored.get("searches", {}), **found_searches(bench)}
    made = {"versions": versions(), "machine": machine()}
    stored |= results | {"claims": claims, "searches": searches, "made": made}
    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_text(json.dumps(rounded(stored), indent=1) + "\n")


def load_results() -> dict[str, Any]:
    """What the docs quote."""
    return json.loads(DATA.read_text()) if DATA.exists() else {}


def rounded(value: Any) -> Any:
    """Six digits: the rest is noise, and would change at every run."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list | tuple) else value


def machine() -> str:
    """Processor and cores."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"model name\s*:\s*(.+)", info.read_text())
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, one thread an algorithm"


def found_searches(bench: Any) -> dict[str, Any]:
    """The stored step searches of current versions."""
    found = {}
    for path in sorted(bench.store.folder.glob("*/search-*.json")):
        stored = json.loads(path.read_text())
        config = stored["config"]
        if stored["versions"] == versions() or bench.keep_stale:
            online = " online" if config["experiment"].endswith(("-online", "huge")) else ""
            found[f"{config['what'].removeprefix('search-').upper()}{online}, {title(config['experiment'])}"] = stored[
                "result"
            ]
    return found


def update_page(bench: Any) -> None:
    """Fill the generated parts of the page."""
    results = load_results()
    parts = {
        "sizes": sizes_table(results),
        "figure-verdicts": verdict_table([v.__dict__ for v in judge_figures(results).values()]),
        "text-verdicts": verdict_table([results["claims"][name] for name in CLAIMS if name in results["claims"]]),
        "sanity": sanity_table(results),
        "additions": additions_table(results),
        "made": made_line(results),
    }
    for name in ("synthetic", "synthetic-online", "huge", "images", "images-online", "eeg", "eeg-online", "greedy"):
        parts[name] = rows_table(results[name]) if name in results else "Not run: no data given."
    text = PAGE.read_text() if PAGE.exists() else ""
    for name, part in parts.items():
        pattern = rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)"
        text = re.sub(pattern, lambda m, part=part: f"{m[1]}\n{part}\n\n{m[2]}", text, flags=re.S)
    PAGE.write_text(text)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def rows_table(result: dict[str, Any]) -> str:
    """One experiment, an algorithm a row."""
    rows = list(result["rows"].values())
    amari, gradient = (any(row[key] is not None for row in rows) for key in ("amari", "gradient"))
    head = ["algorithm", "passes (seconds) to near", "to the plateau", "final loss above plateau"]
    head += ["Amari distance"] * amari + ["gradient norm"] * gradient + ["passes run", "seconds run"]
    out = []
    for row in rows:
        has_loss = row["excess_loss"] is not None
        cells = [row["label"] + (f" (step {row['step']:g})" if "step" in row else "")]
        cells += [arrival_cell(row, goal) if has_loss else "-" for goal in ("near", "plateau")]
        cells += [number(row["excess_loss"], ".1e") if has_loss else "-"]
        cells += [number(row["amari"], ".2g")] * amari
        cells += ["-" if row["gradient"] is None else number(row["gradient"], ".1e")] * gradient
        cells += [number(row["passes"]), number(row["seconds"], ".2g")]
        out.append(cells)
    return table(head, out)


def arrival_cell(row: dict[str, Any], goal: str) -> str:
    """Passes, and seconds in brackets."""
    passes, seconds = row[f"passes_to_{goal}"], row[f"seconds_to_{goal}"]
    return "never" if passes is None else f"{passes:.3g} ({seconds:.2g} s)"


def verdict_table(verdicts: list[dict[str, Any]]) -> str:
    """Claims with what was found."""
    rows = [[v["claim"], v["where"], f"**{v['verdict']}**", v["found"]] for v in verdicts]
    return table(["claim", "section", "verdict", "found"], rows)


def sizes_table(results: dict[str, Any]) -> str:
    """What was run beside what the paper ran."""
    rows = []
    for name, size in FULL.items():
        if name in results:
            r = results[name]
            run = f"p = {r['p']}, n = {r['n']:,}, {r['passes']:g} pass{'es' * (r['passes'] > 1)}"
            run += f", {r['repeats']} of {size.repeats} draws"
            data = r["data"]
        else:
            run, data = "not run", "-"
        p = 71 if name.startswith("eeg") else size.p
        n = f"p = {p}, n = {size.n:,}, {size.passes:g} pass{'es' * (size.passes > 1)}"
        rows.append([name, data, run, n])
    return table(["experiment", "data", "run here", "in the paper"], rows)


def sanity_table(results: dict[str, Any]) -> str:
    """What must be true of any correct set of results."""
    rows = []
    if "synthetic" in results:
        found = results["synthetic"]["rows"]
        settled = [k for k in ("newton", "picard", "progressive", "incremental") if found[k]["excess_loss"] is not None]
        spread = max(found[k]["largest_excess_loss"] for k in settled)
        rows.append(check("left-out losses of converged algorithms agree to 1e-4", spread < 1e-4, f"{spread:.1e}"))
        for key in ("newton", "picard"):
            value = found[key]["largest_gradient"]
            label = f"gradient norm of {found[key]['label']} below 1e-8 in every repeat"
            rows.append(check(label, value is not None and value < 1e-8, number(value, ".1e")))
    rises = [r["rows"][k] for r in results.values() if "rows" in r for k in r["rows"] if "largest_rise" in r["rows"][k]]
    if rises:
        worst = max(row["largest_rise"] for row in rises)
        rows.append(check("no solver of ours ever raises its objective", worst <= 1e-11, f"largest rise {worst:.1e}"))
    if "greedy" in results:
        found = results["greedy"]["rows"]
        for q in (1, 3):
            a, b = (found[f"{kind}-{q}"]["gradient"] for kind in ("greedy", "random"))
            rows.append(check(f"greedy beats random, q = {q}", a < b, f"gradient norms {a:.1e}, {b:.1e}"))
    return table(["must be true", "is", "number"], rows)


def check(what: str, good: bool, number_: str) -> list[str]:
    """A row of the sanity table."""
    return [what, "yes" if good else "**no**", number_]


def additions_table(results: dict[str, Any]) -> str:
    """What the package's own solvers change: how soon they are near and at the plateau, and where they end."""
    rows = []
    for name in ("synthetic", "images", "eeg", "synthetic-online", "huge", "images-online", "eeg-online"):
        if name not in results:
            continue
        found = results[name]["rows"]
        ours = "progressive" if "progressive" in found else "stream"
        others = [k for k in found if k not in (ours, "fastica")]
        cells = [f"{title(name)}, {'online' if ours == 'stream' else 'finite sum'}"]
        for key, unit in (("seconds_to_near", " s"), ("seconds_to_plateau", " s"), ("excess_loss", "")):
            best = min(others, key=lambda k, key=key, found=found: never(found[k][key]))
            shown = [number(found[k][key], ".2g") + unit * (found[k][key] is not None) for k in (ours, best)]
            other = "none" if found[best][key] is None else f"{found[best]['label']} {shown[1]}"
            cells.append(f"{shown[0]} (best other: {other})")
        rows.append(cells)
    return table(["problem", "seconds to near", "seconds to the plateau", "final loss above plateau"], rows)


def made_line(results: dict[str, Any]) -> str:
    """Versions and machine."""
    made = results["made"]
    named = ", ".join(f"{name} {version}" for name, version in made["versions"].items() if name != "code")
    return f"Made with {named}; {made['machine']}."
