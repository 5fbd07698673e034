"""Runs the racers in turn, each in a process of its own, and keeps what they hand in."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, Store, code_digest, run_child
from benchmarks.race.datasets import Entry, build, entries
from benchmarks.race.methods import BY_NAME, METHODS, Method
from benchmarks.race.ratios import SAME

CHILD = "benchmarks.race.child"
#: Fits in one process at most, and the seconds after which no further one starts.
FITS, BUDGET = 4, 40.0
LIBRARY = {"fastica": "scikit-learn", "picard": "python-picard", "infomax": "mne"}


def made_by(method: Method) -> str:
    """Digest of our code, or the version of a peer's library."""
    if method.ours:
        return code_digest(ROOT / "src" / "majorica")
    return importlib.metadata.version(LIBRARY[method.name.split("-")[0]])


@dataclass
class Race:
    """All runs of one scale, stored in ``results/race/full`` or ``quick``."""

    results: Path
    quick: bool = False
    eeg: Path | None = None
    images: Path | None = None
    repeats: int = 2
    timeout: float = 240.0
    newest: bool = False  #: gather the newest stored runs, whichever code or library made them

    def __post_init__(self) -> None:
        self.home = self.results / ("quick" if self.quick else "full")
        self.store = Store(self.home)
        self.entries = {entry.name: entry for entry in entries(quick=self.quick)}

    def run(self, names: list[str], methods: list[str], *, fresh: bool = False, curves: bool = True) -> None:
        """Run `methods` on the datasets `names`; what is stored already is not run again."""
        self._warm(methods)
        for name in names:
            entry = self.entries[name]
            if entry.needs and self.eeg is None:
                say(f"{name}: left out, no --{entry.needs} PATH given")
                continue
            folder = build(entry, self.results / "data", eeg=self.eeg, images=self.images)
            for repeat in range(self.repeats):
                for method in methods:
                    self._once(entry, BY_NAME[method], folder, {"repeat": repeat}, fresh)
            for method in methods:
                self._once(entry, BY_NAME[method], folder, {"memory": True}, fresh)
            for method in methods if curves else []:
                self._once(entry, BY_NAME[method], folder, {"curve": True}, fresh)

    def _once(self, entry: Entry, method: Method, folder: Path, what: dict[str, Any], fresh: bool) -> None:
        key = self.key(entry, method, **what)
        if not fresh and self.store.find(key) is not None:
            return
        first = self.store.find(self.key(entry, method, repeat=0)) or {}
        if what != {"repeat": 0} and "failed" in first:
            return  # too slow once is enough
        budget = 2 * self.timeout / 3 if what.get("curve") else BUDGET
        asked = {"method": method.name, "folder": str(folder), "seed": what.get("repeat", 0), "fits": FITS, **what}
        result = run_child(CHILD, {**asked, "budget": budget}, timeout=self.timeout)
        self.store.put(key, result)
        say(f"{entry.name} {method.name} {what}: {_brief(result)}")

    def _warm(self, methods: list[str]) -> None:
        """Compile what majorica compiles once, so that no racer's clock sees it."""
        folder = build(self.entries["small4"], self.results / "data", eeg=None, images=None)
        for method in methods:
            if BY_NAME[method].ours:
                asked = {"method": method, "folder": str(folder), "seed": 0, "fits": 1, "budget": 1}
                run_child(CHILD, asked, timeout=600)

    def key(self, entry: Entry, method: Method, **what: Any) -> dict[str, Any]:
        """What a stored run is found by: data, method and the code or library version that made it."""
        path = {"eeg": self.eeg, "images": self.images}.get(entry.needs or entry.uses)
        return {
            "data": entry.name,
            "method": method.name,
            "title": entry.title,
            "by": made_by(method),
            "path": path.name if path else None,
            **what,
        }

    def _stored(self, key: dict[str, Any]) -> dict[str, Any] | None:
        return self.store.newest(key, whatever="by") if self.newest else self.store.find(key)

    def summary(self, name: str) -> dict[str, dict[str, Any]]:
        """For each method that ran on dataset `name`: best seconds of all its processes, quality of the median one."""
        return {m.name: found for m in METHODS if (found := self._gather(self.entries[name], m)) is not None}

    def _gather(self, entry: Entry, method: Method) -> dict[str, Any] | None:
        runs = [self._stored(self.key(entry, method, repeat=repeat)) for repeat in range(self.repeats)]
        found = [run for run in runs if run is not None]
        good = [run for run in found if "failed" not in run]
        if not found:
            return None
        if not good:
            return {"failed": found[0]["failed"]}
        middle = sorted(good, key=lambda run: run["adaptive"])[len(good) // 2]
        good = [run for run in good if run["adaptive"] <= middle["adaptive"] + SAME]  # others did not do the work
        later = [seconds for run in good for seconds in run["seconds"][1:]]
        first = min(run["seconds"][0] for run in good)
        memory = self._stored(self.key(entry, method, memory=True)) or {}
        return {
            **{name: middle[name] for name in ("huber", "adaptive", "amari", "passes")},
            "first": first,
            "later": min([*later, first]),
            "memory": memory["memory"] / 2**20 if "memory" in memory else None,
            "share": memory["memory"] / memory["data"] if "memory" in memory else None,
            "curve": (self._stored(self.key(entry, method, curve=True)) or {}).get("points", []),
        }


def _brief(result: dict[str, Any]) -> str:
    if "failed" in result:
        return result["failed"]
    if "points" in result:
        return f"{len(result['points'])} points"
    if "memory" in result:
        return f"{result['memory'] / 2**20:.0f} MB over {result['data'] / 2**20:.0f} MB of data"
    seconds = result["seconds"]
    shown = {"fits": len(seconds), "first": round(seconds[0], 4), "best": round(min(seconds), 4)}
    return json.dumps({**shown, "adaptive": round(result["adaptive"], 5)})


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)
