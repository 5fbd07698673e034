"""The package's default for streams: a progressive fit of the first 10,000 samples, then Algorithm 2.

Through the public interface alone: ``ICA.partial_fit``, a mini-batch a call.
"""

from __future__ import annotations

import numpy as np

from benchmarks.paper.datasets import Endless
from benchmarks.paper.model import whitening_start
from benchmarks.paper.recorder import Recorder
from majorica import ICA


def run(data: Endless, recorder: Recorder, rng: np.random.Generator) -> None:
    """Each mini-batch once."""
    first = data.first()
    ica = ICA(density="huber", solver="online", whiten="arbitrary-variance", random_state=rng, n_jobs=1)
    recorder.start()
    recorder.record(0.0, whitening_start(first))
    ica.partial_fit(first)
    recorder.record(len(first) / data.n, ica.components_)
    seen = 0
    for X in recorder.off_clock(data.batches()):
        seen += len(X)
        if seen <= len(first):
            continue
        ica.partial_fit(X)
        recorder.record(seen / data.n, ica.components_)
        if recorder.over:
            break
