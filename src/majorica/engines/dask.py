"""Engine of a cluster: blocks over the workers of a ``dask.distributed`` client.

A pass is a set of pure tasks of (samples, parameters): when a worker dies,
Dask runs its tasks again elsewhere, and since sums are added in one fixed
tree, the result has the same bits. Samples stay on the workers; what travels
is the parameters of a pass out and one sum back.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from majorica.engines.base import FAN, total
from majorica.engines.cluster import Lost, Watch
from majorica.engines.mailbox import Mailbox
from majorica.engines.nearby import Nearby
from majorica.engines.placement import names
from majorica.engines.samples import ClusterSamples, Leaves
from majorica.engines.threads import ThreadEngine
from majorica.engines.worker import Job, add_trees, pass_on, run_job, size_of
from majorica.errors import ParameterError, WorkerError
from majorica.sources.base import Array, Block, Source

Result = TypeVar("Result")

#: Parameters larger than this go to the workers once a pass instead of once a task, in bytes.
SHARE_ABOVE = 100_000
#: Sums up to this many bytes come to the client in several pieces, which costs less than a task that adds them.
SMALL_SUM = 2**19
#: Times a pass is started again after data that only this process can send was lost with its workers.
ATTEMPTS = 4


@dataclass(frozen=True)
class PassProgress:
    """How far a pass is; what the engine's `progress` is called with."""

    task: str  #: what is computed, as in the dashboard
    number: int  #: of this pass, from 1
    blocks_done: int
    blocks: int


