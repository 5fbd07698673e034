"""Workers that die, blocks that fail, users that interrupt: the same bits, or a named error; never a hang."""

from __future__ import annotations

import _thread
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest
from loopback import LoopbackCluster

from majorica import ICA
from majorica.engines.dask import DaskEngine
from majorica.errors import ParameterError, WorkerError
from majorica.sources import as_source, split_blocks

pytestmark = [
    pytest.mark.timeout(120),
    # Said by distributed's own client and comms when a peer is killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

N = 240_000
CHUNKS = (100_000, 39_993, 7, 100_000)


def model(**options) -> ICA:
    return ICA(density="huber", random_state=1, max_iter=6, tol=0, **options)


@pytest.fixture(scope="module")
def expected(samples) -> ICA:
    return model().fit(samples)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LoopbackCluster(tmp_path_factory.mktemp("faults"), workers=3) as cluster:
        yield cluster


def assert_same(a: ICA, b: ICA) -> None:
    np.testing.assert_array_equal(a.components_, b.components_)
    np.testing.assert_array_equal(a.trace_["loss"], b.trace_["loss"])


@pytest.mark.parametrize("kind", ["held", "read again", "sent"])
def test_kill_in_the_middle_of_a_pass(cluster, kind: str, samples, lazy_samples, expected) -> None:
    """Held by workers, read again for each pass, or sent from here: what dies with a worker is made again."""
    cluster.add_workers(max(0, 3 - len(cluster.workers)))
    cluster.client.wait_for_workers(3, timeout=30)
    killed: list[int] = []

    def kill_once(progress) -> None:
        if progress.number > 3 and not killed and progress.blocks > 4:
            killed.append(cluster.kill())

    X = samples if kind == "sent" else lazy_samples(*CHUNKS)
    with DaskEngine(cluster.client, hold=kind != "read again", progress=kill_once) as engine:
        fitted = model().fit(X, engine=engine)
    assert len(killed) == 1
    assert_same(fitted, expected)


def test_kill_between_passes(cluster, lazy_samples, expected) -> None:
    cluster.add_workers(max(0, 2 - len(cluster.workers)))
    cluster.client.wait_for_workers(2, timeout=30)
    killed: list[int] = []

    def kill_once(step) -> None:
        if not killed and step.n_samples == N:
            killed.append(cluster.kill())

    fitted = model(callbacks=kill_once).fit(lazy_samples(*CHUNKS), engine=cluster.client)
    assert len(killed) == 1
    assert_same(fitted, expected)


def test_all_workers_lost_then_new_ones(cluster, lazy_samples, expected) -> None:
    def replace_all(step) -> None:
        if step.n_samples == N and not replaced:
            replaced.extend([cluster.kill() for _ in range(len(cluster.workers))])
            cluster.add_workers(1)

    replaced: list[int] = []
    fitted = model(callbacks=replace_all).fit(lazy_samples(*CHUNKS), engine=cluster.client)
    assert replaced
    assert_same(fitted, expected)


def test_failing_block_is_named(cluster, samples_path) -> None:
    good = da.from_delayed(dask.delayed(np.load)(samples_path), shape=(N, 6), dtype=np.float32)
    bad = da.from_delayed(dask.delayed(np.load)("/no/such/file.npy"), shape=(50_000, 6), dtype=np.float32)
    X = da.concatenate([good[:100_000], bad, good[150_000:]])
    with pytest.raises(WorkerError, match=r"blocks? \d.*samples 98304 to 131072.*/no/such/file\.npy") as caught:
        model().fit(X, engine=cluster.client)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_block_on_which_the_function_fails_is_named(cluster, lazy_samples) -> None:
    def fail(X):
        if len(X) == 1234:
            raise ZeroDivisionError("by the test")
        return X.sum(axis=0)

    blocks = [*split_blocks(200_000, 1000), ((200_000, 201_234),), ((201_234, N),)]
    with (
        DaskEngine(cluster.client) as engine,
        pytest.raises(WorkerError, match=r"fail: block 200 of 202 \(samples 200000 to 201234\).*by the test"),
    ):
        engine.total(fail, as_source(lazy_samples(*CHUNKS)), blocks)


def test_chunk_of_another_length_than_promised(cluster, samples_path) -> None:
    short = da.from_delayed(dask.delayed(np.load)(samples_path)[:1000], shape=(40_000, 6), dtype=np.float32)
    with pytest.raises(WorkerError, match="a chunk has 1000 samples where its array promised 40000"):
        model().fit(short, engine=cluster.client)


def running_tasks(cluster) -> list[str]:
    processing = cluster.client.processing()
    return [str(key) for keys in processing.values() for key in keys if "majorica" in str(key)]


def test_interrupt_leaves_no_tasks(cluster, lazy_samples) -> None:
    """Ctrl-C in the middle of a pass: the fit returns the model so far, nothing runs on."""
    X = lazy_samples(*CHUNKS)
    seen: list[int] = []

    def interrupt(progress) -> None:
        if progress.number > 5 and progress.blocks > 4 and not seen:
            seen.append(progress.number)
            _thread.interrupt_main()

    with pytest.warns(UserWarning, match="nterrupt"), DaskEngine(cluster.client, progress=interrupt) as engine:
        fitted = model().fit(X, engine=engine)
    assert seen
    assert "interrupted" in fitted.stop_reason_
    end = time.monotonic() + 10
    while running_tasks(cluster) and time.monotonic() < end:
        time.sleep(0.05)
    assert not running_tasks(cluster)


def test_unusable_engines_are_refused(cluster, samples) -> None:
    with pytest.raises(ParameterError, match="Dask client"):
        model().fit(samples, engine="cluster")
    with pytest.raises(ParameterError, match="n_updates=None"):
        model(solver="incremental").fit(samples, engine=cluster.client)


def test_all_workers_lost_is_said_in_time_and_the_checkpoint_stays(cluster, lazy_samples, expected, tmp_path) -> None:
    """The last test of this cluster: nothing is left of it."""
    path = tmp_path / "fit.ckpt"

    def kill_all(step) -> None:
        if step.n_samples == N:
            for _ in range(len(cluster.workers)):
                cluster.kill()

    started = time.monotonic()
    with (
        DaskEngine(cluster.client, timeout=2.0) as engine,
        pytest.raises(WorkerError, match=r"all workers are lost: none at tcp://127\.0\.0\.1"),
    ):
        model(callbacks=kill_all).fit(lazy_samples(*CHUNKS), engine=engine, checkpoint=path, checkpoint_every=0.0)
    assert time.monotonic() - started < 60
    assert path.exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("majorica")]
    assert_same(model().fit(lazy_samples(*CHUNKS), checkpoint=path), expected)
