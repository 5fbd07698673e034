"""Densities: Lemma 1 (majorization), the conjugate pairs, and the self-check."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad

from majorica import check_density
from majorica.densities import Clipped, Density, Huber, LogCosh, Piecewise, Student, TwoGaussian
from majorica.densities.check import integrate_normaliser
from majorica.densities.piecewise import KNOTS
from majorica.densities.table import Densities
from majorica.errors import DensityError, MajoricaError, ParameterError
from makers import ALL_DENSITIES, SUB_GAUSSIAN, SUPER_GAUSSIAN

every = pytest.mark.parametrize("density", ALL_DENSITIES.values(), ids=ALL_DENSITIES)
values = st.floats(-40, 40)


def at(method, y: float) -> float:
    return float(np.asarray(method(np.array([y])))[0])


@every
@given(y=values, y0=values)
def test_majorizer_lies_above_and_touches_only_at_its_own_weight(density: Density, y: float, y0: float) -> None:
    """Lemma 1, per entry: G(y) <= majorizer(y), with equality if and only if u = u*(y)."""
    gap = float(density.gap(np.array([y]), np.array([y0]))[0])
    scale = 1 + abs(at(density.loss, y)) + at(density.weight, y0) * y * y
    assert gap >= -1e-14 * scale
    assert abs(float(density.gap(np.array([y]), np.array([y]))[0])) <= 1e-14 * scale
    difference = abs(at(density.weight, y) - at(density.weight, y0)) + abs(at(density.tilt, y) - at(density.tilt, y0))
    if difference > 1e-3:
        assert gap > 0


@pytest.mark.parametrize("density", SUPER_GAUSSIAN.values(), ids=SUPER_GAUSSIAN)
@given(y=values)
def test_weight_is_score_over_y(density: Density, y: float) -> None:
    """u*(y) = G'(y) / y, Eq. (conjugate)."""
    assume(abs(y) > 1e-3)
    assert at(density.weight, y) == pytest.approx(at(density.score, y) / y, rel=1e-12)
    assert at(density.tilt, y) == 0


@pytest.mark.parametrize("density", SUB_GAUSSIAN.values(), ids=SUB_GAUSSIAN)
@given(y=values)
def test_sub_gaussian_majorizer_has_constant_weight_and_the_right_slope(density: Density, y: float) -> None:
    assert at(density.weight, y) == at(density.weight, 0.0)
    slope = at(density.weight, y) * y - at(density.tilt, y)
    assert slope == pytest.approx(at(density.score, y), rel=1e-12, abs=1e-12)


@every
@given(y=values)
def test_score_and_curvature_are_derivatives(density: Density, y: float) -> None:
    kinks = KNOTS if isinstance(density, Piecewise) else [getattr(density, "d", np.inf)]
    assume(all(abs(abs(y) - d) > 1e-3 for d in kinks))
    h = 1e-5
    slope = (at(density.loss, y + h) - at(density.loss, y - h)) / (2 * h)
    second = (at(density.score, y + h) - at(density.score, y - h)) / (2 * h)
    assert slope == pytest.approx(at(density.score, y), rel=1e-6, abs=1e-6)
    assert second == pytest.approx(at(density.curvature, y), rel=1e-6, abs=1e-6)


@given(y=values, d=st.floats(0.05, 5))
def test_huber_is_the_table_of_the_paper(y: float, d: float) -> None:
    """Section 2.3: G, u* and f of the Huber function."""
    huber = Huber(d)
    size = abs(y)
    expected = y * y / 2 if size < d else d * size - d * d / 2
    u = min(1.0, d / size) if size else 1.0
    assert at(huber.loss, y) == pytest.approx(expected, rel=1e-13, abs=1e-300)
    assert at(huber.weight, y) == pytest.approx(u, rel=1e-13)
    assert at(huber.offset, y) == pytest.approx(d * d * (1 / u - 1) / 2, rel=1e-9, abs=1e-13 * (1 + d * d))