class DaskEngine:
    """Runs blocks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected, not asynchronous. It stays open.
    hold : bool, optional
        Whether workers keep the samples in memory between passes (True) or
        read them again for every pass (False). None keeps them if they fit
        into half of the workers' free memory.
    timeout : float, default=60
        Seconds without any worker after which a fit gives up.
    progress : callable, optional
        Called with a :class:`PassProgress` a few times a second.
    asynchronous : bool, default=False
        Let the incremental solver (all components updated) take messages as
        they come; fast with workers of uneven speed, still a descent, but
        no longer the same bits every time.

    Notes
    -----
    Samples that are held belong to the engine; :meth:`close` lets them go.
    One engine given to several fits of the same source reads it once.
    """

    remote = True  #: samples are not in this process

    def __init__(
        self,
        client: Any,
        *,
        hold: bool | None = None,
        timeout: float = 60.0,
        progress: Callable[[PassProgress], None] | None = None,
        asynchronous: bool = False,
    ) -> None:
        if getattr(client, "asynchronous", False):
            raise ParameterError("engine is an asynchronous Dask client; pass a Client(..., asynchronous=False)")
        self.client = client
        self.asynchronous = asynchronous
        self.progress = progress
        self.watch = Watch(client, timeout)
        self.samples = ClusterSamples(client, self.watch, self.name, hold=hold)
        self.nearby = Nearby(self.samples)
        self.threads = ThreadEngine()  # passes over what is nearby
        self._token = uuid.uuid4().hex[:8]
        self._count = itertools.count(1)
        self._passes = 0
        self._sizes: dict[str, int] = {}  # bytes of the sums of each kind of pass, once one has run
        self._mailbox: Mailbox | None = None

    def run(
        self,
        function: Callable[..., Result],
        source: Source,
        blocks: Sequence[Block],
        *shared: Any,
        each: Sequence[Any] | None = None,
    ) -> Iterator[Result]:
        """Results of `function`, one a block, in order."""
        given = 0
        for attempt in range(ATTEMPTS):
            try:
                later = blocks[given:] if given else blocks
                items = None if each is None else each[given:]
                nearby = self.nearby.once(source, later)
                if nearby is not None:
                    for result in self.threads.run(function, *nearby, *shared, each=items):
                        given += 1
                        yield result
                    return
                with _Pass(self, function, source, later, shared, items, add=False) as one:
                    for futures in one.windows():
                        for future in futures:
                            for result in copy.deepcopy(self.watch.result(future)):
                                given += 1
                                yield result
                return
            except Lost as lost:
                self._recover(source, lost, attempt)

    def total(
        self,
        function: Callable[..., Result],
        source: Source,
        blocks: Sequence[Block],
        *shared: Any,
        each: Sequence[Any] | None = None,
    ) -> Result:
        """Sum of the results, added on the workers in the tree of :class:`~majorica.engines.base.TreeSum`."""
        for attempt in range(ATTEMPTS):
            try:
                nearby = self.nearby.subset(source, blocks)
                if nearby is not None:
                    return total(self.threads, function, *nearby, *shared, each=each)
                with _Pass(self, function, source, blocks, shared, each, add=True) as one:
                    trees = one.reduce([tree for window in one.windows() for tree in window])
                    sum_: Result = add_trees(self.watch.results(trees)).sum()
                    self._sizes[one.task] = size_of(sum_)
                    return sum_
            except Lost as lost:
                self._recover(source, lost, attempt)
        raise AssertionError("the last attempt returns or raises")

    def read(self, source: Source, block: Block) -> Array:
        """The samples of one block, brought here from the workers if they hold them."""
        for attempt in range(ATTEMPTS):
            try:
                return self.nearby.read(source, block)
            except Lost as lost:
                self._recover(source, lost, attempt)
        raise AssertionError("the last attempt returns or raises")

    def expect(self, source: Source, blocks: Sequence[Block]) -> None:
        """Say which random subset a later pass will read: the workers put it together meanwhile."""
        if not self.nearby.expect(source, blocks):
            self.samples.expect(source, blocks)

    def mailbox(self, source: Source) -> Mailbox:
        """Messages of the asynchronous mode under way over `source`."""
        if self._mailbox is None or self._mailbox.source is not source:
            self._mailbox = Mailbox(self, source)
        return self._mailbox

    def close(self) -> None:
        """Let go of the samples held on the workers; the client stays open."""
        if self._mailbox is not None:
            self._mailbox.close()
            self._mailbox = None
        self.nearby.clear()
        self.nearby.forget()
        self.threads.close()
        self.samples.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _recover(self, source: Source, lost: Lost, attempt: int) -> None:
        """Forget what was lost with its workers, so that the next attempt sends it again."""
        if attempt == ATTEMPTS - 1:
            raise WorkerError(f"samples were lost with their workers {ATTEMPTS} times in one pass ({lost})") from lost
        self.nearby.forget()
        self.samples.forget(source)

    def name(self, what: str) -> str:
        """A task name for the dashboard, unique in the cluster."""
        return f"majorica-{what}-{self._token}{next(self._count):06x}"

    def _report(self, task: str, done: int, blocks: int) -> None:
        if self.progress is not None:
            self.progress(PassProgress(task, self._passes, done, blocks))


