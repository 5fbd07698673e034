"""The demo: edge detectors learnt from two photographs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

#: Side of a patch in pixels, and patches taken.
SIDE, PATCHES = 10, 100_000
#: Components kept: the rest is the pixel-sized detail of the camera's sensor.
COMPONENTS = 64


def patches(n: int = PATCHES, *, side: int = SIDE, seed: int = 0) -> npt.NDArray[np.float32]:
    """`n` patches ``(n, side * side)`` of scikit-learn's sample photographs, in log brightness, each of mean 0."""
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    rng = np.random.default_rng(seed)
    found = []
    for k, photograph in enumerate(photographs):
        brightness = np.log1p(photograph.mean(axis=2, dtype=np.float64)).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(brightness, (side, side))
        count = n // len(photographs) + (k < n % len(photographs))
        rows = rng.integers(windows.shape[0], size=count)
        columns = rng.integers(windows.shape[1], size=count)
        found.append(windows[rows, columns].reshape(count, side * side))
    X = np.concatenate(found)
    X -= X.mean(axis=1, keepdims=True)
    return X


def run_demo(
    picture: str, page: str, *, n: int = PATCHES, n_jobs: int | None = None, verbose: int = 0
) -> dict[str, Any]:
    """Learn the components of image patches, draw them to `picture`, write a report to `page`.

    Returns the figures of the fit. Needs the extra ``majorica[plot]``.
    """
    from majorica.errors import optional_import

    optional_import("matplotlib", extra="plot", purpose="the demo's picture")
    from majorica import ICA
    from majorica.persistence.atomic import write_atomically
    from majorica.report import Report
    from majorica.report.plots import plot_filters

    X = patches(n)
    started = time.perf_counter()
    ica = ICA(COMPONENTS, random_state=0, n_jobs=n_jobs, verbose=verbose).fit(X)
    seconds = time.perf_counter() - started
    figure = plot_filters(ica, image_shape=(SIDE, SIDE), which="mixing")
    write_atomically(picture, lambda file: figure.savefig(file, format="png", dpi=150))
    Report(ica, X, title="Edges in natural images", image_shape=(SIDE, SIDE)).save(page)
    return {
        "n_samples": int(ica.n_samples_seen_),
        "n_components": int(ica.n_components_),
        "passes": float(ica._fitted.passes),
        "loss": float(ica.loss_),
        "seconds": seconds,
        "converged": bool(ica.converged_),
        "picture": picture,
        "report": page,
    }
