"""Measures passes on threads and on a loopback Dask cluster, the wire and the cost of adding."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, contextmanager

import numpy as np

from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.engines import Engine, ThreadEngine, single_threaded_blas
from majorica.engines.dask import DaskEngine
from majorica.problem import Problem
from majorica.sources import Source, as_source
from majorica.whitening import Whitening


def make_chunk(p: int, block_info=None) -> np.ndarray:
    """Laplace samples, the same for a chunk wherever it is made."""
    (start, stop), _ = block_info[None]["array-location"]
    return np.random.default_rng(start).laplace(size=(stop - start, p)).astype(np.float32)


def make_array(n: int, p: int, chunk: int):
    """A lazy array whose chunks are made by the workers."""
    import dask.array as da

    lengths = (chunk,) * (n // chunk) + ((n % chunk,) if n % chunk else ())
    meta = np.empty((0, 0), np.float32)
    return da.map_blocks(make_chunk, p, chunks=(lengths, (p,)), dtype=np.float32, meta=meta)


def best_of(function: Callable[[], object], repeats: int) -> float:
    """Shortest time of several; the first run is not counted."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def one_pass(source: Source, engine: Engine) -> Callable[[], object]:
    """One full pass of the default solver (loss, gradient, Hessian entries), to be timed."""
    p = source.n_features
    whitening = Whitening(np.zeros(p), np.eye(p), np.eye(p), p, np.ones(p))
    problem = Problem(source, whitening, engine)
    W, densities = np.eye(p), Densities.same(Huber(), p)
    return lambda: problem.statistics(W, densities)


@contextmanager
def loopback(workers: int):
    """A client of so many worker processes on this machine, of one thread each; Dask's own settings."""
    from distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        yield client


def passes_seconds(array, counts: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """Shortest pass on so many threads and on so many worker processes.

    All take turns, so that a slow minute of the machine falls on each of them;
    workers whose turn it is not are idle and hold their samples.
    """
    with ExitStack() as stack:
        here = as_source(array.compute(scheduler="threads"))
        passes: list[tuple[int, str, Callable[[], object]]] = []
        for count in counts:
            threads = stack.enter_context(closing(ThreadEngine(count)))
            passes.append((count, "threads", one_pass(here, threads)))
            cluster = stack.enter_context(DaskEngine(stack.enter_context(loopback(count)), hold=True))
            passes.append((count, "dask", one_pass(as_source(array), cluster)))
        stack.enter_context(single_threaded_blas())
        best = {(count, kind): np.inf for count, kind, _ in passes}
        for _, _, run in passes:
            run()  # samples are placed, kernels loaded
        for _ in range(rounds):
            for count, kind, run in passes:
                start = time.perf_counter()
                run()
                best[count, kind] = min(best[count, kind], time.perf_counter() - start)
    return _by_count(best, counts)


def wire_seconds(workers: int, repeats: int) -> dict[str, float]:
    """The scheduler's seconds a task and a leaf, and bytes a second on the wire."""
    with loopback(workers) as client:
        count = 400

        def empty() -> None:
            client.gather(client.map(abs, range(count), pure=False, key=f"empty-{time.perf_counter_ns()}"))

        held = client.map(abs, range(10 * count), pure=False)

        def join(some: list) -> Callable[[], object]:
            return lambda: client.submit(len, some, pure=False).result()

        per_leaf = (best_of(join(held), repeats) - best_of(join(held[:1]), repeats)) / len(held)
        per_task = best_of(empty, repeats) / count
        future = client.submit(np.zeros, 2**22, pure=False)
        wire = 2**25 / best_of(future.result, repeats)
    return {"task": per_task, "leaf": max(per_leaf, 0.0), "wire": wire}


def fits_seconds(array, counts: Sequence[int], rounds: int) -> tuple[list[dict[str, float]], bool]:
    """Shortest whole fit on so many threads and on so many worker processes, all in turn; whether the bits are one.

    The workers have the samples in memory, as a persisted array, before the clock starts.
    """
    from distributed import wait

    from majorica import ICA

    with ExitStack() as stack:
        here = array.compute(scheduler="threads")
        fits: list[tuple[int, str, object, object]] = []
        for count in counts:
            client = stack.enter_context(loopback(count))
            persisted = client.persist(array)
            wait(persisted)
            fits += [(count, "threads", here, None), (count, "dask", persisted, client)]
        best = {(count, kind): np.inf for count, kind, _, _ in fits}
        found = []
        for k in range(rounds + 1):
            for count, kind, X, engine in fits:
                few = X[: 20 * here.shape[1]] if k == 0 else X  # at first kernels are loaded
                start = time.perf_counter()
                model = ICA(random_state=0, n_jobs=count).fit(few, engine=engine)
                if k > 0:
                    best[count, kind] = min(best[count, kind], time.perf_counter() - start)
                    found.append(model.components_)
    same = all(np.array_equal(found[0], one) for one in found)
    return [
        {"workers": count, "threads": best[count, "threads"], "dask": best[count, "dask"]} for count in counts
    ], same


def add_seconds(p: int) -> float:
    """Seconds to add two results of one block, p x p numbers."""
    sum_, other = np.ones((p, p)), np.ones((p, p))
    return best_of(lambda: [np.add(sum_, other, out=sum_) for _ in range(8)], 5) / 8


def _by_count(best: dict[tuple[int, str], float], counts: Sequence[int]) -> list[dict[str, float]]:
    return [{"workers": k, "threads": best[k, "threads"], "dask": best[k, "dask"]} for k in counts]
