"""Plots: draw where told, return the figure, leave nothing behind."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.figure
import numpy as np
import pytest
from pages import channels, frame

from majorica import ICA, report
from majorica.errors import MissingDependencyError, ParameterError
from majorica.report.maps import tile


@pytest.fixture(scope="module")
def fitted():
    X = channels(9, 3000)
    return ICA(random_state=0).fit(X), X


POSITIONS = np.column_stack([np.cos(np.arange(9)), np.sin(np.arange(9)) * np.linspace(0.2, 1, 9)])

PLOTS = {
    "plot_convergence": (lambda ica, X, **k: report.plot_convergence(ica, **k), 4),
    "plot_mixing": (lambda ica, X, **k: report.plot_mixing(ica, **k), 1),
    "plot_sources": (lambda ica, X, **k: report.plot_sources(ica, X, **k), 1),
    "plot_densities": (lambda ica, X, **k: report.plot_densities(ica, X, **k), 9),
    "plot_psd": (lambda ica, X, **k: report.plot_psd(ica, X, sfreq=100.0, **k), 9),
    "plot_filters": (lambda ica, X, **k: report.plot_filters(ica, **k), 1),
    "plot_topographies": (lambda ica, X, **k: report.plot_topographies(ica, positions=POSITIONS, **k), 9),
}


@pytest.mark.parametrize("name", PLOTS)
def test_draws(name, fitted, tmp_path):
    draw, count = PLOTS[name]
    figure = draw(*fitted)
    assert isinstance(figure, matplotlib.figure.Figure)
    figure.savefig(tmp_path / "p.png", dpi=40)
    own = matplotlib.figure.Figure()
    axes = own.subplots(1, count, squeeze=False).ravel()
    assert draw(*fitted, ax=axes if count > 1 else axes[0]) is own
    assert all(ax.has_data() for ax in axes)
    if count > 1:
        with pytest.raises(ParameterError, match="axes"):
            draw(*fitted, ax=axes[0])


def test_no_pyplot():
    script = (
        "import sys, numpy as np\nfrom majorica import ICA, report\n"
        "X = np.random.default_rng(0).laplace(size=(600, 4))\nica = ICA(random_state=0).fit(X)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "report.plot_densities(ica, X).savefig('/dev/null', format='png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_without_matplotlib(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"majorica\[plot\]"):
        report.plot_convergence(fitted[0])


def test_report_needs_no_matplotlib(fitted, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.colors"):
        monkeypatch.setitem(sys.modules, name, None)
    assert report.Report(*fitted).html


def test_hostile_names_are_drawn(tmp_path):
    data = frame(["$x^", "a" * 10_000, r"\frac", "שלום"])
    report.plot_mixing(ICA(random_state=0).fit(data)).savefig(tmp_path / "p.svg")


def test_refuses(fitted):
    ica, X = fitted
    with pytest.raises(ParameterError, match="0 to 8"):
        report.plot_sources(ica, X, components=[9])
    with pytest.raises(ParameterError, match="which"):
        report.plot_filters(ica, which="both")
    with pytest.raises(ParameterError, match="positions"):
        report.plot_topographies(ica)


def test_recordings_bring_their_rate():
    mne = pytest.importorskip("mne")
    raw = mne.io.RawArray(channels(4).T, mne.create_info(4, 100.0, "eeg"), verbose="ERROR")
    ica = ICA(random_state=0).fit(raw)
    assert report.plot_psd(ica, raw).axes[0].get_xlabel() == "Hz"
    assert report.plot_psd(ica, raw).axes[0].get_lines()[0].get_xdata()[-1] == 50
    assert report.plot_sources(ica, raw).axes[0].get_xlabel() == "seconds"


def test_convergence_of_a_stream_is_drawn_over_its_samples():
    """Each step has samples of its own: none is of a subset, and all are of one pass."""
    X = channels(3, 20_300)
    ica = ICA(random_state=0).fit(X[start : start + 700] for start in range(0, len(X), 700))
    axes = report.plot_convergence(ica).axes
    (own,) = axes[0].get_lines()
    np.testing.assert_array_equal(own.get_xdata(), np.cumsum(ica.trace_["n_samples"]))
    assert own.get_xdata()[-1] == len(X)
    assert [panel.get_xlabel() for panel in axes] == ["samples"] * 2 + ["seconds"] * 2
    assert axes[1].texts[0].get_text() == "none over all samples"


def test_tile():
    sheet = tile([np.full((2, 3), value) for value in (1.0, -2.0, 0.0)])
    assert sheet.shape == (7, 9)
    assert set(np.unique(sheet)) == {-1.0, 0.0, 1.0}


def test_losses_of_other_samples_are_not_drawn_as_one_line():
    """Those of subsets, which do not compare, had crossed the axes as near-vertical strokes."""
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(40_000, 6)) @ rng.normal(size=(6, 6))
    ica = ICA(random_state=0).fit(X)
    level = ica.trace_["n_samples"]
    last = level == level[-1]
    assert 1 < last.sum() < len(last)
    loss, gradient, *_ = report.plot_convergence(ica).axes
    (line,) = loss.lines
    np.testing.assert_array_equal(line.get_ydata(), ica.trace_["loss"][last])
    parts = [set(ica.trace_["n_samples"][np.isin(ica.trace_["passes"], part.get_xdata())]) for part in gradient.lines]
    assert all(len(part) == 1 for part in parts[: len(set(level))])
    assert loss.get_xlim() == gradient.get_xlim()
    assert "on a subset" in [text.get_text() for text in gradient.get_legend().get_texts()]
