"""What an engine is: it runs a pure function over blocks and gives the results in block order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from majorica.sources.base import Block, Source

Result = TypeVar("Result")


class Engine(Protocol):
    """Runs ``function(X_block, *shared)`` for each block of a source.

    Results come in the order of `blocks`, whatever the number of workers:
    adding them up in that order gives the same bits on every engine.
    """

    def run(
        self, function: Callable[..., Result], source: Source, blocks: Sequence[Block], *shared: Any
    ) -> Iterator[Result]:
        """Results of `function`, one a block, in order."""
        ...

    def close(self) -> None:
        """Release threads or connections."""
        ...


def total(
    engine: Engine, function: Callable[..., Result], source: Source, blocks: Sequence[Block], *shared: Any
) -> Result:
    """Sum of the blocks' results, added in block order (``+=`` on the first)."""
    results = engine.run(function, source, blocks, *shared)
    sum_ = next(results)
    for result in results:
        sum_ += result  # type: ignore[operator]
    return sum_
