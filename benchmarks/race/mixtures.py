"""``python -m benchmarks.race.mixtures``: kinds of sources alone and together, against FastICA and Picard-O."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.blas import let_it_choose
from benchmarks.common import ROOT, Store, write_section
from benchmarks.race.kinds import MIXTURES, mixture
from benchmarks.race.lines import RACERS, TOLD, render, summarise
from benchmarks.race.methods import BY_NAME
from benchmarks.race.quality import amari
from benchmarks.race.run import made_by
from benchmarks.race.told import VERSION, can_be_told, fit_told

SIZES = (2_000, 20_000, 200_000, 1_000_000)
#: Draws of every size, and of those whose fits are short: what 20 leave to chance, 400 mostly decide.
DRAWS, MANY = 20, 400
#: Samples of a short fit, at most; and how often such a one is timed.
SHORT, REPEATS = 20_000, 5


def rises(trace: np.ndarray) -> int:
    """Steps that raised the loss of the samples in play."""
    before, after = trace[:-1], trace[1:]
    same = before["n_samples"] == after["n_samples"]
    return int((same & (after["loss"] - before["loss"] > 1e-12 * np.abs(before["loss"]))).sum())


def run_once(racer: str, X: np.ndarray, A: np.ndarray, seed: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Amari distance of a racer on one draw, and our rises."""
    if racer == TOLD:
        return {"amari": amari(fit_told(X, A, kinds), A, X)}
    if racer != "majorica":
        return {"amari": amari(BY_NAME[racer].fit(X, seed).W, A, X)}
    from majorica import ICA

    model = ICA(random_state=seed).fit(X)
    return {"amari": amari(model.components_, A, X), "rises": rises(model.trace_)}


def time_fits(name: str, n: int) -> dict[str, Any]:
    """Seconds of a fit of the first draw, racers in turn, best of some after a warm-up."""
    X, _ = mixture(MIXTURES[name], n, 0)
    best = dict.fromkeys(RACERS, float("inf"))
    for repeat in range(1 + REPEATS):
        for racer in RACERS:
            began = time.perf_counter()
            BY_NAME[racer].fit(X, 0)
            if repeat:
                best[racer] = min(best[racer], time.perf_counter() - began)
    return {"name": name, "n": n, "seconds": best}


@dataclass
class Mixtures:
    """Stored runs: ours are found by our code, the peers' by their version, so new code does not run them again."""

    store: Store
    fresh: bool = False
    newest: bool = False  #: gather the newest stored runs, whichever code or library made them

    def run(self, name: str, n: int, draws: int) -> None:
        """Run what is not stored, all racers on one draw at a time."""
        racers = (*RACERS, TOLD) if can_be_told(MIXTURES[name]) else RACERS
        found = {racer: [] if self.fresh else self._stored(name, n, racer) for racer in racers}
        for seed in range(draws):
            missing = [racer for racer in racers if len(found[racer]) <= seed]
            if not missing:
                continue
            X, A = mixture(MIXTURES[name], n, seed)
            for racer in missing:
                found[racer].append(run_once(racer, X, A, seed, MIXTURES[name]))
                self.store.put(self._key(name, n, racer), found[racer])

    def line(self, name: str, n: int, draws: int) -> dict[str, Any] | None:
        """The line of stored runs; None unless every racer has all of them."""
        runs = {racer: self._stored(name, n, racer)[:draws] for racer in (*RACERS, TOLD)}
        return summarise(name, n, runs) if min(len(runs[racer]) for racer in RACERS) == draws else None

    def time(self, name: str, n: int) -> None:
        """Time the racers unless that is stored."""
        key = self._time_key(name, n)
        if self.fresh or self.store.find(key) is None:
            self.store.put(key, time_fits(name, n))

    def seconds(self, name: str, n: int) -> dict[str, Any] | None:
        """Stored times; None if there are none."""
        key = self._time_key(name, n)
        return self.store.newest(key, whatever="by") if self.newest else self.store.find(key)

    def _stored(self, name: str, n: int, racer: str) -> list[dict[str, Any]]:
        key = self._key(name, n, racer)
        return (self.store.newest(key, whatever="by") if self.newest else self.store.find(key)) or []

    @staticmethod
    def _key(name: str, n: int, racer: str) -> dict[str, Any]:
        by = VERSION if racer == TOLD else made_by(BY_NAME[racer])
        return {"data": name.replace(" ", ""), "method": racer, "n": n, "by": by}

    @staticmethod
    def _time_key(name: str, n: int) -> dict[str, Any]:
        by = "-".join(made_by(BY_NAME[racer]) for racer in RACERS)
        return {"data": name.replace(" ", ""), "method": "seconds", "n": n, "by": by}


def gather(mixtures: Mixtures, wanted: list[tuple[str, int]], draws: int) -> list[dict[str, Any]]:
    """Lines of what has been run with so many draws."""
    return [line for name, n in wanted if (line := mixtures.line(name, n, draws)) is not None]


def main() -> None:
    """Run what is not stored, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.mixtures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="n = 2000 and 3 draws, to try the command")
    parser.add_argument("--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES), metavar="N")
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of the first table")
    parser.add_argument(
        "--many", type=int, default=MANY, help=f"draws of the second table, of n <= {SHORT}; 0 for none"
    )
    parser.add_argument("--only", nargs="+", choices=list(MIXTURES), default=list(MIXTURES), metavar="MIXTURE")
    parser.add_argument("--timing", action="store_true", help=f"only time fits of n <= {SHORT}, on an idle machine")
    parser.add_argument("--fresh", action="store_true", help="ignore stored results")
    parser.add_argument(
        "--render", action="store_true", help="only print and write the newest stored runs, whichever code made them"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "mixtures")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    mixtures = Mixtures(Store(asked.results), fresh=asked.fresh, newest=asked.render)
    sizes, draws, many = ([SIZES[0]], 3, 0) if asked.quick else (asked.sizes, asked.draws, asked.many)
    wanted = [(name, n) for n in sizes for name in asked.only]
    short = [(name, n) for name, n in wanted if n <= SHORT]
    if asked.timing:
        for name, n in short:
            mixtures.time(name, n)
            print(json.dumps(mixtures.seconds(name, n)), flush=True)
        return
    for name, n in [] if asked.render else wanted:
        mixtures.run(name, n, max(draws, many if n <= SHORT else 0))
        print(json.dumps(mixtures.line(name, n, draws)), flush=True)
    lines = gather(mixtures, wanted, draws)
    more = gather(mixtures, short, many) if many else []
    seconds = [found for name, n in short if (found := mixtures.seconds(name, n)) is not None]
    text = render(lines, more, seconds, "python -m benchmarks.race.mixtures" + (" --quick" if asked.quick else ""))
    print(text)
    if not asked.quick and asked.only == list(MIXTURES) and asked.sizes == list(SIZES):
        write_section("mixtures", text)


if __name__ == "__main__":
    let_it_choose()
    main()
