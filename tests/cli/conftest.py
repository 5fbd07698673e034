"""Data and a model of it, for the commands."""

from __future__ import annotations

import numpy as np
import pytest
from program import samples

from majorica import ICA


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "x.npy", samples())
    return tmp_path / "x.npy"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.npz"
    ICA(random_state=0).fit(samples()).save(path)
    return path
