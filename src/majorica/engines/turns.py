"""Calls that several threads take in turn, the one that waits for the results among them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Result = TypeVar("Result")
#: Seconds that a helper waits for results to be asked for. Who asks may be gone, by an error that keeps it in memory.
PATIENCE = 1.0


class Turns(Generic[Result]):
    """Calls ``call(0)`` to ``call(count - 1)``; whoever is free takes the next one.

    No thread has to be woken to be handed a call, and the one that iterates
    works itself: on as many cores as threads nobody stands in another's way.
    Leaving the ``with`` block sends those who help away, whatever is left to
    do; they go by themselves when nobody has asked for a result for long, and
    then who iterates makes the other calls alone.

    Parameters
    ----------
    call : callable
        Gives the result of a number. What it raises is raised where its result is due.
    count : int
        Number of calls.
    window : int
        Results that may be there before they are due, at most.
    """

    def __init__(self, call: Callable[[int], Result], count: int, window: int) -> None:
        self._call, self._count, self._window = call, count, window
        self._taken = self._due = 0  # the next call, the next result
        self._done: dict[int, tuple[Result | None, BaseException | None]] = {}
        self._news = threading.Condition()

    def help(self) -> None:
        """Take calls until there are none left: what other threads do."""
        while (number := self._take(patient=True)) is not None:
            self._run(number)

    def __enter__(self) -> Turns[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        """Nobody will ask again: let those who help go."""
        with self._news:
            self._count = 0
            self._news.notify_all()

    def __iter__(self) -> Iterator[Result]:
        """Results in order."""
        while self._due < self._count:
            yield self._result()

    def _take(self, *, patient: bool) -> int | None:
        """Number of a call to make, or None if there is none: for good, or for now if not `patient`."""
        with self._news:
            if patient:
                self._news.wait_for(lambda: self._taken >= self._count or self._may_take(), PATIENCE)
            if not self._may_take():
                return None
            self._taken += 1
            return self._taken - 1

    def _may_take(self) -> bool:
        return self._taken < min(self._count, self._due + self._window)

    def _run(self, number: int) -> None:
        result, raised = None, None
        try:
            result = self._call(number)
        except BaseException as error:
            raised = error
        with self._news:
            self._done[number] = (result, raised)
            self._news.notify_all()
        if raised is not None and not isinstance(raised, Exception):
            raise raised  # an interruption does not wait for its turn

    def _result(self) -> Result:
        """The next result in order; makes calls of its own until it is there."""
        while self._due not in self._done:
            number = self._take(patient=False)
            if number is not None:
                self._run(number)
            else:
                with self._news:
                    self._news.wait_for(lambda: self._due in self._done)
        with self._news:
            result, error = self._done.pop(self._due)
            self._due += 1
            self._news.notify_all()
        if error is not None:
            try:
                raise error
            finally:
                del error  # it holds this frame, which would hold it
        return result  # type: ignore[return-value]
