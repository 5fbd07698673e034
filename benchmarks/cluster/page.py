"""The cluster's part of the page of benchmarks."""

from __future__ import annotations

from typing import Any

from benchmarks.cluster.model import Machine, Workload, pass_cost
from benchmarks.common import describe_machine, number, table, verdict


def render(figures: dict[str, Any], command: str) -> str:
    """The figures as tables: measured passes and fits, then what the model makes of them."""
    n, p, passes, machine = (figures[name] for name in ("n", "p", "passes", "machine"))
    fits = figures["fits"]
    header = ("threads or workers", "threads, s", "worker processes, s", "overhead", "target", "met")
    rows = [_row(one, 0.25 if one is passes[-1] else None) for one in passes]
    fit_rows = [_row(one, None) for one in fits]
    bits = "have the same bits" if figures["same_bits"] else "**differ in bits**"
    speeds = Machine(machine["rate"], machine["wire"], machine["task"], machine["leaf"], machine["add"])
    work = Workload(1e9, p, p * p * 8, 64 * 2**18 / p)
    extrapolated = []
    for threads in (1, 10, 100, 1000):
        cost = pass_cost(work, speeds, threads)
        parts = (cost.total, cost.compute, cost.coordinator, cost.wire, cost.tree)
        extrapolated.append((threads, *map(number, parts)))
    return f"""## Dask

`{command}` on {describe_machine()}; load average {figures["load"]:.1f} at the start.

One pass of the progressive solver, n = {n:,}, p = {p}, float32, chunks of {figures["chunk"]:,} samples.
Client and scheduler share the cores with the workers. All take turns; the shortest of each counts.

{table(header, rows)}

{passes[-1]["workers"]} workers against {passes[0]["workers"]}: {figures["speedup"]:.2f} times as fast (target 1.6: \
{verdict(figures["speedup"], 1.6)}).

A whole fit with adaptive densities, samples in the workers' memory before it begins (the fit brings half of them to
other workers, so that each has an equal share); results on threads and on workers {bits}:

{table(header, fit_rows)}

{machine["rate"]:,.0f} samples a second a thread; the scheduler takes {machine["task"] * 1e3:.2f} ms a task and \
{machine["leaf"] * 1e6:.0f} us a leaf; {machine["wire"] / 1e6:.0f} MB/s between processes.

Extrapolated to 1e9 held samples by [the model](cluster.md#what-a-pass-costs), not measured; seconds:

{table(("threads", "pass", "compute", "coordinator", "wire", "tree"), extrapolated)}
"""


def _row(one: dict[str, Any], most: float | None) -> tuple[object, ...]:
    """Seconds on threads and on workers; `most` is the overhead aimed at."""
    overhead = one["dask"] / one["threads"] - 1
    target = ("-", "-") if most is None else (f"{100 * most:.0f} %", verdict(overhead, most, at_most=True))
    return (one["workers"], f"{one['threads']:.3f}", f"{one['dask']:.3f}", f"{100 * overhead:+.0f} %", *target)
