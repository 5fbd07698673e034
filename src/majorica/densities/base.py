r"""What a density is: everything a solver asks about one source's distribution.

A density :math:`d(y) = \exp(-G(y)) / Z` enters the loss through :math:`G` and
the log normaliser :math:`\log Z`. Majorization-minimization needs one thing
more: for every point :math:`y_0` a quadratic that touches :math:`G` there and
lies above it everywhere,

.. math:: G(y) \le \tfrac12 w(y_0) y^2 - t(y_0) y + r(y_0),

- super-Gaussian: :math:`w = u^*(y_0) = G'(y_0) / y_0`, :math:`t = 0`; this is
  Eq. (conjugate) of the paper and :math:`r = f(u^*(y_0))`;
- sub-Gaussian: :math:`w` is a constant and :math:`t = w y_0 - G'(y_0)`, the
  tangent of a concave part (``docs/adaptive.md``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]

#: Kernel codes: which formula a compiled kernel runs for a component.
CUSTOM, CLIPPED, LOGCOSH, STUDENT, TWO_GAUSSIAN, PIECEWISE = -1, 0, 1, 2, 3, 4

#: Numbers a compiled kernel reads about one component's density.
SHAPE_LENGTH = 6


class Density(ABC):
    """A symmetric density of one source.

    Subclass it to bring your own: give ``loss``, ``score`` and ``curvature``
    (:math:`G, G', G''`), a ``log_normaliser`` if you know it (it is integrated
    numerically otherwise), and run :func:`majorica.check_density` on it. The
    default majorizer is the super-Gaussian one.
    """

    #: Short name, shown in ``densities_``.
    name: str = "custom"
    #: Formula the compiled kernels use; CUSTOM runs the NumPy methods instead.
    code: int = CUSTOM
    #: Whether the majorizer is the super-Gaussian one (``tilt`` is zero).
    super_gaussian: bool = True

    @abstractmethod
    def loss(self, y: Array) -> Array:
        """:math:`G(y)`, without the normaliser."""

    @abstractmethod
    def score(self, y: Array) -> Array:
        """:math:`G'(y)`."""

    @abstractmethod
    def curvature(self, y: Array) -> Array:
        """:math:`G''(y)`."""

    @property
    def shape(self) -> tuple[float, ...]:
        """Up to `SHAPE_LENGTH` numbers the compiled kernels read."""
        return ()

    @property
    def log_normaliser(self) -> float:
        """:math:`\\log Z`, so that :math:`\\exp(-G(y)) / Z` integrates to one."""
        from majorica.densities.check import integrate_normaliser

        return integrate_normaliser(self)

    def weight(self, y: Array) -> Array:
        """:math:`w(y)`: curvature of the majorizer that touches :math:`G` at `y`; :math:`u^*(y)` of Eq. (conjugate)."""
        y = np.asarray(y)
        tiny = np.abs(y) < 1e-150
        safe = np.where(tiny, 1.0, y)
        return np.where(tiny, self.curvature(np.zeros_like(y)), self.score(safe) / safe)

    def tilt(self, y: Array) -> Array:
        """:math:`t(y)`: linear part of the majorizer that touches :math:`G` at `y` (zero if super-Gaussian)."""
        return np.zeros_like(np.asarray(y))

    def offset(self, y: Array) -> Array:
        """:math:`r(y)`: constant of the majorizer that touches at `y`; :math:`f(u^*(y))` if super-Gaussian."""
        y = np.asarray(y)
        half = 0.5 * y  # 0.5 w y y without overflow of y * y
        return self.loss(y) - (self.weight(y) * y) * half + self.tilt(y) * y

    def majorizer(self, y: Array, at: Array) -> Array:
        """The majorizer that touches :math:`G` in the point `at`, evaluated at `y`."""
        return 0.5 * self.weight(at) * y * y - self.tilt(at) * y + self.offset(at)

    def gap(self, y: Array, at: Array) -> Array:
        """How far the majorizer that touches in `at` lies above :math:`G` at `y`; Eq. (dualgap)."""
        return self.majorizer(y, at) - self.loss(y)

    def __str__(self) -> str:
        return self.name
