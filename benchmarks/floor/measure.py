"""The measurements of the floor, each a list of plain records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.floor import bare, passes
from benchmarks.floor.timing import best_of
from benchmarks.floor.transcription import make_pair
from majorica.problem import pass_block_length
from majorica.solvers.incremental.solver import default_batch_size

SIZES = (4, 10, 32, 64, 100, 256)
#: Tiles that the bare products are tried with: with those of over a million multiplications BLAS is slower.
TILES = (64, 128, 256, 512, 1024)
#: Seconds of rounds of each line, at least: other programs disturb for longer than a second.
LEAST = 6.0


def sample_count(solver: str, p: int, *, quick: bool) -> int:
    """Samples that make a pass long enough to time and short enough to repeat."""
    work = {"progressive": 4 * p * p, "incremental": 4 * p * p + 4 * p**3 / 100}.get(solver, p**3)
    n = int(np.clip((1e8 if quick else 2e9) / work, 2000, 50_000 if quick else 500_000))
    if solver == "incremental" and not quick:
        n = max(n, 640 * p)  # for its own mini-batch size
    if solver == "online" and not quick:
        n = max(n, 60 * p)  # of fewer, seen again and again, chance makes sub-Gaussian components, which cost less
    return n // 1000 * 1000


def bare_name(solver: str) -> str:
    """Which bare pass a solver's is measured against."""
    return "batch" if solver == "online" else solver  # all components learn from every sample


def quickest_bare(name: str, X: np.ndarray, batch_size: int) -> Callable[[], object]:
    """The bare pass with the tile that BLAS is quickest with, which may be another than the solver's."""
    calls = {str(tile): bare.make(name, X, tile=tile, batch_size=batch_size) for tile in TILES}
    seconds = best_of(calls, 2)
    return calls[min(seconds, key=seconds.__getitem__)]


def floors(
    sizes: Sequence[int] = SIZES, solvers: Sequence[str] = passes.SOLVERS, *, quick: bool = False, repeats: int = 5
) -> list[dict[str, Any]]:
    """Seconds of a pass with Huber and adaptive densities, and of its bare products; one thread."""
    records = []
    for p in sizes:
        for solver in solvers:
            n = sample_count(solver, p, quick=quick)
            calls = {}
            for dtype in ("float64", "float32"):
                X = passes.samples(p, n, dtype)
                size = default_batch_size(n, p) if solver == "incremental" else 1000
                calls[f"bare {dtype}"] = quickest_bare(bare_name(solver), X, size)
                for kind in ("huber", "adaptive"):
                    calls[f"{kind} {dtype}"] = passes.make(solver, X, kind)
            seconds = best_of(calls, repeats, least=0.0 if quick else LEAST)
            records.append({"p": p, "solver": solver, "n": n, "seconds": seconds})
            print(f"p={p} {solver}: {_brief(seconds)}", flush=True)
    return records


def threads(sizes: Sequence[int] = (32, 64, 100), *, quick: bool = False, repeats: int = 5) -> list[dict[str, Any]]:
    """Seconds of a pass on one and two threads."""
    records = []
    for p in sizes:
        for solver in ("progressive", "batch", "incremental", "online"):
            blocks = 0 if quick else 16 * pass_block_length(p)  # fewer could not be shared
            X = passes.samples(p, max(sample_count(solver, p, quick=quick), blocks), "float64")
            calls = {str(k): passes.make(solver, X, "adaptive", threads=k) for k in (1, 2)}
            seconds = best_of(calls, repeats, least=0.0 if quick else LEAST, clock=time.perf_counter)
            records.append({"p": p, "solver": solver, "seconds": seconds})
            print(f"threads p={p} {solver}: {seconds['1'] / seconds['2']:.2f}", flush=True)
    return records


def exponents(*, quick: bool = False, repeats: int = 5) -> list[dict[str, Any]]:
    """Fitted powers of n and p in the cost of a pass."""
    records = []
    for solver in ("progressive", "incremental", "batch"):
        base = 4000 if quick else 20_000 if solver == "batch" else 100_000
        counts = [base, 2 * base, 4 * base]
        sizes = [16, 32, 64] if quick else [32, 64, 128]
        least = 0.0 if quick else 4.0  # a slope needs more than a ratio
        longer = {str(n): passes.make(solver, passes.samples(16, n, "float64"), "huber") for n in counts}
        n = 2000 if quick else 10_000
        wider = {str(p): passes.make(solver, passes.samples(p, n, "float64"), "huber") for p in sizes}
        by_n, by_p = best_of(longer, repeats, least=least), best_of(wider, repeats, least=least)
        slopes = {"n": _slope(by_n), "p": _slope(by_p)}
        records.append({"solver": solver, "slopes": slopes, "sizes": sizes})
        print(f"exponents {solver}: n^{slopes['n']:.2f} p^{slopes['p']:.2f}", flush=True)
    return records


def transcription(*, quick: bool = False, repeats: int = 3) -> dict[str, Any]:
    """Incremental solver over the plain transcription: seconds a pass, and how far their iterates are apart."""
    ours, theirs = make_pair(passes.samples(10, 20_500, "float64"))
    apart = max(float(np.abs(ours() - theirs()).max()) for _ in range(3))
    ours, theirs = make_pair(passes.samples(10, 50_000 if quick else 1_000_000, "float64"))
    seconds = best_of({"ours": ours, "theirs": theirs}, repeats)
    print(f"transcription: {seconds['theirs'] / seconds['ours']:.2f} times, apart {apart:.1e}", flush=True)
    return {"seconds": seconds, "apart": apart}


def _slope(seconds: dict[str, float]) -> float:
    sizes = np.log([float(size) for size in seconds])
    return float(np.polyfit(sizes, np.log(list(seconds.values())), 1)[0])


def _brief(seconds: dict[str, float]) -> str:
    ratios = []
    for dtype in ("float64", "float32"):
        floor = seconds[f"bare {dtype}"]
        ratios += [f"{kind} {dtype} {seconds[f'{kind} {dtype}'] / floor:.2f}" for kind in ("huber", "adaptive")]
    return ", ".join(ratios)
