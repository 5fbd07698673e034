"""Same data, same seed, same bits: NumPy on threads, and Dask with 1, 2 and 4 worker processes, whatever the chunks."""

from __future__ import annotations

import os
import time
from collections import Counter

import numpy as np
import pytest

from majorica import ICA
from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.engines import ThreadEngine
from majorica.engines import dask as engine_dask
from majorica.engines import nearby as engine_nearby
from majorica.engines import samples as engine_samples
from majorica.engines.dask import DaskEngine
from majorica.problem import Problem
from majorica.sources import as_source, split_blocks
from majorica.whitening import fit_whitening

pytestmark = [pytest.mark.timeout(120)]

N = 240_000
CHUNKS = [(N,), (100_000, 7, 0, 39_993, 100_000), (32_768,) * 7 + (10_624,)]
SOLVERS = {
    "progressive": ICA(density="huber", random_state=1, max_iter=6, tol=0),
    "batch": ICA(solver="batch", density="huber", random_state=1, max_iter=3, tol=0),
    "incremental": ICA(
        solver="incremental", n_updates=None, density="huber", batch_size=2500, random_state=1, max_iter=1, tol=0
    ),
}


@pytest.fixture(scope="module")
def expected(samples):
    return {name: fit(name, samples) for name in SOLVERS}


def fit(name: str, X, **options) -> ICA:
    from sklearn.base import clone

    return clone(SOLVERS[name]).fit(X, **options)


