"""Messages of the asynchronous mode: single blocks, received in the order they are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from majorica.engines.cluster import Lost
from majorica.engines.worker import Job, run_job
from majorica.sources.base import Block, Source

if TYPE_CHECKING:
    from majorica.engines.dask import DaskEngine


class Mailbox:
    """Single blocks under way on the workers, received in the order they are done.

    Holds at most `capacity` at a time: two a thread.
    """

    def __init__(self, engine: DaskEngine, source: Source) -> None:
        self.engine, self.source = engine, source
        self.capacity = 2 * engine.watch.threads()
        self._pending: dict[Any, tuple[Any, Callable[..., Any], Block, tuple[Any, ...]]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def post(self, tag: Any, function: Callable[..., Any], block: Block, arguments: tuple[Any, ...]) -> None:
        """Ask for ``function(X_block, *arguments)``; `tag` comes back with the answer."""
        source, inputs = self.engine.samples.leaves(self.source, [block]).inputs([(0, 1)])
        job = Job(function, [block], None, arguments, add=False)
        key = self.engine.name("message")
        future = self.engine.client.submit(run_job, job, None, source, inputs[0], key=key, pure=False)
        self._pending[future] = (tag, function, block, arguments)

    def receive(self) -> tuple[Any, Any]:
        """Tag and answer of the first block that is done; waits for it."""
        watch = self.engine.watch
        while True:
            try:
                future = watch.first(list(self._pending))
                if future.status == "error":
                    watch.raise_failure(future, "message", (0, 1, 1), [self._pending[future][2]])
                (answer,) = watch.result(future)
                return self._pending.pop(future)[0], answer
            except Lost:
                self.engine.samples.forget(self.source)
                again = list(self._pending.values())
                self._pending.clear()
                for one in again:
                    self.post(*one)

    def close(self) -> None:
        """Give up what is under way."""
        self.engine.watch.cancel(list(self._pending))
        self._pending.clear()
