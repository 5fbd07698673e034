"""The kernels in plain NumPy: the definition that the compiled twins are tested against.

They also serve densities written by users, whose formulas only Python knows.
Arrays: `X` a block of raw samples ``(b, f)``, `mean` ``(f,)``, `K` whitening
``(k, f)``, `W` unmixing in whitened coordinates ``(k, k)``.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from majorica.densities.base import PIECEWISE, Density
from majorica.densities.piecewise import KNOTS
from majorica.densities.table import Densities
from majorica.statistics import F64, Glance, Moments, Statistics, pack_symmetric

Array = npt.NDArray[np.floating]
_CLAIMING = threading.Lock()


def project(X: Array, mean: F64, B: F64) -> Array:
    """``(X - mean) B^T`` in the block's own precision."""
    return (X - mean.astype(X.dtype)) @ B.astype(X.dtype).T


def whiten(X: Array, mean: F64, K: F64) -> npt.NDArray[np.float32]:
    """White samples ``(X - mean) K^T``, computed in float64, kept in float32."""
    return ((X - mean) @ K.T).astype(np.float32)


def dependences(Y: Array, largest: float) -> F64:
    """How dependent pairs of `Y` ``(p, m)`` look, in standard errors, ``(p, p)``.

    The larger correlation, without its sign, of the squares of ``min(abs(y) /
    sd, largest)`` and of its distances from the middle.
    """
    found, deviations = [], np.maximum(Y.std(axis=1, keepdims=True, dtype=np.float64), 1e-150)
    sizes = np.minimum(np.abs(Y, dtype=np.float64) / deviations, largest)
    for values in (sizes * sizes, np.abs(sizes - 0.5 * largest)):
        deviation = values - values.mean(axis=1, keepdims=True)
        norms = np.sqrt(np.maximum((deviation**2).sum(axis=1), 1e-12 * Y.shape[1]))  # all the same: with none
        found.append(np.abs(deviation @ deviation.T) / np.outer(norms, norms))
    return np.asarray(np.maximum(*found) * np.sqrt(Y.shape[1]))


def scatter(X: Array) -> tuple[F64, F64, F64, F64, int]:
    """Mean of a block, scatter about it, lowest and highest values, and how many samples equal the one before."""
    deviation = X.astype(np.float64)
    low, high = deviation.min(axis=0), deviation.max(axis=0)
    shift = deviation[:1000].mean(axis=0)
    deviation -= shift
    mean = deviation.mean(axis=0)
    deviation -= mean
    return shift + mean, deviation.T @ deviation, low, high, int((X[1:] == X[:-1]).all(axis=1).sum())


def statistics(X: Array, mean: F64, B: F64, densities: Densities) -> Statistics:
    """Loss, relative gradient and Hessian entries of one block, Eq. (emp_risk); two products.

    `B` is ``W K``, from raw samples to sources.
    """
    Y = project(X, mean, B).astype(np.float64)
    p = Y.shape[1]
    score, curvature, loss = np.empty_like(Y), np.empty_like(Y), np.empty(p)
    ramps, reaches = np.zeros((p, 4)), np.zeros((p, 4))
    for i, density in enumerate(densities):
        if density.code == PIECEWISE:
            beyond = np.maximum(np.abs(Y[:, i, None]) - KNOTS, 0.0)
            ramps[i], reaches[i] = 0.5 * (beyond**2).sum(axis=0), beyond.sum(axis=0)
        loss[i] = density.loss(Y[:, i]).sum()
        score[:, i] = density.score(Y[:, i])
        curvature[:, i] = density.curvature(Y[:, i])
    square = Y * Y
    return Statistics(
        n=len(X),
        loss=loss,
        gradient=score.T @ Y,
        curvature=curvature.sum(axis=0),
        power=square.sum(axis=0),
        diagonal=(curvature * square).sum(axis=0),
        ramps=ramps,
        reaches=reaches,
    )


