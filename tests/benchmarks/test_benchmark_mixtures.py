"""Kinds of sources: the bound, what chance can do, and stored lines; no clock is tested."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

pytest.importorskip("picard")

from benchmarks.race import mixtures
from benchmarks.race.bound import amari_of, kappa, median_amari, pair_covariance
from benchmarks.race.chance import interval, places, ratio
from benchmarks.race.kinds import HUMP, KINDS, draw, mixture
from benchmarks.race.lines import RACERS, TOLD, render, summarise
from benchmarks.race.quality import amari
from benchmarks.race.told import can_be_told, densities, fit_told
from scipy import stats

from benchmarks import common


def by_quadrature(density, width):
    """Variance times the integral of the squared score, with the score by differences."""
    x, step = np.linspace(-width, width, 2_000_001, retstep=True)
    f = density(x)
    f /= f.sum() * step
    return (f * x**2).sum() * step * (np.gradient(f, step) ** 2 / np.maximum(f, 1e-300)).sum() * step


@pytest.mark.parametrize(
    ("kind", "density", "width"),
    [
        ("normal1.5", stats.gennorm(1.5).pdf, 15),
        ("normal4", stats.gennorm(4).pdf, 4),
        ("student5", stats.t(5).pdf, 1e3),
        ("bimodal", lambda x: stats.norm(-1, HUMP).pdf(x) + stats.norm(1, HUMP).pdf(x), 5),
    ],
)
def test_kappa_is_the_integral(kind, density, width):
    assert kappa(kind) == pytest.approx(by_quadrature(density, width), rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_sources_are_standardised(kind):
    s = draw(kind, 1000, np.random.default_rng(0))
    assert (s.mean(), s.std()) == pytest.approx((0, 1))


def test_kappa_is_one_for_a_gaussian_and_infinite_for_jumps():
    assert kappa("normal2") == pytest.approx(1)
    assert all(kappa(kind) > 1 for kind in KINDS)
    assert [kind for kind in KINDS if math.isinf(kappa(kind))] == ["uniform", "sine", "modulated"]


def test_pair_covariance_inverts_the_information_and_has_its_limit():
    information = np.array([[3.0, 1.0], [1.0, 1.5]])
    assert np.allclose(pair_covariance(3.0, 1.5), np.linalg.inv(information))
    assert np.allclose(pair_covariance(3.0, math.inf), pair_covariance(3.0, 1e9), atol=1e-8)
    assert median_amari(("uniform", "sine"), 1000) is None


def test_distances_of_the_bound_are_those_of_the_race():
    rng = np.random.default_rng(0)
    S = rng.normal(size=(50, 3))
    S = np.linalg.qr(S - S.mean(axis=0))[0] * math.sqrt(50)  # white
    for R in np.eye(3) + 0.3 * rng.normal(size=(4, 3, 3)):
        assert amari_of(R[None])[0] == pytest.approx(amari(R, np.eye(3), S))


def test_bound_is_met_by_the_efficient_estimate():
    """One scoring step from the truth with the true score: its covariance is the bound's."""
    n, kinds, distances = 2000, ("normal4", "student5"), []
    alpha = math.sqrt(math.gamma(1 / 4) / math.gamma(3 / 4))
    for seed in range(400):
        rng = np.random.default_rng(seed)
        one, other = (draw(kind, n, rng) for kind in kinds)
        scores = 4 / alpha * (one / alpha) ** 3, 6 * (5 / 3) * other / (5 + 5 / 3 * other**2)
        gradient = np.array([np.mean(scores[0] * other), np.mean(scores[1] * one)])
        a, b = pair_covariance(*map(kappa, kinds)) @ gradient
        distances.append(amari_of(np.array([[[1, -a], [-b, 1]]]))[0])
    assert np.median(distances) == pytest.approx(median_amari(kinds, n), rel=0.2)


def test_chance():
    rng = np.random.default_rng(0)
    same = rng.exponential(size=(20, 1)) * rng.uniform(0.9, 1.1, size=(20, 3))
    low, high = interval(same)
    assert low < ratio(same) < high
    assert low < 1 < high
    worse = same * [2.0, 1.0, 1.0]
    assert interval(worse)[0] > 1
    assert interval(worse) == interval(worse)
    assert places(worse) == (0, 20)
    assert places(np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [1.0, 1.0, 1.0]])) == (1, 0)