class _Pass:
    """One pass: submits its tasks in windows, two at a time, and cancels what is left when it is abandoned."""

    def __init__(
        self,
        engine: DaskEngine,
        function: Callable[..., Any],
        source: Source,
        blocks: Sequence[Block],
        shared: tuple[Any, ...],
        each: Sequence[Any] | None,
        *,
        add: bool,
    ) -> None:
        self.engine, self.client, self.watch = engine, engine.client, engine.watch
        self.function, self.each, self.add = function, each, add
        self.task = getattr(function, "__name__", "pass").strip("_").replace("_", "-")
        self.n_blocks = len(blocks)
        self.leaves: Leaves = engine.samples.leaves(source, blocks)
        self.live: deque[list[Any]] = deque()  #: futures of the windows under way
        self.upper: list[Any] = []  #: futures above them
        small = engine._sizes.get(self.task, SMALL_SUM + 1) <= SMALL_SUM
        # Trees of large sums are added two at a time, since a worker must have room for what it adds.
        self.most, self.together = (FAN, FAN) if small else (1, 2)
        share = len(self.leaves) > 1 and len(pickle.dumps(shared)) > SHARE_ABOVE
        self.inline = None if share else shared
        self.future = self.client.submit(pass_on, *shared, key=engine.name("parameters"), pure=False) if share else None
        engine._passes += 1

    def __enter__(self) -> _Pass:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.watch.cancel([*itertools.chain(*self.live), *self.upper])
        self.live.clear()
        self.upper.clear()
        self.future = None

    def windows(self) -> Iterator[list[Any]]:
        """Finished windows of tasks, in order, each added up as far as the client needs."""
        size = self.leaves.window(FAN * FAN)
        runs = self.leaves.runs(add=self.add)
        starts = range(0, len(runs), size)
        submitted: deque[tuple[list[tuple[int, int]], list[Any], list[Any]]] = deque()
        for start in starts:
            submitted.append(self._submit(runs[start : start + size], most=self.most if len(starts) == 1 else 1))
            if len(submitted) == 2:
                yield self._finish(*submitted.popleft())
        while submitted:
            yield self._finish(*submitted.popleft())

    def _submit(self, runs: list[tuple[int, int]], most: int) -> tuple[list[tuple[int, int]], list[Any], list[Any]]:
        """Send the tasks of `runs` of leaves, and those that add them up to `most` trees."""
        jobs = []
        for run in runs:
            first, end = self.leaves.bounds(*run)
            each = None if self.each is None else self.each[first:end]
            jobs.append(Job(self.function, self.leaves.held_blocks[first:end], each, self.inline, self.add, first))
        source, inputs = self.leaves.inputs(runs)
        count = len(jobs)
        keys = names(self.engine.name(self.task), count)
        futures = list(
            self.client.map(run_job, jobs, [self.future] * count, [source] * count, inputs, key=keys, pure=False)
        )
        self.live.append(futures)
        if not self.add:
            return runs, futures, futures
        trees = self.reduce(futures, most)
        self.upper.extend(tree for tree in trees if tree not in futures)
        return runs, futures, trees

    def _finish(self, runs: list[tuple[int, int]], futures: list[Any], trees: list[Any]) -> list[Any]:
        """Wait for a window; raise by name if one of its tasks failed."""

        def report() -> None:
            done = sum(future.done() for future in futures)
            self.engine._report(self.task, self.leaves.bounds(*runs[max(done, 1) - 1])[1], self.n_blocks)

        self.watch.wait(futures, report if self.engine.progress is not None else None)
        for run, future in zip(runs, futures, strict=True):
            if future.status == "error":
                self._raise_failure(run, future)
        self.watch.wait([tree for tree in trees if tree not in futures])
        self.engine._report(self.task, self.leaves.bounds(*runs[-1])[1], self.n_blocks)
        self.live.popleft()
        return trees

    def _raise_failure(self, run: tuple[int, int], future: Any) -> None:
        """Name the blocks that failed as narrowly as is known."""
        first, end = self.leaves.bounds(*run)
        block = getattr(future.exception(), "majorica_block", None)
        if block is not None:
            first, end = first + block, first + block + 1
        elif self.leaves.held is not None:
            for i in range(run[0], min(run[1] + 1, len(self.leaves))):  # a block may end in the leaf after its own
                if self.leaves.held[i].status == "error":
                    first, end = self.leaves.bounds(i, i + 1)
                    if i in self.leaves.beyond:  # the first block that needs it began in the leaf before
                        first, end = first - 1, first
                    break
        self.watch.raise_failure(future, self.task, (first, end, self.n_blocks), self.leaves.blocks[first:end])

    def reduce(self, trees: list[Any], most: int | None = None) -> list[Any]:
        """Add trees of neighbours on the workers until at most `most` are left."""
        while len(trees) > (self.most if most is None else most):
            groups = [trees[i : i + self.together] for i in range(0, len(trees), self.together)]
            keys = names(self.engine.name("sum"), len(groups))
            trees = list(self.client.map(add_trees, groups, key=keys, pure=False))
        return trees
