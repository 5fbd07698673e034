"""Filters of natural images
=========================

Patches of photographs are mixtures of edges. ICA of 100,000 patches of 10 x 10
pixels finds small oriented filters, like those of the first stage of vision.

Run it: ``python examples/natural_images.py [figure.png]``
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_images

from majorica import ICA


def sample_patches(size=10, n=100_000, seed=0):
    """Patches of two photographs, brightness removed, ``(n, size * size)`` float32."""
    rng = np.random.default_rng(seed)
    patches = []
    for image in load_sample_images().images:
        grey = np.log1p(image.mean(axis=2))
        windows = np.lib.stride_tricks.sliding_window_view(grey, (size, size))
        rows, columns = (rng.integers(0, limit, n // 2) for limit in windows.shape[:2])
        patches.append(windows[rows, columns].reshape(-1, size * size))
    patches = np.concatenate(patches)
    return np.asarray(patches - patches.mean(axis=1, keepdims=True), dtype=np.float32)


def main(path="natural_images.png", size=10):
    X = sample_patches(size)
    ica = ICA(64, density="huber", tol=1e-2, random_state=0).fit(X)
    print(f"{ica.n_components_} filters from {len(X)} patches: {ica.stop_reason_}, {ica.n_iter_} passes")

    columns = 16
    figure, axes = plt.subplots(len(ica.mixing_.T) // columns, columns, figsize=(8, 2.03))
    figure.subplots_adjust(left=0.005, right=0.995, bottom=0.01, top=0.99, wspace=0.06, hspace=0.06)
    for axis, feature in zip(axes.flat, ica.mixing_.T, strict=True):
        limit = np.abs(feature).max()
        axis.imshow(feature.reshape(size, size), cmap="gray", vmin=-limit, vmax=limit, interpolation="bicubic")
        axis.axis("off")
    figure.savefig(path, dpi=120)
    return ica


if __name__ == "__main__":
    main(*sys.argv[1:])
