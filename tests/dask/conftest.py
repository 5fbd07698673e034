"""What the tests of clusters share: one data set as a file, read by workers, and one cluster a module."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("distributed")

from loopback import LoopbackCluster

N, P = 240_000, 6


@pytest.fixture(scope="session")
def samples() -> np.ndarray:
    rng = np.random.default_rng(3)
    return (rng.laplace(size=(N, P)) @ rng.normal(size=(P, P)) + 5.0).astype(np.float32)


@pytest.fixture(scope="session")
def samples_path(samples, tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("samples") / "samples.npy")
    np.save(path, samples)
    return path


@pytest.fixture(scope="session")
def lazy_samples(samples_path):
    """Makes Dask arrays of the samples, in any chunks, that workers read from the file."""
    import dask
    import dask.array as da

    def make(*lengths: int, columns: tuple[int, ...] = (P,)):
        array = da.from_delayed(dask.delayed(np.load)(samples_path, mmap_mode="r"), shape=(N, P), dtype=np.float32)
        bounds = np.cumsum([0, *lengths])
        parts = [array[start:stop] for start, stop in itertools.pairwise(bounds)]
        return da.concatenate(parts, axis=0).rechunk({1: columns})

    return make


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LoopbackCluster(tmp_path_factory.mktemp("cluster"), workers=1) as cluster:
        yield cluster