def moments(
    X: Array, mean: F64, K: F64, W: F64, densities: Densities, points: F64 | None = None, *, squares: bool = True
) -> Moments:
    """The surrogate's statistics of one block at the current `W`, Eq. (acc); the full E-step.

    Majorizers touch at `points` ``(b, p)`` if given, at the sources if not.
    Without `squares` the second moments are left out, ``packed`` is (p, 0).
    """
    Z = project(X, mean, K).astype(np.float64)
    Y = Z @ W.T if points is None else points
    p, k = W.shape
    packed, tilts, offsets = np.empty((p, k * (k + 1) // 2)), np.empty((p, k)), np.empty(p)
    for i, density in enumerate(densities):
        y = Y[:, i]
        packed[i] = pack_symmetric((Z * density.weight(y)[:, None]).T @ Z)
        tilts[i] = density.tilt(y) @ Z
        offsets[i] = density.offset(y).sum()
    return Moments(len(X), packed if squares else packed[:, :0], tilts, offsets)


def look_at(
    X: Array, mean: F64, candidates: F64, answer: int, precisions: F64, allowed: float, densities: Densities
) -> Glance:
    """What samples ``(b, k)`` show before they are learnt from, drawn in where they lie far out.

    The last of the `candidates` ``(c, p, k)`` is W. Distances are roots of the
    sums of its sources' squares times `precisions`; samples more than
    `allowed` out are drawn in towards the `mean`.
    """
    W, origin = candidates[-1], np.zeros(len(mean))
    with np.errstate(over="ignore"):
        far = np.sqrt(project(X, mean, W).astype(np.float64) ** 2 @ precisions)
    shares, beyond = np.ones(len(X)), far > allowed
    shares[beyond] = allowed / far[beyond]
    samples = (X - mean.astype(X.dtype)) * shares[:, None].astype(X.dtype)
    found = [statistics(samples, origin, B, densities) for B in candidates]
    return Glance(
        samples=samples,
        sources=np.ascontiguousarray(project(samples, origin, W).T),
        total=samples.sum(axis=0, dtype=np.float64),
        losses=np.array([each.loss for each in found]),
        power=found[answer].power,
        ramps=found[answer].ramps,
        reached=np.array([far.max(), far[far <= allowed].max(initial=0.0)]),
    )


def weighted_squares(Z: F64, weights: Array) -> F64:
    """``sum_s weights_s z_s z_s^T``, symmetric to the last bit."""
    upper = np.triu((Z * weights[:, None]).T @ Z)
    return np.asarray(upper + np.triu(upper, 1).T)


def learn_from(
    glance: Glance,
    densities: Densities,
    keep: F64,
    share: F64,
    moments_: F64,
    tilts: F64,
    offsets: F64,
    tasks: npt.NDArray[np.int64] | None = None,
) -> None:
    """``A^i <- keep_i A^i + share_i sum u x x^T`` over the samples, tilts and offsets alike; Eq. (updateastream).

    In place. Sub-Gaussian components' moments are left to :func:`settle`.
    `tasks` are the next component and the one to stop at: threads that call
    this with the same ones share the components.
    """
    Z, Y = glance.samples.astype(np.float64), glance.sources.T.astype(np.float64)
    tasks = np.array([0, len(densities)], np.int64) if tasks is None else tasks
    while (i := _claim(tasks)) >= 0:
        density, y = densities[i], Y[:, i]
        tilts[i] = keep[i] * tilts[i] + share[i] * (density.tilt(y) @ Z)
        offsets[i] = keep[i] * offsets[i] + share[i] * density.offset(y).sum()
        if density.super_gaussian:
            moments_[i] = keep[i] * moments_[i] + share[i] * weighted_squares(Z, density.weight(y))


def _claim(tasks: npt.NDArray[np.int64]) -> int:
    """The next of `tasks`, which nobody else gets, or -1."""
    with _CLAIMING:
        task = int(tasks[0])
        if task >= tasks[1]:
            return -1
        tasks[0] = task + 1
        return task


def settle(moments_: F64, flat: F64, covariance: F64) -> None:
    """Make moments whole: symmetric, as above the diagonal, and ``flat_i C`` for sub-Gaussian components."""
    upper = np.triu(moments_)
    moments_[:] = upper + np.triu(upper, 1).transpose(0, 2, 1)
    moments_[flat > 0] = flat[flat > 0, None, None] * covariance


def row_moments(X: Array, mean: F64, K: F64, w: F64, density: Density) -> Moments:
    """The surrogate's statistics of one block for one row `w` only; p^2 memory."""
    return moments(X, mean, K, w[None, :], Densities([density]))


def gaps(Y: F64, Y_new: F64, Y_old: F64, densities: Densities) -> F64:
    """Decrease of the surrogate, per entry, if its majorizer touched at `Y_new` instead of `Y_old`; Eq. (dualgap).

    `Y_new` is `Y` as the memory will store it (rounded to its precision).
    """
    out = np.empty_like(Y)
    for i, density in enumerate(densities):
        out[:, i] = density.majorizer(Y[:, i], Y_old[:, i]) - density.majorizer(Y[:, i], Y_new[:, i])
    return out


def select_largest(gap: F64, q: int) -> npt.NDArray[np.bool_]:
    """Mask of the `q` largest entries of each row; of equal ones, the first."""
    order = np.argsort(-gap, axis=1, kind="stable")[:, :q]
    mask = np.zeros(gap.shape, dtype=bool)
    np.put_along_axis(mask, order, True, axis=1)
    return mask


def update_moments(
    Z: F64,
    Y_new: F64,
    Y_old: F64,
    chosen: npt.NDArray[np.bool_],
    densities: Densities,
    scales: F64,
    moments_: F64,
    tilts: F64,
    offsets: F64,
) -> None:
    """Move the chosen entries' majorizers from `Y_old` to `Y_new`; Eq. (updateamem).

    Adds to `moments_` (p, k, k), `tilts` (p, k) and `offsets` (p,) in place,
    `scales` (p,) times the change of each sample.
    """
    for i, density in enumerate(densities):
        rows, scale = chosen[:, i], scales[i]
        z, new, old = Z[rows], Y_new[rows, i], Y_old[rows, i]
        if density.super_gaussian:
            change = scale * (density.weight(new) - density.weight(old))
            moments_[i] += weighted_squares(z, change)
        else:
            tilts[i] += scale * (density.tilt(new) - density.tilt(old)) @ z
        offsets[i] += scale * (density.offset(new) - density.offset(old)).sum()


def add_moments(
    Z: F64,
    Y: F64,
    chosen: npt.NDArray[np.bool_],
    densities: Densities,
    scales: F64,
    moments_: F64,
    tilts: F64,
    offsets: F64,
) -> None:
    """Add the chosen entries' majorizers that touch at `Y`, `scales` (p,) times each; Eq. (updateastream)."""
    for i, density in enumerate(densities):
        rows = chosen[:, i]
        z, y = Z[rows], Y[rows, i]
        if density.super_gaussian:
            moments_[i] += weighted_squares(z, scales[i] * density.weight(y))
        else:
            tilts[i] += scales[i] * density.tilt(y) @ z
        offsets[i] += scales[i] * density.offset(y).sum()


def minimise_row(A: F64, b: F64, w: F64, c: F64) -> F64:
    """The exact minimiser of the surrogate over the row `w`; Eq. (minw) and its sub-Gaussian twin.

    With `c` column i of the inverse of `W`, the surrogate depends on row i as
    ``w A w / 2 - b w - log|c w|``. Dense solve, O(k^3). The row stays as it
    is where rounding has made `A` singular or indefinite.
    """
    try:
        z = np.linalg.solve(A, np.column_stack([b, c]))
    except np.linalg.LinAlgError:
        return w
    t, s = c @ z[:, 0], c @ z[:, 1]
    if not s > 0:
        return w
    tau = 0.5 * (t + np.copysign(np.sqrt(t * t + 4 * s), t))
    return z[:, 0] + z[:, 1] / tau


def improve_row(A: F64, w: F64, c: F64, iterations: int) -> F64:
    """Lower the super-Gaussian surrogate over one row by truncated conjugate gradient on ``A z = c``.

    Warm-started at ``t w``, the best multiple of the present row, and scaled
    by ``1 / sqrt(z A z)``: the result is no worse than `w` at any truncation.
    """
    Aw = A @ w
    t = (c @ w) / (w @ Aw)
    z, Az = t * w, t * Aw
    residual = c - Az
    direction = residual.copy()
    size = residual @ residual
    for _ in range(iterations):
        Ad = A @ direction
        curvature = direction @ Ad
        if not (curvature > 0 and size > 0):
            break
        step = size / curvature
        z, Az = z + step * direction, Az + step * Ad
        residual = residual - step * Ad
        size, previous = residual @ residual, size
        direction = residual + (size / previous) * direction
    scale = z @ Az
    return z / np.sqrt(scale) if scale > 0 else w


def sweep(W: F64, inverse: F64, moments_: F64, tilts: F64, flat: F64, covariance_inverse: F64, iterations: int) -> None:
    """One M-step over all rows, in place on `W` and its `inverse`; O(p^2) a row.

    ``flat[i] > 0`` says that row i is sub-Gaussian with moments
    ``flat[i] C``; it is minimised exactly through `covariance_inverse`.
    Super-Gaussian rows take `iterations` of conjugate gradient. The inverse
    follows by a rank-one update; the caller refreshes it now and then.
    """
    for i in range(len(W)):
        c = inverse[:, i].copy()
        if flat[i] > 0:
            z1, z2 = covariance_inverse @ tilts[i] / flat[i], covariance_inverse @ c / flat[i]
            t, s = c @ z1, c @ z2
            tau = 0.5 * (t + np.copysign(np.sqrt(t * t + 4 * s), t))
            row = z1 + z2 / tau
        else:
            row = improve_row(moments_[i], W[i], c, iterations)
        pivot = c @ row
        if not (np.isfinite(row).all() and abs(pivot) > 1e-12):
            continue
        inverse -= np.outer(c, (row - W[i]) @ inverse) / pivot
        W[i] = row


def surrogate(W: F64, moments_: F64, tilts: F64, offsets: F64, log_normalisers: F64) -> float:
    """The surrogate loss, Eq. (quad_form), normalisers included."""
    quadratic = 0.5 * np.einsum("ij,ijk,ik->", W, moments_, W) - np.einsum("ij,ij->", W, tilts)
    return float(-np.linalg.slogdet(W)[1] + quadratic + offsets.sum() + log_normalisers.sum())
