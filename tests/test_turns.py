"""Calls taken in turn by several threads: order, bounds, errors and interruptions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from majorica.engines import ThreadEngine, total
from majorica.engines.turns import Turns
from majorica.sources import as_source
from majorica.sources.base import split_blocks

WAIT = 30.0  # seconds after which a test that hangs fails


def test_who_iterates_works_alone_if_nobody_helps() -> None:
    here = threading.get_ident()
    assert list(Turns(lambda number: (number, threading.get_ident()), 9, 4)) == [(i, here) for i in range(9)]
    assert list(Turns(str, 0, 4)) == []


@pytest.mark.parametrize("helpers", [1, 3])
@pytest.mark.parametrize("window", [1, 4, 100])
def test_results_come_in_order_and_each_call_is_made_once(helpers: int, window: int) -> None:
    made = []

    def call(number: int) -> int:
        made.append(number)
        return number * number

    turns = Turns(call, 200, window)
    with ThreadPoolExecutor(helpers) as pool:
        ended = [pool.submit(turns.help) for _ in range(helpers)]
        assert list(turns) == [i * i for i in range(200)]
        assert all(future.result(WAIT) is None for future in ended)
    assert sorted(made) == list(range(200))


def test_helpers_go_no_further_ahead_than_the_window() -> None:
    made, full = [], threading.Event()

    def call(number: int) -> int:
        made.append(number)
        if len(made) == 3:
            full.set()
        return number

    turns = Turns(call, 50, 3)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(turns.help)
        assert full.wait(WAIT)
        with pytest.raises(TimeoutError):
            ended.result(0.05)
        assert made == [0, 1, 2]
        assert list(turns) == list(range(50))


def test_an_error_is_raised_where_its_result_is_due_and_ends_the_helpers() -> None:
    def call(number: int) -> int:
        if number in (5, 7):
            raise ValueError(f"block {number}")
        return number

    turns = Turns(call, 100, 8)
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(turns.help) for _ in range(2)]
        with turns:
            results = iter(turns)
            assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
            with pytest.raises(ValueError, match="block 5"):
                next(results)
        assert all(future.result(WAIT) is None for future in ended)


def test_an_interruption_does_not_wait_for_its_turn() -> None:
    running, stop = threading.Event(), threading.Event()

    def call(number: int) -> int:
        if number == 0:
            running.set()
            assert stop.wait(WAIT)
            return number
        raise KeyboardInterrupt

    turns = Turns(call, 10, 8)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(turns.help)
        assert running.wait(WAIT)
        with turns, pytest.raises(KeyboardInterrupt):
            next(iter(turns))
        stop.set()
        assert ended.result(WAIT) is None


def test_who_stops_asking_frees_the_helpers() -> None:
    turns = Turns(lambda number: number, 100, 2)
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(turns.help)
        with turns:
            assert next(iter(turns)) == 0
        assert ended.result(WAIT) is None


class Sticky:
    """A result that cannot be added."""

    def __iadd__(self, other: Sticky) -> Sticky:
        raise MemoryError("no room for a sum")


def test_an_error_of_who_adds_up_does_not_keep_the_engine_open() -> None:
    engine, source = ThreadEngine(2), as_source(np.zeros((1000, 3)))
    with pytest.raises(MemoryError) as caught:
        total(engine, lambda X: Sticky(), source, split_blocks(1000, 7))
    assert caught.tb is not None  # holds the pass, which is not closed
    engine.close()  # waits for its threads


def test_a_pass_that_is_left_frees_the_engine() -> None:
    engine, source = ThreadEngine(2), as_source(np.zeros((1000, 3)))
    results = engine.run(len, source, split_blocks(1000, 7))
    assert next(results) == 7
    results.close()
    engine.close()  # waits for its threads
