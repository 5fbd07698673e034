"""The requirement as a number: times as fast as the fastest peer, at the same left-out loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.race.methods import BY_NAME

#: Nats a component that count as the same quality.
SAME = 1e-3


@dataclass(frozen=True)
class Ratio:
    """Majorica against the fastest peer of the quality of the best."""

    ours: str
    reached: bool  #: whether our loss is at most the best peer's, within `SAME`
    short: float  #: our loss less the best peer's, nats a component
    peer: str  #: fastest peer of that quality
    ratio: float  #: its seconds over ours
    early: float  #: the same, were each peer stopped as soon as it has that quality
    slowest_margin: float  #: seconds of the fastest peer of any quality over ours


def compare(results: dict[str, dict[str, Any]], loss: str, ours: str = "majorica") -> Ratio | None:
    """The ratio by ``huber`` or ``adaptive`` loss; None where we or all peers did not finish."""
    done = {name: run for name, run in results.items() if "failed" not in run}
    peers = {name: run for name, run in done.items() if not BY_NAME[name].ours}
    if ours not in done or not peers:
        return None
    best = min(run[loss] for run in peers.values())
    good = {name: run["later"] for name, run in peers.items() if run[loss] <= best + SAME}
    peer = min(good, key=lambda name: good[name])
    mine = done[ours]
    early = min(
        min([run["later"]] + [point["seconds"] for point in run["curve"] if point[loss] <= best + SAME])
        for name, run in peers.items()
        if name in good
    )
    return Ratio(
        ours=ours,
        reached=mine[loss] <= best + SAME,
        short=mine[loss] - best,
        peer=peer,
        ratio=good[peer] / mine["later"],
        early=early / mine["later"],
        slowest_margin=min(run["later"] for run in peers.values()) / mine["later"],
    )
