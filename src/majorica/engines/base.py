"""What an engine is: it runs a pure function over blocks and gives the results in block order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from majorica.sources.base import Block, Source

Result = TypeVar("Result")

#: Results added at each node of the tree of sums; part of the definition of a sum's bits.
FAN = 8


class Engine(Protocol):
    """Runs ``function(X_block, *shared)`` for each block of a source.

    Results come in the order of `blocks`, whatever the number of workers:
    adding them up in one fixed tree gives the same bits on every engine. An
    engine may have a method ``total`` with the arguments of :func:`total`
    that adds up where the results are, a method ``read(source, block)``
    where it knows a shorter way to the samples than the source, a method
    ``expect(source, blocks)`` that is told which subset comes next, a method
    ``assist(work, most)`` that lends threads to a call under way, and an
    engine ``threads`` of this process for passes over samples that are here.
    """

    def run(
        self,
        function: Callable[..., Result],
        source: Source,
        blocks: Sequence[Block],
        *shared: Any,
        each: Sequence[Any] | None = None,
    ) -> Iterator[Result]:
        """Results of `function`, one a block, in order.

        With `each`, one item a block, calls ``function(X_block, item, *shared)``.
        """
        ...

    def close(self) -> None:
        """Release threads or connections."""
        ...


class TreeSum(Generic[Result]):
    """Adds results in a fixed tree: runs of `fan` neighbours in order, then runs of `fan` such sums, and so on.

    The sum depends on the results and their order alone, and a stretch of
    them can be added wherever they are: the tree of a stretch holds one
    partial sum a level, and those sums whose run began before it, at most
    ``fan - 1`` a level. Results are changed in place (``+=``).

    Parameters
    ----------
    fan : int, optional
        Results added at each node; ``FAN`` when None.
    first : int, default=0
        Number of the first block of the stretch.
    """

    def __init__(self, fan: int | None = None, first: int = 0) -> None:
        self.fan = FAN if fan is None else fan
        self.first = self.end = first
        self._heads: list[tuple[Result, int]] = []  # (sum, level): the run began before this stretch
        self._levels: list[tuple[Result, int] | None] = []  # (sum, how many of the run are in it)

    def add(self, result: Result, level: int = 0) -> None:
        """Take the next result, a sum of ``fan ** level`` blocks."""
        number = self.end // self.fan**level  # of this sum among those of its level
        self.end += self.fan**level
        while True:
            while len(self._levels) <= level:
                self._levels.append(None)
            partial = self._levels[level]
            if partial is not None:
                sum_, count = partial
                sum_ += result  # type: ignore[operator]
                partial = (sum_, count + 1)
            elif number % self.fan == 0:
                partial = (result, 1)
            else:
                self._heads.append((result, level))
                return
            if partial[1] < self.fan:
                self._levels[level] = partial
                return
            self._levels[level] = None
            result, level, number = partial[0], level + 1, number // self.fan

    def extend(self, later: TreeSum[Result]) -> None:
        """Take the stretch that follows; `later` stays as it is, since a retry may need it."""
        if later.first != self.end:
            raise ValueError(f"blocks {self.end} to {later.first} are missing")
        for sum_, level in later._heads:
            self.add(sum_, level)
        while len(self._levels) < len(later._levels):
            self._levels.append(None)
        for level, partial in enumerate(later._levels):
            if partial is not None:  # its run begins in `later`, so there is nothing of it here
                self._levels[level] = (copy.deepcopy(partial[0]), partial[1])
        self.end = later.end

    def sum(self) -> Result:
        """The sum of all results taken, from block 0 on; at least one is needed."""
        if self.first:
            raise ValueError(f"the blocks before block {self.first} are missing")
        partials = [partial[0] for partial in self._levels if partial is not None]
        sum_ = partials[0]
        for upper in partials[1:]:
            upper += sum_  # type: ignore[operator]
            sum_ = upper
        return sum_


def total(
    engine: Engine,
    function: Callable[..., Result],
    source: Source,
    blocks: Sequence[Block],
    *shared: Any,
    each: Sequence[Any] | None = None,
    small: bool = False,
) -> Result:
    """Sum of the blocks' results, added in the tree of :class:`TreeSum`; the same bits on every engine.

    Says `small` who knows that many results at once take little memory.
    """
    own: Callable[..., Result] | None = getattr(engine, "total", None)
    if own is not None:
        return own(function, source, blocks, *shared, each=each)
    if len(blocks) == 1:
        return next(iter(engine.run(function, source, blocks, *shared, each=each)))
    tree: TreeSum[Result] = TreeSum()
    together = getattr(engine, "run_together", None) if small and each is None else None
    if together is not None:
        results = together(function, source, blocks, *shared)
    else:
        results = engine.run(function, source, blocks, *shared, each=each)
    for result in results:
        tree.add(result)
    return tree.sum()


@contextmanager
def assisted(
    engine: Engine | None, most: int, work: Callable[[bool], object], stop: Callable[[], None]
) -> Iterator[None]:
    """At most so many other threads of `engine` are at ``work(False)`` meanwhile, and told to `stop` at the end."""
    assist = getattr(engine, "assist", None)
    helpers = [] if assist is None else assist(work, most)
    try:
        yield
    finally:
        stop()
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()  # raises what it failed with
