"""The plan of a fit's memory: what it promises holds, and what cannot fit is refused with what would."""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from majorica import ICA
from majorica.errors import MemoryLimitError, ParameterError
from majorica.memory import make_plan, parse_bytes
from majorica.parameters import resolve
from majorica.sources import as_source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mixture(n: int = 20_000, p: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.laplace(size=(n, p)) @ rng.normal(size=(p, p))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(5, 5), ("500MB", 500_000_000), ("1 GB", 10**9), ("1.5gib", 3 * 2**29), ("2000", 2000), (None, None)],
)
def test_sizes_are_read(given: Any, wanted: int | None) -> None:
    assert parse_bytes(given) == wanted


@pytest.mark.parametrize("given", ["many", "5 apples", "-1GB", 0, -5, 1.5, True, "", "1e9"])
def test_other_limits_are_refused(given: Any) -> None:
    with pytest.raises(ParameterError, match="memory_limit"):
        ICA(memory_limit=given).fit(mixture(100))


@pytest.mark.parametrize("solver", ["progressive", "incremental", "incremental-codes", "batch", "online"])
def test_what_cannot_fit_is_refused_and_what_is_offered_fits(solver: str) -> None:
    X = mixture()
    options = {"solver": solver, "random_state": 0, "max_iter": 2, "tol": 0, "n_jobs": 2}
    with pytest.raises(MemoryLimitError, match="takes at least") as caught:
        ICA(memory_limit=1000, **options).fit(X)
    assert isinstance(caught.value, MemoryError)
    offered = re.search(r"memory_limit='([^']+)'", str(caught.value))
    assert offered is not None
    limited = ICA(memory_limit=offered[1], **options).fit(X)
    np.testing.assert_array_equal(limited.components_, ICA(**options).fit(X).components_)


def test_fewer_components_are_offered_where_they_fit() -> None:
    source = as_source(np.zeros((2000, 100)))
    with pytest.raises(MemoryLimitError, match=r"n_components<=(\d+)") as caught:
        make_plan(source, resolve(ICA(solver="batch"), "batch"), n_jobs=1, memory_limit="8MB")
    k = int(re.search(r"n_components<=(\d+)", str(caught.value))[1])
    make_plan(source, resolve(ICA(k, solver="batch"), "batch"), n_jobs=1, memory_limit="8MB")
    with pytest.raises(MemoryLimitError):
        make_plan(source, resolve(ICA(k + 1, solver="batch"), "batch"), n_jobs=1, memory_limit="8MB")


def test_threads_give_way_first_then_the_memory_goes_to_disk() -> None:
    options = resolve(ICA(), "incremental")
    source = as_source(np.zeros((500_000, 4)))
    free = make_plan(source, options, n_jobs=4)
    assert not free.touch_on_disk
    assert make_plan(source, options, n_jobs=4, memory_limit=free.total).n_jobs == 4
    assert make_plan(source, options, n_jobs=4, memory_limit=free.total - 1).n_jobs < 4
    tight = make_plan(source, options, n_jobs=4, memory_limit=7_000_000)
    assert tight.touch_on_disk
    assert tight.total <= 7_000_000
    assert tight.spare == 7_000_000 - tight.total


def test_codes_take_a_quarter_of_the_memory() -> None:
    source = as_source(np.zeros((500_000, 4)))
    numbers, codes = (
        make_plan(source, resolve(ICA(solver=name), name), n_jobs=1) for name in ("incremental", "incremental-codes")
    )
    assert numbers.total - codes.total == 3 * 500_000 * 4
    assert codes.parts["memory of the incremental solver"] == 500_000 * 4


def test_the_plan_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    ICA(verbose=2, memory_limit="1GB", random_state=0).fit(mixture(2000))
    assert re.search(r"plan: .* of 1GB allowed .*blocks", capsys.readouterr().err)


