"""Results as files: one a run, with the configuration and the versions that made it, so that a run resumes."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results" / "paper"


@cache
def code_digest() -> str:
    """Digest of the code results depend on: the package and the compared algorithms."""
    folders = [ROOT / "src" / "majorica", ROOT / "benchmarks" / "paper" / "algorithms"]
    files = sorted(f for folder in folders for f in folder.rglob("*.py"))
    files += [
        ROOT / "benchmarks" / "paper" / name for name in ("datasets.py", "measures.py", "model.py", "recorder.py")
    ]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


@cache
def versions() -> dict[str, str]:
    """What made a result."""
    names = ("majorica", "numpy", "scipy", "numba", "scikit-learn", "python-picard")
    found = {name: importlib.metadata.version(name) for name in names}
    return {"python": platform.python_version(), **found, "code": code_digest()}


class Store:
    """A folder of results.

    Parameters
    ----------
    scale : {"quick", "full"}
        Which sizes; results of the two do not mix.
    keep_stale : bool
        Use results of other code or library versions too.
    """

    def __init__(self, scale: str, *, keep_stale: bool = False, fresh: bool = False) -> None:
        self.folder = RESULTS / scale
        self.keep_stale, self.fresh = keep_stale, fresh

    def get(self, config: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The stored result of `config`, or the one `make` computes and this stores."""
        found = self.find(config)
        if found is not None:
            return found
        result = make()
        path = self._path(config)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"config": config, "versions": versions(), "result": result}))
        temporary.replace(path)
        return result

    def find(self, config: dict[str, Any]) -> dict[str, Any] | None:
        """The stored result of `config`, None if there is none of these versions."""
        path = self._path(config)
        if self.fresh or not path.exists():
            return None
        stored = json.loads(path.read_text())
        if stored["versions"] != versions() and not self.keep_stale:
            return None
        return stored["result"]

    def _path(self, config: dict[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / str(config["experiment"]) / f"{config['what']}-{digest}.json"