def assert_same(a: ICA, b: ICA) -> None:
    for name in ("components_", "mixing_", "mean_", "whitening_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.loss_ == b.loss_
    for name in ("passes", "n_samples", "loss", "gradient"):
        np.testing.assert_array_equal(a.trace_[name], b.trace_[name], err_msg=name)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("name", SOLVERS)
def test_same_bits_whatever_the_workers(cluster, workers: int, name: str, lazy_samples, expected) -> None:
    cluster.add_workers(workers - len(cluster.workers))
    cluster.client.wait_for_workers(workers, timeout=30)
    chunks = CHUNKS[[1, 2, 4].index(workers)]
    with cluster.client.as_current():
        assert_same(fit(name, lazy_samples(*chunks, columns=(2, 4))), expected[name])


@pytest.mark.parametrize("kind", ["array", "path", "persisted", "delayed", "frame"])
def test_same_bits_whatever_the_container(cluster, kind: str, samples, samples_path, lazy_samples, expected) -> None:
    import dask

    X = samples if kind == "array" else samples_path
    if kind == "persisted":
        X = cluster.client.persist(lazy_samples(*CHUNKS[1]))
    elif kind == "delayed":
        X = [dask.delayed(np.load)(samples_path)[start : start + 100_000] for start in (0, 100_000, 200_000)]
    elif kind == "frame":
        pytest.importorskip("dask.dataframe")
        X = lazy_samples(*CHUNKS[2]).to_dask_dataframe(columns=list("abcdef"))
    with cluster.client.as_current():
        assert_same(fit("progressive", X, engine=cluster.client), expected["progressive"])


def test_samples_read_again_for_each_pass_give_the_same_bits(cluster, lazy_samples, samples_path, expected) -> None:
    for X in (lazy_samples(*CHUNKS[1]), samples_path):
        engine = DaskEngine(cluster.client, hold=False)
        assert_same(fit("progressive", X, engine=engine), expected["progressive"])


@pytest.mark.parametrize(("per_thread", "tasks", "nearby"), [(0, 2, 0.0), (4, 5, 0.0), (4, 1, 1.0)])
def test_small_blocks_and_random_subsets_in_trees_of_several_levels(
    cluster, per_thread: int, tasks: int, nearby: float, samples, lazy_samples, monkeypatch
) -> None:
    """Leaves and tasks of any size; random subsets on the workers, or brought here."""
    monkeypatch.setattr(engine_samples, "LEAVES_PER_THREAD", per_thread)
    monkeypatch.setattr(engine_samples, "TASKS_PER_THREAD", tasks)
    monkeypatch.setattr(engine_samples, "LEAF_BYTES", 10**6)
    monkeypatch.setattr(engine_nearby, "NEARBY_SHARE", nearby)
    monkeypatch.setattr(engine_nearby, "ALWAYS_BYTES", 0)
    densities = Densities.same(Huber(), 6)
    blocks = split_blocks(N, 300)
    here, there = ThreadEngine(2), DaskEngine(cluster.client)
    try:
        local, remote = as_source(samples), as_source(lazy_samples(*CHUNKS[1]))
        whitening = fit_whitening(local, blocks, here)
        np.testing.assert_array_equal(whitening.matrix, fit_whitening(remote, blocks, there).matrix)
        a, b = Problem(local, whitening, here, blocks), Problem(remote, whitening, there, blocks)
        subset = a.subset(np.sort(np.random.default_rng(0).permutation(N // 256)[:300]), 256)
        for some in (None, subset, blocks[5:6], blocks[3:500:7]):
            for _ in range(2):
                one, other = a.statistics(np.eye(6), densities, some), b.statistics(np.eye(6), densities, some)
                assert one.n == other.n
                np.testing.assert_array_equal(one.gradient, other.gradient)
            one, other = a.moments(np.eye(6), densities, some), b.moments(np.eye(6), densities, some)
            np.testing.assert_array_equal(one.packed, other.packed)
        for block in (subset[0], subset[-1], blocks[5]):
            np.testing.assert_array_equal(b.read(block), a.read(block))
        assert (there.nearby.subset(remote, subset) is not None) == bool(nearby)
    finally:
        here.close()
        there.close()


def test_large_sums_are_added_on_the_workers(cluster, samples, lazy_samples, monkeypatch) -> None:
    monkeypatch.setattr(engine_dask, "SMALL_SUM", 0)
    monkeypatch.setattr(engine_samples, "TASKS_PER_THREAD", 7)
    densities, blocks = Densities.same(Huber(), 6), split_blocks(N, 300)
    local, remote = as_source(samples), as_source(lazy_samples(*CHUNKS[1]))
    whitening = fit_whitening(local, blocks, ThreadEngine(1))
    with DaskEngine(cluster.client) as there:
        for _ in range(2):
            got = Problem(remote, whitening, there, blocks).statistics(np.eye(6), densities)
            expected = Problem(local, whitening, ThreadEngine(1), blocks).statistics(np.eye(6), densities)
            np.testing.assert_array_equal(got.gradient, expected.gradient)


def test_new_workers_get_their_share_of_held_samples(cluster, samples, lazy_samples) -> None:
    densities, blocks = Densities.same(Huber(), 6), split_blocks(N, 5000)
    local, remote = as_source(samples), as_source(lazy_samples(*CHUNKS[1]))
    whitening = fit_whitening(local, blocks, ThreadEngine(1))
    expected = Problem(local, whitening, ThreadEngine(1), blocks).statistics(np.eye(6), densities)
    with DaskEngine(cluster.client, hold=True) as engine:
        problem = Problem(remote, whitening, engine, blocks)
        np.testing.assert_array_equal(problem.statistics(np.eye(6), densities).gradient, expected.gradient)
        before = set(engine.run(lambda X: os.getpid(), remote, blocks))
        cluster.add_workers(1)
        cluster.client.wait_for_workers(len(cluster.workers), timeout=30)
        time.sleep(2.1)  # the engine looks for workers every other second
        np.testing.assert_array_equal(problem.statistics(np.eye(6), densities).gradient, expected.gradient)
        pids = Counter(engine.run(lambda X: os.getpid(), remote, blocks))
        homes = Counter()
        for run in engine.samples.leaves(remote, blocks).homes:
            homes[run.home] += run.end - run.first
    assert set(pids) == cluster.pids > before
    # Homes are what the engine decides; a busy machine's scheduler may still give a task to a worker that waits.
    assert len(homes) == len(cluster.pids)
    assert max(homes.values()) - min(homes.values()) <= 1


def test_chunks_that_make_fair_shares_are_held_as_they_are(cluster, samples, lazy_samples) -> None:
    """Blocks begin in one chunk and end in the next, on the same worker or on another; nothing is copied for that."""
    cluster.add_workers(2 - len(cluster.workers))
    densities, blocks = Densities.same(Huber(), 6), split_blocks(N, 700)
    local, remote = as_source(samples), as_source(lazy_samples(*[2000] * 120))
    whitening = fit_whitening(local, blocks, ThreadEngine(1))
    here = Problem(local, whitening, ThreadEngine(1), blocks)
    subset = here.subset(np.sort(np.random.default_rng(0).permutation(N // 64)[:900]), 64)
    with DaskEngine(cluster.client, hold=True) as engine:
        there = Problem(remote, whitening, engine, blocks)
        for workers in range(2):
            expected = here.statistics(np.eye(6), densities)
            np.testing.assert_array_equal(there.statistics(np.eye(6), densities).gradient, expected.gradient)
            np.testing.assert_array_equal(
                np.concatenate(list(engine.run(lambda X: X, remote, blocks[10:60]))), samples[7000:42_000]
            )
            leaves = engine.samples.leaves(remote, blocks)
            assert engine.samples.base.bounds == list(range(0, N + 1, 2000))
            assert len(leaves) == 120
            assert set(leaves.beyond) == {k for k in range(1, 120) if k * 2000 % 700}
            expected = here.statistics(np.eye(6), densities, subset)
            np.testing.assert_array_equal(there.statistics(np.eye(6), densities, subset).gradient, expected.gradient)
            if workers == 0:
                cluster.add_workers(1)
                cluster.client.wait_for_workers(len(cluster.workers), timeout=30)
                time.sleep(2.1)  # the engine looks for workers every other second


@pytest.mark.parametrize("nearby", [0.0, 1.0])
def test_an_expected_subset_is_put_together_once(cluster, nearby: float, samples, lazy_samples, monkeypatch) -> None:
    """What was begun ahead is what the pass reads, on the workers or brought here; other subsets are made anew."""
    monkeypatch.setattr(engine_nearby, "NEARBY_SHARE", nearby)
    monkeypatch.setattr(engine_nearby, "ALWAYS_BYTES", 0)
    densities, blocks = Densities.same(Huber(), 6), split_blocks(N, 5000)
    local, remote = as_source(samples), as_source(lazy_samples(*CHUNKS[1]))
    whitening = fit_whitening(local, blocks, ThreadEngine(1))
    here = Problem(local, whitening, ThreadEngine(1), blocks)
    units = np.random.default_rng(1).permutation(N // 64)
    first, second = (here.subset(np.sort(units[:count]), 64) for count in (300, 600))
    with DaskEngine(cluster.client, hold=True) as engine:
        there = Problem(remote, whitening, engine, blocks)
        there.statistics(np.eye(6), densities)
        made: list[int] = []
        for name in ("fetch", "_hold_subset"):
            own = getattr(engine.samples, name)
            monkeypatch.setattr(engine.samples, name, lambda *given, own=own: (made.append(1), own(*given))[1])
        engine.expect(remote, first)
        assert len(made) == 1
        for count, subset in ((1, first), (2, second)):
            got, wanted = (problem.statistics(np.eye(6), densities, subset) for problem in (there, here))
            np.testing.assert_array_equal(got.gradient, wanted.gradient)
            assert len(made) == count


def test_a_pass_has_few_tasks(cluster, lazy_samples) -> None:
    """The scheduler takes about a millisecond a task: a pass over held samples has two a thread."""
    remote, blocks = as_source(lazy_samples(*CHUNKS[1])), split_blocks(N, 300)
    with DaskEngine(cluster.client, hold=True) as engine:
        leaves = engine.samples.leaves(remote, blocks)
        assert len(leaves.runs(add=True)) == 2 * engine.watch.threads()
        assert len(leaves.runs(add=False)) >= 8 * engine.watch.threads()


def test_without_a_client_a_dask_array_is_computed_on_local_threads(lazy_samples, expected) -> None:
    assert_same(fit("progressive", lazy_samples(*CHUNKS[1])), expected["progressive"])


def test_passes_run_in_worker_processes(cluster, lazy_samples) -> None:
    with DaskEngine(cluster.client) as engine:
        source = as_source(lazy_samples(*CHUNKS[2]))
        pids = set(engine.run(lambda X: os.getpid(), source, split_blocks(N, 5000)))
    assert pids, "which workers hold the samples is Dask's choice"
    assert pids <= cluster.pids
    assert os.getpid() not in pids


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.filterwarnings("ignore::majorica.errors.OutlierWarning")
def test_same_bits_of_float32_that_passes_take_in_float64(cluster, name: str) -> None:
    import dask.array as da

    X = np.random.default_rng(4).laplace(size=(60_000, 4)).astype(np.float32)
    X[11, 1] = 1e5
    cluster.client.wait_for_workers(1, timeout=30)
    with cluster.client.as_current():
        assert_same(fit(name, da.from_array(X, chunks=(7000, 4))), fit(name, X))
