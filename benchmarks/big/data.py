"""The files: patches of natural images, float32, written block by block."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from benchmarks.paper.datasets import load_images, patch_stream

FEATURES = 100  #: patches of 10 x 10 pixels
#: Bytes written between two waits for the disk, so that not the whole file waits in memory.
SYNC = 2**28


def samples_in(gigabytes: float) -> int:
    """How many float32 samples make a file of that size."""
    return round(gigabytes * 1e9 / (4 * FEATURES))


def write_patches(path: Path, n: int, images: Path | None) -> None:
    """Write `n` patches to a ``.npy`` file, whole or not at all; holds one mini-batch at a time besides the images."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    header = {"descr": "<f4", "fortran_order": False, "shape": (n, FEATURES)}
    stream = patch_stream(load_images(images), n, seed=0, left_out=1000)
    with open(partial, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        waiting = 0
        for batch in stream.batches():
            waiting += file.write(np.ascontiguousarray(batch, dtype="<f4").data.cast("B"))
            if waiting >= SYNC:
                file.flush()
                os.fsync(file.fileno())
                waiting = 0
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
