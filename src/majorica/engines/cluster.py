"""Watching over a cluster: waiting that ends, failures with names, clean-up that does not fail."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn

from majorica.engines.worker import span
from majorica.errors import WorkerError
from majorica.sources.base import Block

#: Seconds between two looks at the cluster while waiting.
POLL = 0.5


class Lost(Exception):
    """Something on the workers is gone that Dask cannot make again by itself."""


class Watch:
    """Waits for futures as long as the cluster has workers.

    Parameters
    ----------
    client : distributed.Client
    timeout : float
        Seconds without a worker, or without the scheduler, to bear.
    """

    def __init__(self, client: Any, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._workers: tuple[float, dict[str, int]] = (0.0, {})
        self._alone_since: float | None = None

    def workers(self) -> dict[str, int]:
        """Threads of each worker, by address; asked for every other second, waits for the first worker."""
        when, threads = self._workers
        if not threads or time.monotonic() - when > 2.0:
            self.check()
            threads = dict(self.client.nthreads())
            while not threads:
                time.sleep(POLL)
                self.check()
                threads = dict(self.client.nthreads())
            self._workers = (time.monotonic(), threads)
        return threads

    def threads(self) -> int:
        """Threads of all workers, at least 1."""
        return max(1, sum(self.workers().values()))

    def wait(self, futures: Sequence[Any], report: Callable[[], None] | None = None) -> None:
        """Until all `futures` are done or have failed; `report` is called now and then."""
        from distributed import wait

        futures = list(futures)
        while futures:
            try:
                with self.client.as_current():
                    wait(futures, timeout=POLL if report is None else POLL / 2)
                return
            except CancelledError as error:
                self._raise_cancelled(error)
            except TimeoutError:
                self.check()
                if report is not None:
                    report()

    def first(self, futures: Sequence[Any]) -> Any:
        """The first of `futures` that is done or has failed."""
        from distributed import wait

        while True:
            done = next((future for future in futures if future.done()), None)
            if done is not None:
                if done.status in ("cancelled", "lost"):
                    self._raise_cancelled(CancelledError(done.key))
                return done
            try:
                with self.client.as_current():
                    wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
            except CancelledError as error:
                self._raise_cancelled(error)
            except TimeoutError:
                self.check()

    def result(self, future: Any) -> Any:
        """The value of a future; a worker that dies while sending it does no harm."""
        patience = 10 * POLL
        while True:
            try:
                return future.result(timeout=patience)
            except CancelledError as error:
                self._raise_cancelled(error)
            except TimeoutError:
                self.check()
                patience *= 2

    def results(self, futures: Sequence[Any]) -> list[Any]:
        """The values of several futures, in one journey."""
        patience = 10 * POLL
        while True:
            try:
                return list(self.client.sync(self._gather, futures, callback_timeout=patience))
            except CancelledError as error:
                self._raise_cancelled(error)
            except TimeoutError:
                self.check()
                patience *= 2

    async def _gather(self, futures: Sequence[Any]) -> Any:
        return await self.client.gather(list(futures), asynchronous=True)

    def check(self) -> None:
        """Raise WorkerError if the cluster has had no worker, or no scheduler, for too long."""
        alive = False
        if self.client.status == "running":
            with contextlib.suppress(TimeoutError, OSError):
                alive = bool(self.client.nthreads())
        if alive:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if self.client.status in ("closed", "closing", "newly-created"):
            raise WorkerError(
                "the connection to the Dask scheduler is closed; connect a new client and fit again "
                "(with checkpoint= the fit goes on where it was)"
            )
        if now - self._alone_since >= self.timeout:
            where = getattr(getattr(self.client, "scheduler", None), "address", "the scheduler")
            raise WorkerError(
                f"all workers are lost: none at {where} for {self.timeout:g} s; start workers and fit again "
                "(with checkpoint= the fit goes on where it was), or raise the timeout of DaskEngine"
            )

    def _raise_cancelled(self, error: BaseException) -> NoReturn:
        self.check()
        raise Lost(str(error)) from error

    def raise_failure(self, future: Any, task: str, numbers: tuple[int, int, int], blocks: Sequence[Block]) -> NoReturn:
        """Raise WorkerError that names the blocks of a failed task and why it failed."""
        first, end, count = numbers
        which = f"block {first}" if end - first == 1 else f"blocks {first} to {end - 1}"
        error = future.exception()
        kind = type(error).__name__
        if kind == "KilledWorker":
            why = "several workers died while computing it; out of memory? Smaller chunks or more memory may help"
        else:
            why = f"{kind}: {error}"
        raise WorkerError(f"{task}: {which} of {count} ({span(blocks)}) failed on a worker: {why}") from error

    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel what has not run yet; never raises, since it cleans up after an error."""
        with contextlib.suppress(Exception):
            if futures and self.client.status == "running":
                self.client.cancel(list(futures), force=True)

    def free_memory(self) -> int:
        """Bytes the workers may still take; workers without a limit count as one gigabyte free."""
        free = 0
        for worker in self.client.scheduler_info()["workers"].values():
            limit = worker.get("memory_limit") or 0
            used = worker.get("metrics", {}).get("memory", 0)
            free += max(0, limit - used) if limit else 2**30
        return free
