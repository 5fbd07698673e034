"""The cost of one pass on K threads: compute, wire and coordinator, from figures measured on one machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from majorica.engines.base import FAN
from majorica.engines.samples import TASKS_PER_THREAD


@dataclass(frozen=True)
class Machine:
    """What one worker thread and the wires do, measured or assumed."""

    samples_per_second: float  #: of one thread, in a pass at this p
    wire_bytes_per_second: float  #: between a worker and another process
    task_seconds: float  #: of the scheduler, for one task
    leaf_seconds: float  #: of the scheduler, for one held leaf that a task needs
    add_seconds: float  #: to add two results
    latency: float = 0.002  #: of one message, seconds


@dataclass(frozen=True)
class Workload:
    """One pass over held samples."""

    n: float
    p: int
    result_bytes: float  #: of one block's or run's sum
    samples_per_leaf: float


@dataclass(frozen=True)
class Cost:
    """Seconds of one pass, by cause."""

    compute: float
    wire: float
    coordinator: float
    tree: float

    @property
    def total(self) -> float:
        """The scheduler hands out tasks while workers compute; the tree's last levels come after."""
        return max(self.compute, self.coordinator) + self.wire + self.tree


def pass_cost(work: Workload, machine: Machine, threads: int) -> Cost:
    """Cost of one pass on `threads` worker threads, each with an equal number of leaves in two tasks."""
    leaves = math.ceil(work.n / work.samples_per_leaf)
    tasks = min(leaves, TASKS_PER_THREAD * threads)
    most = min(work.n, math.ceil(leaves / threads) * work.samples_per_leaf)
    sums = tasks / (FAN - 1)
    levels = max(0, math.ceil(math.log(max(tasks, 1), FAN)) - 1)
    # A stretch of blocks has loose ends: half of FAN - 1 sums a level on the left, one on the right.
    depth = max(1.0, math.log(max(leaves / tasks, 1.0), FAN))
    travel = (FAN + 1) / 2 * depth * work.result_bytes / machine.wire_bytes_per_second
    wire = min(tasks, FAN) * travel + work.p**2 * 8 * math.log2(threads + 1) / machine.wire_bytes_per_second
    tree = levels * (FAN * (travel + machine.add_seconds) + machine.latency)
    coordinator = (tasks + sums) * machine.task_seconds + leaves * machine.leaf_seconds
    return Cost(most / machine.samples_per_second, wire, coordinator, tree)
