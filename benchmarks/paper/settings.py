"""The sizes of every experiment: the paper's, and small ones that finish in minutes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """One experiment's size."""

    n: int
    repeats: int
    passes: float = 1
    p: int = 10
    left_out: int = 100_000
    seconds: float = 600  #: most seconds a run may take
    search_passes: float = 5  #: of the step search of SGD and SAG


QUICK = {
    "synthetic": Size(n=100_000, repeats=5, passes=20, search_passes=20),
    "synthetic-online": Size(n=1_000_000, repeats=5),
    "huge": Size(n=400_000, repeats=1, p=100, left_out=20_000, seconds=60),
    "images": Size(n=100_000, repeats=3, passes=50, seconds=10, search_passes=20),
    "images-online": Size(n=100_000, repeats=3),
    "eeg": Size(n=40_000, repeats=2, p=64, passes=30, left_out=20_000, seconds=10),
    "eeg-online": Size(n=200_000, repeats=2, p=64, left_out=20_000, seconds=20),
    "greedy": Size(n=30_000, repeats=3, passes=20, p=30, left_out=50_000, seconds=30),
}

FULL = {
    "synthetic": Size(n=1_000_000, repeats=100, passes=20, search_passes=20),
    "synthetic-online": Size(n=10_000_000, repeats=100),
    "huge": Size(n=40_000_000, repeats=1, p=100, left_out=100_000, seconds=7200),
    "images": Size(n=1_000_000, repeats=15, passes=50, search_passes=10),
    "images-online": Size(n=1_000_000, repeats=15),
    "eeg": Size(n=1_000_000, repeats=15, p=64, passes=50, left_out=50_000, seconds=600),
    "eeg-online": Size(n=1_000_000, repeats=15, p=64, left_out=50_000),
    "greedy": Size(n=100_000, repeats=10, passes=20, p=30),
}

#: Passes second-order methods may take, over those of the others: an iteration of theirs is an epoch in the paper,
#: and takes as many passes as its line search tries points.
MORE_PASSES = {"newton": 10, "picard": 10, "progressive": 3}
