"""One fit in a process of its own, under a hard limit of memory; prints JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from majorica import ICA, as_source
from majorica.engines.threads import effective_n_jobs
from majorica.memory import make_plan, parse_bytes
from majorica.parameters import resolve

STATUS = Path("/proc/self/status")


def memory_now() -> dict[str, int]:
    """Memory of this process in bytes: ``anonymous`` as it is in use, ``data`` as the limit counts it.

    Pages of a mapped file are in neither: the system can take them back at
    any time.
    """
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return {name: int(lines[key].split()[0]) * 1024 for name, key in (("anonymous", "RssAnon"), ("data", "VmData"))}


class Watch:
    """Looks at this process's memory from a thread of its own; the highest value of each kind is kept."""

    def __init__(self, every: float = 0.005) -> None:
        self.every = every
        self.peak = memory_now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._done.wait(self.every):
            now = memory_now()
            self.peak = {name: max(value, now[name]) for name, value in self.peak.items()}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()


def warm_up(p: int) -> None:
    """A small fit of the same width: loads compiled code, starts threads, makes BLAS take its buffers."""
    X = np.random.default_rng(0).laplace(size=(4000, p)).astype(np.float32)
    ICA(random_state=0, max_iter=3).fit(X)


def main(text: str) -> dict[str, Any]:
    """Fit the file asked for and say what it took."""
    asked = json.loads(text)
    source = as_source(asked["path"])
    warm_up(source.n_features)
    options = asked.get("options", {})
    ica = ICA(memory_limit=asked["memory_limit"], random_state=0, **options)
    jobs = effective_n_jobs(ica.n_jobs)
    plan = make_plan(source, resolve(ica, "progressive"), n_jobs=jobs, memory_limit=ica.memory_limit)
    limit = parse_bytes(asked["memory_limit"])
    assert limit is not None
    with Watch() as watch:
        before = memory_now()
        resource.setrlimit(resource.RLIMIT_DATA, (before["data"] + limit, before["data"] + limit))
        began, processor = time.perf_counter(), time.process_time()
        ica.fit(asked["path"], checkpoint=asked.get("checkpoint"), checkpoint_every=asked.get("checkpoint_every", 30.0))
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
    levels, steps = np.unique(ica.trace_["n_samples"], return_counts=True)
    return {
        "n": source.n_samples,
        "bytes": os.path.getsize(asked["path"]),
        "seconds": seconds,
        "processor": processor,
        "before": before,
        "peak": watch.peak,
        "limit": limit,
        "planned": plan.total,
        "plan": str(plan),
        "passes": float(ica.trace_["passes"][-1]),
        "levels": dict(zip(map(int, levels), map(int, steps), strict=True)),
        "stop": ica.stop_reason_,
        "converged": bool(ica.converged_),
        "loss": float(ica.loss_),
        "gradient": float(ica.trace_["gradient"][-1]),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(sys.argv[1])))
