"""Clusters that speak TLS: nothing of ours opens a connection, so a secured client is a client like any other."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

from majorica import ICA

pytest.importorskip("cryptography")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_same_bits_over_tls(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(6000, 3)) @ rng.normal(size=(3, 3))
    expected = ICA(random_state=0).fit(X)
    security = Security.temporary()
    options = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "local_directory": str(tmp_path)}
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tls://", security=security, **options
        ) as cluster,
        Client(cluster, security=security, set_as_default=False) as client,
    ):
        assert client.scheduler.address.startswith("tls://127.0.0.1")
        got = ICA(random_state=0).fit(da.from_array(X, chunks=(1700, 3)), engine=client)
    np.testing.assert_array_equal(got.components_, expected.components_)
