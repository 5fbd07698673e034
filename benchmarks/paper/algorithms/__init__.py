"""The compared algorithms, one file each; names, labels and which problem they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.paper.algorithms import fastica, mm, newton, picard, progressive, sag, sgd, stream


@dataclass(frozen=True)
class Algorithm:
    """How an algorithm is run and what may be measured of it."""

    label: str
    run: Callable[..., None]
    tuned: bool = False  #: needs a step from the search
    loss_counts: bool = True  #: minimises the paper's loss


FINITE = {
    "sgd": Algorithm("SGD", sgd.run, tuned=True),
    "sag": Algorithm("SAG", sag.run, tuned=True),
    "newton": Algorithm("FR-Newton", newton.run),
    "picard": Algorithm("Picard", picard.run),
    "fastica": Algorithm("FastICA", fastica.run, loss_counts=False),
    "batch": Algorithm("full-batch MM", mm.run_batch),
    "incremental": Algorithm("incremental MM", mm.run_incremental),
    "progressive": Algorithm("progressive (ours)", progressive.run),
}

ONLINE = {
    "sgd": Algorithm("SGD", sgd.run_online, tuned=True),
    "online": Algorithm("online MM", mm.run_online),
    "stream": Algorithm("Majorica stream (ours)", stream.run),
}

#: Many components: with q = 2 a statistic sees few samples, so a larger q is shown too.
WIDE = {**ONLINE, "online-20": Algorithm("online MM, q = 20", partial(mm.run_online, q=20))}

GREEDY = {
    "greedy-1": Algorithm("greedy, q = 1", partial(mm.run_incremental, q=1)),
    "greedy-3": Algorithm("greedy, q = 3", partial(mm.run_incremental, q=3)),
    "random-1": Algorithm("random, q = 1", partial(mm.run_incremental, q=1, selection="random")),
    "random-3": Algorithm("random, q = 3", partial(mm.run_incremental, q=3, selection="random")),
    "full": Algorithm("full, q = p", partial(mm.run_incremental, q=None)),
}
