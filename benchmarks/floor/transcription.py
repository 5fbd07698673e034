"""The paper's Algorithm 1 word for word in Numba, rank-one updates and all: what the bucketed solver is timed against.

Memory as in the solver (the point where each majorizer touches, float32) and
the same truncated M-step, so that both make the same iterates.
"""

from __future__ import annotations

from collections.abc import Callable

import numba as nb
import numpy as np

from benchmarks.floor.passes import make_problem
from majorica.densities import Huber
from majorica.densities.table import Densities
from majorica.solvers import Incremental
from majorica.solvers.base import BURST


@nb.njit(nogil=True, cache=True)
def _weight(y):
    return 1.0 / max(1.0, abs(y))


@nb.njit(nogil=True, cache=True)
def _dual(u):
    return 0.5 * (1.0 / u - 1.0)


@nb.njit(nogil=True, cache=True)
def _improve(A, w, c, iterations):
    """Conjugate gradient on ``A z = c`` from the best multiple of w."""
    z = w * (np.dot(c, w) / np.dot(w, np.dot(A, w)))
    r = c - np.dot(A, z)
    d = r.copy()
    for _ in range(iterations):
        Ad = np.dot(A, d)
        size, curvature = np.dot(r, r), np.dot(d, Ad)
        if not (size > 0 and curvature > 0):
            break
        z += size / curvature * d
        r -= size / curvature * Ad
        d = r + np.dot(r, r) / size * d
    return z / np.sqrt(np.dot(z, np.dot(A, z)))


@nb.njit(nogil=True, cache=True)
def run_pass(Z, W, moments, touch, order, batch, q, iterations):
    """One pass of Algorithm 1 over white samples `Z` in the given order of mini-batches."""
    n, p = Z.shape
    gap = np.empty(p)
    for number in order:
        for t in range(number * batch, min((number + 1) * batch, n)):
            z = Z[t]
            y = np.dot(W, z)
            for i in range(p):
                u0, u1 = _weight(np.float64(touch[t, i])), _weight(np.float64(np.float32(y[i])))
                gap[i] = 0.5 * (u0 - u1) * y[i] * y[i] + _dual(u0) - _dual(u1)
            for _ in range(q):
                i = np.argmax(gap)
                if not gap[i] > 0:
                    break
                new = np.float32(y[i])
                change = (_weight(np.float64(new)) - _weight(np.float64(touch[t, i]))) / n
                touch[t, i] = new
                gap[i] = -1.0
                for a in range(p):  # rank one
                    for b in range(p):
                        moments[i, a, b] += change * z[a] * z[b]
        for i in range(p):
            W[i] = _improve(moments[i], W[i], np.ascontiguousarray(np.linalg.inv(W)[:, i]), iterations)


def make_pair(
    X: np.ndarray, *, q: int = 2, batch: int = 1000
) -> tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]:
    """The solver and the transcription on a mixture of `X`, each a call that makes one more pass and gives its `W`."""
    mixing = np.random.default_rng(1).normal(size=(X.shape[1], X.shape[1]))
    problem = make_problem(np.ascontiguousarray(X @ mixing), 1)
    p, n = problem.p, problem.n
    solver = Incremental(q=q, batch_size=batch, tol=0)
    state = solver.init(problem, np.eye(p), Densities.same(Huber(), p), np.random.default_rng(0))
    state.burst = BURST
    Z = np.ascontiguousarray(problem.read(((0, n),)).astype(np.float64))
    W, moments, touch = np.eye(p), np.tile(np.eye(p), (p, 1, 1)), np.zeros((n, p), np.float32)
    rng = np.random.default_rng(0)

    def ours() -> np.ndarray:
        target = round(state.passes) + 1
        while state.passes < target:
            solver.step(problem, state)
            state.skipped.clear()
        return state.W

    def theirs() -> np.ndarray:
        run_pass(Z, W, moments, touch, rng.permutation(-(-n // batch)), batch, q, solver.iterations)
        return W

    return ours, theirs
