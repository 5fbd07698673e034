"""EM for noisy mixtures makes no progress as the noise goes to 0 (section 2.2, appendix B)."""

from __future__ import annotations

import numpy as np

from benchmarks.paper.claims.base import FAILS, HOLDS, Verdict, exponent
from benchmarks.paper.datasets import laplace
from benchmarks.paper.model import HUBER, whitening_start
from majorica.kernels.reference import minimise_row
from majorica.metrics import amari_distance

SIGMAS = (0.3, 0.1, 0.03, 0.01)


def noisy_step(X: np.ndarray, A: np.ndarray, sigma: float) -> np.ndarray:
    """One EM step for the mixing matrix, Eq. (exps), (expss), (noisya), with Lambda = 1/u*(A^-1 x)."""
    p = len(A)
    lengths = 1 / HUBER.weight(X @ np.linalg.inv(A).T)
    gram = A.T @ A / sigma**2
    posterior = np.linalg.inv(gram[None] + np.eye(p)[None] / lengths[:, :, None])
    means = np.einsum("nij,nj->ni", posterior, X @ A / sigma**2)
    return (X.T @ means) @ np.linalg.inv(posterior.sum(axis=0) + means.T @ means)


def mm_step(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """One full-batch MM step in plain NumPy."""
    W = W.copy()
    U = HUBER.weight(X @ W.T)
    for i in range(len(W)):
        moments = (X * U[:, i : i + 1]).T @ X / len(X)
        W[i] = minimise_row(moments, np.zeros(len(W)), W[i], np.linalg.inv(W)[:, i])
    return W


def noisy_em(*, full: bool = False) -> Verdict:
    """The size of an EM step against the noise's, and where 30 steps lead."""
    data = laplace(4, 2000, seed=3, left_out=10)
    X = data.X @ whitening_start(data.X).T  # a mixing matrix of the order of 1
    truth = whitening_start(data.X) @ data.A
    steps, ends = [], []
    for sigma in SIGMAS:
        A = np.eye(4)
        first = noisy_step(X, A, sigma)
        steps.append(float(np.linalg.norm(first - A) / np.linalg.norm(A)))
        for _ in range(30):
            A = noisy_step(X, A, sigma)
        ends.append(amari_distance(np.linalg.inv(A), truth))
    W = np.eye(4)
    for _ in range(30):
        W = mm_step(X, W)
    start, mm = amari_distance(np.eye(4), truth), amari_distance(W, truth)
    power = exponent(list(SIGMAS), steps)
    return Verdict(
        "EM for noisy mixtures is stuck in the noise-free limit, MM is not",
        "2.2, appendix B",
        f"an EM step shrinks as sigma^{power:.2f} (relative size {steps[-1]:.0e} at sigma = {SIGMAS[-1]}); "
        f"Amari distance after 30 steps: start {start:.2f}, EM at sigma = {SIGMAS[-1]} {ends[-1]:.2f}, MM {mm:.4f}",
        HOLDS if 1.5 < power < 2.5 and ends[-1] > 0.5 * start and mm < 0.1 * start else FAILS,
        {"sigma": list(SIGMAS), "step": steps, "amari_em": ends, "amari_mm": mm, "amari_start": start, "power": power},
    )
