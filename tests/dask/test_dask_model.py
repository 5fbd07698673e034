"""Fitted models on Dask collections are lazy; a fit leaves the samples on the workers."""

from __future__ import annotations

import dask
import dask.array as da
import numpy as np
import pytest

from majorica import ICA
from majorica.engines.dask import DaskEngine
from majorica.errors import DataError

pytestmark = pytest.mark.timeout(120)

N = 240_000


@pytest.fixture(scope="module")
def fitted(samples) -> ICA:
    return ICA(density="huber", random_state=0, max_iter=3, tol=0).fit(samples[:20_000])


def test_transform_and_back_are_lazy(fitted, samples, lazy_samples) -> None:
    array = lazy_samples(100_000, 140_000, columns=(2, 4))
    with dask.config.set(scheduler=refuse):
        sources = fitted.transform(array)
        back = fitted.inverse_transform(sources)
    assert sources.chunks == ((100_000, 140_000), (6,))
    assert sources.dtype == np.float32
    assert str(sources.name).startswith("majorica-transform")
    np.testing.assert_allclose(sources.compute(), fitted.transform(samples), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(back.compute(), samples, rtol=1e-3, atol=1e-3)


def refuse(*args: object, **options: object) -> None:
    raise AssertionError("something was computed")


def test_unknown_lengths_frames_and_delayed_blocks(fitted, samples, lazy_samples) -> None:
    array = lazy_samples(100_000, 140_000)
    some = array[array[:, 0] > 5]
    expected = fitted.transform(samples[samples[:, 0] > 5])
    np.testing.assert_allclose(fitted.transform(some).compute(), expected, rtol=1e-4, atol=1e-5)
    blocks = [dask.delayed(samples[:100]), dask.delayed(samples[100:150])]
    np.testing.assert_allclose(
        fitted.transform(blocks).compute(), fitted.transform(samples[:150]), rtol=1e-4, atol=1e-4
    )
    pytest.importorskip("dask.dataframe")
    frame = array.to_dask_dataframe(columns=list("abcdef"))
    np.testing.assert_allclose(fitted.transform(frame).compute(), fitted.transform(samples), rtol=1e-4, atol=1e-5)


def test_columns_in_another_order_are_refused(samples) -> None:
    pytest.importorskip("dask.dataframe")
    frame = da.from_array(samples[:2000]).to_dask_dataframe(columns=list("abcdef"))
    ica = ICA(density="huber", random_state=0).fit(frame)
    for method in (ica.transform, ica.score, ica.partial_fit):
        with pytest.raises(DataError, match="order differs: feature 0 is 'f' and was 'a'"):
            method(frame[list("fbcdea")])


def test_errors(fitted) -> None:
    with pytest.raises(DataError, match="X has 5 features, but ICA is expecting 6"):
        fitted.transform(da.ones((10, 5)))
    with pytest.raises(DataError, match="NaN"):
        fitted.transform(da.full((10, 6), np.nan)).compute()
    with pytest.raises(DataError, match="NaN"):
        fitted.inverse_transform(da.full((10, 6), np.nan)).compute()
    with pytest.raises(DataError, match="Complex"):
        fitted.inverse_transform(da.full((10, 6), 1j))


def test_score_and_memory_of_the_client(cluster, fitted, samples, lazy_samples) -> None:
    """A fit and a score: the workers do the passes, the client's memory stays far below the data's."""
    psutil = pytest.importorskip("psutil")
    array = da.concatenate([lazy_samples(100_000, 140_000)] * 10).rechunk((100_000, -1))
    process = psutil.Process()
    with cluster.client.as_current(), DaskEngine(cluster.client) as engine:
        assert fitted.score(lazy_samples(100_000, 140_000)) == fitted.score(samples)
        ICA(density="huber", random_state=0, max_iter=2, tol=0).fit(lazy_samples(N), engine=engine)
        before = process.memory_info().rss
        ICA(density="huber", random_state=0, max_iter=2, tol=0).fit(array, engine=engine)
        grown = process.memory_info().rss - before
    assert array.nbytes > 5e7
    assert grown < 0.3 * array.nbytes
