"""How long a stream's blocks take: what a loop that must keep up has to know."""

from __future__ import annotations

import time
import warnings

import numpy as np

from majorica import ICA
from majorica.errors import MajoricaWarning
from majorica.streaming import START_SAMPLES

CHANNELS, BLOCKS = (8, 32, 64), (1, 16, 50, 500)
#: Blocks that are timed after the start, and in all.
LEAST_AFTER, MOST = 300, 12_000


def seconds_of_blocks(p: int, block: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Seconds of each ``partial_fit`` and ``transform`` of a stream of `p` channels, and which block made the start."""
    rng = np.random.default_rng([p, block])
    count = min(MOST, START_SAMPLES // block + LEAST_AFTER)
    X = (rng.laplace(size=(count * block, p)) @ rng.normal(size=(p, p))).astype(np.float32)
    ica, seconds = ICA(half_life=30_000, random_state=0), np.zeros((2, count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MajoricaWarning)
        for k in range(count):
            samples, began = X[k * block : (k + 1) * block], time.perf_counter()
            ica.partial_fit(samples)
            learnt = time.perf_counter()
            if hasattr(ica, "components_"):  # one sample allows no model
                ica.transform(samples)
            seconds[:, k] = learnt - began, time.perf_counter() - learnt
    return seconds[0], seconds[1], -(-START_SAMPLES // block) - 1


def lines() -> list[str]:
    """Lines of the table; kernels are loaded before the clock starts."""
    found = [
        "| channels | block | before: median | 99 % | worst | the start | after: median | 99 % | worst | `transform` |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for p in CHANNELS:
        for block in BLOCKS:
            for _ in range(2):  # the first time loads what is compiled
                learning, using, start = seconds_of_blocks(p, block)
            before, after = 1e3 * learning[:start], 1e3 * learning[start + 1 :]
            times = [*_three(before), 1e3 * learning[start], *_three(after), 1e3 * np.median(using)]
            found.append(
                f"| {p} | {block} | " + " | ".join(f"{ms:.0f}" if ms >= 10 else f"{ms:.2g}" for ms in times) + " |"
            )
            print(found[-1], flush=True)
    return found


def _three(ms: np.ndarray) -> list[float]:
    return [float(np.median(ms)), float(np.percentile(ms, 99)), float(ms.max())]


def _shown(ms: float) -> str:
    return f"{ms:.0f}" if ms >= 10 else f"{ms:.2g}"