PEAK = """
import resource, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from majorica import ICA
from majorica.sources.sliced import SlicedSource

class Made:
    '''An array in no memory at all: samples are made when read.'''
    dtype, ndim = np.dtype("f4"), 2
    def __init__(self, n): self.shape = (n, 8)
    def __getitem__(self, rows):
        rows = rows[0] if isinstance(rows, tuple) else rows
        out = np.random.default_rng(rows.start).laplace(size=(rows.stop - rows.start, 8)).astype("f4")
        return out @ np.random.default_rng(1).normal(size=(8, 8)).astype("f4")

def fit(n):
    ICA(solver=sys.argv[1], max_iter=2, tol=0, n_jobs=1, random_state=0, density="huber",
        memory_limit="40MB").fit(SlicedSource(Made(n), layout="samples-first"))

fit(20_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fit(int(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("solver", ["progressive", "incremental", "online"])
def test_peak_memory_does_not_grow_with_the_data(solver: str, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    n = 1_500_000  # 48 MB of samples, 48 MB of memory for the incremental solver
    command = [sys.executable, "-c", PEAK, solver, str(n)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    grown = int(done.stdout.split()[-1]) / 1000
    # The map of a file counts as resident though the system can take it back at any time.
    assert grown < (40 + 48 if solver == "incremental" else 40), f"{grown} MB"


LIMITED = """
import json, resource, sys, threading, time, warnings
warnings.simplefilter("ignore")
import numba
import numpy as np
from threadpoolctl import threadpool_limits
from majorica import ICA, as_source
from majorica.memory import make_plan
from majorica.parameters import resolve

path, solver, share = sys.argv[1], sys.argv[2], float(sys.argv[3])

def fill_buffers(threads=3):
    '''BLAS keeps a buffer for as many products as ever ran at once: have them run at once, in NumPy's and SciPy's.'''
    product = numba.njit("(f8[:,::1], f8[:,::1])", nogil=True)(lambda A, out: np.dot(A, A, out))
    square = np.ones((300, 300))
    together = threading.Barrier(threads)
    def work():
        out = np.empty_like(square)
        for multiply in (product, lambda A, out: np.matmul(A, A, out)):
            together.wait()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                multiply(square, out)
    team = [threading.Thread(target=work) for _ in range(threads)]
    with threadpool_limits(1):
        for thread in team: thread.start()
        for thread in team: thread.join()

def new(**more):
    return ICA(solver=solver, max_iter=3, random_state=0, n_jobs=2, batch_size=1000, **more)

source = as_source(path)
new().fit(source.read(0, 40_000))  # loads compiled code, for read-only samples too
fill_buffers()
limit = make_plan(source, resolve(new(), solver), n_jobs=2).total
with open("/proc/self/status") as status:
    data = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
# What threads' stacks and the allocator's rounding take besides: three threads' worth.
allowed = data + int(share * limit) + 3 * 2**23
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
new(memory_limit=limit).fit(path)
print(json.dumps(limit))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA counts mapped memory on Linux")
@pytest.mark.parametrize("solver", ["progressive", "incremental", "incremental-codes", "batch", "online"])
def test_a_hard_limit_at_the_plan_is_kept(solver: str, tmp_path: Path) -> None:
    """What the plan says is enough is enough for the system too; the pages of a mapped file do not count."""
    path = tmp_path / "X.npy"
    X = np.lib.format.open_memmap(path, "w+", np.float32, (400_000, 30))
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30)).astype(np.float32)
    for start in range(0, len(X), 50_000):
        X[start : start + 50_000] = rng.laplace(size=(50_000, 30)).astype(np.float32) @ A
    X.flush()

    def run(share: float, timeout: float = 280) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", LIMITED, str(path), solver, str(share)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    done = run(1.0)
    assert done.returncode == 0, done.stderr[-2000:]
    if solver == "progressive":  # the limit is one: what is not there cannot be taken
        with suppress(subprocess.TimeoutExpired):  # BLAS may wait for memory of its own for ever
            assert run(-0.5, timeout=30).returncode != 0


@pytest.mark.filterwarnings("ignore::majorica.errors.MajoricaWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("whiten", ["unit-variance", "arbitrary-variance"])
@pytest.mark.parametrize("n_components", [None, 5])
def test_few_samples_of_many_features_keep_to_the_plan(whiten: str, n_components: int | None) -> None:
    """Components and all that is made of them are as large as the data, several times over."""
    X = np.random.default_rng(0).normal(size=(120, 20_000))
    ica = ICA(n_components, whiten=whiten, max_iter=5, random_state=0, n_jobs=1)
    plan = make_plan(as_source(X), resolve(ica, "progressive"), n_jobs=1)
    tracemalloc.start()
    ica.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < plan.total
