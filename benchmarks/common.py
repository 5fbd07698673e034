"""What the race and the floor share: the machine, stored results, child processes and pages."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
LIBRARIES = ("majorica", "numpy", "scipy", "numba", "scikit-learn", "python-picard", "mne")


def describe_machine() -> str:
    """Processor, cores, memory and library versions in one sentence."""
    model = platform.processor() or platform.machine()
    memory = ""
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
        total = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
        memory = f", {total / 2**20:.0f} GB"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES if _installed(name)]
    return f"{model}, {cores} cores{memory}; Python {platform.python_version()}, {', '.join(versions)}"


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@cache
def code_digest(*folders: Path) -> str:
    """Digest of all Python files in `folders`."""
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


class Store:
    """A folder of JSON results, one a key; a run that was cut short goes on from what is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, key: dict[str, Any]) -> Any:
        """The stored result of `key`, or None."""
        path = self._path(key)
        return json.loads(path.read_text())["result"] if path.exists() else None

    def newest(self, key: dict[str, Any], *, whatever: str) -> Any:
        """The newest stored result of `key`, whatever its entry `whatever`; None if there is none."""
        found = []
        for path in self.folder.glob(f"{self._label(key)}-*.json"):
            stored = json.loads(path.read_text())
            if {**stored["key"], whatever: key[whatever]} == key:
                found.append((path.stat().st_mtime, stored["result"]))
        return max(found, key=lambda item: item[0])[1] if found else None

    def put(self, key: dict[str, Any], result: Any) -> None:
        """Store a result, whole or not at all."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"key": key, "result": result}))
        temporary.replace(path)

    def _path(self, key: dict[str, Any]) -> Path:
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]
        return self.folder / f"{self._label(key)}-{digest}.json"

    @staticmethod
    def _label(key: dict[str, Any]) -> str:
        return "-".join(str(key[name]) for name in ("data", "method") if name in key)


def run_child(
    module: str, arguments: dict[str, Any], *, timeout: float, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run ``python -m module '<json>'`` in a process of its own; its last line is the answer.

    A child that takes too long or fails gives ``{"failed": why}``.
    """
    command = [sys.executable, "-W", "ignore", "-m", module, json.dumps(arguments)]
    settings = {**os.environ, **(environment or {})}
    try:
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {timeout:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"failed": (lines[-1] if lines else f"exit code {done.returncode}")[:200]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def peak_memory() -> int:
    """Largest resident size of this process so far, bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include what the parent held when it started this process
        return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_memory() -> int:
    """Resident size of this process now, bytes; the largest so far where the system does not tell."""
    status = Path("/proc/self/status")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) * 1024 if status.exists() else peak_memory()


def forget_peak() -> None:
    """Let :func:`peak_memory` count from now on, where the system can."""
    references = Path("/proc/self/clear_refs")
    if references.exists():
        references.write_text("5")


def trim_memory() -> None:
    """Give freed memory back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A markdown table; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(header) + " |", "|" + "|".join(["---"] + ["--:"] * (len(header) - 1)) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash for none."""
    if value is None or value != value:
        return "-"
    return f"{value:.{digits}g}"


def verdict(value: float | None, target: float, *, at_most: bool = False) -> str:
    """``yes`` or ``no``: whether `value` meets `target`."""
    if value is None or value != value:
        return "-"
    return "yes" if (value <= target if at_most else value >= target) else "**no**"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace what stands between ``<!-- name -->`` and ``<!-- end name -->`` on the page; append it if new."""
    start, end = f"<!-- {name} -->", f"<!-- end {name} -->"
    old = page.read_text() if page.exists() else "# Benchmarks\n"
    section = f"{start}\n\n{text.strip()}\n\n{end}"
    if start in old and end in old:
        before, rest = old.split(start, 1)
        after = rest.split(end, 1)[1]
        new = before + section + after
    else:
        new = old.rstrip() + "\n\n" + section + "\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(new)