@given(y=values, dof=st.floats(0.2, 50))
def test_student_is_the_table_of_the_paper(y: float, dof: float) -> None:
    """Section 2.3, at a proper number of degrees of freedom."""
    student = Student(dof)
    assert at(student.loss, y) == pytest.approx((dof + 1) / 2 * np.log1p(y * y / dof), rel=1e-12, abs=1e-300)
    assert at(student.weight, y) == pytest.approx((dof + 1) / (dof + y * y), rel=1e-12)


@given(y=values)
def test_logcosh_is_the_table_of_the_paper(y: float) -> None:
    assert at(LogCosh().loss, y) == pytest.approx(np.logaddexp(y, -y) - np.log(2), rel=1e-9, abs=1e-15)
    expected = 1.0 if y == 0 else np.tanh(y) / y
    assert at(LogCosh().weight, y) == pytest.approx(expected, rel=1e-12)


@given(y=values, m=st.floats(0.0, 4))
def test_two_gaussian_is_a_mixture_of_two_gaussians(y: float, m: float) -> None:
    density = TwoGaussian(m)
    log_mixture = np.logaddexp(-0.5 * (y - m) ** 2, -0.5 * (y + m) ** 2) - np.log(2) - 0.5 * np.log(2 * np.pi)
    assert -at(density.loss, y) - density.log_normaliser == pytest.approx(log_mixture, rel=1e-9, abs=1e-9)


@every
def test_normaliser_makes_the_density_integrate_to_one(density: Density) -> None:
    mass = 2 * sum(
        quad(lambda y: np.exp(-at(density.loss, y) - density.log_normaliser), a, b, limit=200)[0]
        for a, b in ((0, 2), (2, 20), (20, np.inf))
    )
    assert mass == pytest.approx(1.0, abs=1e-7)


@given(beta=st.floats(-3, 3), d=st.floats(0.1, 3), alpha=st.floats(0.2, 3))
def test_clipped_normaliser_is_the_integral(alpha: float, beta: float, d: float) -> None:
    density = Clipped(alpha, beta, d)
    assert density.log_normaliser == pytest.approx(integrate_normaliser(density), rel=1e-7, abs=1e-7)


@every
def test_no_overflow_and_no_zero_over_zero(density: Density) -> None:
    extreme = np.array([0.0, 5e-324, 1e-300, 1e-160, 1e-8, 1e8, 1e100, 1e150])
    with np.errstate(all="raise", under="ignore"):
        for name in ("weight", "tilt", "score", "curvature", "loss", "offset"):
            values = getattr(density, name)(np.concatenate([extreme, -extreme]))
            assert np.isfinite(values).all(), name
    assert at(density.weight, 0.0) >= 0


@pytest.mark.parametrize("density", [Huber(), LogCosh(), Student()], ids=str)
def test_weights_survive_1e300(density: Density) -> None:
    with np.errstate(over="raise", invalid="raise"):
        assert 0 <= at(density.weight, 1e300) <= 1e-150
        assert np.isfinite(at(density.loss, 1e300))


@every
def test_check_density_accepts_built_ins(density: Density) -> None:
    check_density(density)


class Laplace(Density):
    """A user's density with an infinite weight at 0: no valid majorizer there."""

    name = "laplace"

    def loss(self, y):
        return np.abs(y)

    def score(self, y):
        return np.sign(y)

    def curvature(self, y):
        return np.zeros_like(y)


class SoftAbs(Density):
    """A user's valid density, sqrt(1 + y^2): everything else is derived."""

    name = "softabs"

    def loss(self, y):
        return np.hypot(1.0, y)

    def score(self, y):
        return y / np.hypot(1.0, y)

    def curvature(self, y):
        return np.hypot(1.0, y) ** -3.0


class Broken(SoftAbs):
    """`SoftAbs` with one method replaced."""

    def __init__(self, method: str, function) -> None:
        setattr(self, method, function)


