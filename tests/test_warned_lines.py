"""Warnings point at the line of the caller, however deep within the package something odd is noticed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from majorica import ICA
from majorica.errors import MajoricaWarning, OutlierWarning, RankWarning
from majorica.sources import as_source

RNG = np.random.default_rng(0)
MIXED = RNG.laplace(size=(2000, 3)) @ RNG.normal(size=(3, 3))
CONSTANT = np.hstack([MIXED, np.ones((2000, 1))])


def stream_with_a_fault():
    ica = ICA(random_state=0).partial_fit(np.tile(MIXED, (6, 1)))
    ica.partial_fit(np.vstack([MIXED[:200], 1e6 * MIXED[:1], MIXED[200:]]))


def csv(folder):
    path = folder / "table.csv"
    path.write_text(",a,b\n" + "".join(f"{i},{i * 0.5},{i * i}\n" for i in range(30)))
    as_source(str(path)).close()


@pytest.mark.parametrize(
    ("act", "category"),
    [
        (lambda _: ICA(random_state=0).fit(CONSTANT), RankWarning),
        (lambda _: ICA(random_state=0).fit_transform(CONSTANT), RankWarning),
        (lambda _: make_pipeline(StandardScaler(), ICA(random_state=0)).fit_transform(CONSTANT), RankWarning),
        (lambda _: stream_with_a_fault(), OutlierWarning),
        (csv, MajoricaWarning),
    ],
    ids=["fit", "fit_transform", "pipeline", "stream", "table"],
)
def test_the_line_is_the_callers(act, category, tmp_path):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        act(tmp_path)
    ours = [one for one in told if issubclass(one.category, category)]
    assert ours
    assert {one.filename for one in ours} == {__file__}
