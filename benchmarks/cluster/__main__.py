"""``python -m benchmarks.cluster``: measures a pass and a fit here and extrapolates the pass to K workers."""

from __future__ import annotations

import argparse
import json
import os
import sys

from benchmarks.cluster.measure import add_seconds, fits_seconds, make_array, passes_seconds, wire_seconds
from benchmarks.cluster.page import render
from benchmarks.common import write_section


def main() -> None:
    """Measure, print, and keep a full run on the page of benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--samples", type=float, default=2e6)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--chunk", type=int, default=50_000, help="samples a chunk of the Dask array")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=15, help="turns of each pass; the shortest counts")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, two repeats")
    parser.add_argument("--json", action="store_true", help="figures on stdout for machines")
    given = parser.parse_args()
    n, p = int(given.samples / (10 if given.quick else 1)), given.components
    repeats = 2 if given.quick else given.repeats
    array = make_array(n, p, given.chunk)
    load = os.getloadavg()[0]
    passes = passes_seconds(array, given.workers, repeats)
    measured = wire_seconds(given.workers[-1], repeats)
    fits, same = fits_seconds(array, given.workers, max(1, repeats // 3))
    figures = {
        "n": n,
        "p": p,
        "chunk": given.chunk,
        "load": load,
        "passes": passes,
        "speedup": passes[0]["dask"] / passes[-1]["dask"],
        "fits": fits,
        "same_bits": same,
        "machine": {**measured, "add": add_seconds(p), "rate": n / passes[0]["threads"] / passes[0]["workers"]},
    }
    if given.json:
        json.dump(figures, sys.stdout, indent=1)
        return
    text = render(figures, "python -m benchmarks.cluster" + (" --quick" if given.quick else ""))
    print(text)
    if len(sys.argv) == 1:
        write_section("cluster", text)


if __name__ == "__main__":
    main()
