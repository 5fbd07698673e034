"""``python -m benchmarks.race.mixtures``: kinds of sources alone and together, against FastICA and Picard-O."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import ROOT, Store, code_digest, describe_machine, number, table, write_section
from benchmarks.race.kinds import MIXTURES, mixture
from benchmarks.race.methods import BY_NAME
from benchmarks.race.quality import amari

RACERS = ("majorica", "fastica", "picard-o")
#: Samples, and draws at most: the largest are drawn less often.
SIZES = {2_000: 20, 20_000: 20, 200_000: 20, 1_000_000: 4}


def threshold(p: int) -> float:
    """Largest Amari distance that counts as separated."""
    return 0.5 if p == 2 else 0.5 * p


def rises(trace: np.ndarray) -> int:
    """Steps that raised the loss of the samples in play."""
    before, after = trace[:-1], trace[1:]
    same = before["n_samples"] == after["n_samples"]
    return int((same & (after["loss"] - before["loss"] > 1e-12 * np.abs(before["loss"]))).sum())


def run_once(kinds: tuple[str, ...], n: int, seed: int) -> dict[str, Any]:
    """Amari distance and seconds of each racer on one draw, and our rises."""
    from majorica import ICA

    X, A = mixture(kinds, n, seed)
    began = time.perf_counter()
    model = ICA(random_state=seed).fit(X)
    result: dict[str, Any] = {"rises": rises(model.trace_), "seconds": {"majorica": time.perf_counter() - began}}
    result["amari"] = {"majorica": amari(model.components_, A, X)}
    for racer in RACERS[1:]:
        began = time.perf_counter()
        fit = BY_NAME[racer].fit(X, seed)
        result["seconds"][racer] = time.perf_counter() - began
        result["amari"][racer] = amari(fit.W, A, X)
    return result


def summarise(name: str, n: int, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of the table."""
    distances = np.array([[run["amari"][racer] for racer in RACERS] for run in runs])
    limit = threshold(len(MIXTURES[name]))
    median = np.median(distances, axis=0)
    return {
        "name": name,
        "n": n,
        "draws": len(runs),
        "median": median.tolist(),
        "ratio": float(median[0] / median[1:].min()),
        "failures": int(((distances[:, 0] > limit) & (distances[:, 1:] < limit).all(axis=1)).sum()),
        "gains": int(((distances[:, 0] < limit) & (distances[:, 1:] > limit).all(axis=1)).sum()),
        "rises": sum(run["rises"] for run in runs),
        "seconds": [float(np.median([run["seconds"][racer] for run in runs])) for racer in RACERS],
    }


def render(lines: list[dict[str, Any]], command: str) -> str:
    """The table, and what it adds up to."""
    header = ["sources", "n", "draws", "majorica", "FastICA", "Picard-O", "over the better peer", "we alone fail"]
    rows = [
        [
            *(line["name"], f"{line['n']:.0e}".replace("e+0", "e"), line["draws"]),
            *(number(value, 2) for value in line["median"]),
            *(f"{line['ratio']:.2f}", line["failures"], line["gains"], line["rises"]),
            *(number(1e3 * seconds) for seconds in line["seconds"]),
        ]
        for line in lines
    ]
    more = ["we alone separate", "rises", "majorica (ms)", "FastICA (ms)", "Picard-O (ms)"]
    worse = sum(line["ratio"] > 1.05 for line in lines)
    failures = sum(line["failures"] for line in lines)
    ending = (
        f"Median Amari distances. Separations both peers manage and we fail: {failures}; "
        f"rises of the loss within a level: {sum(line['rises'] for line in lines)}; "
        f"lines where our median is over 1.05 times the better peer's: {worse} of {len(lines)}."
    )
    return "\n\n".join([f"`{command}` on {describe_machine()}.", table([*header, *more], rows), ending])


def main() -> None:
    """Run what is not stored, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.mixtures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="n = 2000 and 3 draws, to try the command")
    parser.add_argument("--sizes", nargs="+", type=int, choices=list(SIZES), default=list(SIZES), metavar="N")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=list(MIXTURES), default=list(MIXTURES), metavar="MIXTURE")
    parser.add_argument("--fresh", action="store_true", help="ignore stored results")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mixtures")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    store, lines = Store(asked.results), []
    sizes, most = ([2_000], 3) if asked.quick else (asked.sizes, asked.draws)
    for n in sizes:
        for name in asked.only:
            key = {"data": name.replace(" ", ""), "n": n, "code": code_digest(ROOT / "src" / "majorica")}
            runs = [] if asked.fresh else store.find(key) or []
            wanted = min(most, SIZES[n])
            while len(runs) < wanted:
                runs.append(run_once(MIXTURES[name], n, len(runs)))
                store.put(key, runs)
            lines.append(summarise(name, n, runs[:wanted]))
            print(json.dumps(lines[-1]), flush=True)
    command = "python -m benchmarks.race.mixtures" + (" --quick" if asked.quick else "")
    text = render(lines, command)
    print(text)
    if not asked.quick and asked.only == list(MIXTURES):
        write_section("mixtures", text)


if __name__ == "__main__":
    main()
