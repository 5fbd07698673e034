"""What an engine is: it runs a pure function over blocks and gives the results in block order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    that adds up where the results are.
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

    The sum depends on the results and their order alone, and a run can be
    added wherever its results are. Holds one partial sum a level; results
    are changed in place (``+=``).
    """

    def __init__(self, fan: int | None = None) -> None:
        self.fan = FAN if fan is None else fan
        self._levels: list[tuple[Result, int] | None] = []

    def add(self, result: Result, level: int = 0) -> None:
        """Take the next result, a sum of ``fan ** level`` blocks."""
        while True:
            while len(self._levels) <= level:
                self._levels.append(None)
            partial = self._levels[level]
            if partial is None:
                partial = (result, 1)
            else:
                sum_, count = partial
                sum_ += result  # type: ignore[operator]
                partial = (sum_, count + 1)
            if partial[1] < self.fan:
                self._levels[level] = partial
                return
            self._levels[level] = None
            result, level = partial[0], level + 1

    def sum(self) -> Result:
        """The sum of all results taken; at least one is needed."""
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
) -> Result:
    """Sum of the blocks' results, added in the tree of :class:`TreeSum`; the same bits on every engine."""
    own: Callable[..., Result] | None = getattr(engine, "total", None)
    if own is not None:
        return own(function, source, blocks, *shared, each=each)
    if len(blocks) == 1:
        return next(iter(engine.run(function, source, blocks, *shared, each=each)))
    tree: TreeSum[Result] = TreeSum()
    for result in engine.run(function, source, blocks, *shared, each=each):
        tree.add(result)
    return tree.sum()
