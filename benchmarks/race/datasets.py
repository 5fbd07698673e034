"""The data of the race: made once, kept as files that every method's process loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LEFT_OUT = 50_000


@dataclass(frozen=True)
class Entry:
    """One dataset of the race, and what is asked of majorica on it."""

    name: str
    title: str
    make: Callable[..., dict[str, np.ndarray]]
    target: float = 1.0  #: times as fast as the fastest peer of the same quality
    needs: str = ""  #: "eeg" if a path must be given
    uses: str = ""  #: "images" if a path may be given


def laplace(p: int, n: int) -> dict[str, np.ndarray]:
    """Laplace sources, normal mixing matrix."""
    rng = np.random.default_rng([p, n])
    return mix(lambda m: rng.laplace(scale=0.5**0.5, size=(m, p)), p, n, rng)


def mixed(p: int, n: int) -> dict[str, np.ndarray]:
    """In turn Laplace, uniform, Student 5, two-humped and generalised normal 3 sources, all of variance one."""
    from scipy.stats import gennorm

    rng = np.random.default_rng([p, n])

    def sources(m: int) -> np.ndarray:
        draws = [
            lambda: rng.laplace(scale=0.5**0.5, size=m),
            lambda: rng.uniform(-(3**0.5), 3**0.5, m),
            lambda: rng.standard_t(5, m) / (5 / 3) ** 0.5,
            lambda: (rng.choice([-1.0, 1.0], m) + 0.4 * rng.normal(size=m)) / 1.16**0.5,
            lambda: gennorm.rvs(3, size=m, random_state=rng) / gennorm.std(3),
        ]
        return np.column_stack([draws[i % len(draws)]() for i in range(p)])

    return mix(sources, p, n, rng)


def mix(sources: Callable[[int], np.ndarray], p: int, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """`n` samples to fit and as many left out as are needed, mixed by one random matrix."""
    A = rng.normal(size=(p, p))
    return {"X": sources(n) @ A.T, "left_out": sources(LEFT_OUT) @ A.T, "A": A}


def image_patches(p: int, n: int, images: Path | None) -> dict[str, np.ndarray]:
    """Random 10 x 10 patches of natural images, or their first `p` principal components.

    The left-out patches come from the same images. Noise of the rounding
    error of 8-bit greys keeps flat patches from being exactly equal.
    """
    from benchmarks.paper.datasets import load_images, patches

    rng = np.random.default_rng([p, n])
    X = patches(load_images(images), n + LEFT_OUT, rng, side=10).astype(np.float64)
    X += rng.normal(scale=1 / 255 / 12**0.5, size=X.shape)
    return reduced(X, n, p)


def recording(n: int, path: Path) -> dict[str, np.ndarray]:
    """Samples of a recording, `n` of them drawn at random, the others left out; as many components as its rank."""
    X = read_samples(path)
    rows = np.random.default_rng(0).permutation(len(X))
    n = min(n, int(0.8 * len(X)))
    return reduced(X[rows], n, None)


def read_samples(path: Path) -> np.ndarray:
    """All samples ``(n, f)`` of a file; an array file may have channels first."""
    from majorica import as_source

    if path.suffix == ".npy":
        X = np.load(path)
        X = X.T if X.shape[0] < X.shape[1] else X
    else:
        source = as_source(path)
        X = source.read(0, source.n_samples)
    return np.ascontiguousarray(X, dtype=np.float64)


def reduced(X: np.ndarray, n: int, p: int | None) -> dict[str, np.ndarray]:
    """First `n` samples to fit, the others left out, in `p` principal directions (None: all that vary)."""
    X = X - X[:n].mean(axis=0)
    values, vectors = np.linalg.eigh(X[:n].T @ X[:n] / n)
    rank = int((values > 1e-10 * values[-1]).sum())
    k = rank if p is None else min(p, rank)
    if k < X.shape[1]:
        X = X @ vectors[:, ::-1][:, :k]
    return {"X": X[:n], "left_out": X[n : n + LEFT_OUT]}


def entries(*, quick: bool) -> list[Entry]:
    """All datasets; `quick` ones are small."""

    def size(n: int, small: int) -> int:
        return small if quick else n

    def words(n: int) -> str:
        return f"{n:.0e}".replace("e+0", "e")

    n10, n71, n20, n100 = size(1_000_000, 50_000), size(200_000, 20_000), size(100_000, 20_000), size(200_000, 20_000)
    many = size(50_000, 10_000)
    return [
        Entry("laplace10", f"Laplace, 10 x {words(n10)}", lambda: laplace(10, n10), 8.0),
        Entry("laplace71", f"Laplace, 71 x {words(n71)}", lambda: laplace(71, n71), 8.0),
        Entry("mixed20", f"sub- and super-Gaussian, 20 x {words(n20)}", lambda: mixed(20, n20)),
        Entry("mixed100", f"sub- and super-Gaussian, 100 x {words(many)}", lambda: mixed(100, many)),
        Entry("small4", "Laplace, 4 x 2000", lambda: laplace(4, 2000)),
        Entry("patches10", f"image patches, 10 x {words(n10)}", lambda i: image_patches(10, n10, i), uses="images"),
        Entry(
            "patches100",
            f"image patches, 100 x {words(n100)}",
            lambda i: image_patches(100, n100, i),
            4.0,
            "",
            "images",
        ),
        Entry("eeg", f"EEG, {words(n100)} samples at random", lambda e: recording(n100, e), 8.0, "eeg"),
    ]


def build(entry: Entry, folder: Path, *, eeg: Path | None, images: Path | None) -> Path:
    """Make the dataset unless it is there; returns its folder of ``.npy`` files."""
    path = {"eeg": eeg, "images": images}.get(entry.needs or entry.uses)
    size = "".join(letter if letter.isalnum() else "-" for letter in entry.title.split(",")[1].strip())
    label = f"{entry.name}-{size}" + (f"-{path.stem}" if path else "")
    home = folder / label
    if not (home / "done").exists():
        home.mkdir(parents=True, exist_ok=True)
        parts = entry.make(path) if entry.needs or entry.uses else entry.make()
        for name, array in parts.items():
            np.save(home / f"{name}.npy", np.ascontiguousarray(array))
        (home / "done").touch()
    return home
