"""Bring your own density
======================

A density is three formulas: the negative log-density, its derivative and its
second derivative. ``check_density`` tests numerically that the guarantees
hold for it; then it goes into ``ICA(density=...)`` like a built-in one.

Run it: ``python examples/own_density.py [figure.png]``
"""

import sys
from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from majorica import ICA, amari_distance, check_density
from majorica.densities import Density


@dataclass(frozen=True)
class Smoothed(Density):
    """A Laplace density with a rounded tip: ``G(y) = sqrt(width^2 + y^2)``."""

    width: float = 0.5
    name: str = "smoothed"

    def loss(self, y):
        return np.hypot(self.width, y)

    def score(self, y):
        return y / np.hypot(self.width, y)

    def curvature(self, y):
        radius = np.hypot(self.width, y)
        return (self.width / radius) ** 2 / radius


def main(path="own_density.png"):
    density = Smoothed()
    check_density(density)

    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 5))
    X = rng.laplace(size=(20_000, 5)) @ A.T
    for chosen in ("huber", density):
        ica = ICA(density=chosen, random_state=0).fit(X)
        error = amari_distance(ica.components_, A * np.sqrt(2))
        print(f"{chosen!s:9s} Amari distance {error:.5f}, log-likelihood {ica.score(X):.4f}")

    y = np.linspace(-4, 4, 401)
    figure, axis = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    axis.plot(y, density.loss(y), color="#22303c", lw=2, label="G(y)")
    for at, colour in [(0.5, "#0f766e"), (1.5, "#b45309"), (3.0, "#4338ca")]:
        axis.plot(y, density.majorizer(y, np.full_like(y, at)), color=colour, lw=1, label=f"majorizer touching at {at}")
    axis.set(xlabel="y", ylim=(0, 6))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)
    return ica


if __name__ == "__main__":
    main(*sys.argv[1:])
