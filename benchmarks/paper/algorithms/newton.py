"""Fast relative Newton (Zibulevsky 2003), as FR-Newton in the paper (section 4.1).

In relative coordinates ``W <- (I + D) W`` the Hessian is approximated by
blocks of 2 x 2, ``[[h_ij, 1], [1, h_ji]]`` with ``h_ij = E[G''(y_i)] E[y_j^2]``;
blocks whose smallest eigenvalue is below 0.01 are shifted. The step is halved
until the loss falls (10 times at most), else the gradient is followed.

One evaluation of loss, gradient and Hessian at a point is one pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.paper.datasets import Finite
from benchmarks.paper.model import loss, relative_gradient, statistics
from benchmarks.paper.recorder import Recorder
from majorica.statistics import Statistics

#: Smallest eigenvalue a block may have.
FLOOR = 0.01
#: Halvings of a step.
TRIES = 10
#: A rise of the loss by rounding alone, relative: it is not a reason to refuse a step.
ROUNDING = 1e-14


@dataclass
class Point:
    """An iterate with what one pass at it gives."""

    W: np.ndarray
    loss: float
    sums: Statistics

    @property
    def gradient(self) -> np.ndarray:
        """Relative gradient."""
        return relative_gradient(self.sums)


def evaluate(X: np.ndarray, W: np.ndarray) -> Point:
    """One pass at `W`."""
    sums = statistics(X, W)
    return Point(W, loss(W, sums), sums)


def direction(point: Point) -> np.ndarray:
    """The Newton direction of the block Hessian."""
    sums, gradient = point.sums, point.gradient
    h = np.outer(sums.curvature / sums.n, sums.power / sums.n)
    smallest = 0.5 * (h + h.T - np.sqrt((h - h.T) ** 2 + 4))
    h += np.where(smallest < FLOOR, FLOOR - smallest, 0.0)
    determinant = h * h.T - 1
    np.fill_diagonal(determinant, 1.0)
    D = (gradient.T - h.T * gradient) / determinant
    np.fill_diagonal(D, -np.diag(gradient) / (sums.diagonal / sums.n + 1))
    return D


def line_search(X: np.ndarray, point: Point, D: np.ndarray) -> tuple[Point | None, int]:
    """The first of D, D/2, D/4, ... that lowers the loss, and the passes it took; None if none does."""
    bound = point.loss + ROUNDING * max(1.0, abs(point.loss))
    for tried in range(1, TRIES + 1):
        new = evaluate(X, point.W + 0.5 ** (tried - 1) * (D @ point.W))
        if new.loss < bound:
            return new, tried
    return None, TRIES


def step(X: np.ndarray, point: Point) -> tuple[Point | None, int]:
    """One iteration: Newton, or gradient if that fails; None at the end of the road."""
    new, passes = line_search(X, point, direction(point))
    if new is None:
        new, more = line_search(X, point, -point.gradient)
        passes += more
    return new, passes


def run(data: Finite, recorder: Recorder, rng: np.random.Generator, *, tol: float = 1e-10) -> None:
    """The finite sum, until no gradient entry exceeds `tol`."""
    start = data.start
    recorder.start()
    recorder.record(0.0, start)
    point: Point | None = evaluate(data.X, start)
    passes = 1
    while point is not None and not recorder.over and np.abs(point.gradient).max() > tol:
        point, used = step(data.X, point)
        passes += used
        if point is not None:
            recorder.record(passes, point.W)
