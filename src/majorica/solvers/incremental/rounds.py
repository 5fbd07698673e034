"""The incremental solver when all components are updated at each visit: rounds of blocks, one ledger entry a block.

The majorizers of a block touch at ``ledger[block] @ x``, so what a visit
changes is a pure function of the block, its old entry and the current W: it
can be computed anywhere, twice if need be, and an entry is replaced as a
whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from majorica.densities.table import Densities
from majorica.engines.base import total
from majorica.kernels import Backend, kernels_for
from majorica.problem import Problem
from majorica.sources.base import Block
from majorica.statistics import F64, Moments, pack_symmetric, unpack_symmetric

if TYPE_CHECKING:
    from majorica.solvers.incremental.solver import Incremental, IncrementalState

#: Blocks that share one W at most.
LONGEST_ROUND = 8
#: Rounds a pass at least; data of fewer blocks than twice this follow Algorithm 1 block by block.
ROUNDS_PER_PASS = 32


def round_length(blocks: int) -> int:
    """Blocks a round: a function of the data alone, so that every engine takes the same steps."""
    return max(1, min(LONGEST_ROUND, blocks // ROUNDS_PER_PASS))


def moment_changes(
    X: npt.NDArray[np.floating], W_old: F64, mean: F64, K: F64, W: F64, densities: Densities, backend: Backend
) -> Moments:
    """What changes in the surrogate's sums when a block's majorizers move from `W_old` to `W`; Eq. (updateamem)."""
    Z = ((X - mean.astype(X.dtype)) @ K.T.astype(X.dtype)).astype(np.float64)
    p, k = W.shape
    moments, tilts, offsets = np.zeros((p, k, k)), np.zeros((p, k)), np.zeros(p)
    chosen = np.ones((len(Z), p), dtype=bool)
    kernels_for(densities, backend).update_moments(
        Z, Z @ W.T, Z @ W_old.T, chosen, densities, np.ones(p), moments, tilts, offsets
    )
    return Moments(len(X), pack_symmetric(moments), tilts, offsets)


def run_round(solver: Incremental, problem: Problem, state: IncrementalState) -> F64:
    """Majorize the next blocks at one W, then minimise over every row; returns the surrogate, once a block.

    Both half-steps lower the surrogate, whatever the length of a round.
    """
    assert state.ledger is not None
    assert state.surrogate is not None
    numbers = state.order[state.position : state.position + round_length(len(state.order))]
    blocks = [block_of(solver, problem, int(number)) for number in numbers]
    old = [state.ledger[number].copy() for number in numbers]
    shared = shared_arguments(problem, state)
    change = total(problem.engine, problem.by(moment_changes), problem.source, blocks, *shared, each=old)
    apply_change(state, change, problem.n)
    state.ledger[numbers] = state.W
    return np.full(len(numbers), minimise(solver, problem, state))


def accept_message(state: IncrementalState, n: int, number: int, W_old: F64, W_new: F64, change: Moments) -> bool:
    """Take a message computed at an earlier W if it still lowers the surrogate at the current one.

    Parameters
    ----------
    state : IncrementalState
        Changed in place if the message counts.
    n : int
        Number of samples.
    number : int
        The block.
    W_old, W_new : ndarray (p, p)
        The entries the change leads from and to. A message whose `W_old` is
        not the block's present entry (sent twice, or overtaken) is void.
    change : Moments
        From :func:`moment_changes`.

    Returns
    -------
    bool
        Whether it counted.
    """
    assert state.ledger is not None
    if not np.array_equal(state.ledger[number], W_old):
        return False
    rows = unpack_symmetric(change.packed)
    quadratic = np.einsum("ij,ijk,ik->", state.W, rows, state.W)
    if not 0.5 * quadratic - (change.tilts * state.W).sum() + change.offsets.sum() < 0:
        return False
    apply_change(state, change, n)
    state.ledger[number] = W_new
    return True


def run_message(solver: Incremental, problem: Problem, state: IncrementalState) -> F64:
    """The asynchronous form of a step: one message from whichever worker is first, then an M-step."""
    assert state.ledger is not None
    mailbox: Any = problem.engine.mailbox(problem.source)  # type: ignore[attr-defined]
    posted = state.position + len(mailbox)
    while len(mailbox) < mailbox.capacity and posted < len(state.order):
        number = int(state.order[posted])
        W, W_old = state.W.copy(), state.ledger[number].copy()
        arguments = (W_old, *shared_arguments(problem, state))
        mailbox.post((number, W_old, W), problem.by(moment_changes), block_of(solver, problem, number), arguments)
        posted += 1
    (number, W_old, W_new), change = mailbox.receive()
    accept_message(state, problem.n, number, W_old, W_new, change)
    return np.array([minimise(solver, problem, state)])


def minimise(solver: Incremental, problem: Problem, state: IncrementalState) -> float:
    """One M-step over all rows; returns the surrogate."""
    assert state.surrogate is not None
    state.surrogate.minimise(
        state.W, state.inverse, state.densities, iterations=solver.iterations, backend=problem.backend
    )
    return state.surrogate.value(state.W, state.densities)


def apply_change(state: IncrementalState, change: Moments, n: int) -> None:
    """Add a change of sums to the surrogate's averages."""
    assert state.surrogate is not None
    state.surrogate.moments += unpack_symmetric(change.packed) / n
    state.surrogate.tilts += change.tilts / n
    state.surrogate.offsets += change.offsets / n


def shared_arguments(problem: Problem, state: IncrementalState) -> tuple[Any, ...]:
    """What :func:`moment_changes` needs besides the block and its entry."""
    return (problem.whitening.mean, problem.whitening.matrix, state.W.copy(), state.densities, problem.backend)


def block_of(solver: Incremental, problem: Problem, number: int) -> Block:
    """Mini-batch `number`."""
    start = number * solver.batch_size
    return ((start, min(start + solver.batch_size, problem.n)),)
