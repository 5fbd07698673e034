"""One process of the race: load the data, fit a few times, judge, print JSON."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import forget_peak, peak_memory, resident_memory, trim_memory
from benchmarks.race.methods import BY_NAME, Fit, Method
from benchmarks.race.quality import amari, losses

#: Samples of the fit before memory is measured or a curve begins: fewer would not load what majorica runs on long data.
LOADING = 110_000
#: Iterations of a peer's fit whose memory is measured: Picard keeps the last seven steps, the others none, so more of
#: them take no more memory.
PEER_ITERATIONS = 20
#: Seconds that later fits go on at least: of fits of a millisecond four are too few.
SHORT_FITS = 0.5
IMPORTS = {"majorica": "majorica.estimator", "fastica": "sklearn.decomposition", "picard": "picard", "infomax": "mne"}


def main(text: str) -> dict[str, Any]:
    """Fit as asked and judge."""
    asked = json.loads(text)
    method = BY_NAME[asked["method"]]
    __import__(IMPORTS[method.name.split("-")[0]])
    if method.name == "infomax":
        __import__("mne.preprocessing")
    home = Path(asked["folder"])
    X = np.load(home / "X.npy").astype(method.dtype, copy=False)
    if asked.get("curve"):
        return trace_curve(method, X, home, asked)
    if asked.get("memory"):
        return {"memory": measure_memory(method, X, asked["seed"]), "data": X.nbytes}
    seconds: list[float] = []
    fit: Fit | None = None
    while not seconds or (
        (len(seconds) < asked["fits"] or sum(seconds[1:]) < SHORT_FITS)
        and sum(seconds) + min(seconds) < asked["budget"]
    ):
        began = time.perf_counter()
        fit = method.fit(X, asked["seed"])
        seconds.append(time.perf_counter() - began)
    assert fit is not None
    return {"seconds": seconds, "passes": fit.passes, **judge(fit.W, home)}


def measure_memory(method: Method, X: np.ndarray, seed: int) -> int:
    """Most memory of a fit over what the process has already, after a fit of some samples has loaded all code."""
    load_code(method, X, seed)
    trim_memory()
    before = resident_memory()
    forget_peak()
    method.fit(X, seed, None if method.ours else PEER_ITERATIONS)
    return peak_memory() - before


def load_code(method: Method, X: np.ndarray, seed: int) -> None:
    """Compile or import what the first fit would; majorica loads some code when it first needs it, at the end too."""
    method.fit(X[:LOADING], seed, None if method.ours else 2)


def judge(W: np.ndarray, home: Path) -> dict[str, float | None]:
    """Left-out losses and, where the mixing is known, the Amari distance."""
    mean = np.load(home / "X.npy", mmap_mode="r").mean(axis=0)
    left_out = np.load(home / "left_out.npy") - mean
    W = np.asarray(W, dtype=np.float64)
    truth = home / "A.npy"
    return {**losses(W, left_out), "amari": amari(W, np.load(truth), left_out) if truth.exists() else None}


def trace_curve(method: Method, X: np.ndarray, home: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Loss against time: majorica by a callback, peers by fits of 1, 2, 4, ... iterations."""
    points: list[tuple[float, np.ndarray]] = []
    load_code(method, X, asked["seed"])
    if method.ours:
        points = watch(method, X, asked["seed"])
    else:
        began, iterations, last = time.perf_counter(), 1, 0.0
        while time.perf_counter() - began + 2 * last < asked["budget"]:
            start = time.perf_counter()
            fit = method.fit(X, asked["seed"], iterations)
            last = time.perf_counter() - start
            points.append((last, fit.W))
            if fit.passes < iterations - 1:
                break
            iterations *= 2
    judged = [(seconds, judge(W, home)) for seconds, W in thin(points)]
    return {"points": [{"seconds": seconds, **values} for seconds, values in judged]}


def watch(method: Method, X: np.ndarray, seed: int) -> list[tuple[float, np.ndarray]]:
    """The unmixing after each step of majorica, with seconds since the call of ``fit``."""
    from majorica.engines import ThreadEngine
    from majorica.fitting import fit_whitening
    from majorica.problem import pass_block_length
    from majorica.sources import as_source, split_blocks

    seen: list[tuple[float, np.ndarray]] = []
    source = as_source(X)
    blocks = split_blocks(len(X), pass_block_length(X.shape[1]))
    K = fit_whitening(source, blocks, ThreadEngine(1)).matrix  # the same bits as in the fit
    began = time.perf_counter()
    fit = method.fit(X, seed, callback=lambda step: seen.append((time.perf_counter() - began, step.unmixing)) or False)
    whole = time.perf_counter() - began
    if method.name == "majorica-online":  # it whitens by its first samples alone
        return [(whole, fit.W)]
    return [(seconds, W @ K) for seconds, W in seen] + [(whole, fit.W)]


def thin(points: list[tuple[float, np.ndarray]], most: int = 25) -> list[tuple[float, np.ndarray]]:
    """At most about `most` of the points, evenly spread in log time, the last one always."""
    if len(points) <= most:
        return points
    times = np.array([seconds for seconds, _ in points])
    wanted = np.geomspace(times[0], times[-1], most)
    return [points[i] for i in np.unique(np.searchsorted(times, wanted).clip(max=len(points) - 1))]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(sys.argv[1])))
