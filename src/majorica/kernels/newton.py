"""Quasi-Newton algebra in relative coordinates, compiled: what small problems spend their time on.

Twins in plain NumPy: :mod:`majorica.solvers.quasinewton`.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def block_curvature(curvature, power, diagonal, n, floor, upper):
    """Fill `upper` with the entries of the 2 x 2 blocks, smallest eigenvalues raised to `floor`."""
    p = upper.shape[0]
    for i in range(p):
        upper[i, i] = max(diagonal[i] / n + 1, floor)
        for j in range(i):
            a = (curvature[i] / n) * (power[j] / n)
            b = (curvature[j] / n) * (power[i] / n)
            smallest = 0.5 * (a + b - math.sqrt((a - b) ** 2 + 4))
            lift = max(0.0, floor - smallest)
            upper[i, j] = a + lift
            upper[j, i] = b + lift


@nb.njit(nogil=True, cache=True)
def digest(W, n, loss, gradient, curvature, power, diagonal, log_normalisers, floor, relative, upper):
    """Fill `relative` with the relative gradient and `upper` with the blocks; returns the loss and the largest entry.

    One call instead of ten: twins are ``loss_of`` and ``relative_gradient_of``
    of :mod:`majorica.solvers.quasinewton`.
    """
    p = W.shape[0]
    largest = 0.0
    for i in range(p):
        for j in range(p):
            entry = gradient[i, j] / n
            if i == j:
                entry -= 1.0
            relative[i, j] = entry
            if not abs(entry) <= largest and largest == largest:  # NaN stays
                largest = abs(entry)
    block_curvature(curvature, power, diagonal, n, floor, upper)
    return loss.sum() / n + log_normalisers.sum() - np.linalg.slogdet(W)[1], largest


@nb.njit(nogil=True, cache=True)
def block_solve(upper, gradient, out):
    """Fill `out` with the blocks solved for `gradient`."""
    p = upper.shape[0]
    for i in range(p):
        out[i, i] = gradient[i, i] / upper[i, i]
        for j in range(i):
            determinant = upper[i, j] * upper[j, i] - 1
            out[i, j] = (upper[j, i] * gradient[i, j] - gradient[j, i]) / determinant
            out[j, i] = (upper[i, j] * gradient[j, i] - gradient[i, j]) / determinant


@nb.njit(nogil=True, cache=True)
def _inner(a, b):
    return np.dot(a.ravel(), b.ravel())


@nb.njit(nogil=True, cache=True)
def descent_direction(gradient, upper, steps, changes, count, newest):
    """L-BFGS with the block Hessian inside; returns the direction and the gain the block Hessian promises.

    `steps` and `changes` (m, p, p) are ring buffers with `count` pairs, the
    latest at `newest`.
    """
    length = steps.shape[0]
    out = np.empty_like(gradient)
    block_solve(upper, gradient, out)
    gain = 0.5 * _inner(gradient, out)
    if count == 0:
        return -out, gain
    q = gradient.copy()
    rho = np.empty(count)
    weight = np.empty(count)
    for r in range(count):
        at = (newest - r) % length
        rho[r] = 1 / _inner(steps[at], changes[at])
        weight[r] = rho[r] * _inner(steps[at], q)
        q -= weight[r] * changes[at]
    block_solve(upper, q, out)
    for r in range(count - 1, -1, -1):
        at = (newest - r) % length
        out += (weight[r] - rho[r] * _inner(changes[at], out)) * steps[at]
    return -out, gain


@nb.njit(nogil=True, cache=True)
def spectral_norm(E, iterations):
    """A lower estimate of the largest singular value, by power iteration from the largest column."""
    p = E.shape[0]
    best, at = 0.0, 0
    for j in range(p):
        size = 0.0
        for i in range(p):
            size += E[i, j] * E[i, j]
        if size > best:
            best, at = size, j
    norm = math.sqrt(best)
    v = np.zeros(p)
    v[at] = 1.0
    for _ in range(iterations):
        u = np.dot(E, v)
        v = np.dot(E.T, u)
        size = math.sqrt(np.dot(v, v))
        if not size > 0:
            break
        norm = max(norm, math.sqrt(size))
        v /= size
    return norm