@pytest.mark.parametrize("kinds", [("normal4", "student5"), ("bimodal", "bimodal"), ("normal1.5", "normal3")])
def test_who_is_told_the_densities_meets_the_bound(kinds):
    n, distances = 2000, []
    for seed in range(100):
        X, A = mixture(kinds, n, seed)
        W = fit_told(X, A, kinds)
        Y = (X - X.mean(axis=0)) @ W.T
        gradient = np.column_stack([densities(kind, y)[1] for kind, y in zip(kinds, Y.T, strict=True)]).T @ Y / n
        assert np.allclose(gradient, np.eye(2), atol=1e-6)
        distances.append(amari(W, A, X))
    assert np.median(distances) == pytest.approx(median_amari(kinds, n), rel=0.3)


@pytest.mark.parametrize("kind", ["normal1.5", "student5", "bimodal"])
def test_scores_are_derivatives(kind):
    y = np.linspace(-3, 3, 60)
    slopes = (densities(kind, y + 1e-5)[0] - densities(kind, y - 1e-5)[0]) / 2e-5
    assert np.allclose(densities(kind, y)[1], slopes, atol=1e-6)


def test_densities_that_cannot_be_told():
    assert [kind for kind in KINDS if not can_be_told((kind,))] == ["normal0.7", "uniform", "sine", "modulated"]


def runs_of(distances, told=()):
    """Stored runs of the three racers, and of who is told."""
    columns = zip((*RACERS, TOLD), [*np.transpose(distances), told], strict=True)
    return {racer: [{"amari": float(value), "rises": 0} for value in column] for racer, column in columns}


def test_line_names_what_is_worse_at_all_and_beyond_chance():
    rng = np.random.default_rng(0)
    base = rng.exponential(size=(20, 1)) * 0.001
    surely = summarise("2 x sine", 2000, runs_of(base * [2.0, 1.0, 1.1]))
    perhaps = summarise("2 x normal4", 20_000, runs_of(base * rng.uniform(0.5, 2, size=(20, 3)), base[:, 0]))
    perhaps["ratio"], perhaps["low"] = 1.07, 0.9
    text = render([surely, perhaps], [], [], "command")
    assert "2 of 2 (2 x sine at 2e3, 2 x normal4 at 2e4)" in text
    assert "lies above 1): 1 (2 x sine at 2e3)" in text
    assert "| 2.00 | 2.00 to 2.00 | 0 / 20 | - | - | - | - | - |" in text
    assert "Of the 1 lines" in text
    assert perhaps["told"] == pytest.approx(np.median(base) / min(perhaps["median"][1:]))
    assert perhaps["over"][0] == pytest.approx(perhaps["median"][0] / perhaps["bound"])


def test_failures_are_counted():
    line = summarise("2 x sine", 100, runs_of([[0.9, 0.1, 0.2], [0.1, 0.9, 0.6], [0.9, 0.1, 0.9]]))
    assert (line["failures"], line["gains"], line["draws"]) == (1, 1, 3)


@pytest.mark.filterwarnings("ignore")
def test_stored_runs_go_on_and_are_rendered(tmp_path, monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(
            sys, "argv", ["mixtures", "--results", str(tmp_path), "--only", "2 x sine", "--many", "4", *arguments]
        )
        mixtures.main()
        return capsys.readouterr().out

    first = command("--sizes", "2000", "--draws", "2")
    assert "| 2 x sine | 2e3 | 2 |" in first
    assert "with 4 draws" in first
    assert "| 2 x sine | 2e3 | 4 |" in first
    assert "Milliseconds" not in first
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert "| 2 x sine | 2e3 | 2 |" in command("--sizes", "2000", "--draws", "2")
    assert times == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    command("--sizes", "2000", "--timing")
    store = common.Store(tmp_path)
    for path in tmp_path.glob("*majorica*.json"):  # as if another code had made them
        path.unlink()
    store.put({"data": "2xsine", "method": "majorica", "n": 2000, "by": "x"}, [{"amari": 0.5, "rises": 0}] * 2)
    text = command("--render", "--draws", "2")
    assert "with 4 draws" not in text  # two are stored
    assert "| 2 x sine | 2e3 | 2 | 0.5 |" in text
    assert "Milliseconds" in text
