"""What tells a checkpoint's data from other data: samples spread over all of it, few enough for any source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from majorica import ICA
from majorica.errors import CheckpointError
from majorica.problem import pass_block_length
from majorica.sources import as_source, fingerprint
from majorica.sources.base import Array
from majorica.sources.matrix import MatrixSource


class Made(MatrixSource):
    """Samples made when read, each its own number; counts what is asked for."""

    def __init__(self, n: int, f: int, *, edited: range = range(0)) -> None:
        self.n_samples, self.n_features, self.dtype = n, f, np.dtype(np.float32)
        self.edited = edited
        self.ranges: list[tuple[int, int]] = []

    def _load(self, start: int, stop: int) -> Array:
        self.ranges.append((start, stop))
        rows = np.arange(start, stop, dtype=np.float32)
        rows[np.isin(np.arange(start, stop), self.edited)] = -1.0
        return np.repeat(rows[:, None], self.n_features, axis=1)


@pytest.mark.parametrize(
    ("n", "f"), [(2, 3), (500, 3), (5000, 3), (100_000, 10), (10_000_000, 100), (10**9, 1), (2000, 50_000)]
)
def test_few_short_ranges_are_read_from_end_to_end(n: int, f: int) -> None:
    source = Made(n, f)
    fingerprint(source)
    starts, stops = np.array(source.ranges).T
    assert starts[0] == 0
    assert stops[-1] == n
    journeys = max(16, min(64, -(-n // pass_block_length(f))))
    assert len(starts) <= journeys
    samples = (stops - starts).sum()
    assert samples <= 4096
    assert samples * f <= max(64 * f, 2**21)
    if n >= 10**7:
        assert len(starts) == 64
        assert np.diff(starts).max() <= n / 60


def test_an_edit_anywhere_of_some_length_is_noticed() -> None:
    plain = fingerprint(Made(1_000_000, 20))
    for start in range(0, 980_001, 70_000):
        assert fingerprint(Made(1_000_000, 20, edited=range(start, start + 20_000))) != plain


def test_little_data_is_read_whole() -> None:
    X = np.random.default_rng(0).normal(size=(1300, 4))
    whole = fingerprint(as_source(X))
    for row in (0, 1, 433, 1298, 1299):
        other = X.copy()
        other[row, 3] += 1e-12
        assert fingerprint(as_source(other)) != whole


def test_a_checkpoint_of_data_edited_in_a_third_is_refused(tmp_path: Path) -> None:
    """Three ranges, at both ends and in the middle, would not see this."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(200_000, 4)) @ rng.normal(size=(4, 4))
    path = tmp_path / "run.ckpt"

    def stop(step: object) -> None:
        raise KeyboardInterrupt

    with pytest.warns(match="interrupted"):
        ICA(random_state=0, callbacks=stop).fit(X, checkpoint=path, checkpoint_every=0)
    X[20_000:90_000] *= 1.5
    with pytest.raises(CheckpointError, match="data was"):
        ICA(random_state=0).fit(X, checkpoint=path)
