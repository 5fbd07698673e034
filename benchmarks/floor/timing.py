"""Best of several, interleaved: what is compared meets the same weather."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def best_of(
    calls: Mapping[str, Callable[[], object]],
    repeats: int,
    *,
    least: float = 0.0,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Seconds of each call: the best of `repeats` rounds, each round making every call once.

    Each call is made once before the clock starts, and what it may have to
    `prepare` does not count. With `least`, short
    calls go on for more rounds until the rounds have taken that long. The
    default clock counts this process's own processor time: right for one
    thread, and deaf to other programs. Compare threads by ``perf_counter``.
    """
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    began, rounds = time.perf_counter(), 0
    while rounds < repeats or (time.perf_counter() - began < least and rounds < 20 * repeats):
        for name, call in calls.items():
            getattr(call, "prepare", lambda: None)()
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
        rounds += 1
    return best
