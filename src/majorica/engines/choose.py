"""Which engine a fit runs on: the one given, the Dask client in force, or this machine's threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from majorica.engines.base import Engine
from majorica.engines.threads import ThreadEngine, inside_worker
from majorica.errors import ParameterError
from majorica.sources.base import Source


@contextmanager
def engine_for(source: Source, engine: Any = None, *, n_jobs: int | None = None) -> Iterator[Engine]:
    """The engine to pass over `source` with; closed at the end unless it was given.

    Parameters
    ----------
    source : Source
    engine : Engine or distributed.Client, optional
        None is the Dask client in force for Dask collections, threads of
        this machine for everything else.
    n_jobs : int, optional
        Threads, where it is threads.
    """
    client = engine if _is_client(engine) else None
    if engine is None and hasattr(source, "client"):
        client = client_in_force()
    own: Engine
    if client is not None:
        from majorica.engines.dask import DaskEngine

        own = DaskEngine(client)
    elif engine is None:
        own = ThreadEngine(n_jobs)
    elif callable(getattr(engine, "run", None)):
        own = engine
    else:
        raise ParameterError(f"engine is a {type(engine).__name__}; pass a Dask client, an engine or None")
    if hasattr(source, "client"):
        source.client = getattr(own, "client", None)
    try:
        yield own
    finally:
        if own is not engine:
            own.close()


def client_in_force() -> Any:
    """The default or context-local Dask client; None if there is none, or inside a worker, which is busy with us."""
    if "distributed" not in sys.modules or inside_worker():
        return None
    from distributed import Client
    from distributed.worker import thread_state

    if hasattr(thread_state, "execution_state"):
        return None
    try:
        client = Client.current()
    except ValueError:
        return None
    return None if client.asynchronous or client.status != "running" else client


def _is_client(engine: Any) -> bool:
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(engine, distributed.Client)