def test_check_density_accepts_a_valid_user_density() -> None:
    check_density(SoftAbs())


@pytest.mark.parametrize(
    ("method", "function", "words"),
    [
        ("score", lambda y: 1.1 * y / np.hypot(1, y), "score is not the derivative of loss|does not touch|falls below"),
        ("curvature", lambda y: 2 * np.hypot(1, y) ** -3.0, "curvature is not the derivative"),
        ("loss", lambda y: np.hypot(1, y) + 0.1 * y, "not symmetric"),
        ("loss", lambda y: np.where(np.abs(y) > 3, np.nan, np.hypot(1, y)), "not finite"),
        ("weight", lambda y: 0.5 / np.hypot(1, y), "touch|falls below"),
        ("offset", lambda y: np.zeros_like(y), "touch|falls below"),
    ],
)
def test_check_density_names_what_is_broken(method: str, function, words: str) -> None:
    with pytest.raises(DensityError, match=words) as caught:
        check_density(Broken(method, function))
    assert "softabs" in str(caught.value)
    assert isinstance(caught.value, MajoricaError)
    assert isinstance(caught.value, ValueError)


def test_check_density_rejects_a_weight_that_rises() -> None:
    class Quartic(Density):
        """y^4 / 4: sub-Gaussian, so the default majorizer is not one."""

        name = "quartic"

        def loss(self, y):
            return y**4 / 4

        def score(self, y):
            return y**3

        def curvature(self, y):
            return 3 * y**2

    with pytest.raises(DensityError, match="quartic"):
        check_density(Quartic())


def test_check_density_rejects_laplace_whose_weight_is_infinite_at_zero() -> None:
    with pytest.raises(DensityError, match="laplace"):
        check_density(Laplace())


def test_check_density_rejects_a_wrong_normaliser() -> None:
    class Shifted(SoftAbs):
        log_normaliser = 0.0

    with pytest.raises(DensityError, match="log_normaliser"):
        check_density(Shifted())


def test_check_density_rejects_what_is_not_integrable() -> None:
    class PaperStudent(Density):
        """The paper's log(1 + y^2) / 2."""

        name = "paper-student"

        def loss(self, y):
            return 0.5 * np.log1p(y * y)

        def score(self, y):
            return y / (1 + y * y)

        def curvature(self, y):
            return (1 - y * y) / (1 + y * y) ** 2

    with pytest.raises(DensityError, match="paper-student"):
        check_density(PaperStudent())


def test_check_density_names_a_missing_method() -> None:
    with pytest.raises(DensityError, match="score"):
        check_density(type("Empty", (), {"loss": abs})())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Student(0.0),
        lambda: Student(float("nan")),
        lambda: TwoGaussian(-1.0),
        lambda: Huber(0.0),
        lambda: Clipped(0.0, -1.0, 1.0),
        lambda: Clipped(-1.0, 2.0, 1.0),
        lambda: Clipped(1.0, float("inf"), 1.0),
        lambda: Piecewise((1.0, 1.0, 1.0, 1.0, 0.0)),
        lambda: Piecewise((1.0, 1.0)),
    ],
)
def test_impossible_shapes_are_refused(make) -> None:
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize("shapes", ["adaptive", "any"])
def test_curvatures_of_all_components_are_those_of_each(shapes: str) -> None:
    slopes = [(2.5, 0.9, 0.5, 0.3, 0.1), (1.2, 1.1, 1.0, 0.9, 0.7), (-0.2, 0.4, 1.5, 4.0, 8.0)]
    densities = Densities(
        [Piecewise(one) for one in slopes] if shapes == "adaptive" else [Huber(), Student(), Piecewise(slopes[2])]
    )
    Y = np.random.default_rng(0).laplace(size=(3, 50))
    expected = [density.curvature(y) for density, y in zip(densities, Y, strict=True)]
    np.testing.assert_allclose(densities.curvature(Y), expected, rtol=1e-14)
