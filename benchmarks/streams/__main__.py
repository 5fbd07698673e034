"""``python -m benchmarks.streams``: faults and heavy tails in streams, and how long their blocks take."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.common import ROOT, describe_machine, write_section
from benchmarks.streams import latency
from majorica import ICA, amari_distance
from majorica.errors import MajoricaError, MajoricaWarning
from majorica.solvers.online import outliers

PAGE = ROOT / "docs" / "streams.md"
FAR = (0.0, 1e2, 1e3, 1e4, 1e6, 1e9)
TAILS = (1.0, 1.5, 2.5, 5.0)
SOURCES = {
    "Laplace": lambda rng, size: rng.laplace(size=size) / np.sqrt(2),
    "uniform": lambda rng, size: rng.uniform(-np.sqrt(3), np.sqrt(3), size=size),
}


@contextmanager
def rule(on: bool) -> Iterator[None]:
    """The rule as it is, or switched off."""
    before = outliers.REACH, outliers.ROUNDS
    if not on:
        outliers.REACH, outliers.ROUNDS = np.inf, 0
    try:
        yield
    finally:
        outliers.REACH, outliers.ROUNDS = before


def error(X: np.ndarray, A: np.ndarray) -> float:
    """Amari distance of a stream's model at the end, rows scaled by their largest source; infinite if it failed."""
    ica = ICA(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MajoricaWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            for start in range(0, len(X), 1000):
                ica.partial_fit(X[start : start + 1000])
            W = ica.components_
            return amari_distance(W / np.linalg.norm(W @ A, axis=1)[:, None], A)
        except (MajoricaError, np.linalg.LinAlgError):
            return np.inf


def both(X: np.ndarray, A: np.ndarray) -> tuple[float, float]:
    """With the rule and without."""
    found = []
    for on in (True, False):
        with rule(on):
            found.append(error(X, A))
    return found[0], found[1]


def faults(draws: int, n: int) -> list[str]:
    """Lines of the table of one sample far out, in the start or later; medians over draws."""
    lines = [
        "| sources | which sample | " + " | ".join(f"{far:g}" for far in FAR) + " |",
        "|---|---|" + "--:|" * len(FAR),
    ]
    for name, make in SOURCES.items():
        for at in (n // 8, 5 * n // 8):
            cells = []
            for far in FAR:
                pairs = []
                for seed in range(draws):
                    rng = np.random.default_rng(seed)
                    A = rng.normal(size=(4, 4))
                    X = make(rng, (n, 4)) @ A.T
                    X[at, 0] += far * X[:, 0].std()
                    pairs.append(both(X, A))
                cells.append(_cell(pairs))
            lines.append(f"| {name} | {at:,} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return lines


def tails(draws: int, n: int) -> list[str]:
    """Lines of the table of Student sources, whose tails are their own."""
    lines = ["| p | " + " | ".join(f"dof {dof:g}" for dof in TAILS) + " |", "|--:|" + "--:|" * len(TAILS)]
    for p in (2, 4, 10, 30):
        cells = []
        for dof in TAILS:
            pairs = []
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                A = rng.normal(size=(p, p))
                pairs.append(both(rng.standard_t(dof, size=(3 * n // 2, p)) @ A.T, A))
            cells.append(_cell(pairs))
        lines.append(f"| {p} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def _cell(pairs: list[tuple[float, float]]) -> str:
    with_it, without = np.median(np.array(pairs), axis=0)
    return f"{with_it:.2g} ({without:.2g})"


def write_outliers(quick: bool) -> None:
    """Measure both tables of samples far out and write them to the page on streams."""
    draws, n = (1, 12_000) if quick else (5, 40_000)
    one, own = faults(draws, n), tails(draws, n)
    head = f"`python -m benchmarks.streams` on {describe_machine()}; medians over {draws} draws."
    students = f"Student sources, {3 * n // 2:,} samples, whose far values are their own:"
    text = "\n".join([head, "", *one, "", students, "", *own])
    print(text)
    if not quick:
        write_section("outliers", text, PAGE)


def write_latency(quick: bool) -> None:
    """Time blocks and write the table to the page on streams."""
    if quick:
        latency.CHANNELS, latency.BLOCKS = (4,), (500,)
    head = f"`python -m benchmarks.streams --only latency` on {describe_machine()}; milliseconds, float32."
    text = "\n".join([head, "", *latency.lines()])
    print(text)
    if not quick:
        write_section("latency", text, PAGE)


PARTS = {"outliers": write_outliers, "latency": write_latency}


def main() -> None:
    """Measure the parts asked for and write them to the page on streams."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one draw of few samples, to try the command")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    for part in asked.only:
        PARTS[part](asked.quick)


if __name__ == "__main__":
    main()
