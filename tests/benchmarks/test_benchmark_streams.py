"""The benchmarks of streams: the rule on outliers can be switched off and does what the page says; blocks are timed."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.streams import latency
from benchmarks.streams.__main__ import both, rule

from majorica.solvers.online import outliers
from majorica.streaming import START_SAMPLES


def test_the_rule_is_switched_off_and_on_again() -> None:
    before = outliers.REACH, outliers.ROUNDS
    X = np.random.default_rng(0).normal(size=(2000, 3))
    X[5] *= 1e6
    with rule(on=False):
        assert np.inf == outliers.REACH
        assert outliers.draw_in_all(X)[0] is X
    with rule(on=True):
        assert before == (outliers.REACH, outliers.ROUNDS)
        assert outliers.draw_in_all(X)[1] > 1000
    assert before == (outliers.REACH, outliers.ROUNDS)


def test_one_fault_is_harmless_with_the_rule_alone() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    X = rng.laplace(size=(14_000, 3)) @ A.T
    X[12_000] *= 1e6
    with_it, without = both(X, A)
    assert with_it < 0.02
    assert without > 0.2


def test_every_block_is_timed_and_the_start_is_the_one_that_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "LEAST_AFTER", 3)
    learning, using, start = latency.seconds_of_blocks(3, 600)
    assert len(learning) == len(using) == START_SAMPLES // 600 + 3
    assert start * 600 < START_SAMPLES <= (start + 1) * 600
    assert (learning > 0).all()
    monkeypatch.setattr(latency, "CHANNELS", (3,))
    monkeypatch.setattr(latency, "BLOCKS", (600,))
    assert latency.lines()[-1].startswith("| 3 | 600 | ")
