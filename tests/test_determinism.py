"""Same data and same seed, same bits: in a row, in threads, in forked children, for any number of jobs."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from majorica import ICA
from majorica.densities import LogCosh
from majorica.densities.base import CUSTOM, Density
from majorica.engines import ThreadEngine, threads
from majorica.sources import as_source, split_blocks
from makers import laplace

SOLVERS = {
    "progressive": {"solver": "progressive"},
    "adaptive": {"solver": "progressive", "density": "adaptive"},
    "incremental": {"solver": "incremental", "max_iter": 3, "tol": 0},
    "incremental-p": {"solver": "incremental", "n_updates": None, "max_iter": 3, "tol": 0},
    "online": {"solver": "online"},
    "batch": {"solver": "batch", "max_iter": 4, "tol": 0},
}
over_solvers = pytest.mark.parametrize("options", SOLVERS.values(), ids=SOLVERS)


def make(options: dict, n_jobs: int | None = None) -> ICA:
    return ICA(**({"density": "huber"} | options), random_state=7, n_jobs=n_jobs)


def data() -> np.ndarray:
    return laplace(100_003, 4, seed=11)[0]


def bits(ica: ICA) -> bytes:
    parts = (ica.components_, ica.mixing_, ica.mean_, np.float64(ica.loss_), ica.trace_["loss"], ica.trace_["passes"])
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def _fit_in_child(options: dict, queue) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        queue.put(bits(make(options).fit(data())))


@over_solvers
def test_twice_in_a_row_and_for_any_number_of_jobs(options: dict) -> None:
    X = data()
    wanted = bits(make(options).fit(X))
    for n_jobs in (None, 1, 2, 4):
        assert bits(make(options, n_jobs).fit(X)) == wanted, n_jobs


class Custom(LogCosh):
    """A density that only NumPy knows."""

    code = CUSTOM


@pytest.mark.parametrize("density", ["huber", "adaptive", Custom()], ids=["huber", "adaptive", "custom"])
def test_jobs_that_share_the_components_of_a_stream(density: str | Density, monkeypatch) -> None:
    X, _ = laplace(14_000, 24)
    X[:, ::3] = np.random.default_rng(0).uniform(-1, 1, size=X[:, ::3].shape)  # with nothing to share
    shared = []
    assist, count = ThreadEngine.assist, threads.effective_n_jobs
    monkeypatch.setattr(threads, "effective_n_jobs", lambda n_jobs: 8 if n_jobs == -1 else count(n_jobs))
    monkeypatch.setattr(ThreadEngine, "assist", lambda *given: shared.append(assist(*given)) or shared[-1])
    monkeypatch.setattr("majorica.solvers.online.solver.WORTH_SHARING", 0)
    wanted, *others = (
        ICA(density=density, random_state=0, n_jobs=jobs).partial_fit(X[:12_000]).partial_fit(X[12_000:])
        for jobs in (1, 2, 4)
    )
    assert any(shared)
    for other in others:
        assert bits(other) == bits(wanted)
        state, same = (vars(ica)["_stream"].state.surrogate for ica in (other, wanted))
        assert state.moments.tobytes() == same.moments.tobytes()


@pytest.mark.parametrize("n_updates", [2, None])
@pytest.mark.parametrize("density", ["huber", "adaptive", Custom()], ids=["huber", "adaptive", "custom"])
def test_streams_do_not_depend_on_callbacks(density: str | Density, n_updates: int | None) -> None:
    X, _ = laplace(14_000, 7)
    alone, watched = (
        ICA(density=density, n_updates=n_updates, random_state=0, callbacks=callbacks).partial_fit(X)
        for callbacks in (None, lambda step: None)
    )
    assert bits(watched) == bits(alone)


def test_a_stream_goes_on_where_no_thread_can_be_started(monkeypatch) -> None:
    X, _ = laplace(12_000, 24)
    monkeypatch.setattr("majorica.solvers.online.solver.WORTH_SHARING", 0)
    wanted = ICA(density="huber", random_state=0, n_jobs=1).partial_fit(X)
    refused = []

    class NoPool(ThreadPoolExecutor):
        def submit(self, *given, **options):
            refused.append(given)
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(threads, "ThreadPoolExecutor", NoPool)
    monkeypatch.setattr(threads, "effective_n_jobs", lambda n_jobs: 2)
    assert bits(ICA(density="huber", random_state=0).partial_fit(X)) == bits(wanted)
    assert refused


@pytest.mark.parametrize("n_updates", [2, None])
def test_jobs_that_share_one_mini_batch(n_updates: int | None) -> None:
    """From 32 components on, threads share the phases of a mini-batch."""
    X, _ = laplace(4001, 33)
    options = {"solver": "incremental", "n_updates": n_updates, "max_iter": 2, "tol": 0, "batch_size": 700}
    wanted = bits(make(options, 1).fit(X))
    for n_jobs in (2, 4):
        assert bits(make(options, n_jobs).fit(X)) == wanted


@over_solvers
def test_in_a_thread_beside_another_fit(options: dict) -> None:
    X = data()
    wanted = bits(make(options).fit(X))
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(bits(make(options, 2).fit(X)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted, wanted]


@over_solvers
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_forked_child(options: dict) -> None:
    """After the parent has fitted with its threads: no deadlock, same bits."""
    wanted = bits(make(options, 2).fit(data()))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(options, queue))
    child.start()
    try:
        assert queue.get(timeout=60) == wanted
    finally:
        child.join(timeout=10)
        if child.is_alive():
            child.terminate()
    assert child.exitcode == 0


@over_solvers
def test_after_pickling_and_cloning(options: dict) -> None:
    X = data()[:20_001]
    ica = make(options)
    wanted = bits(ica.fit(X))
    assert bits(clone(ica).fit(X)) == wanted
    copied = pickle.loads(pickle.dumps(ica))
    np.testing.assert_array_equal(copied.transform(X), ica.transform(X))
    assert bits(copied.fit(X)) == wanted
    assert bits(ica.fit(X)) == wanted  # refitting forgets the first fit


def test_partial_fit_goes_on_after_pickling() -> None:
    X = data()
    one = ICA(random_state=0, density="huber").partial_fit(X[:30_000])
    two = pickle.loads(pickle.dumps(one))
    assert bits(one.partial_fit(X[30_000:])) == bits(two.partial_fit(X[30_000:]))


def test_seeds_matter_and_generators_are_taken() -> None:
    X, _ = laplace(5000, 4)
    options = {"solver": "incremental", "density": "huber", "max_iter": 2, "tol": 0, "batch_size": 100}
    one, two = (ICA(**options, random_state=seed).fit(X) for seed in (0, 1))
    assert not np.array_equal(one.components_, two.components_)
    three = ICA(**options, random_state=np.random.default_rng(0)).fit(X)
    np.testing.assert_array_equal(three.components_, one.components_)
    four, five = (ICA(**options, random_state=np.random.RandomState(3)).fit(X) for _ in range(2))
    np.testing.assert_array_equal(four.components_, five.components_)


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_blocks_handed_out_together_change_no_bit(n_jobs: int) -> None:
    X = np.random.default_rng(0).laplace(size=(1000, 3))
    source, blocks = as_source(X), split_blocks(1000, 7)
    one, several = ThreadEngine(1), ThreadEngine(n_jobs)
    try:
        wanted = list(one.run(np.mean, source, blocks, 0))
        got = list(several.run_together(np.mean, source, blocks, 0))
    finally:
        several.close()
    np.testing.assert_array_equal(got, wanted)


FITS = """
import hashlib, sys, warnings
import numpy as np
from majorica import ICA
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.concatenate([rng.laplace(size=(6000, 3)), rng.uniform(-1, 1, (6000, 3))], axis=1) @ rng.normal(size=(6, 6))
for solver in sys.argv[1].split(","):
    ica = ICA(solver=solver, random_state=0, max_iter=5).fit(X)
    print(solver, hashlib.sha256(ica.components_.tobytes() + ica.trace_["loss"].tobytes()).hexdigest())
"""


def bits_of(solvers: list[str], cache: Path) -> list[str]:
    """What fits give in a process of their own, solver by solver, with compiled code kept in `cache`."""
    given = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", FITS, ",".join(solvers)]
    return sorted(subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout.split("\n"))


@pytest.mark.parametrize(
    "solvers",
    [["progressive"], pytest.param(["progressive", "batch", "incremental", "online"], marks=pytest.mark.slow)],
    ids=len,
)
def test_same_bits_whether_kernels_were_just_compiled_or_loaded(solvers: list[str], tmp_path: Path) -> None:
    """Functions of loose arithmetic stood alone and in their callers, not the same to the bit: which one ran varied."""
    compiling = bits_of(solvers, tmp_path)
    assert bits_of(solvers, tmp_path) == compiling
    assert bits_of(solvers[::-1], tmp_path) == compiling
