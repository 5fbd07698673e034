"""A stream whose mixing drifts
=============================

Sensors move, so the mixing matrix turns slowly. ``partial_fit`` with a
``half_life`` follows it; without one, old samples count for ever and the model
falls behind. No sample is kept.

Run it: ``python examples/drifting_stream.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import expm

from majorica import ICA, amari_distance


def stream(blocks=150, size=1000, p=6, seed=0):
    """Blocks of samples, each with the mixing matrix of its time."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(p, p))
    turn = rng.normal(size=(p, p))
    turn = expm(0.001 * (turn - turn.T))
    for _ in range(blocks):
        yield rng.laplace(size=(size, p)) @ A.T, A
        A = turn @ A


def main(path="drifting_stream.png"):
    models = {
        "half_life=5,000": ICA(density="huber", half_life=5_000, random_state=0),
        "no forgetting": ICA(density="huber", alpha=1.0, random_state=0),
    }
    errors = {name: [] for name in models}
    for X, A in stream():
        for name, ica in models.items():
            ica.partial_fit(X)
            errors[name].append(amari_distance(ica.components_, A))
    for name, error in errors.items():
        print(f"{name:18s} Amari distance at the end {error[-1]:.3f}")

    figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for (name, error), colour in zip(errors.items(), ["#0f766e", "#8a97a3"], strict=True):
        axis.plot(np.arange(1, len(error) + 1), error, color=colour, label=name)
    axis.set(xlabel="thousand samples seen", ylabel="Amari distance to the mixing of now", ylim=(0, None))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
