"""A file larger than memory
=========================

Samples are read from a ``.npy`` file block by block and are never in memory as
a whole. The files here are small; the code is the same for one of a terabyte,
and for .zarr, .h5, .parquet, .fif or .edf files.

Run it: ``python examples/larger_than_memory.py [figure.png]``
"""

import sys
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from majorica import ICA, amari_distance


def write(path, n, A, seed=0):
    """`n` mixed samples into a file, a block at a time."""
    rng = np.random.default_rng(seed)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, len(A)))
    for start in range(0, n, 50_000):
        file[start : start + 50_000] = rng.laplace(size=(min(50_000, n - start), len(A))) @ A.T
    file.flush()


def main(path="larger_than_memory.png", p=12):
    A = np.random.default_rng(1).normal(size=(p, p))
    ICA(random_state=0).fit(np.random.default_rng(0).laplace(size=(1000, p)))  # compile first
    sizes, peaks = [50_000, 200_000, 800_000], []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            file = Path(folder) / "samples.npy"
            write(file, n, A)
            tracemalloc.start()
            ica = ICA(density="huber", n_jobs=1, random_state=0).fit(file)
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
            megabytes = file.stat().st_size / 1e6
            error = amari_distance(ica.components_, A * np.sqrt(2))
            print(f"{megabytes:6.1f} MB on disk, {peaks[-1]:5.1f} MB in memory, Amari distance {error:.4f}")

    figure, axis = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    disk = [4 * n * p / 1e6 for n in sizes]
    axis.plot(disk, disk, "--", color="#8a97a3", label="loading it")
    axis.plot(disk, peaks, "o-", color="#0f766e", label="Majorica")
    axis.set(xlabel="MB on disk", ylabel="most MB in memory", ylim=(0, None))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    return peaks


if __name__ == "__main__":
    main(*sys.argv[1:])
