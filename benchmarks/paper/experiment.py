"""Runs algorithms on the repeats of a dataset; every run is stored, and found again the next time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache, partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.paper.algorithms import FINITE, GREEDY, ONLINE, Algorithm, tuning
from benchmarks.paper.cache import Store
from benchmarks.paper.datasets import Endless, Finite, as_stream, laplace, laplace_optimum
from benchmarks.paper.measures import left_out_loss, measure
from benchmarks.paper.progress import Progress
from benchmarks.paper.recorder import Recorder
from benchmarks.paper.settings import MORE_PASSES, Size

#: Curves of one experiment: algorithm -> one dictionary of lists a repeat.
Curves = dict[str, list[dict[str, Any]]]


def run_experiment(
    name: str,
    size: Size,
    algorithms: dict[str, Algorithm],
    make_data: Callable[[int], Finite | Endless],
    store: Store,
    progress: Progress,
    *,
    about: str = "",
) -> Curves:
    """Every algorithm on every repeat.

    Parameters
    ----------
    make_data : callable
        Repeat number to dataset; called only where a run is missing.
    about : str
        What the data are, part of the stored configuration.
    """
    curves: Curves = {key: [] for key in algorithms}
    for repeat in range(size.repeats):
        data = cache(lambda repeat=repeat: make_data(repeat))
        first = data if repeat == 0 else cache(lambda: make_data(0))
        for key, algorithm in algorithms.items():
            base = {"experiment": name, "size": asdict(replace(size, repeats=0)), "data": about, "more": MORE_PASSES}
            config = {**base, "what": key, "repeat": repeat}
            progress.begin(f"{name} {repeat + 1}/{size.repeats}", algorithm.label)
            with threadpool_limits(1):
                step = find_step(key, algorithm, first, size, base, store)
                make = partial(run_one, key, algorithm, data, size, repeat, step)
                curves[key].append(store.get(config, make))
    progress.end()
    return curves


def find_step(
    key: str,
    algorithm: Algorithm,
    data: Callable[[], Finite | Endless],
    size: Size,
    base: dict[str, Any],
    store: Store,
) -> float | None:
    """The step of SGD or SAG, searched once a dataset on its first draw; None for algorithms without one."""
    if not algorithm.tuned:
        return None

    def search() -> dict[str, Any]:
        found = data()
        if isinstance(found, Finite):
            losses = tuning.search_finite(key, found, passes=size.search_passes)
        else:
            losses = tuning.search_online(found)
        return {"steps": list(losses), "losses": [v if np.isfinite(v) else None for v in losses.values()]}

    result = store.get({**base, "what": f"search-{key}"}, search)
    losses = {s: np.inf if v is None else v for s, v in zip(result["steps"], result["losses"], strict=True)}
    return tuning.best(losses)


def run_one(
    key: str,
    algorithm: Algorithm,
    make_data: Callable[[], Finite | Endless],
    size: Size,
    repeat: int,
    step: float | None,
) -> dict[str, Any]:
    """One run and its measures."""
    warm_up()
    data = make_data()
    passes = size.passes * MORE_PASSES.get(key, 1)
    recorder = Recorder(passes=passes, seconds=size.seconds)
    options = {} if step is None else {"step": step}
    started = time.perf_counter()
    algorithm.run(data, recorder, np.random.default_rng(repeat), **options)
    recorder.finish()
    took = time.perf_counter() - started
    curves = measure(recorder, data, gradient=True, loss_counts=algorithm.loss_counts)
    listed = {name: [float(v) if np.isfinite(v) else None for v in values] for name, values in curves.items()}
    n = len(data.X) if isinstance(data, Finite) else data.n
    notes = {**recorder.notes, "took": took, "n": n, **options}
    if isinstance(data, Endless) and data.A is not None:
        notes["optimum"] = left_out_loss(laplace_optimum(data.A), data.left_out)
    return {**listed, "notes": notes}


@cache
def warm_up() -> None:
    """Compile every kernel before anything is timed."""
    data = laplace(4, 12_000, seed=0, left_out=1000)
    for algorithms, example in ((FINITE, data), (GREEDY, data), (ONLINE, as_stream(data))):
        for algorithm in algorithms.values():
            options = {"step": 0.1} if algorithm.tuned else {}
            algorithm.run(example, Recorder(passes=2), np.random.default_rng(0), **options)
