"""``fit`` with the online solver: a finite source pass by pass, or a stream until it ends, resumable.

And ``partial_fit``, which learns from one more block of a stream.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from majorica.densities.base import Density
from majorica.engines import Engine, ThreadEngine, single_threaded_blas
from majorica.fitting import Fitted, Options
from majorica.persistence.checkpoints import Checkpoint, identify
from majorica.solvers import StopReason
from majorica.sources.base import Source, Stream, fingerprint
from majorica.streaming import StreamFit

Array = npt.NDArray[np.floating]

#: Samples read from a finite source at a time; checkpoints fall between two such blocks.
READ_SAMPLES = 10_000


def fit_stream(
    source: Source | Stream, options: Options, engine: Engine, *, checkpoint: Checkpoint | None = None
) -> tuple[StreamFit, Fitted]:
    """Learn from all of `source` on the threads of `engine`; the session can go on with ``partial_fit``.

    A resumed stream is read again from its beginning and what was seen
    already is skipped, so it must give the same samples again. Of a source
    that is passed over more than once the start takes the first pass at most:
    no sample is in it twice.
    """
    session = StreamFit.new(options, source.n_samples)
    blocks: Iterator[Array] | None = None
    first_pass: int | None = None  # samples of the first of several passes
    if isinstance(source, Stream):
        data, blocks = _peek(source)
    else:
        data = "" if checkpoint is None else fingerprint(source)
    if checkpoint is not None:
        density = options.density if isinstance(options.density, Density) else None
        identity, lengths = {**identify(options), "data": data}, {"f": source.n_features}
        resumed = checkpoint.resume(identity, {"session": StreamFit}, lengths, density=density)
        if resumed is not None:
            session = resumed["session"]
            session.options = replace(options, rng=session.rng)
    session.names = source.feature_names
    if isinstance(source, Stream):
        assert blocks is not None
        blocks = _after(blocks, session.seen)
    else:
        passes = int(options.max_iter)
        blocks = _passes(source, session.seen, passes)
        first_pass = source.n_samples if passes > 1 else None
    interrupted = _learn(session, blocks, engine, checkpoint, first_pass)
    fitted = session.result(options.callbacks)
    if interrupted or fitted.stop is StopReason.INTERRUPTED:
        return session, replace(fitted, stop=StopReason.INTERRUPTED)
    if checkpoint is not None:
        checkpoint.finish()
    return session, fitted


def learn_block(
    session: StreamFit,
    block: Array,
    *,
    callbacks: tuple[Callable[..., Any], ...],
    n_jobs: int | None,
    pace: dict[str, Any],
) -> tuple[Fitted | None, BaseException | None]:
    """Learn from one more block; the model to serve now, None as long as there is none, and what ended it midway.

    `pace` holds the options that may have changed since the last one (:func:`majorica.parameters.pace_of`).
    What was learnt before a callback's error or Ctrl-C stays learnt, and the model is that: to take it back would cost
    a copy of p^3 numbers a block. Where nothing was learnt the error is raised.
    """
    session.options = replace(session.options, **pace)
    told, before, failure = _calling(session, callbacks), session.seen, None
    with told, single_threaded_blas(), closing(ThreadEngine(n_jobs)) as threads:
        try:
            session.update(block, threads)
        except BaseException as error:
            if session.seen == before:
                raise
            failure = error
        return session.serve(), failure


@contextmanager
def _calling(session: StreamFit, callbacks: tuple[Callable[..., Any], ...]) -> Iterator[None]:
    """Let a stream call back for a while; it keeps no callbacks, which may hold what cannot be pickled."""
    session.options = replace(session.options, callbacks=callbacks)
    session.stopped = False  # what a callback asked for before is done
    try:
        yield
    finally:
        session.options = replace(session.options, callbacks=())


def _learn(
    session: StreamFit,
    blocks: Iterator[Array],
    engine: Engine,
    checkpoint: Checkpoint | None,
    first_pass: int | None,
) -> bool:
    """Learn from all blocks, with a checkpoint now and then; True if the user interrupted."""
    within = False
    try:
        for X in blocks:
            within = True
            session.update(X, engine)
            if session.seen == first_pass:
                session.begin(engine)
            within = False
            if session.stopped:
                break
            if checkpoint is not None and checkpoint.due():
                session.settle()
                checkpoint.save({"session": session})
    except KeyboardInterrupt:
        if session.seen < 2:
            raise
        if checkpoint is not None and not within:
            session.settle()
            checkpoint.save({"session": session})
        return True
    return False


def _passes(source: Source, seen: int, passes: int) -> Iterator[Array]:
    """Blocks of `passes` passes over `source`, from where `seen` samples have been seen on."""
    n = source.n_samples
    while seen < passes * n:
        start = seen % n
        stop = min((start // READ_SAMPLES + 1) * READ_SAMPLES, n)
        yield source.read(start, stop)
        seen += stop - start


def _peek(stream: Stream) -> tuple[str, Iterator[Array]]:
    """A digest of the stream's first samples, and its blocks with these still among them."""
    blocks = iter(stream)
    first = next(blocks, None)
    if first is None:
        return "empty stream", iter(())
    digest = hashlib.sha256(f"{stream.n_features} {stream.dtype}".encode())
    digest.update(np.ascontiguousarray(first[:64]).tobytes())
    return digest.hexdigest()[:32], chain([first], blocks)


def _after(blocks: Iterator[Array], seen: int) -> Iterator[Array]:
    """The blocks without their first `seen` samples."""
    for X in blocks:
        if seen < len(X):
            yield X[seen:]
        seen = max(0, seen - len(X))
