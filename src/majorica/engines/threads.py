"""Engine of this machine: blocks over a pool of threads; BLAS kept to one thread inside."""

from __future__ import annotations

import numbers
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from majorica.engines.guard import Guard
from majorica.engines.turns import Turns
from majorica.errors import ParameterError
from majorica.sources.base import Block, Source, read_block

Result = TypeVar("Result")
#: Blocks under way or waiting to be asked for, a thread: of any results, and of small ones.
AHEAD, FAR_AHEAD = 2, 8


class ThreadEngine:
    """Runs blocks on `n_jobs` threads (kernels release the GIL).

    The caller's is one of them. The pool of the others is made when a pass
    first needs it and closed by :meth:`close`.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = effective_n_jobs(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def run(
        self,
        function: Callable[..., Result],
        source: Source,
        blocks: Sequence[Block],
        *shared: Any,
        each: Sequence[Any] | None = None,
    ) -> Iterator[Result]:
        """Results of `function`, one a block, in order."""
        yield from self._run(function, source, blocks, shared, each, AHEAD)

    def run_together(
        self, function: Callable[..., Result], source: Source, blocks: Sequence[Block], *shared: Any
    ) -> Iterator[Result]:
        """:meth:`run` for results that take little memory: more of them may wait, so that no thread has to."""
        yield from self._run(function, source, blocks, shared, None, FAR_AHEAD)

    def _run(
        self,
        function: Callable[..., Result],
        source: Source,
        blocks: Sequence[Block],
        shared: tuple[Any, ...],
        each: Sequence[Any] | None,
        ahead: int,
    ) -> Iterator[Result]:
        def given(number: int) -> tuple[Any, ...]:
            return shared if each is None else (each[number], *shared)

        def call(number: int) -> Result:
            return function(read_block(source, blocks[number]), *given(number))

        if not source.in_memory:
            from majorica.sources import prefetch

            read = prefetch(source, blocks)  # one thread reads ahead
            yield from self._in_order((function, X, *given(number)) for number, X in enumerate(read))
            return
        if self.n_jobs == 1 or len(blocks) == 1:  # no locks for small samples
            yield from map(call, range(len(blocks)))
            return
        with Turns(call, len(blocks), ahead * self.n_jobs) as turns:
            self._lend(min(self.n_jobs, len(blocks)) - 1, turns.help)
            yield from turns

    def _in_order(self, tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Results of tasks, at most ``AHEAD`` a thread of them in flight."""
        pool = self._threads()
        pending: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                pending.append(pool.submit(*task))
                if len(pending) >= AHEAD * self.n_jobs:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def assist(self, function: Callable[[bool], Result], most: int) -> list[Future[Result]]:
        """Calls ``function(False)`` of other threads, `most` at most, and no more than there are other cores."""
        return self._lend(min(self.n_jobs - 1, most, effective_n_jobs(-1) - 1), function, False)

    def _lend(self, count: int, function: Callable[..., Result], *given: Any) -> list[Future[Result]]:
        """So many calls on other threads; fewer, where the system has no more, or the interpreter is about to end."""
        calls: list[Future[Result]] = []
        with suppress(RuntimeError):
            for _ in range(count):
                calls.append(self._threads().submit(function, *given))
        return calls

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="majorica")
        return self._pool

    def close(self) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def effective_n_jobs(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means: None is the cores this process may use, 1 inside joblib or Dask workers."""
    if type(n_jobs) is int and n_jobs > 0:  # no need to ask the system
        return n_jobs
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return 1 if inside_worker() else available
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ParameterError(f"n_jobs={n_jobs!r} must be None, a positive integer, or -1 for all cores")
    return int(n_jobs) if n_jobs > 0 else max(1, available + 1 + int(n_jobs))


def inside_worker() -> bool:
    """Whether this code runs inside a joblib or Dask worker, which already owns its core."""
    if os.environ.get("LOKY_WORKER") or os.environ.get("DASK_WORKER_NAME"):
        return True
    import multiprocessing

    return multiprocessing.current_process().daemon


@cache
def _blas() -> Any:
    """The BLAS libraries of this process."""
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be seen)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _one_thread() -> Iterator[None]:
    """What threadpoolctl's own limiter does, without the report on each library that it makes first."""
    libraries = _blas().lib_controllers
    before = [library.get_num_threads() for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)


#: BLAS on one thread inside; our own threads share the work instead.
single_threaded_blas = Guard(_one_thread)
