"""Reading ahead in one background thread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import SimpleQueue

from majorica.errors import ParameterError
from majorica.sources.base import Array, Block, Source, read_block


def prefetch(source: Source, blocks: Iterable[Block], depth: int = 2) -> Iterator[Array]:
    """Yield the samples of `blocks` in order, read up to `depth` blocks ahead.

    One thread does the reading, so a source need not be safe to read from
    several. An error while reading is raised at the block it belongs to.
    Closing the generator stops the thread after the read it is in and waits
    for it.

    Parameters
    ----------
    source : Source
    blocks : iterable of Block
    depth : int
        Blocks held at most, besides the one in use.

    Yields
    ------
    ndarray of shape (b, n_features)
    """
    if depth < 1:
        raise ParameterError(f"depth={depth} must be at least 1.")
    return _prefetch(source, blocks, depth)


def _prefetch(source: Source, blocks: Iterable[Block], depth: int) -> Iterator[Array]:
    ready: SimpleQueue[tuple[Array | None, BaseException | None]] = SimpleQueue()
    room = threading.Semaphore(depth)
    stopped = threading.Event()

    def work() -> None:
        try:
            for block in blocks:
                room.acquire()
                if stopped.is_set():
                    return
                ready.put((read_block(source, block), None))
            ready.put((None, None))
        except BaseException as error:
            ready.put((None, error))

    thread = threading.Thread(target=work, name="majorica-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            array, error = ready.get()
            if error is not None:
                raise error
            if array is None:
                return
            room.release()
            yield array
            del array
    finally:
        stopped.set()
        room.release()
        thread.join()
