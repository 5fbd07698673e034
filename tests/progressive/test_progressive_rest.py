"""Sources at rest most of the time: scores that may not fall, and fits that separate them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from majorica import ICA
from majorica.densities import Piecewise
from majorica.kernels import shapes
from majorica.metrics import amari_distance
from majorica.solvers.progressive.rest import at_rest
from majorica.solvers.progressive.rotations import rotate_pairs
from majorica.solvers.shapes import Shapes

pytestmark = pytest.mark.filterwarnings("ignore::majorica.errors.RepeatWarning")

BOX = [(shapes.SLOPE_MIN, shapes.SLOPE_MAX)] + [(0.0, shapes.SLOPE_MAX)] * 3 + [(shapes.TAIL_MIN, shapes.SLOPE_MAX)]


def sparse(rng: np.random.Generator, n: int, p: int, active: float) -> np.ndarray:
    """Laplace sources that are exactly zero but for a share of the samples."""
    return rng.laplace(size=(n, p)) * (rng.random((n, p)) < active)


def separates(S: np.ndarray, rng: np.random.Generator, seed: int) -> float:
    """Amari distance of a default fit of the mixed sources, of which no step raised the loss."""
    A = rng.normal(size=(S.shape[1], S.shape[1]))
    ica = ICA(random_state=seed).fit(S @ A.T)
    falls = np.diff(ica.trace_["loss"])[np.diff(ica.trace_["n_samples"]) == 0]
    assert falls.max() <= 1e-12 * np.abs(ica.trace_["loss"]).max()
    return amari_distance(ica.components_, A * S.std(axis=0))


def test_rest_is_told_from_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    heavy = rng.laplace(size=(3, 5000))
    heavy[1], heavy[2] = rng.standard_t(2.5, 5000), np.sign(heavy[2]) * heavy[2] ** 2
    still = sparse(rng, 5000, 2, 0.05).T
    np.testing.assert_array_equal(at_rest(np.vstack([heavy, still])), [False, False, False, True, True])
    np.testing.assert_array_equal(
        at_rest((1e-3 * still + 5e-6 * rng.normal(size=still.shape)).astype(np.float32)), True
    )
    heavy[:, 1000:1300] = 0
    np.testing.assert_array_equal(at_rest(heavy), True)
    heavy[:, 1200:1300] = 1 + rng.normal(size=(3, 100))
    np.testing.assert_array_equal(at_rest(heavy), False)
    assert not at_rest(heavy[:, :1]).any()


@pytest.mark.parametrize("kind", ["sparse", "student", "two-humped"])
def test_rising_scores_are_fitted_exactly(kind: str) -> None:
    """The least loss in the smaller box, by another method; above that of any score, below that of a coarse one."""
    rng = np.random.default_rng(1)
    y = {
        "sparse": sparse(rng, 20_000, 1, 0.05)[:, 0],
        "student": rng.standard_t(2.5, 20_000),
        "two-humped": rng.choice([-1.0, 1.0], 20_000) + 0.5 * rng.normal(size=20_000),
    }[kind]
    t = shapes.sample_means(2 * y / y.std())
    own = (t, np.ones(5), False, True, 20_000.0, 1e-9)
    k, loss, log_z, fine = shapes.best_shape(*own, rising=True)
    assert fine
    assert k[1:4].min() >= 0
    assert loss == pytest.approx(k @ t + log_z)

    def value(slopes: np.ndarray) -> float:
        return float(slopes @ t + Piecewise(tuple(float(slope) for slope in slopes)).log_normaliser)

    other = minimize(value, np.clip(k + 0.1, *np.transpose(BOX)), bounds=BOX, method="L-BFGS-B")
    assert loss <= other.fun + 1e-6
    assert shapes.best_shape(*own)[1] <= loss + 1e-9
    assert loss <= shapes.best_shape(*own[:3], False, *own[4:])[1]


@pytest.mark.parametrize(
    ("seed", "n", "p", "active"), [(0, 10_000, 10, 0.005), (1, 10_000, 10, 0.05), (2, 4000, 6, 0.01)]
)
def test_sources_at_rest_are_separated(seed: int, n: int, p: int, active: float) -> None:
    """Scores that fell again had made much of the zeros, in all of these."""
    rng = np.random.default_rng(seed)
    assert separates(sparse(rng, n, p, active), rng, seed) < 1e-4


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_stretches_of_zeros_do_no_harm(share: float, noise: float) -> None:
    rng = np.random.default_rng(0)
    S = rng.laplace(size=(20_000, 8))
    S[1000 : 1000 + int(share * 20_000)] = 0
    S += noise * rng.normal(size=S.shape)
    assert separates(S, rng, 0) < 0.05


def test_discrete_sources_that_repeat_are_separated() -> None:
    rng = np.random.default_rng(0)
    assert separates(rng.integers(0, 2, (5000, 3)).astype(float), rng, 0) < 1e-5


def test_turned_sources_at_rest_are_tried_at_their_own_size() -> None:
    """At variance one no shape fits them well, and two of 32 stayed mixed."""
    rng = np.random.default_rng(5)
    Y = sparse(rng, 20_000, 2, 0.02).T
    Y = 20 * np.sqrt(0.5) * np.array([[1.0, 1.0], [1.0, -1.0]]) @ (Y / Y.std(axis=1, keepdims=True))
    fitted = Shapes.gaussian(2)
    fitted.allow_fine, fitted.rising[:] = True, True
    fitted.refit_means(np.stack([shapes.sample_means(np.ascontiguousarray(y)) for y in Y]), 20_000.0, 0.0)
    W = np.eye(2)
    assert rotate_pairs(Y.copy(), W, fitted) == 1
    turned = W @ Y
    assert np.abs(turned).mean() == pytest.approx(np.abs(Y).mean())
    assert abs(np.corrcoef(np.abs(turned))[0, 1]) < 0.05
    assert fitted.slopes[:, 1:4].min() >= 0


def test_shapes_of_older_files_may_fall() -> None:
    old = Shapes(np.ones((3, 5)), np.zeros(3), np.zeros(3, np.bool_))
    np.testing.assert_array_equal(old.rising, [False] * 3)


@pytest.mark.parametrize("seed", [1, 32])
def test_rows_fitted_to_silence_set_out_anew(seed: int) -> None:
    """Like speech, silent for long: rows that a level saw no sound of grew until the next one was 160 nats up."""
    rng, n, p = np.random.default_rng(seed), 20_000, 4
    length = n // 40
    gains = rng.gamma(1, size=(40, p)) * (rng.random((40, p)) > 0.85)
    fade = np.ones(length // 5) / (length // 5)
    envelopes = np.stack([np.convolve(gain, fade)[:n] for gain in np.repeat(gains, length, axis=0).T], axis=1)
    S = rng.laplace(size=(n, p)) * envelopes
    S /= S.std(axis=0)
    A = rng.normal(size=(p, p))
    ica = ICA(random_state=0).fit(S @ A.T)
    assert ica.converged_
    assert amari_distance(ica.components_, A) < 1e-3
