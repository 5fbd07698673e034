"""The demo: edge detectors learnt from two photographs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

#: Side of a patch in pixels, and patches taken.
SIDE, PATCHES = 10, 60_000
#: Components kept: what is left out is noise.
COMPONENTS = 64
#: Log contrast below which a patch shows nothing (sky).
FLAT = 0.1


def patches(n: int = PATCHES, *, side: int = SIDE, seed: int = 0) -> npt.NDArray[np.float32]:
    """Patches ``(n, side * side)`` of scikit-learn's sample photographs, at equal brightness and contrast."""
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    rng = np.random.default_rng(seed)
    found = []
    for k, photograph in enumerate(photographs):
        X = _patches_of(photograph, side)
        count = n // len(photographs) + (k < n % len(photographs))
        found.append(X[rng.permutation(len(X))[:count]])
    return np.concatenate(found)


def _patches_of(photograph: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.float32]:
    """Every patch that shows something, at half size: the finest detail is the compression's."""
    brightness = np.log1p(photograph.mean(axis=2, dtype=np.float64))
    height, width = (length // 2 for length in brightness.shape)
    half = brightness[: 2 * height, : 2 * width].reshape(height, 2, width, 2).mean(axis=(1, 3))
    X = np.lib.stride_tricks.sliding_window_view(half.astype(np.float32), (side, side)).reshape(-1, side * side)
    X = X - X.mean(axis=1, keepdims=True)
    contrast = X.std(axis=1, keepdims=True)
    shows = contrast[:, 0] > FLAT
    return X[shows] / (contrast[shows] + FLAT)


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

    X = patches(n)
    started = time.perf_counter()
    ica = ICA(COMPONENTS, random_state=0, n_jobs=n_jobs, verbose=verbose).fit(X)
    seconds = time.perf_counter() - started
    figure = draw(ica)
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


def draw(ica: Any) -> Any:
    """Filters beside the features they find, as one figure."""
    from majorica.report.figures import new_figure
    from majorica.report.maps import plot_filters

    figure = new_figure(12.4, 6.6)
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.15)
    left, right = figure.subplots(1, 2)
    for ax, which, title in (
        (left, "components", "Filters: what each component looks for"),
        (right, "mixing", "Features: what each component adds to a patch"),
    ):
        plot_filters(ica, image_shape=(SIDE, SIDE), which=which, ax=ax)
        ax.set_title(title, size=12, color="#1d232b", pad=10)
    return figure
