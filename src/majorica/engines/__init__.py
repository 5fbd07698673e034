"""Engines: where the blocks of a pass are computed (this machine's threads, a Dask cluster)."""

from __future__ import annotations

from majorica.engines.base import Engine, total
from majorica.engines.choose import engine_for
from majorica.engines.threads import ThreadEngine, effective_n_jobs, single_threaded_blas

__all__ = ["Engine", "ThreadEngine", "effective_n_jobs", "engine_for", "single_threaded_blas", "total"]
