"""MM is EM for Gaussian scale mixtures (section 2.2, appendix A).

The mixing distributions are written down and integrated numerically; nothing
of the densities' own u* is used on the EM side. Huber is not a Gaussian scale
mixture, so the identity is checked on log-cosh and Student.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.paper.claims.base import FAILS, HOLDS, Verdict
from benchmarks.paper.datasets import laplace
from majorica.densities import Density, LogCosh, Student
from majorica.densities.table import Densities
from majorica.kernels.reference import minimise_row
from majorica.solvers import Batch

#: log(precision) nodes of the trapezoidal rule, which converges exponentially here.
NODES = np.linspace(-16, 9, 4001)


def student_mixing(precision: np.ndarray, dof: float = 3.0) -> np.ndarray:
    """Density of the precision 1/eta under Student's t: Gamma(dof/2, rate dof/2), up to a constant."""
    return precision ** (dof / 2 - 1) * np.exp(-dof / 2 * precision)


def logcosh_mixing(precision: np.ndarray) -> np.ndarray:
    """Density of the precision under ``1 / (pi cosh y)``, up to a constant.

    ``1 / cosh(y) = E[exp(-J y^2 / 2)]`` with J the Jacobi variable behind the
    Polya-Gamma(1, 0) law, 1/eta = J, its density divided by ``sqrt(1/eta)``
    for the Gaussian's own normaliser. Two alternating series, each where it
    converges fast.
    """
    x = precision[:, None]
    k = np.arange(12) + 0.5
    sign = (-1.0) ** np.arange(12)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        left = (sign * np.pi * k * (2 / (np.pi * x)) ** 1.5 * np.exp(-2 * k**2 / x)).sum(axis=1)
        right = (sign * np.pi * k * np.exp(-(k**2) * np.pi**2 * x / 2)).sum(axis=1)
    return np.where(precision < 0.64, np.nan_to_num(left), right) / np.sqrt(precision)


MIXTURES: dict[str, tuple[Density, Callable[[np.ndarray], np.ndarray]]] = {
    "log-cosh": (LogCosh(), logcosh_mixing),
    "Student": (Student(), student_mixing),
}


def posterior_precision(y: np.ndarray, mixing: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The E-step: ``E[1/eta | y]`` by quadrature."""
    precision = np.exp(NODES)
    weight = mixing(precision) * precision  # the last factor is d precision / d log precision
    flat = np.ravel(y)
    out = np.empty_like(flat)
    for start in range(0, len(flat), 500):
        part = flat[start : start + 500, None]
        joint = np.sqrt(precision) * np.exp(-0.5 * precision * part**2) * weight
        out[start : start + 500] = (joint * precision).sum(axis=1) / joint.sum(axis=1)
    return out.reshape(np.shape(y))


def em_identity(*, full: bool = False) -> Verdict:
    """``E[1/eta | y] = u*(y)``."""
    y = np.concatenate([np.geomspace(1e-3, 20, 400), [0.0]])
    errors = {}
    for name, (density, mixing) in MIXTURES.items():
        u = density.weight(y)
        errors[name] = float(np.max(np.abs(posterior_precision(y, mixing) - u) / u))
    listed = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
    return Verdict(
        "For a Gaussian scale mixture the E-step's posterior mean is u*(y)",
        "2.2, appendix A",
        f"largest relative difference between the integral and u*, abs(y) <= 20: {listed}",
        HOLDS if max(errors.values()) < 1e-6 else FAILS,
        errors,
    )


def em_iterates(*, full: bool = False) -> Verdict:
    """EM with the integrals and full-batch MM walk the same path."""
    from benchmarks.paper.algorithms.mm import make_problem

    data = laplace(3, 400, seed=0, left_out=10)
    problem = make_problem(data.X)
    Z = problem.read(((0, len(data.X)),))
    differences = {}
    for name, (density, mixing) in MIXTURES.items():
        densities = Densities.same(density, 3)
        solver = Batch(tol=0.0)
        state = solver.init(problem, np.eye(3), densities, np.random.default_rng(0))
        W = np.eye(3)
        for _ in range(10):
            solver.step(problem, state)
            U = posterior_precision(Z @ W.T, mixing)
            for i in range(3):
                moments = (Z * U[:, i : i + 1]).T @ Z / len(Z)
                W[i] = minimise_row(moments, np.zeros(3), W[i], np.linalg.inv(W)[:, i])
        differences[name] = float(np.abs(W - state.W).max())
    listed = ", ".join(f"{name} {value:.0e}" for name, value in differences.items())
    return Verdict(
        "EM for the scale mixture and alternating minimisation of the surrogate are the same algorithm",
        "2.2, appendix A",
        f"largest difference in W after 10 iterations of each: {listed}",
        HOLDS if max(differences.values()) < 1e-6 else FAILS,
        differences,
    )
