"""Sums over samples that passes compute and engines add up, in block order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


@dataclass
class Statistics:
    """What the empirical loss and its first two derivatives need; sums over `n` samples.

    Size p^2 whatever the number of samples.
    """

    n: int
    loss: F64  #: sum of G_i(y_i), (p,)
    gradient: F64  #: sum of G_i'(y_i) y_j, (p, p)
    curvature: F64  #: sum of G_i''(y_i), (p,)
    power: F64  #: sum of y_i^2, (p,)
    diagonal: F64  #: sum of G_i''(y_i) y_i^2, (p,)
    ramps: F64  #: sums of (abs(y_i) - knot)_+^2 / 2, what a piecewise shape is fitted from, (p, 4); else 0
    reaches: F64  #: sums of (abs(y_i) - knot)_+, which give the gradient's diagonal at another shape, (p, 4); else 0

    @classmethod
    def zeros(cls, p: int, n: int = 0) -> Statistics:
        """Empty sums, to be filled over `n` samples."""
        power, diagonal, ramps, reaches = np.zeros(p), np.zeros(p), np.zeros((p, 4)), np.zeros((p, 4))
        return cls(n, np.zeros(p), np.zeros((p, p)), np.zeros(p), power, diagonal, ramps, reaches)

    def apart(self) -> Statistics:
        """The same sums, of which loss and gradient, that a refit of shapes changes, are copies."""
        loss, gradient = self.loss.copy(), self.gradient.copy()
        return Statistics(self.n, loss, gradient, self.curvature, self.power, self.diagonal, self.ramps, self.reaches)

    def __iadd__(self, other: Statistics) -> Statistics:
        self.n += other.n
        self.loss += other.loss
        self.gradient += other.gradient
        self.curvature += other.curvature
        self.power += other.power
        self.diagonal += other.diagonal
        self.ramps += other.ramps
        self.reaches += other.reaches
        return self


@dataclass
class Moments:
    """The surrogate's statistics, Eq. (acc): sums over `n` samples; mergeable.

    Symmetric matrices travel packed: row a of the upper triangle after row
    a - 1, so ``packed`` is (p, k(k+1)/2). Size p^3/2 whatever the number of
    samples.
    """

    n: int
    packed: F64  #: sum of w_i x x^T for each component, packed
    tilts: F64  #: sum of t_i x, (p, k)
    offsets: F64  #: sum of r_i, (p,)

    def __iadd__(self, other: Moments) -> Moments:
        self.n += other.n
        self.packed += other.packed
        self.tilts += other.tilts
        self.offsets += other.offsets
        return self


@dataclass
class Glance:
    """A mini-batch of a stream before it is learnt from: its samples less the mean so far, and what they show.

    Sums over its samples, b in number, those far out drawn in.
    """

    samples: npt.NDArray[np.floating]  #: (b, k)
    sources: npt.NDArray[np.floating]  #: of the last candidate, (p, b)
    total: F64  #: sum of the samples, (k,)
    losses: F64  #: sum of G_i(y_i) for each candidate, (candidates, p)
    power: F64  #: sum of y_i^2 of the answer, (p,)
    ramps: F64  #: as in :class:`Statistics`, of the answer, (p, 4)
    reached: F64  #: how far out samples lie before any is drawn in: all, and those that are not, (2,)

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.samples)

    @property
    def arrays(self) -> tuple[npt.NDArray[np.floating], ...]:
        """All of it, in this order."""
        return self.samples, self.sources, self.total, self.losses, self.power, self.ramps, self.reached


def invert(W: F64) -> F64:
    """The inverse of a matrix, float64."""
    return np.asarray(np.linalg.inv(W), dtype=np.float64)


def source_variances(W: F64, covariance: F64) -> F64:
    """Variance of each source ``W z``, ``(p,)``, for samples of this covariance."""
    return np.einsum("ij,ij->i", W @ covariance, W)


def unpack_symmetric(packed: F64) -> F64:
    """Full symmetric matrices ``(..., k, k)`` from their packed upper triangles ``(..., k(k+1)/2)``."""
    size = packed.shape[-1]
    k = int((np.sqrt(8 * size + 1) - 1) // 2)
    rows, columns = np.triu_indices(k)
    out = np.empty((*packed.shape[:-1], k, k))
    out[..., rows, columns] = packed
    out[..., columns, rows] = packed
    return out


def pack_symmetric(matrices: F64) -> F64:
    """Packed upper triangles of symmetric matrices; the inverse of :func:`unpack_symmetric`."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[..., rows, columns])


def with_diagonal(matrix: F64, diagonal: F64) -> F64:
    """A copy of a square `matrix` with another `diagonal`."""
    out = matrix.copy()
    out.ravel()[:: len(out) + 1] = diagonal
    return out
