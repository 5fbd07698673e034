"""Separate a mixture
===================

Five signals of very different kinds are mixed; ICA finds them again from the
mixtures alone, up to sign, scale and order. Two of them (the uniform noise and
the sine) are sub-Gaussian: the default density adapts to each component.

Run it: ``python examples/separate_a_mixture.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from majorica import ICA, amari_distance

INK, MUTED, ACCENT = "#22303c", "#8a97a3", "#0f766e"


def make_sources(n=20_000, seed=0):
    """Laplace noise, bursts, uniform noise, a sine and a sawtooth, unit variance, ``(n, 5)``."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    sources = np.stack(
        [
            rng.laplace(size=n),
            rng.standard_normal(n) * (np.sin(t / 90) > 0.6),
            rng.uniform(-1, 1, n),
            np.sin(2 * np.pi * t / 97.3),
            (t / 61.7) % 1 - 0.5,
        ],
        axis=1,
    )
    return (sources - sources.mean(axis=0)) / sources.std(axis=0)


def match(found, true):
    """`found` in the order and with the signs of `true`."""
    correlation = np.corrcoef(found.T, true.T)[: found.shape[1], found.shape[1] :]
    best = np.abs(correlation).argmax(axis=0)
    return found[:, best] * np.sign(correlation[best, np.arange(len(best))])


def main(path="separate_a_mixture.png"):
    S = make_sources()
    A = np.random.default_rng(1).normal(size=(5, 5))
    X = S @ A.T

    ica = ICA(random_state=0)
    Y = ica.fit_transform(X)

    print(f"{ica.stop_reason_}, {ica.n_iter_} passes")
    print("densities chosen:", ", ".join(name.partition("(")[0] for name in ica.densities_))
    print(f"Amari distance to the true mixing: {amari_distance(ica.components_, A):.4f}")

    names = ["Laplace", "bursts", "uniform", "sine", "sawtooth"]
    span = slice(0, 500)
    figure, axes = plt.subplots(5, 3, figsize=(9, 4.2), sharex=True, layout="constrained")
    for column, (title, signals, colour) in enumerate(
        [("what is mixed", S, INK), ("what is measured", X, MUTED), ("what ICA finds", match(Y, S), ACCENT)]
    ):
        axes[0, column].set_title(title, fontsize=11, color=INK)
        for axis, signal in zip(axes[:, column], signals.T, strict=True):
            axis.plot(signal[span], color=colour, lw=0.8)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.set_ylabel(name, rotation=0, ha="right", va="center", color=INK)
    figure.savefig(path, dpi=120)
    return ica


if __name__ == "__main__":
    main(*sys.argv[1:])
