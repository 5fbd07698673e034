"""``python -m benchmarks.cluster``: measures a pass here and extrapolates it to K workers."""

from __future__ import annotations

import argparse
import json
import os
import sys

from benchmarks.cluster.measure import add_seconds, dask_seconds, make_array, threads_seconds
from benchmarks.cluster.model import Machine, Workload, pass_cost


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--samples", type=float, default=2e6)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--chunk", type=int, default=50_000, help="samples a chunk of the Dask array")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, two repeats")
    parser.add_argument("--json", action="store_true", help="figures on stdout for machines")
    given = parser.parse_args()
    n, p, repeats = (
        int(given.samples / (10 if given.quick else 1)),
        given.components,
        2 if given.quick else given.repeats,
    )
    array = make_array(n, p, given.chunk)
    figures: dict[str, float] = {"n": n, "p": p, "load": os.getloadavg()[0]}
    per_task = wire = 0.0
    for workers in given.workers:
        figures[f"threads_{workers}"] = threads_seconds(array, workers, repeats)
        figures[f"dask_{workers}"], per_task, wire = dask_seconds(array, workers, repeats)
        overhead = figures[f"dask_{workers}"] / figures[f"threads_{workers}"] - 1
        figures[f"overhead_{workers}"] = overhead
    first, last = given.workers[0], given.workers[-1]
    figures["speedup"] = figures[f"dask_{first}"] / figures[f"dask_{last}"]
    rate = n / figures[f"threads_{first}"] / first
    machine = Machine(rate, wire, per_task, add_seconds(p))
    figures |= {"rate": rate, "task_seconds": per_task, "wire": wire, "add_seconds": machine.add_seconds}
    if given.json:
        json.dump(figures, sys.stdout, indent=1)
        return
    print(f"one pass, n = {n:,}, p = {p}, float32, chunks of {given.chunk:,}; load average {figures['load']:.1f}")
    for workers in given.workers:
        here, there = figures[f"threads_{workers}"], figures[f"dask_{workers}"]
        print(
            f"  {workers} thread(s) {here:.3f} s, {workers} worker process(es) {there:.3f} s ({there / here - 1:+.0%})"
        )
    print(f"  {last} workers against {first}: {figures['speedup']:.2f}x")
    print(f"  {rate:,.0f} samples/s a thread, task {per_task * 1e3:.2f} ms, wire {wire / 1e6:.0f} MB/s")
    print("extrapolated, 1e9 samples, tasks of 8 blocks (model, not measured):")
    work = Workload(1e9, p, p * p * 8, 8 * 2**18 / p)
    for threads in (1, 10, 100, 1000):
        cost = pass_cost(work, machine, threads)
        print(
            f"  K = {threads:5d}: {cost.total:9.1f} s = max(compute {cost.compute:.1f}, coordinator "
            f"{cost.coordinator:.1f}) + wire {cost.wire:.3f} + tree {cost.tree:.3f}"
        )


if __name__ == "__main__":
    main()
