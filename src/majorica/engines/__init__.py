"""Engines: where the blocks of a pass are computed (this machine's threads, a Dask cluster)."""

from __future__ import annotations

from majorica.engines.base import Engine, total
from majorica.engines.threads import ThreadEngine, single_threaded_blas

__all__ = ["Engine", "ThreadEngine", "single_threaded_blas", "total"]
