"""The kinds of sources the mixture table is made of, each of mean 0 and variance 1."""

from __future__ import annotations

import numpy as np

HUMP = 0.4  #: deviation of the two humps of a bimodal source, at -1 and 1
#: Generalised normals by shape, Students by degrees of freedom, and five others.
KINDS = ("normal0.7", "normal1.5", "normal1.85", "normal3", "normal4", "student2.5", "student5")
KINDS += ("uniform", "bimodal", "sine", "modulated")
#: Alone in pairs, mixed pairs, and all together.
MIXTURES: dict[str, tuple[str, ...]] = {
    **{f"2 x {kind}": (kind, kind) for kind in KINDS},
    "normal0.7 + uniform": ("normal0.7", "uniform"),
    "normal1.5 + normal3": ("normal1.5", "normal3"),
    "student5 + bimodal": ("student5", "bimodal"),
    "normal1.85 + sine": ("normal1.85", "sine"),
    "student2.5 + normal4": ("student2.5", "normal4"),
    "all kinds": KINDS,
}


def draw(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` samples of one source."""
    time = np.arange(n)
    if kind.startswith("normal"):
        from scipy.stats import gennorm

        s = gennorm.rvs(float(kind.removeprefix("normal")), size=n, random_state=rng)
    elif kind.startswith("student"):
        s = rng.standard_t(float(kind.removeprefix("student")), size=n)
    elif kind == "uniform":
        s = rng.uniform(-1, 1, n)
    elif kind == "bimodal":
        s = rng.choice([-1.0, 1.0], n) + HUMP * rng.normal(size=n)
    elif kind == "sine":
        s = np.sin(2 * np.pi * rng.uniform(0.01, 0.2) * time + rng.uniform(0, 6))
    else:
        envelope = 1 + 0.8 * np.sin(2 * np.pi * rng.uniform(0.001, 0.01) * time + rng.uniform(0, 6))
        s = envelope * np.sin(2 * np.pi * rng.uniform(0.05, 0.3) * time + rng.uniform(0, 6))
    s = s - s.mean()
    return s / s.std()


def mixture(kinds: tuple[str, ...], n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples ``(n, p)`` and the mixing matrix."""
    rng = np.random.default_rng(seed)
    S = np.column_stack([draw(kind, n, rng) for kind in kinds])
    A = rng.normal(size=(len(kinds), len(kinds)))
    return S @ A.T, A
