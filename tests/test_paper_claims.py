"""Claims of the paper that are not lemmas: EM, conditioning near the solution, and recovery."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from sklearn.decomposition import FastICA

from majorica import ICA
from majorica.densities import Huber, LogCosh, Student
from majorica.metrics import amari_distance
from majorica.solvers import Incremental, drive
from makers import densities_of, laplace, make_problem, unit_rows


def gaussian(y: float, eta: float) -> float:
    """A centred Gaussian of variance `eta` at `y`."""
    return float(np.exp(-y * y / (2 * eta)) / np.sqrt(2 * np.pi * eta))


def student_mixture(dof: float):
    """The distribution q(eta) of the variance whose mixture is Student's: inverse gamma."""

    def q(eta: float) -> float:
        a = dof / 2
        return float(np.exp(a * np.log(a) - gammaln(a) - (a + 1) * np.log(eta) - a / eta))

    return q


def logcosh_mixture(eta: float) -> float:
    """The q(eta) whose mixture is 1 / (pi cosh y): a series over Laplace pieces.

    ``1 / cosh y = 2 sum_k (-1)^k exp(-(2k+1) |y|)`` and each Laplace piece is
    an exponential mixture of Gaussians. For small `eta` the series' dual is
    used (Poisson summation), which has positive terms only.
    """
    odd = 2 * np.arange(60) + 1
    signs = (-1.0) ** np.arange(60)
    if eta > 0.8:
        return float((2 / np.pi) * (signs * odd * np.exp(-(odd**2) * eta / 2)).sum())
    dual = (odd * np.pi / 2) ** 2
    terms = signs * odd * np.exp(-dual / (2 * eta))
    return float((2 / np.pi) * (np.pi / (2 * eta)) ** 1.5 * terms.sum())


def integral(function, *, tiny: float = 1e-6) -> float:
    """Over (0, inf), in the logarithm of eta."""
    edges = np.linspace(np.log(tiny), np.log(1e8), 40)
    pieces = [quad(lambda s: function(np.exp(s)) * np.exp(s), a, b, limit=100)[0] for a, b in pairwise(edges)]
    return sum(pieces)


@pytest.mark.parametrize(
    ("density", "q"),
    [(LogCosh(), logcosh_mixture), (Student(3.0), student_mixture(3.0)), (Student(7.0), student_mixture(7.0))],
    ids=["logcosh", "student-3", "student-7"],
)
@pytest.mark.parametrize("y", [0.1, 0.7, 2.0, 5.0])
def test_posterior_mean_of_the_precision_is_the_weight(density, q, y: float) -> None:
    """Appendix A: E[1/eta | y] = u*(y), so the E-step is the majorization step."""
    d = integral(lambda eta: gaussian(y, eta) * q(eta))
    assert -np.log(d) == pytest.approx(float(density.loss(np.array([y]))[0]) + density.log_normaliser, abs=1e-5)
    posterior = integral(lambda eta: gaussian(y, eta) * q(eta) / eta) / d
    assert posterior == pytest.approx(float(density.weight(np.array([y]))[0]), rel=1e-5)


def test_off_diagonal_of_K_falls_as_one_over_root_n() -> None:
    """Appendix D: with independent rows, K_kl = O(1 / sqrt(n)) off the diagonal."""
    sizes = 4 ** np.arange(4) * 1000
    spread = []
    for n in sizes:
        values = []
        for seed in range(20):
            Y = np.random.default_rng(seed).laplace(size=(n, 5))
            weights = Huber().weight(Y[:, 0])
            K = (Y * weights[:, None]).T @ Y / n
            values.append(np.sqrt((K[~np.eye(5, dtype=bool)] ** 2).mean()))
        spread.append(np.mean(values))
    slope = np.polyfit(np.log(sizes), np.log(spread), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.05)


def test_paper_student_has_no_minimiser() -> None:
    """G = log(1 + y^2) / 2: E[u y^2] < 1 at every scale, so the loss falls for ever as W grows."""
    y = np.random.default_rng(0).laplace(size=10_000)
    losses = [np.mean(0.5 * np.log1p((s * y) ** 2)) - np.log(s) for s in 10.0 ** np.arange(0, 8)]
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_incremental_recovers_as_well_as_fastica(seed: int) -> None:
    """Laplace sources, p = 10, n = 1e5, 20 passes: Amari within 1.2 of FastICA's on the same data."""
    X, A = laplace(100_000, 10, seed)
    ours = ICA(solver="incremental", density="huber", max_iter=20, tol=0, random_state=seed).fit(X)
    theirs = FastICA(whiten="unit-variance", random_state=seed, max_iter=200, tol=1e-4).fit(X)
    scaled = A * np.sqrt(2)  # columns of sources of unit variance
    distances = [amari_distance(unit_rows(W, X), scaled) for W in (ours.components_, theirs.components_)]
    assert distances[0] <= 1.2 * distances[1]


def test_greedy_choice_beats_the_random_one() -> None:
    """Section 4.5, figure 4: for the same q, the largest gaps first."""

    X, _ = laplace(20_000, 15)
    losses = {}
    for selection in ("greedy", "random"):
        problem = make_problem(X)
        solver = Incremental(q=1, batch_size=500, tol=0, selection=selection)
        state = solver.init(problem, np.eye(15), densities_of("huber", 15), np.random.default_rng(0))
        drive(solver, problem, state, max_iter=3)
        losses[selection] = state.loss
    assert losses["greedy"] < losses["random"] - 0.1
