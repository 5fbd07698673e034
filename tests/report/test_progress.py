"""The progress display and its forecast."""

from __future__ import annotations

import io
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from pages import channels
from rich.console import Console

from majorica import ICA
from majorica.progress import Forecast, Progress, describe, time_left


def step(seconds, gradient=np.nan, *, passes=1.0, n_samples=1000, seen=0):
    return SimpleNamespace(
        seconds=seconds,
        gradient=gradient,
        passes=passes,
        n_samples=n_samples,
        loss=2.5,
        state=SimpleNamespace(seen=seen),
    )


def test_forecast_follows_the_gradient():
    forecast = Forecast(n_samples=1000, max_iter=500, tol=1e-4)
    for k in range(20):
        forecast.update(step(0.1 * (k + 1), 10.0 ** (-k / 8), passes=k + 1))
    # From 10^(-19/8) at 10^(-1/8) a step of 0.1 s: 13 steps are left.
    assert forecast.left == pytest.approx(1.3, rel=1e-6)
    assert not forecast.at_most
    assert 0.5 < forecast.done < 0.7


def test_forecast_never_goes_back():
    forecast = Forecast(n_samples=1000, max_iter=500, tol=None)
    rng = np.random.default_rng(0)
    done = []
    for k in range(60):
        forecast.update(
            step(0.1 * (k + 1), 10.0 ** rng.uniform(-4, 0), passes=k + 1, n_samples=int(rng.choice([250, 1000])))
        )
        done.append(forecast.done)
        assert forecast.left is None or (math.isfinite(forecast.left) and forecast.left >= 0)
    assert done == sorted(done)
    assert done[0] >= 0
    assert done[-1] <= 1


def test_forecast_of_online_counts_samples():
    forecast = Forecast(n_samples=1000, max_iter=1, tol=None, online=True)
    forecast.update(step(2.0, seen=250))
    assert forecast.done == 0.25
    assert forecast.left == pytest.approx(6.0)
    endless = Forecast(n_samples=None, max_iter=1, tol=None, online=True)
    endless.update(step(2.0, seen=250))
    assert (endless.done, endless.left, time_left(endless)) == (0.0, None, "")


def test_words():
    forecast = Forecast(n_samples=10, max_iter=1, tol=None)
    for seconds, text in ((0.2, "about 1 s left"), (300, "about 5 min left"), (9000, "about 2.5 h left")):
        forecast.left = seconds
        assert time_left(forecast) == text
    assert describe(step(1.0)) == "loss 2.5000, 1.0 passes"
    assert describe(step(1.0, seen=5000), online=True) == "loss 2.5000, 5,000 samples"


@pytest.mark.parametrize("terminal", [True, False])
def test_bar_is_closed_after_an_error(terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, _environ={"TERM": "xterm"})
    shown = Progress(Forecast(n_samples=10, max_iter=5, tol=None), console=console)

    def fail():
        with shown:
            shown(step(0.1, 0.5))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "loss 2.5000" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h" if terminal else "done\n"), "the cursor is shown again"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, "fitting [━ ]{24} 0:00:00 loss 2.5000, 1.0 passes at most 89 s left"),
        (80, "fitting [━ ]{18} 0:00:00 loss 2.5000, 1.0 passes at most 89 s left"),
        (60, "fitting 0:00:00 loss 2.5000, 1.0 passes at most 89 s left"),
        (40, "fitting loss 2.5000, 1.0 passes"),
    ],
)
def test_narrow_terminals_keep_the_words(width, shown):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None, _environ={"TERM": "xterm"})
    with Progress(Forecast(n_samples=10, max_iter=90, tol=None), console=console) as progress:
        progress(step(1.0, 0.5))
        progress._bar.refresh()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert any(re.fullmatch(shown, line) for line in plain.split("\r")), plain
    assert "…" not in plain


@pytest.mark.parametrize("solver", ["progressive", "incremental", "batch", "online"])
def test_verbose_fit_says_how_it_went(solver, capfd):
    quiet = ICA(solver=solver, random_state=0, max_iter=3, tol=0).fit(channels(3, 12_000))
    assert "fitting" not in capfd.readouterr().err
    ica = ICA(solver=solver, random_state=0, verbose=1, max_iter=3, tol=0).fit(channels(3, 12_000))
    out, err = capfd.readouterr()
    assert out == ""
    assert all(line.startswith("fitting: ") for line in err.splitlines())
    assert err.endswith("done\n")
    assert ica.callbacks is None
    np.testing.assert_array_equal(quiet.components_, ica.components_)
