"""Files larger than memory as a table, printed and written into the page."""

from __future__ import annotations

from typing import Any

from benchmarks.common import describe_machine, number, table, verdict

#: How much more memory the largest file may take than the smallest.
SPREAD = 1.1


def render(found: dict[str, Any], command: str) -> str:
    """The table and what its figures mean; `found` is by size."""
    runs = [found[size] for size in sorted(found, key=float)]
    done = [run for run in runs if "failed" not in run["fit"]]
    parts = [f"`{command}` on {describe_machine()}.", run_table(runs)]
    if done:
        parts += [limits(done), memory_text(done)]
    return "\n\n".join(parts)


def run_table(runs: list[dict[str, Any]]) -> str:
    """One line a file."""
    rows = []
    for run in runs:
        fit = run["fit"]
        if "failed" in fit:
            rows.append([f"failed: {fit['failed']}", *["-"] * 11])
            continue
        held = fit["peak"]["anonymous"] - fit["before"]["anonymous"]
        rows.append(
            [
                f"{fit['bytes'] / 1e9:.3g} GB",
                f"{fit['n']:.2e}".replace("e+0", "e"),
                number(run["reading"]),
                number(fit["seconds"]),
                f"{fit['processor'] / fit['seconds']:.1f}",
                number(fit["seconds"] / run["reading"]),
                f"{fit['passes']:.1f}",
                fit["levels"].get(str(fit["n"]), 0),
                megabytes(held),
                megabytes(fit["planned"]),
                megabytes(fit["peak"]["anonymous"]),
                fit["stop"].split(":")[0],
            ]
        )
    header = ["file", "patches", "reading it (s)", "fit (s)", "cores busy", "fit over reading"]
    header += ["passes", "steps on all samples", "fit's memory (MB)"]
    return table([*header, "planned (MB)", "whole process (MB)", "ended"], rows)


def limits(runs: list[dict[str, Any]]) -> str:
    """What held the memory down, and how it was measured."""
    fit = runs[-1]["fit"]
    data = fit["before"]["data"]
    where = "the system was asked to drop the file first" if all(run["cold"] for run in runs) else "cache as it was"
    return (
        f"Fitted with `ICA(memory_limit={runs[-1]['memory_limit']!r})` in a process whose data segment is limited "
        f"(`RLIMIT_DATA`) to {megabytes(data + fit['limit'])} MB: {megabytes(data)} MB are the interpreter, the "
        "libraries, the compiled code and the buffers of BLAS before the fit, of which "
        f"{megabytes(fit['before']['anonymous'])} MB are in use, and {megabytes(fit['limit'])} MB are the limit. "
        "Memory is anonymous memory, looked at every 5 ms; pages of the mapped file are not in it, as the system can "
        f"take them back. Reading is from front to back, 16 MB a call; {where}, before reading and before fitting. "
        "*Cores busy* is processor time over wall time: on a machine with other work it is low, and seconds are long."
    )


def memory_text(runs: list[dict[str, Any]]) -> str:
    """Whether memory stays within the plan and does not grow with the data."""
    held = [run["fit"]["peak"]["anonymous"] - run["fit"]["before"]["anonymous"] for run in runs]
    whole = [run["fit"]["peak"]["anonymous"] for run in runs]
    within = max(h / run["fit"]["planned"] for h, run in zip(held, runs, strict=True))
    spread = max(whole) / min(whole)
    enough = verdict(within, 1, at_most=True)
    return (
        f"Largest share of the planned memory that was used: {within:.2f} (target 1: {enough}). "
        f"Largest over smallest memory of the process: {spread:.2f} (target {SPREAD}: "
        f"{verdict(spread, SPREAD, at_most=True)}); of the fit alone: {max(held) / min(held):.2f}."
    )


def megabytes(size: float) -> str:
    """Megabytes, whole."""
    return f"{size / 1e6:.0f}"
